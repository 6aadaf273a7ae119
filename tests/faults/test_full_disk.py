"""A disk that refuses stops the run at once; what was finished stays finished; the same command resumes."""

import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import PREP, Prep
from trees import hash_tree


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 600 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"mounting is refused here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("store", ["arrow", "frames"])
def test_full_disk(prep: Prep, synthetic: Path, small_disk: Path, tmp_path: Path, store: str) -> None:
    command = ["extract", synthetic, "--store", store, "--set", "store.videos_per_shard=2", "--quiet", "--out"]
    full = prep(*command, small_disk / "out")
    assert full.returncode == 5
    assert "No space left on device" in full.stderr
    assert "Traceback" not in full.stderr
    assert not (small_disk / "out" / "dataset.json").exists()
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    resumed = prep(*command, small_disk / "out")
    assert resumed.returncode == 0, resumed.stderr
    assert prep(*command, tmp_path / "roomy").returncode == 0
    assert hash_tree(small_disk / "out") == hash_tree(tmp_path / "roomy")


def _allow_small_files_only() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_files_that_may_not_grow(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    """EFBIG stands in for a full disk where nothing can be mounted."""
    command = [PREP, "extract", synthetic, "--out", tmp_path / "out", "--quiet"]
    done = subprocess.run(
        list(map(os.fspath, command)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=_allow_small_files_only,
    )
    assert done.returncode == 5
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "dataset.json").exists()
    resumed = prep("extract", synthetic, "--out", tmp_path / "out", "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert prep("verify", tmp_path / "out", "--deep").returncode == 0
