"""Commit a group: consecutive source rows whose videos are all settled become a shard and the rows that tell of it.

    shards/shard-00003.arrow                 the frames of group 3 (store arrow)
    .work/groups/00003.frames.parquet        its part of frames.parquet
    .work/groups/00003.manifest.parquet      its part of manifest.parquet, written last: the group is finished

Which row is in which group depends on the source order and store.videos_per_shard alone.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from manifests.atomic import atomic_write, disk_errors, sync_file_system, sync_folder
from manifests.errors import DamagedError, StoreError
from manifests.manifest import FRAMES_SCHEMA, manifest_row, manifest_table, read_parquet, write_parquet
from manifests.records import Placement, Source
from manifests.stores import arrow
from prep import spool
from prep.frame_table import FrameTable, read_table
from prep.journal import Entry
from prep.run_folder import RunFolder


def group_rows(num_rows: int, rows_per_group: int) -> list[range]:
    """The rows of each group."""
    return [range(start, min(start + rows_per_group, num_rows)) for start in range(0, num_rows, rows_per_group)]


def manifest_part(run: RunFolder, group: int) -> Path:
    return run.groups / f"{group:05d}.manifest.parquet"


def frames_part(run: RunFolder, group: int) -> Path:
    return run.groups / f"{group:05d}.frames.parquet"


def commit_group(run: RunFolder, store: str, group: int, sources: Sequence[Source], entries: Sequence[Entry]) -> None:
    """Put a group together from its spooled videos, make it durable, and empty its spool. Raises StoreError.

    `sources` and `entries` are those of the group's rows, in order.
    """
    ok = [(source, entry) for source, entry in zip(sources, entries, strict=True) if entry.outcome.status == "ok"]
    with disk_errors(run.out):
        tables = {entry.row: _read_spooled_table(run, entry.row) for _, entry in ok}
        if store == "arrow":
            placed = _write_shard(run, group, ok, tables)
        else:
            placed = {s.video_id: Placement(location=run.places.folder_location(s.video_id)) for s, _ in ok}
            sync_file_system(run.out)  # the folders' names, and those of the folders they lie in
        _write_parts(run, group, sources, entries, placed, tables)
        for _, entry in ok:
            spool.remove(spool.frames_path(run.spool, entry.row, store))
            spool.remove(spool.table_path(run.spool, entry.row))


def _read_spooled_table(run: RunFolder, row: int) -> FrameTable:
    path = spool.table_path(run.spool, row)
    try:
        return read_table(path)[0]
    except ValueError as error:
        raise StoreError(f"{path} does not hold what was written to it; run again to resume") from error


def read_part(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A part of a table, with all its columns or these. Raises DamagedError where it cannot be read."""
    try:
        return read_parquet(path, columns)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"cannot read {path}: {error}; the same command does these videos again") from error


def _write_shard(
    run: RunFolder, group: int, ok: Sequence[tuple[Source, Entry]], tables: dict[int, FrameTable]
) -> dict[str, Placement]:
    if not ok:
        return {}
    location = run.places.shard_location(group)
    path = run.out / location
    path.parent.mkdir(exist_ok=True)
    sync_folder(run.out)
    videos = [
        arrow.SpooledVideo(
            video_id=source.video_id,
            label=source.label,
            class_name=source.class_name,
            spool=spool.frames_path(run.spool, entry.row, "arrow"),
            num_bytes_N=tables[entry.row]["num_bytes"].astype(np.int64),
        )
        for source, entry in ok
    ]
    with atomic_write(path) as temporary:
        arrow.write_shard(temporary, videos)
        parts = _read_back(temporary, path, ok)
    return arrow.placements(location, parts)


def _read_back(temporary: Path, path: Path, ok: Sequence[tuple[Source, Entry]]) -> list[arrow.Part]:
    """The parts of a shard just written. Raises StoreError unless it is what was meant to be written to `path`."""
    try:
        parts = arrow.read_parts(temporary)
    except (ValueError, pa.ArrowException) as error:
        raise StoreError(f"{path} cannot be read back: {error}; check the disk and run again to resume") from error
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        num_frames, num_bytes = found.get(part.video_id, (0, 0))
        found[part.video_id] = (num_frames + len(part.num_bytes), num_bytes + sum(part.num_bytes))
    meant = {source.video_id: (entry.outcome.num_frames, entry.outcome.num_bytes) for source, entry in ok}
    if found != meant:
        raise StoreError(f"{path} does not hold what was written to it; check the disk and run again to resume")
    return parts


def _write_parts(
    run: RunFolder,
    group: int,
    sources: Sequence[Source],
    entries: Sequence[Entry],
    placed: dict[str, Placement],
    tables: dict[int, FrameTable],
) -> None:
    with atomic_write(frames_part(run, group)) as temporary:
        rows = [
            (source.video_id, tables[entry.row])
            for source, entry in zip(sources, entries, strict=True)
            if entry.row in tables
        ]
        write_parquet(temporary, _frames_table(rows))
    with atomic_write(manifest_part(run, group)) as temporary:
        table = manifest_table(
            [
                manifest_row(source, entry.outcome, placed.get(source.video_id))
                for source, entry in zip(sources, entries, strict=True)
            ]
        )
        write_parquet(temporary, table)


def _frames_table(rows: Iterable[tuple[str, FrameTable]]) -> pa.Table:
    rows = list(rows)
    columns = [pa.array([video_id for video_id, _ in rows], pa.string())]
    columns += [
        pa.array([table_N[name] for _, table_N in rows], FRAMES_SCHEMA.field(name).type)
        for name in ("num_bytes", "crc32", "time_ms")
    ]
    return pa.Table.from_arrays(columns, schema=FRAMES_SCHEMA)
