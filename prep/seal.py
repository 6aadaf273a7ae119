"""Seal a finished run: one manifest, one frames.parquet, then dataset.json, then .work goes."""

import dataclasses
import errno
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from manifests.atomic import atomic_write, disk_errors
from manifests.description import Description, hash_classes, hash_file, write_description
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE, MANIFEST_SCHEMA
from manifests.records import STATUSES
from prep.commit import frames_part, manifest_part, read_part
from prep.recipe import ExtractRecipe
from prep.run_folder import RunFolder

_MANIFEST_ROWS_PER_ROW_GROUP = 65536
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
    dataset: str,
    classes: Sequence[str],
    recipe: ExtractRecipe,
    libraries: dict[str, str],
    num_groups: int,
) -> Description:
    """Join the parts of all groups, which must be committed, and describe the dataset. Raises StoreError."""
    totals = _Totals()
    manifest, frames = run.out / MANIFEST_FILE, run.out / FRAMES_FILE
    with atomic_write(frames) as temporary:
        parts = (frames_part(run, group) for group in range(num_groups))
        _join(temporary, FRAMES_SCHEMA, _tables(parts), _FRAMES_ROWS_PER_ROW_GROUP)
    with atomic_write(manifest) as temporary:
        parts = (manifest_part(run, group) for group in range(num_groups))
        _join(temporary, MANIFEST_SCHEMA, _counted(_tables(parts), totals), _MANIFEST_ROWS_PER_ROW_GROUP)
    num_videos = sum(totals.counts.values())
    with disk_errors(run.out):
        description = Description(
            dataset=dataset,
            recipe=dataclasses.asdict(recipe),
            classes=tuple(classes),
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
    remove_work(run)
    return description


def remove_work(run: RunFolder) -> None:
    """Remove the state of the run, last of all. Raises StoreError. A run that comes upon it just now clears it up."""
    with disk_errors(run.work):
        try:
            shutil.rmtree(run.work)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise


def _tables(parts: Iterator[Path]) -> Iterator[pa.Table]:
    for part in parts:
        yield read_part(part)


def _counted(tables: Iterator[pa.Table], totals: _Totals) -> Iterator[pa.Table]:
    for table in tables:
        totals.add(table)
        yield table


def _join(path: Path, schema: Any, tables: Iterator[pa.Table], rows_per_row_group: int) -> None:
    """Write tables into one Parquet file, regrouped so that row groups have a sensible size."""
    with open(path, "wb") as file, pq.ParquetWriter(file, schema) as writer:
        waiting: list[pa.Table] = []
        for table in tables:
            waiting.append(table)
            if sum(part.num_rows for part in waiting) >= rows_per_row_group:
                writer.write_table(pa.concat_tables(waiting), row_group_size=rows_per_row_group)
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=rows_per_row_group)
