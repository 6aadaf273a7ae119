"""manifest.parquet, open for reading: some columns of all rows, or all columns of one row.

Nothing is kept but the last few row groups that single rows were read from. Reads are positioned, so threads and forked
processes may share an open file.
"""

import io
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manifests.closing import Closing
from manifests.errors import DamagedError
from manifests.manifest import MANIFEST_SCHEMA

_CACHED_ROW_GROUPS = 4


class ManifestFile(Closing):
    """Takes over an open `file`; `path` is what errors name. Raises DamagedError where it is no manifest."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._descriptor = os.dup(file.fileno())
        self._path = path
        file.close()
        try:
            self._metadata = pq.read_metadata(_Positioned(self._descriptor))
            schema = self._open().schema_arrow
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from error
        if not schema.equals(MANIFEST_SCHEMA):
            raise DamagedError(f"{path} does not have the columns of a manifest")
        groups = range(self._metadata.num_row_groups)
        sizes = [self._metadata.row_group(group).num_rows for group in groups]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._cached: OrderedDict[int, pa.Table] = OrderedDict()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def columns(self, names: Sequence[str] | None = None) -> pa.Table:
        """The columns of these names, or all, of all rows. Raises DamagedError."""
        try:
            # Without threads: one that lets go of a Python object while the program ends aborts it.
            table = self._open().read(columns=None if names is None else list(names), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from error
        return table if names is None else table.select(list(names))

    def row(self, row: int) -> dict[str, Any]:
        """All columns of one row, in [0, len). Raises IndexError, DamagedError."""
        if not 0 <= row < len(self):
            raise IndexError(f"the manifest has rows [0, {len(self)}), not {row}")
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        table = self._cached.pop(group, None)
        if table is None:
            table = self._read_group(group)
        self._cached[group] = table
        while len(self._cached) > _CACHED_ROW_GROUPS:
            self._cached.popitem(last=False)
        record: dict[str, Any] = table.slice(row - int(self._starts[group]), 1).to_pylist()[0]
        return record

    def close(self) -> None:
        """Also done when nobody refers to it any more."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()

    def _read_group(self, group: int) -> pa.Table:
        try:
            return self._open().read_row_group(group, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from error

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(_Positioned(self._descriptor), metadata=self._metadata, pre_buffer=False)

    def _unreadable(self, error: Exception) -> DamagedError:
        return DamagedError(f"cannot read {self._path}: {error}")


class _Positioned(io.RawIOBase):
    """An open file with a position of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        num_bytes = os.preadv(self._descriptor, [buffer], self._position)
        self._position += num_bytes
        return num_bytes

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {
            os.SEEK_SET: 0,
            os.SEEK_CUR: self._position,
            os.SEEK_END: os.fstat(self._descriptor).st_size,
        }
        self._position = starts[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position
