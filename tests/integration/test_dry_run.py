"""`extract --dry-run` through the real command, and the refusal of a run that cannot fit."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from bad_decoder import with_bad_decoder
from conftest import PREP, Prep
from trees import hash_tree

from manifests import open_dataset
from manifests.records import Source
from manifests.sources import SourceList, write_sources
from manifests.stores import STORES


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory, prep: Prep) -> Path:
    """48 videos, of which 16 are a true sample."""
    folder = tmp_path_factory.mktemp("drawn") / "videos"
    done = prep("synth", folder, "--classes", 4, "--videos-per-class", 12, "--seed", 3)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting is refused here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def dry_run(prep: Prep, *arguments: object, **options: object) -> dict[str, Any]:
    done = prep("extract", *arguments, "--dry-run", "--json", "--quiet", **options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def space_taken(folder: Path) -> tuple[int, int]:
    """Bytes in whole blocks, and inodes."""
    paths = [folder, *folder.rglob("*")]
    return sum(path.lstat().st_blocks * 512 for path in paths), len(paths)


@pytest.mark.parametrize("store", STORES)
def test_the_estimate_is_near_what_is_then_taken(prep: Prep, videos: Path, tmp_path: Path, store: str) -> None:
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    command = [videos, "--out", tmp_path / "out", "--store", store, "--set", "store.videos_per_shard=8"]
    found = dry_run(prep, *command, env=environment)
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]
    assert list((tmp_path / "temporary").iterdir()) == []
    assert prep("extract", *command, "--quiet").returncode == 0
    with open_dataset(tmp_path / "out") as dataset:
        assert found["num_frames"] == pytest.approx(dataset.description.num_frames, rel=0.25)
        assert found["num_bytes"] == pytest.approx(dataset.description.num_bytes, rel=0.25)
    num_bytes, num_inodes = space_taken(tmp_path / "out")
    # On the way a shard of eight of the 48 videos is there twice.
    assert num_bytes * 0.9 < found["needed_bytes"] < num_bytes * (1.25 if store == "frames" else 1.6)
    if store == "frames":
        assert found["needed_inodes"] == pytest.approx(num_inodes, rel=0.25)
    assert (found["num_videos"], found["num_sampled"], found["failures"]) == (48, 16, {})
    assert (found["num_done"], found["left_out"], found["fits"]) == (0, {}, True)


def test_what_is_printed(prep: Prep, videos: Path, tmp_path: Path) -> None:
    done = prep("extract", videos, "--out", tmp_path / "out", "--dry-run", "--jobs", 2, "--set", "frames.quality=80")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["plan: 48 videos to decode, 2 at a time, store arrow", "measured: 16 videos"]
    assert [line.partition(":")[0] for line in lines[2:5]] == ["expected", "needed", "free"]
    assert lines[5:] == [f"it fits into {tmp_path / 'out'}"]
    assert "free; /dev/shm: " in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_left_out_and_what_is_done_is_not_counted(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for path in synthetic.glob("*.txt"):
        (folder / path.name).write_bytes(path.read_bytes())
    for path in sorted(synthetic.rglob("*.avi"))[:6]:
        (folder / path.name).symlink_to(path)
    out = tmp_path / "out"
    command = ["extract", folder, "--dataset", "ucf101", "--out", out, "--set", "store.videos_per_shard=2"]
    new = prep(*command, "--dry-run")
    assert "plan: 6 videos to decode" in new.stdout
    assert "left out: missing 10" in new.stdout
    # A run that was begun: what its journal tells of is done.
    with subprocess.Popen([str(part) for part in [PREP, *command, "--quiet", "--jobs", 1]]) as process:
        journal = out / ".work" / "journal.jsonl"
        while process.poll() is None and not (journal.exists() and journal.stat().st_size):
            time.sleep(0.002)
        process.kill()
    if not (out / "dataset.json").exists():
        before = hash_tree(out)
        begun = json.loads(prep(*command, "--dry-run", "--json").stdout)
        assert begun["num_videos"] + begun["num_done"] == 6
        assert begun["num_done"] >= 1
        assert hash_tree(out) == before
    assert prep(*command, "--quiet").returncode == 0
    before = hash_tree(out)
    sealed = prep(*command, "--dry-run")
    assert sealed.returncode == 0
    assert "nothing is left to decode" in sealed.stdout
    assert hash_tree(out) == before


def test_a_dry_run_refuses_what_a_run_refuses(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert prep("extract", synthetic, "--out", out, "--quiet").returncode == 0
    other = prep("extract", synthetic, "--out", out, "--dry-run", "--set", "frames.quality=80")
    assert other.returncode == 2
    assert "frames.quality 90, not 80" in other.stderr
    for again in (["--update"], ["--retry", "failed"]):
        done = prep("extract", synthetic, "--out", out, "--dry-run", *again)
        assert done.returncode == 2
        assert "--dry-run" in done.stderr


def test_videos_that_crash_or_hang_cost_a_dry_run_no_more_than_themselves(
    prep: Prep, videos: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    paths = sorted(videos.rglob("*.avi"), key=lambda path: path.stat().st_size)[:4]
    for path, name in zip(paths, ("good-1", "bad-segfault", "bad-spin", "good-2"), strict=True):
        (folder / f"{name}.avi").symlink_to(path)
    environment = with_bad_decoder(tmp_path / "decoder")
    found = dry_run(prep, folder, "--out", tmp_path / "out", "--set", "limits.timeout_s=4", env=environment)
    assert found["failures"] == {"crashed": 1, "timeout": 1}
    assert found["num_sampled"] == 4
    assert found["num_frames"] > 0


@pytest.mark.parametrize("store", STORES)
def test_a_run_that_cannot_fit(prep: Prep, videos: Path, small_disk: Path, store: str) -> None:
    command = ["extract", videos, "--store", store, "--out"]
    dry = prep(*command, small_disk / "out", "--dry-run", "--json")
    assert dry.returncode == 5
    assert json.loads(dry.stdout)["fits"] is False
    refused = prep(*command, small_disk / "out")
    assert refused.returncode == 5
    assert "of which 1.0 MiB are free" in refused.stderr
    assert "--force" in refused.stderr
    assert list(small_disk.iterdir()) == []
    forced = prep(*command, small_disk / "out", "--force", "--quiet")
    assert forced.returncode == 5
    assert "No space left on device" in forced.stderr
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    resumed = prep(*command, small_disk / "out")
    assert resumed.returncode == 0, resumed.stderr
    assert "it fits into" in resumed.stderr
    assert prep("verify", small_disk / "out").returncode == 0


def test_a_sample_that_cannot_be_written(prep: Prep, videos: Path, small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(1020 * 1024))
    done = prep(
        "extract", videos, "--out", tmp_path / "out", "--dry-run", env={**os.environ, "TMPDIR": str(small_disk)}
    )
    assert done.returncode == 5
    assert "a sample cannot be measured: " in done.stderr
    assert "No space left on device" in done.stderr
    assert "TMPDIR" in done.stderr
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@pytest.mark.parametrize("num_signals", [1, 2])
def test_ctrl_c_leaves_nothing(synthetic: Path, tmp_path: Path, num_signals: int) -> None:
    """While a read that never returns is waited for."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "videos").mkdir()
    os.mkfifo(tmp_path / "videos" / "pipe.avi")
    source = Source(video_id="pipe", source="pipe.avi", source_bytes=1000)
    listed = SourceList(dataset="folder", root=tmp_path / "videos", classes=(), sources=(source,))
    write_sources(tmp_path / "sources.parquet", listed)
    process = subprocess.Popen(
        [PREP, "extract", tmp_path / "sources.parquet", "--out", tmp_path / "out", "--dry-run"],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Opening the other end waits until a decoding process reads.
    descriptor = os.open(tmp_path / "videos" / "pipe.avi", os.O_WRONLY)
    for _ in range(num_signals):
        os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    os.close(descriptor)
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (tmp_path / "out").exists()
