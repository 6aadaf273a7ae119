"""manifest.parquet and frames.parquet: the columns, and how rows become tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from manifests.records import Outcome, Placement, Source, by_name

FORMAT_VERSION = 1

MANIFEST_FILE = "manifest.parquet"
FRAMES_FILE = "frames.parquet"

MANIFEST_SCHEMA = pa.schema(
    [
        ("video_id", pa.string()),
        ("source", pa.string()),
        ("source_bytes", pa.int64()),
        ("source_sha256", pa.string()),
        ("label", pa.int32()),
        ("class_name", pa.string()),
        ("subsets", pa.list_(pa.string())),
        ("status", pa.string()),
        ("failure", pa.string()),
        ("detail", pa.string()),
        ("container", pa.string()),
        ("codec", pa.string()),
        ("declared_num_frames", pa.int64()),
        ("num_frames", pa.int64()),
        ("num_decode_errors", pa.int64()),
        ("fps", pa.float64()),
        ("duration_s", pa.float64()),
        ("source_width", pa.int32()),
        ("source_height", pa.int32()),
        ("rotation_deg", pa.int32()),
        ("sample_aspect_ratio", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("location", pa.string()),
        ("row", pa.int64()),
        ("offsets_at", pa.list_(pa.int64())),
        ("data_at", pa.list_(pa.int64())),
        ("num_bytes", pa.int64()),
        ("content_crc32", pa.uint32()),
        ("decoder", pa.string()),
    ],
    metadata={"format": "decode-once.manifest", "format_version": str(FORMAT_VERSION)},
)

FRAMES_SCHEMA = pa.schema(
    [
        ("video_id", pa.string()),
        ("num_bytes", pa.list_(pa.int32())),
        ("crc32", pa.list_(pa.uint32())),
        ("time_ms", pa.list_(pa.float64())),
    ],
    metadata={"format": "decode-once.frames", "format_version": str(FORMAT_VERSION)},
)


def manifest_row(source: Source, outcome: Outcome, placement: Placement | None) -> dict[str, Any]:
    """The row of one source video, with every column of MANIFEST_SCHEMA. The outcome's status, failure and detail
    stand for the source's; `placement` is None unless ok."""
    placed: dict[str, Any] = {"location": None, "row": -1, "offsets_at": [], "data_at": []}
    if placement is not None:
        placed = by_name(placement)
    return {**by_name(source), **by_name(outcome), **placed}


def manifest_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of `manifest_row` as a table."""
    return pa.Table.from_pylist(rows, schema=MANIFEST_SCHEMA)


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table. Raises OSError."""
    # Opened here and in `read_parquet`, since pyarrow takes no path that is not UTF-8.
    with open(path, "wb") as file:
        pq.write_table(table, file)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table, with all its columns or these. Raises OSError, or pa.ArrowException for a file that is broken."""
    with open(path, "rb") as file:
        return parse_parquet(file, columns)


def parse_parquet(file: BinaryIO, columns: Sequence[str] | None = None) -> pa.Table:
    """As `read_parquet`, for a file that is open."""
    # Without threads: one that lets go of a Python object while the program ends aborts it.
    names = None if columns is None else list(columns)
    return pq.ParquetFile(file, pre_buffer=False).read(columns=names, use_threads=False)
