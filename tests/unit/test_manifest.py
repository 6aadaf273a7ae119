"""manifest.parquet and frames.parquet: columns that others rely on, and rows with all of them."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manifests.manifest import (
    FORMAT_VERSION,
    FRAMES_SCHEMA,
    MANIFEST_SCHEMA,
    manifest_row,
    manifest_table,
    read_parquet,
    write_parquet,
)
from manifests.records import FAILURE_KINDS, STATUSES, Outcome, Placement, Source

SOURCE = Source(video_id="A/x", source="A/x.avi", source_bytes=2**40, label=3, class_name="A", subsets=("train01",))
OUTCOME = Outcome(
    status="ok",
    source_sha256="ab" * 32,
    container="avi",
    codec="mpeg4",
    declared_num_frames=2**33,
    num_frames=300,
    num_decode_errors=2,
    fps=29.97,
    duration_s=10.01,
    source_width=320,
    source_height=240,
    rotation_deg=270,
    sample_aspect_ratio="12:11",
    width=256,
    height=342,
    num_bytes=2**35,
    content_crc32=2**32 - 1,
    decoder="pyav 1.2.3",
)
PLACEMENT = Placement(location="shards/shard-00000.arrow", row=5, offsets_at=(2**34, 7), data_at=(9, 2**34))


def test_the_columns_are_those_of_format_version_1() -> None:
    """Whoever changes a name or a type makes format version 2."""
    assert FORMAT_VERSION == 1
    assert {field.name: str(field.type) for field in MANIFEST_SCHEMA} == {
        "video_id": "string",
        "source": "string",
        "source_bytes": "int64",
        "source_sha256": "string",
        "label": "int32",
        "class_name": "string",
        "subsets": "list<item: string>",
        "status": "string",
        "failure": "string",
        "detail": "string",
        "container": "string",
        "codec": "string",
        "declared_num_frames": "int64",
        "num_frames": "int64",
        "num_decode_errors": "int64",
        "fps": "double",
        "duration_s": "double",
        "source_width": "int32",
        "source_height": "int32",
        "rotation_deg": "int32",
        "sample_aspect_ratio": "string",
        "width": "int32",
        "height": "int32",
        "location": "string",
        "row": "int64",
        "offsets_at": "list<item: int64>",
        "data_at": "list<item: int64>",
        "num_bytes": "int64",
        "content_crc32": "uint32",
        "decoder": "string",
    }
    assert {field.name: str(field.type) for field in FRAMES_SCHEMA} == {
        "video_id": "string",
        "num_bytes": "list<item: int32>",
        "crc32": "list<item: uint32>",
        "time_ms": "list<item: double>",
    }
    assert MANIFEST_SCHEMA.metadata == {b"format": b"decode-once.manifest", b"format_version": b"1"}
    assert FRAMES_SCHEMA.metadata == {b"format": b"decode-once.frames", b"format_version": b"1"}


def test_statuses_and_kinds() -> None:
    assert STATUSES == ("ok", "failed", "excluded")
    assert set(FAILURE_KINDS) == {
        *("missing", "empty", "unreadable", "unsupported", "no_video", "truncated", "size_change", "decode"),
        *("too_short", "crashed", "timeout", "out_of_memory", "duplicate_id"),
    }


def test_a_row_has_every_column_and_no_other() -> None:
    names = set(MANIFEST_SCHEMA.names)
    for row in (manifest_row(SOURCE, OUTCOME, PLACEMENT), manifest_row(SOURCE, Outcome(status="failed"), None)):
        assert set(row) == names


@pytest.mark.parametrize("placement", [PLACEMENT, Placement(location="frames/A/x"), None])
def test_rows_come_back(tmp_path: Path, placement: Placement | None) -> None:
    write_parquet(tmp_path / "m", manifest_table([manifest_row(SOURCE, OUTCOME, placement)]))
    table = pq.read_table(tmp_path / "m")
    assert table.schema == MANIFEST_SCHEMA
    assert table.schema.metadata == MANIFEST_SCHEMA.metadata
    (row,) = table.to_pylist()
    expected = {**dataclasses.asdict(SOURCE), **dataclasses.asdict(OUTCOME)}
    if placement is None:
        expected |= {"location": None, "row": -1, "offsets_at": [], "data_at": []}
    else:
        expected |= dataclasses.asdict(placement)
    assert row == {key: list(value) if isinstance(value, tuple) else value for key, value in expected.items()}


def test_a_failed_row_claims_no_status_and_detail_of_the_source() -> None:
    """What a scan knew of a settled source is in its outcome too."""
    source = dataclasses.replace(SOURCE, status="failed", failure="missing", detail="why")
    row = manifest_row(source, Outcome(status="failed", failure="missing", detail="why"), None)
    assert (row["status"], row["failure"], row["detail"]) == ("failed", "missing", "why")
    assert (row["num_frames"], row["num_bytes"], row["content_crc32"]) == (0, 0, None)


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    table = manifest_table([manifest_row(SOURCE, OUTCOME, PLACEMENT)])
    write_parquet(path, table)
    assert read_parquet(path).equals(table)


def test_no_thread_of_pyarrow_sees_our_file(tmp_path: Path) -> None:
    """Such a thread may let go of the file while the program ends, which then aborts, once in a hundred times."""
    write_parquet(tmp_path / "x", manifest_table([manifest_row(SOURCE, OUTCOME, PLACEMENT)] * 100))
    code = (
        "import os, pathlib, sys\n"
        "from manifests.manifest import read_parquet, write_parquet\n"
        "before = os.listdir('/proc/self/task')\n"
        "table = read_parquet(pathlib.Path(sys.argv[1]))\n"
        "write_parquet(pathlib.Path(sys.argv[1]), table)\n"
        "print(len(os.listdir('/proc/self/task')) - len(before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "x"], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_what_is_no_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(FileNotFoundError):
        read_parquet(path)
    for content in (b"", b"PAR1", b"PAR1" * 100, bytes(1000)):
        path.write_bytes(content)
        with pytest.raises((pa.ArrowException, OSError)):
            read_parquet(path)
    with pytest.raises(OSError, match="No space left"):
        write_parquet(Path("/dev/full"), manifest_table([manifest_row(SOURCE, OUTCOME, None)]))
