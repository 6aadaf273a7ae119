"""Seal a finished run: one frames.parquet, one manifest, then dataset.json, which makes them valid.

An update keeps the two that it replaces in .work/before until then, so that at every moment the dataset.json in OUT
finds the tables that it tells of (manifests.dataset.open_table).
"""

import dataclasses
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from manifests.atomic import atomic_write, disk_errors, sync_folder
from manifests.description import DESCRIPTION_FILE, Description, has_hash, hash_classes, hash_file, write_description
from manifests.errors import StoreError
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE, MANIFEST_SCHEMA
from manifests.records import STATUSES, Source
from prep.before import Before
from prep.commit import frames_part, manifest_part, read_part
from prep.plan import Plan
from prep.recipe import Recipe
from prep.run_folder import RunFolder

_MANIFEST_ROWS_PER_ROW_GROUP = 4096
"""So that `Dataset.video`, which reads one, is quick."""

_FRAMES_ROWS_PER_ROW_GROUP = 512


@dataclass
class _Totals:
    """Counted while the manifest is written, so that it never has to be in memory whole."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    subsets: Counter[str] = field(default_factory=Counter)
    num_frames: int = 0
    num_bytes: int = 0

    def add(self, table: pa.Table) -> None:
        rows = table.select(["status", "failure", "subsets", "num_frames", "num_bytes"]).to_pylist()
        for row in rows:
            self.counts[row["status"]] += 1
            self.failures.update([row["failure"]] if row["failure"] else [])
            self.subsets.update(row["subsets"])
            self.num_frames += row["num_frames"]
            self.num_bytes += row["num_bytes"]


def seal(
    run: RunFolder,
    *,
    plan: Plan,
    before: Before | None,
    recipe: Recipe,
    libraries: dict[str, str],
    num_groups: int,
) -> Description:
    """Join the parts of all groups, which must be committed, with the rows that stay from the dataset `before`, if
    there is one, and describe the dataset. Raises StoreError, DamagedError where `before` cannot be read."""
    _require_frames(run, num_groups)
    totals = _Totals()
    manifest, frames = run.out / MANIFEST_FILE, run.out / FRAMES_FILE
    if before is not None:
        _keep_tables(run, before.dataset.description)
    with atomic_write(frames) as temporary:
        parts = _NewRows(frames_part(run, group) for group in range(num_groups))
        _join(temporary, FRAMES_SCHEMA, _frame_tables(plan, before, parts), _FRAMES_ROWS_PER_ROW_GROUP)
    with atomic_write(manifest) as temporary:
        parts = _NewRows(manifest_part(run, group) for group in range(num_groups))
        tables = _counted(_manifest_tables(plan, before, parts), totals)
        _join(temporary, MANIFEST_SCHEMA, tables, _MANIFEST_ROWS_PER_ROW_GROUP)
    num_videos = sum(totals.counts.values())
    classes = plan.sources.classes
    with disk_errors(run.out):
        description = Description(
            dataset=plan.sources.dataset,
            recipe=dataclasses.asdict(recipe),
            classes=classes,
            classes_sha256=hash_classes(classes),
            subsets={"all": num_videos, **dict(sorted(totals.subsets.items()))},
            counts={status: totals.counts[status] for status in STATUSES},
            failures=dict(sorted(totals.failures.items())),
            num_frames=totals.num_frames,
            num_bytes=totals.num_bytes,
            manifest_sha256=hash_file(manifest),
            frames_sha256=hash_file(frames),
            libraries=libraries,
        )
    write_description(run.out, description)
    return description


def _require_frames(run: RunFolder, num_groups: int) -> None:
    """Raises StoreError where frames that were committed have vanished since; a resumed run does those groups again."""
    for group in range(num_groups):
        for location in (
            read_part(manifest_part(run, group), ["location"]).column("location").unique().drop_null().to_pylist()
        ):
            if not (run.out / location).exists():
                raise StoreError(f"{run.out / location} has vanished; check the disk and run the same command again")


def _keep_tables(run: RunFolder, description: Description) -> None:
    """Keep what an update replaces: the tables until dataset.json is the new one, that one for as long as it is held.

    A file system without hard links gets copies of the tables, and holds are not seen there. A table that is not the
    one that `description` tells of is not kept: it is what the update mends, or kept already.
    """
    with disk_errors(run.work):
        for folder in (run.before, run.superseded):
            folder.mkdir(exist_ok=True)
        for name, sha256 in ((MANIFEST_FILE, description.manifest_sha256), (FRAMES_FILE, description.frames_sha256)):
            table, kept = run.out / name, run.before / name
            if not has_hash(table, sha256) or has_hash(kept, sha256):
                continue
            kept.unlink(missing_ok=True)
            try:
                os.link(table, kept)
            except OSError:
                with atomic_write(kept) as temporary:
                    shutil.copyfile(table, temporary)
        dataset = run.out / DESCRIPTION_FILE
        links = list(run.superseded.glob("*.json"))
        if not any(link.samefile(dataset) for link in links):
            with suppress(OSError):
                os.link(dataset, run.superseded / f"{secrets.token_hex(4)}.json")
        for folder in (run.before, run.superseded, run.work):
            sync_folder(folder)


class _NewRows:
    """The rows of the parts of a table, in order."""

    def __init__(self, parts: Iterator[Path]) -> None:
        self._tables = map(read_part, parts)
        self._rest: pa.Table | None = None

    def take(self, video_ids: Set[str]) -> Iterator[pa.Table]:
        """The next rows, for as long as they are of these videos."""
        while True:
            if self._rest is None or self._rest.num_rows == 0:
                self._rest = next(self._tables, None)
                if self._rest is None:
                    return
                continue
            ids = self._rest.column("video_id").to_pylist()
            num_rows = next((index for index, video_id in enumerate(ids) if video_id not in video_ids), len(ids))
            if num_rows == 0:
                return
            yield self._rest.slice(0, num_rows)
            self._rest = self._rest.slice(num_rows)


def _manifest_tables(plan: Plan, before: Before | None, new: _NewRows) -> Iterator[pa.Table]:
    for is_kept, rows in plan.spans():
        sources = [plan.sources.sources[row] for row in rows]
        if is_kept and before is not None:
            yield _renewed(before.manifest_rows([plan.kept[row] for row in rows]), sources)
        else:
            yield from new.take({source.video_id for source in sources})


def _renewed(rows: pa.Table, sources: Sequence[Source]) -> pa.Table:
    """Rows that stay, with what an annotation may say anew."""
    for name in ("video_id", "label", "class_name", "subsets"):
        field = MANIFEST_SCHEMA.field(name)
        values = pa.array([getattr(source, name) for source in sources], field.type)
        rows = rows.set_column(MANIFEST_SCHEMA.get_field_index(name), field, values)
    return rows


def _frame_tables(plan: Plan, before: Before | None, new: _NewRows) -> Iterator[pa.Table]:
    for is_kept, rows in plan.spans():
        if is_kept and before is not None:
            kept = [plan.kept[row] for row in rows]
            yield before.frame_rows([row for row in kept if before.rows[row]["status"] == "ok"])
        else:
            yield from new.take({plan.sources.sources[row].video_id for row in rows})


def _counted(tables: Iterator[pa.Table], totals: _Totals) -> Iterator[pa.Table]:
    for table in tables:
        totals.add(table)
        yield table


def _join(path: Path, schema: Any, tables: Iterator[pa.Table], rows_per_row_group: int) -> None:
    """Write tables into one Parquet file, regrouped so that row groups have a sensible size."""
    with open(path, "wb") as file, pq.ParquetWriter(file, schema) as writer:
        waiting: list[pa.Table] = []
        num_waiting = 0
        for table in tables:
            waiting.append(table)
            num_waiting += table.num_rows
            if num_waiting >= rows_per_row_group:
                writer.write_table(pa.concat_tables(waiting), row_group_size=rows_per_row_group)
                waiting, num_waiting = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=rows_per_row_group)
