"""The classes of videos outside of any dataset, whose frames are made as those of the dataset were.

With train.videos one of the two files that know `prep`: it makes frames by its one-video extraction.

Arrays: scores_NK float32; labels int32, num_frames int64 over the videos; rows_R int64.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from manifests.errors import UsageError
from manifests.manifest import MANIFEST_SCHEMA
from manifests.names import escape_name
from manifests.records import Outcome, Source
from manifests.sources import SourceList
from train.dataset import ClipDataset
from train.evaluate import score
from train.loader import Loader
from train.trained import Trained
from train.videos import Videos, open_videos


@dataclass(frozen=True)
class Prediction:
    """Of one video: scores_K in label order, adding up to 1, or why there are none."""

    video: Path
    scores_K: npt.NDArray[np.float32] | None
    failure: str = ""

    def best(self, number: int) -> list[int]:
        """The labels with the highest scores, highest first."""
        return [] if self.scores_K is None else np.argsort(-self.scores_K, kind="stable")[:number].tolist()


def predict(trained: Trained, videos: Sequence[Path], *, num_workers: int, quiet: bool) -> list[Prediction]:
    """In the order of `videos`. Raises UsageError for a file that is not there, or where the checkpoint does not say
    how its frames were made, and what `Loader.batches` raises."""
    for path in videos:
        if not path.is_file():
            raise UsageError(f"no such video: {path}")
    distinct = sorted({os.path.abspath(path) for path in videos})
    if "on_the_fly" in trained.state.data_recipe:
        return _predict_on_the_fly(trained, videos, distinct, num_workers=num_workers, quiet=quiet)
    extracted = ExtractedVideos(distinct, trained.state.classes, _extract_recipe(trained))
    scores = _scores(trained, extracted, extracted.rows(), num_workers=num_workers, quiet=quiet)
    return [_prediction(path, scores, extracted.failures, distinct) for path in videos]


def _prediction(
    path: Path,
    scores: dict[int, npt.NDArray[np.float32]],
    failures: dict[int, str],
    distinct: Sequence[str],
) -> Prediction:
    row = distinct.index(os.path.abspath(path))
    return Prediction(path, scores.get(row), failures.get(row, ""))


def _scores(
    trained: Trained,
    data: "Videos | ExtractedVideos",
    rows_R: npt.NDArray[np.int64],
    *,
    num_workers: int,
    quiet: bool,
) -> dict[int, npt.NDArray[np.float32]]:
    """scores_K by row."""
    if len(rows_R) == 0:
        return {}
    dataset = ClipDataset(data, "all", trained.recipe, training=False)
    with Loader([dataset], num_workers=num_workers, timeout_s=trained.recipe.loader.timeout_s) as loader:
        scores_NK, _ = score(trained.model, dataset, trained.recipe, loader, quiet=quiet)
    return dict(zip(rows_R.tolist(), scores_NK, strict=True))


def _predict_on_the_fly(
    trained: Trained, videos: Sequence[Path], distinct: list[str], *, num_workers: int, quiet: bool
) -> list[Prediction]:
    classes = trained.state.classes
    sources = tuple(
        Source(
            video_id=str(row),
            source=escape_name(path.lstrip("/")),
            source_bytes=os.path.getsize(path),
            label=0,
            class_name=classes[0],
        )
        for row, path in enumerate(distinct)
    )
    source_list = SourceList(dataset="list", root=Path("/"), classes=classes, sources=sources)
    decoder = trained.state.data_recipe["on_the_fly"]["decoder"]
    with TemporaryDirectory() as folder:
        opened = open_videos(
            Path(folder) / "sources.parquet", source_list, decoder, ["all"], num_threads=1, quiet=quiet
        )
        scores = _scores(trained, opened, opened.rows(), num_workers=num_workers, quiet=quiet)
    failures = {int(video_id): why for video_id, why in opened.failed().items()}
    return [_prediction(path, scores, failures, distinct) for path in videos]


def _extract_recipe(trained: Trained) -> Any:
    from prep.recipe import ExtractRecipe, recipe_of, resolve

    table = trained.state.data_recipe
    recipe = recipe_of(table) if table else None
    if not isinstance(recipe, ExtractRecipe):
        raise UsageError(
            f"{trained.path} does not say how the frames it was trained on were made (adopted, or an older run): "
            "prepare the videos alike by prep extract, and use train eval --scores"
        )
    return resolve(recipe)


class ExtractedVideos:
    """The frames of videos in memory, as an extraction by `recipe` (prep.recipe.ExtractRecipe) stores them; as
    ClipDataset wants them. Labels are all 0. `failures` tells by row why a video has none. Picklable."""

    def __init__(self, paths: Sequence[str], classes: Sequence[str], recipe: Any) -> None:
        from prep.decoders import require_decoder
        from prep.extract_video import extract_video

        require_decoder(recipe.decoder)
        self.folder = Path("/")
        self.classes = tuple(classes)
        self._paths = list(paths)
        self._jpegs: list[list[bytes]] = []
        self._outcomes: list[Outcome] = []
        for path in paths:
            writer = _Kept()
            outcome, _ = extract_video(Path(path), recipe, writer, lambda: None)
            self._outcomes.append(outcome)
            self._jpegs.append(writer.jpegs if outcome.status == "ok" else [])
        self.labels: npt.NDArray[np.int32] = np.zeros(len(paths), np.int32)
        self.num_frames = np.array([len(jpegs) for jpegs in self._jpegs], np.int64)
        self.failures = {
            row: f"{outcome.failure}: {outcome.detail}" if outcome.detail else f"{outcome.failure}"
            for row, outcome in enumerate(self._outcomes)
            if outcome.status != "ok"
        }

    def rows(self, subset: str = "all") -> npt.NDArray[np.int64]:
        """Those of the videos that have frames; there is one subset."""
        return np.flatnonzero(self.num_frames > 0)

    def columns(self, names: Sequence[str]) -> pa.Table:
        """As the manifest of a dataset has them, of what an extraction tells. Raises AttributeError for the others."""
        columns = {name: [getattr(outcome, name) for outcome in self._outcomes] for name in names}
        return pa.table({name: pa.array(column, MANIFEST_SCHEMA.field(name).type) for name, column in columns.items()})

    def video(self, row: int) -> dict[str, Any]:
        return {"video_id": self._paths[row], "location": self._paths[row], "row": -1}

    def read_frames(self, row: int, numbers: Sequence[int]) -> list[bytes]:
        return [self._jpegs[row][number] for number in numbers]


class _Kept:
    """A FrameWriter that keeps what it is given."""

    def __init__(self) -> None:
        self.jpegs: list[bytes] = []

    def add(self, jpeg: bytes) -> None:
        self.jpegs.append(jpeg)
