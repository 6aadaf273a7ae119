"""manifest.parquet, open: columns, single rows, and what forked processes share of an open dataset."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manifests.description import Description, hash_classes, hash_file, write_description
from manifests.errors import DamagedError
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE, MANIFEST_SCHEMA
from manifests.manifest_file import ManifestFile

# Newer Pythons warn of threads, here those of pyarrow.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

NUM_ROWS = 1000
ROWS = [
    dict.fromkeys(MANIFEST_SCHEMA.names)
    | {
        "video_id": f"v{number}",
        "label": number % 7,
        "subsets": ["train"] if number % 3 else [],
        "status": "ok" if number % 5 else "failed",
        "num_frames": 4,
        "location": f"frames/v{number}",
        "row": -1,
        "offsets_at": [],
        "data_at": [number],
        "num_bytes": 4,
    }
    for number in range(NUM_ROWS)
]


def write_manifest(path: Path, num_copies: int = 1, row_group_size: int = 64) -> None:
    table = pa.Table.from_pylist(ROWS, schema=MANIFEST_SCHEMA)
    pq.write_table(pa.concat_tables([table] * num_copies), path, row_group_size=row_group_size)


@pytest.fixture
def opened(tmp_path: Path) -> ManifestFile:
    write_manifest(tmp_path / "m")
    return ManifestFile(open(tmp_path / "m", "rb"), tmp_path / "m")


def test_each_row_and_some_columns(opened: ManifestFile) -> None:
    assert len(opened) == NUM_ROWS
    assert [opened.row(row) for row in range(NUM_ROWS)] == ROWS
    assert opened.row(NUM_ROWS - 1) == opened.row(NUM_ROWS - 1) == ROWS[-1]
    assert opened.columns(["label", "video_id"]).column_names == ["label", "video_id"]
    assert opened.columns().to_pylist() == ROWS
    for row in (-1, NUM_ROWS):
        with pytest.raises(IndexError, match=f"rows \\[0, {NUM_ROWS}\\), not {row}"):
            opened.row(row)


def test_threads_and_forked_processes_share_it(opened: ManifestFile) -> None:
    """Reads are positioned: nobody moves a position that another one reads from."""
    wrong: list[int] = []

    def read(first: int) -> None:
        wrong.extend(row for row in range(first, NUM_ROWS, 37) if opened.row(row) != ROWS[row])

    children = []
    for first in range(2):
        child = os.fork()
        if child == 0:
            read(first)
            os._exit(len(wrong) > 0)
        children.append(child)
    threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


def test_what_is_no_manifest(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other")
    (tmp_path / "broken").write_bytes(b"PAR1 and nothing else")
    for name, said in (("other", "does not have the columns of a manifest"), ("broken", "cannot read")):
        with pytest.raises(DamagedError, match=said):
            ManifestFile(open(tmp_path / name, "rb"), tmp_path / name)  # noqa: SIM115


def test_forked_processes_share_what_was_loaded(tmp_path: Path) -> None:
    """A worker that looks at every video has little memory of its own: nothing of it is a Python object with a count of
    references, which would be copied as soon as it is looked at."""
    num_copies = 200
    write_manifest(tmp_path / MANIFEST_FILE, num_copies, 4096)
    pq.write_table(FRAMES_SCHEMA.empty_table(), tmp_path / FRAMES_FILE)
    num_videos = num_copies * NUM_ROWS
    num_ok = num_copies * sum(row["status"] == "ok" for row in ROWS)
    write_description(
        tmp_path,
        Description(
            dataset="folder",
            recipe={},
            classes=(),
            classes_sha256=hash_classes(()),
            subsets={"all": num_videos, "train": num_copies * 666},
            counts={"ok": num_ok, "failed": num_videos - num_ok, "excluded": 0},
            failures={},
            num_frames=0,
            num_bytes=0,
            manifest_sha256=hash_file(tmp_path / MANIFEST_FILE),
            frames_sha256=hash_file(tmp_path / FRAMES_FILE),
            libraries={},
        ),
    )
    command = [sys.executable, "-P", "-c", _GROWTH_OF_A_FORK, str(tmp_path)]  # not the full heap of pytest
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    num_rows, grown = map(int, done.stdout.split())
    assert num_rows == num_copies * sum(row["status"] == "ok" and row["subsets"] == ["train"] for row in ROWS)
    assert grown < 4 * 2**20  # the columns have 12 MiB


_GROWTH_OF_A_FORK = """
import gc, os, sys
from manifests import open_dataset


def private_bytes():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        sizes = dict(line.split(":") for line in file if line.count(":") == 1)
    return sum(int(sizes[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) * 1024


dataset = open_dataset(sys.argv[1])
rows = dataset.rows("train")
if os.fork():
    os.wait()
else:
    gc.disable()
    dataset.read_frames(int(rows[0]), [])
    before = private_bytes()
    for row in rows[::10].tolist():
        dataset.read_frames(row, [])
    print(len(rows), private_bytes() - before)
"""
