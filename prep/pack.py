"""`prep pack`: the frames of a dataset, as they are, into Arrow shards of a new one; all of it or one subset."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from manifests.dataset import open_dataset
from manifests.errors import UsageError
from manifests.records import Outcome, Source
from manifests.sources import SourceList
from prep.before import Before
from prep.child import Reply
from prep.extract import Extraction, clear_finished
from prep.from_frames import Order, make_dataset, require_apart
from prep.recipe import recipe_of
from prep.run_folder import RunFolder

_SOURCE_COLUMNS = ("video_id", "source", "source_bytes", "label", "class_name", "subsets")
_OUTCOME_COLUMNS = tuple(field.name for field in fields(Outcome))
_STORE = "arrow"


def pack(folder: Path, out: Path, subset: str, *, num_jobs: int, quiet: bool) -> Extraction:
    """Pack the dataset in `folder`, or go on with that, or find that it is done.

    Each row of the subset is carried over, whatever became of its video, with what is known of it.
    Raises UsageError for a subset that is not there or has no ok video, and for another dataset in `out`; DamagedError,
    naming video and frame, where a frame is not what the manifest says; and what prep.from_frames raises.
    """
    require_apart(folder, out)
    with Before(folder) as before:
        description = before.dataset.description
        if subset not in description.subsets:
            raise UsageError(f"{folder} has no subset {subset!r}; it has {', '.join(description.subsets)}")
        rows_R = np.flatnonzero(before.dataset.in_subset(subset))
        if not before.dataset.is_ok[rows_R].any():
            raise UsageError(f"subset {subset!r} of {folder} has no ok video")
        recipe = recipe_of(description.recipe)
        recipe = replace(recipe, store=replace(recipe.store, format=_STORE))
        not_ok = np.flatnonzero(~before.dataset.is_ok[rows_R]).tolist()
        order = Order(
            out=out,
            sources=_sources(before, folder, rows_R),
            recipe=recipe,
            libraries=description.libraries,
            frames=Packed(before, rows_R),
            settled={row: before.outcome(int(rows_R[row])) for row in not_ok},
            num_jobs=num_jobs,
            quiet=quiet,
            bound={"SHA-256 of the packed manifest": description.manifest_sha256},
        )
        return make_dataset(order) or clear_finished(RunFolder(out), _require_same(before, folder, out, rows_R))


def _sources(before: Before, folder: Path, rows_R: np.ndarray[Any, Any]) -> SourceList:
    table = before.dataset.columns(_SOURCE_COLUMNS).take(rows_R)
    sources: list[Source] = []
    for batch in table.to_batches(max_chunksize=4096):
        sources += [Source(**{**row, "subsets": tuple(row["subsets"])}) for row in batch.to_pylist()]
    description = before.dataset.description
    return SourceList(
        dataset=description.dataset,
        root=folder.absolute(),
        classes=description.classes,
        sources=tuple(sources),
    )


def _require_same(before: Before, folder: Path, out: Path, rows_R: np.ndarray[Any, Any]) -> Extraction:
    """Raises UsageError unless the dataset in `out` is what packing would make."""
    names = list(dict.fromkeys((*_SOURCE_COLUMNS, *_OUTCOME_COLUMNS)))
    with open_dataset(out) as packed:
        description = packed.description
        same = (
            description.classes == before.dataset.classes
            and recipe_of(description.recipe).store.format == _STORE
            and packed.columns(names).equals(before.dataset.columns(names).take(rows_R))
        )
    if not same:
        raise UsageError(f"{out} holds another dataset than {folder} packed: use another --out")
    return Extraction(description, was_sealed=True)


class Packed:
    """Takes frames over from a dataset (prep.taking.FrameSource)."""

    def __init__(self, before: Before, rows_R: np.ndarray[Any, Any]) -> None:
        self._before = before
        self._rows_R = rows_R

    def take(self, row: int, frames: Path, table: Path) -> Reply:
        old = int(self._rows_R[row])
        return self._before.copy_video(old, self._before.frame_table(old), frames, table, _STORE)
