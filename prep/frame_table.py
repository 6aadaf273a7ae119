"""The table of a video's stored frames on its way from the decoding process into frames.parquet.

Arrays: table_N with the fields of FRAME_DTYPE, one entry a stored frame.
"""

import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

FRAME_DTYPE = np.dtype([("num_bytes", "<i4"), ("crc32", "<u4"), ("time_ms", "<f8")])
"""Size of the JPEG, its CRC-32, and its presentation time in milliseconds (NaN where the file gives none)."""

FrameTable = npt.NDArray[np.void]


def write_table(path: Path, table_N: FrameTable) -> int:
    """Write the table to `path` and return the CRC-32 of its bytes. Raises OSError."""
    data = table_N.tobytes()
    path.write_bytes(data)
    return zlib.crc32(data)


def read_table(path: Path) -> tuple[FrameTable, int]:
    """The table at `path` and the CRC-32 of its bytes. Raises OSError, or ValueError for a cut one."""
    data = path.read_bytes()
    return np.frombuffer(data, FRAME_DTYPE), zlib.crc32(data)
