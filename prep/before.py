"""The finished dataset that a run goes on from (`--retry`, `--update`) or packs, open for reading until the next one is
sealed.

Arrays: table_N as in prep.frame_table.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manifests.atomic import disk_errors
from manifests.closing import Closing
from manifests.dataset import open_dataset, open_table
from manifests.errors import DamagedError
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE
from manifests.records import Outcome
from prep.child import Reply
from prep.frame_table import FRAME_DTYPE, FrameTable, write_table
from prep.plan import ROW_COLUMNS, Row
from prep.spool import copy_frames

_CACHED_ROW_GROUPS = 4


class Before(Closing):
    """`rows` are those of its manifest, with ROW_COLUMNS.

    Raises UsageError where there is no dataset in `out`, DamagedError where it cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self.dataset = open_dataset(out)
        self._rank_of_row_V = np.cumsum(self.dataset.is_ok) - 1
        self._frames: _FrameRows | None = None
        self._lock = threading.Lock()

    @cached_property
    def rows(self) -> list[Row]:
        shared: dict[Any, Any] = {None: None}  # what many rows have in common is in memory once
        rows: list[Row] = []
        for batch in self.dataset.columns(ROW_COLUMNS).to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                for name in ("class_name", "status", "failure", "detail", "location"):
                    row[name] = shared.setdefault(row[name], row[name])
                row["subsets"] = shared.setdefault(tuple(row["subsets"]), row["subsets"])
                rows.append(row)
        return rows

    def manifest_rows(self, rows: Sequence[int]) -> pa.Table:
        return self.dataset.manifest.take(rows)

    def frame_rows(self, rows: Sequence[int]) -> pa.Table:
        """The rows of frames.parquet for these ok rows of the manifest. Safe in threads. Raises DamagedError."""
        if not rows:
            return FRAMES_SCHEMA.empty_table()  # which a broken frames.parquet has too
        with self._lock:
            if self._frames is None:
                sha256 = self.dataset.description.frames_sha256
                self._frames = _FrameRows(open_table(self.dataset.folder, FRAMES_FILE, sha256))
            table = self._frames.take(self._rank_of_row_V[list(rows)].tolist())
        if table.column("video_id").to_pylist() != self._video_ids.take(rows).to_pylist():
            raise DamagedError(f"{FRAMES_FILE} has other videos than {MANIFEST_FILE}: run prep extract --retry damaged")
        return table

    def frame_table(self, row: int) -> FrameTable:
        """The frame table of an ok row. Raises DamagedError."""
        return frame_table(self.frame_rows([row]), 0)

    def copy_video(self, row: int, table_N: FrameTable, frames: Path, table: Path, store: str) -> Reply:
        """Put the frames of an ok row into the spool, as a decoding process does. Safe in threads.

        Raises DamagedError where they are not those that its frame table tells of, StoreError.
        """
        outcome = self.outcome(row)
        if len(table_N) != outcome.num_frames:
            raise self._damaged(row, f"{FRAMES_FILE} lists {len(table_N)} of its {outcome.num_frames} frames")
        with disk_errors(frames):
            changed = copy_frames(frames, store, table_N, partial(self.dataset.read_frames, row))
            if changed is not None:
                raise self._damaged(row, f"the bytes of frame {changed} have changed: the CRC-32 differs")
            return Reply(outcome, write_table(table, table_N))

    def outcome(self, row: int) -> Outcome:
        """What became of a video."""
        return outcome_of(self.dataset.video(row))

    @cached_property
    def _video_ids(self) -> pa.ChunkedArray:
        return self.dataset.columns(["video_id"]).column("video_id")

    def _damaged(self, row: int, problem: str) -> DamagedError:
        video = self.dataset.video(row)
        where = f"video {video['video_id']} in {self.dataset.folder / video['location']}"
        return DamagedError(f"{problem}: {where}; prep verify --deep finds all such frames")

    def close(self) -> None:
        self.dataset.close()
        if self._frames is not None:
            self._frames.close()


class _FrameRows:
    """Rows of an open frames.parquet by their number, with a few row groups in memory at a time."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._parquet = pq.ParquetFile(file, pre_buffer=False)
        metadata = self._parquet.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._group = lru_cache(_CACHED_ROW_GROUPS)(self._read_group)

    def take(self, numbers: Sequence[int]) -> pa.Table:
        groups = np.searchsorted(self._starts, numbers, side="right") - 1
        pieces = []
        for group, pairs in groupby(zip(groups.tolist(), numbers, strict=True), key=itemgetter(0)):
            within = [number - int(self._starts[group]) for _, number in pairs]
            pieces.append(self._group(group).take(within))  # a copy, which does not keep the group in memory
        return pa.concat_tables(pieces)

    def close(self) -> None:
        self._file.close()

    def _read_group(self, group: int) -> pa.Table:
        try:
            return self._parquet.read_row_group(group, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DamagedError(f"cannot read {FRAMES_FILE}: {error}; run prep extract --retry damaged") from error


def frame_table(rows: pa.Table, index: int) -> FrameTable:
    """The frame table of row `index` of rows of frames.parquet."""
    table_N = np.zeros(len(rows.column("num_bytes")[index]), FRAME_DTYPE)
    for name in ("num_bytes", "crc32", "time_ms"):
        table_N[name] = rows.column(name)[index].values.to_numpy(zero_copy_only=False)
    return table_N


def outcome_of(row: Mapping[str, Any]) -> Outcome:
    """The outcome that a row of a manifest tells of."""
    return Outcome(**{field.name: row[field.name] for field in fields(Outcome)})
