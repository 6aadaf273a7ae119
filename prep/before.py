"""The finished dataset that a run goes on from (`--retry`, `--update`) or packs, open for reading until the next one is
sealed.

Arrays: table_N as in prep.frame_table.
"""

import threading
import zlib
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manifests.atomic import disk_errors
from manifests.dataset import open_dataset, open_table
from manifests.errors import DamagedError
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE
from manifests.records import Outcome
from prep.child import Reply
from prep.frame_table import FRAME_DTYPE, FrameTable, write_table
from prep.plan import ROW_COLUMNS, Row
from prep.spool import open_writer

_OUTCOME_FIELDS = [field.name for field in fields(Outcome)]
_CACHED_ROW_GROUPS = 4
_FRAMES_AT_A_TIME = 64
"""So many frames of a video are in memory."""


class Before:
    """`rows` are those of its manifest, with ROW_COLUMNS. Frames may be copied by several threads.

    Raises UsageError where there is no dataset in `out`, DamagedError where it cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self.dataset = open_dataset(out)
        self._rank_of_row_V = np.cumsum(self.dataset.is_ok) - 1
        self._lock = threading.Lock()
        self._frames: _FrameRows | None = None

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
        """The rows of frames.parquet for these ok rows of the manifest. Raises DamagedError."""
        sha256 = self.dataset.description.frames_sha256
        with self._lock:
            if self._frames is None:
                self._frames = _FrameRows(open_table(self.dataset.folder, FRAMES_FILE, sha256))
            table = self._frames.take(self._rank_of_row_V[list(rows)].tolist())
        if table.column("video_id").to_pylist() != [self.dataset.video(row)["video_id"] for row in rows]:
            raise DamagedError(f"{FRAMES_FILE} has other videos than {MANIFEST_FILE}: run prep extract --retry damaged")
        return table

    def copy_video(self, row: int, frames: Path, table: Path, store: str) -> Reply | None:
        """`copy_frames`; None where they are damaged."""
        table_N = self._table(row)
        try:
            return self._copy(row, table_N, frames, table, store)
        except DamagedError:
            return None

    def copy_frames(self, row: int, frames: Path, table: Path, store: str) -> Reply:
        """Put the frames of an ok row into the spool, as a decoding process does. Raises DamagedError where they are
        not what they were, or frames.parquet cannot be read, and StoreError."""
        return self._copy(row, self._table(row), frames, table, store)

    def outcome(self, row: int) -> Outcome:
        """What became of a video."""
        video = self.dataset.video(row)
        return Outcome(**{name: video[name] for name in _OUTCOME_FIELDS})

    def _table(self, row: int) -> FrameTable:
        return _frame_table(self.frame_rows([row]))

    def _copy(self, row: int, table_N: FrameTable, frames: Path, table: Path, store: str) -> Reply:
        outcome = self.outcome(row)
        if len(table_N) != outcome.num_frames:
            raise self._damaged(row, f"{FRAMES_FILE} lists {len(table_N)} of its {outcome.num_frames} frames")
        crc32_N = table_N["crc32"].tolist()
        with disk_errors(frames):
            writer = open_writer(frames, store)
            try:
                for start in range(0, len(crc32_N), _FRAMES_AT_A_TIME):
                    indices = range(start, min(start + _FRAMES_AT_A_TIME, len(crc32_N)))
                    for index, jpeg in zip(indices, self.dataset.read_frames(row, indices), strict=True):
                        if zlib.crc32(jpeg) != crc32_N[index]:
                            raise self._damaged(row, f"the bytes of frame {index} have changed: the CRC-32 differs")
                        writer.add(jpeg)
            finally:
                writer.close()
            return Reply(outcome, write_table(table, table_N))

    def _damaged(self, row: int, problem: str) -> DamagedError:
        video = self.dataset.video(row)
        where = f"video {video['video_id']} in {self.dataset.folder / video['location']}"
        return DamagedError(f"{problem}: {where}; prep verify --deep finds all such frames")

    def close(self) -> None:
        self.dataset.close()
        if self._frames is not None:
            self._frames.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
        pieces = [
            self._group(group).slice(number - int(self._starts[group]), 1)
            for number, group in zip(numbers, groups.tolist(), strict=True)
        ]
        return pa.concat_tables(pieces) if pieces else FRAMES_SCHEMA.empty_table()

    def close(self) -> None:
        self._file.close()

    def _read_group(self, group: int) -> pa.Table:
        try:
            return self._parquet.read_row_group(group, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DamagedError(f"cannot read {FRAMES_FILE}: {error}; run prep extract --retry damaged") from error


def _frame_table(row: pa.Table) -> FrameTable:
    """The frame table of one row of frames.parquet."""
    table_N = np.zeros(len(row.column("num_bytes")[0]), FRAME_DTYPE)
    for name in ("num_bytes", "crc32", "time_ms"):
        table_N[name] = row.column(name)[0].values.to_numpy(zero_copy_only=False)
    return table_N
