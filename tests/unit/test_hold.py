"""Readers hold the dataset that they opened, in whichever process, and let go of it when they close it."""

import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from datasets_made import draw_jpegs, make_dataset, ok_video

from manifests import dataset as dataset_module
from manifests import open_dataset
from manifests.description import DESCRIPTION_FILE
from manifests.errors import DamagedError
from manifests.hold import Hold, is_held

READ = (
    "import sys\n"
    "from manifests import open_dataset\n"
    "with open_dataset(sys.argv[1]):\n"
    "    print('open', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    make_dataset(tmp_path / "out", "arrow", [ok_video("a", draw_jpegs(0, 2))])
    return tmp_path / "out"


def test_a_dataset_is_held_until_it_is_closed(out: Path) -> None:
    assert not is_held(out / DESCRIPTION_FILE)
    with open_dataset(out) as first, open_dataset(out) as second:
        assert is_held(out / DESCRIPTION_FILE)
        first.close()
        assert is_held(out / DESCRIPTION_FILE)
        second.close()
        assert not is_held(out / DESCRIPTION_FILE)


def test_a_dataset_that_nobody_closes_is_let_go(out: Path) -> None:
    dataset = open_dataset(out)
    assert len(dataset) == 1
    del dataset
    gc.collect()
    assert not is_held(out / DESCRIPTION_FILE)


def test_another_process_holds_too_until_it_ends(out: Path) -> None:
    command = [sys.executable, "-c", READ, str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        assert is_held(out / DESCRIPTION_FILE)
        reader.kill()
    assert not is_held(out / DESCRIPTION_FILE)


def test_a_forked_worker_holds_what_its_parent_opened(out: Path) -> None:
    read_end, write_end = os.pipe()
    dataset = open_dataset(out)
    pid = os.fork()
    if pid == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    dataset.close()
    assert is_held(out / DESCRIPTION_FILE)
    os.close(write_end)
    os.waitpid(pid, 0)
    assert not is_held(out / DESCRIPTION_FILE)


def test_a_pickled_copy_reads(out: Path) -> None:
    with open_dataset(out) as dataset:
        copy = pickle.loads(pickle.dumps(dataset))
        assert copy.read_frames(0, [1]) == dataset.read_frames(0, [1])
        copy.close()
        assert is_held(out / DESCRIPTION_FILE)


def test_a_replaced_file_is_told_from_the_one_that_is_held(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    hold = Hold(path)
    assert hold.is_current()
    os.rename(path, tmp_path / "moved")
    assert not hold.is_current()
    path.write_text("new")
    assert not hold.is_current()
    assert is_held(tmp_path / "moved")
    assert not is_held(path)
    hold.close()
    assert Hold(tmp_path / "nothing").is_current()


def test_a_dataset_that_is_replaced_while_it_is_opened(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads dataset.json just before it is replaced opens the new dataset, and no mixture."""
    make_dataset(tmp_path / "new", "arrow", [ok_video("b", draw_jpegs(1, 3))])
    read_description = dataset_module.read_description

    def replace_afterwards(folder: Path) -> object:
        description = read_description(folder)
        if (tmp_path / "new").exists():
            for name in ("manifest.parquet", "frames.parquet", DESCRIPTION_FILE):
                os.replace(tmp_path / "new" / name, out / name)
            (tmp_path / "new").rename(tmp_path / "done")
        return description

    monkeypatch.setattr(dataset_module, "read_description", replace_afterwards)
    with open_dataset(out) as dataset:
        assert dataset.video(0)["video_id"] == "b"


def test_damage_is_no_replacement(out: Path) -> None:
    (out / "manifest.parquet").write_bytes(b"PAR1")
    with pytest.raises(DamagedError, match="its SHA-256 differs"):
        open_dataset(out)
    assert not is_held(out / DESCRIPTION_FILE)
