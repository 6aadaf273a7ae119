"""Files that go away or change under a run: no video is blamed for the disk, and nothing broken is sealed."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PREP, Prep
from trees import hash_tree

from manifests import open_dataset


def kill_when(command: list[object], condition: object) -> None:
    """Start a run and kill it for certain once `condition` holds."""
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not condition():  # type: ignore[operator]
            assert process.poll() is None, "it ended too early"
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("loss", ["all frames", "end of one"])
@pytest.mark.parametrize("store", ["arrow", "frames"])
def test_finished_groups_whose_frames_are_gone_are_done_again(
    prep: Prep, synthetic: Path, tmp_path: Path, store: str, loss: str
) -> None:
    out = tmp_path / "out"
    command = [PREP, "extract", synthetic, "--out", out, "--store", store, "--quiet"]
    command += ["--set", "store.videos_per_shard=2"]
    kill_when(command, (out / ".work" / "groups" / "00002.manifest.parquet").exists)
    if loss == "all frames":
        shutil.rmtree(out / ("shards" if store == "arrow" else "frames"))
    elif store == "arrow":
        os.truncate(out / "shards" / "shard-00001.arrow", 5000)
    else:
        sorted((out / "frames").rglob("*.jpg"))[-1].unlink()
    done = prep(*command[1:])
    assert done.returncode == 0, done.stderr
    assert prep("verify", out, "--deep").returncode == 0
    assert prep(*command[1:4], tmp_path / "undisturbed", *command[5:]).returncode == 0
    assert hash_tree(out) == hash_tree(tmp_path / "undisturbed")


def test_a_source_root_that_is_gone(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    shutil.copytree(synthetic, videos)
    assert prep("scan", videos, "--out", tmp_path / "sources.parquet").returncode == 0
    videos.rename(tmp_path / "moved")
    gone = prep("extract", tmp_path / "sources.parquet", "--out", tmp_path / "out")
    assert gone.returncode == 5
    assert f"the source root {videos} cannot be read: No such file or directory" in gone.stderr
    assert not (tmp_path / "out").exists()
    command = ["extract", tmp_path / "sources.parquet", "--out", tmp_path / "out", "--root", tmp_path / "moved"]
    assert prep(*command).returncode == 0


def test_a_source_root_that_goes_in_mid_run(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    """A mount that drops stops the run; back again, the same command resumes."""
    videos = tmp_path / "videos"
    shutil.copytree(synthetic, videos)
    out = tmp_path / "out"
    command = [PREP, "extract", videos, "--out", out, "--jobs", 1]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not (out / ".work" / "spool").is_dir() or not os.listdir(out / ".work" / "spool"):
            assert process.poll() is None
            time.sleep(0.002)
        videos.rename(tmp_path / "away")
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 5, stderr
    assert b"bring it back" in stderr
    (tmp_path / "away").rename(videos)
    assert prep(*command[1:]).returncode == 0
    with open_dataset(out) as dataset:
        assert len(dataset.rows()) == 16


def test_a_video_that_changes_between_scan_and_extraction(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    shutil.copytree(synthetic, videos)
    assert prep("scan", videos, "--out", tmp_path / "sources.parquet").returncode == 0
    first, second = sorted(videos.rglob("*.avi"))[:2]
    shutil.copy(second, first)
    done = prep("extract", tmp_path / "sources.parquet", "--out", tmp_path / "out")
    assert done.returncode == 3
    assert "it changed: the scan saw" in done.stderr


def test_a_picture_that_no_jpeg_can_hold_costs_its_video_only(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    from clips import Clip, write_clip

    videos = tmp_path / "videos"
    videos.mkdir()
    (videos / "good.avi").symlink_to(sorted(synthetic.rglob("*.avi"))[0])
    write_clip(videos / "thin.mkv", Clip(name="thin", codec="ffv1", num_frames=2, width=16, height=4400))
    done = prep("extract", videos, "--out", tmp_path / "out", "--set", "frames.enlarge=true")
    assert done.returncode == 3
    assert "failed: thin.mkv: unsupported: it would be stored as 256x70400, JPEG allows 65500 px" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_limits_try_again_what_is_not_ok(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    """The rows of a resumed run are those of its last limits, as if it had begun with them."""
    out = tmp_path / "out"
    command = [PREP, "extract", synthetic, "--out", out, "--quiet", "--set", "store.videos_per_shard=2"]
    strict = [*command, "--set", "limits.min_frames=30"]
    kill_when(strict, (out / ".work" / "groups" / "00003.manifest.parquet").exists)
    done = prep(*command[1:], "--json")
    assert json.loads(done.stdout)["counts"] == {"ok": 16, "failed": 0, "excluded": 0}
    assert prep(*command[1:4], tmp_path / "undisturbed", *command[5:]).returncode == 0
    assert hash_tree(out) == hash_tree(tmp_path / "undisturbed")


@pytest.mark.parametrize("there", ["a video", "a folder", "a device", "a link"])
def test_a_scan_replaces_nothing_but_a_scan(prep: Prep, synthetic: Path, tmp_path: Path, there: str) -> None:
    out = tmp_path / "out"
    if there == "a video":
        shutil.copy(sorted(synthetic.rglob("*.avi"))[0], out)
    elif there == "a folder":
        out.mkdir()
    elif there == "a device":
        os.mkfifo(out)
    else:
        out.symlink_to(tmp_path / "elsewhere")
    before = (out.lstat().st_ino, out.lstat().st_mtime_ns)
    done = prep("scan", synthetic, "--out", out)
    assert done.returncode == 2
    assert f"--out would replace {out}, which is no source list" in done.stderr
    assert (out.lstat().st_ino, out.lstat().st_mtime_ns) == before
    assert prep("scan", synthetic, "--out", tmp_path / "new" / "sources.parquet").returncode == 0
    assert prep("scan", synthetic, "--out", tmp_path / "new" / "sources.parquet").returncode == 0
