"""Kill anything at any moment, run the same command again: the bytes are those of an undisturbed run."""

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import PREP, Prep
from trees import hash_tree

NUM_KILLS = int(os.environ.get("DECODE_ONCE_KILLS", "18"))


@pytest.fixture(scope="module")
def many_videos(tmp_path_factory: pytest.TempPathFactory, prep: Prep) -> Path:
    """36 small videos, which with three a shard make 12 groups."""
    folder = tmp_path_factory.mktemp("many") / "videos"
    done = prep("synth", folder, "--classes", 6, "--videos-per-class", 6, "--seed", 11)
    assert done.returncode == 0, done.stderr
    return folder


def start(videos: Path, out: Path, store: str) -> subprocess.Popen[str]:
    command = [PREP, "extract", videos, "--dataset", "ucf101", "--out", out, "--store", store, "--quiet"]
    command += ["--set", "store.videos_per_shard=3"]
    return subprocess.Popen(
        list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def children_of(pid: int) -> list[int]:
    """Whichever thread of the process made them."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends just now
            found += map(int, task.read_text().split())
    return found


def wait_for_no_worker(out: Path) -> None:
    """The decoding processes of a killed run end by themselves, at once."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not [pid for pid in os.listdir("/proc") if pid.isdigit() and opens_files_under(pid, out)]:
            return
        time.sleep(0.02)
    raise AssertionError("a decoding process outlived its parent")


def opens_files_under(pid: str, out: Path) -> bool:
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(link.startswith(str(out)) for link in links)


@pytest.mark.parametrize("store", ["arrow", "frames"])
def test_random_kills_and_resumes(many_videos: Path, tmp_path: Path, store: str) -> None:
    """Whole group, main process or one child, at random moments, until NUM_KILLS have hit a run.

    Each is followed by the same command; a run that ends must have ended well, and the next one begins anew.
    """
    chance = random.Random(f"{store} {NUM_KILLS}")
    started = time.monotonic()
    undisturbed = start(many_videos, tmp_path / "undisturbed", store)
    _, stderr = undisturbed.communicate(timeout=120)
    assert undisturbed.returncode == 0, stderr
    span_s = time.monotonic() - started
    expected = hash_tree(tmp_path / "undisturbed")
    num_kills, num_finished = 0, 0
    while num_kills < NUM_KILLS:
        out = tmp_path / f"out{num_finished}"
        process = start(many_videos, out, store)
        try:
            _, stderr = process.communicate(timeout=chance.uniform(0.2, span_s))
            assert process.returncode == 0, stderr
        except subprocess.TimeoutExpired:
            victims = {"group": [], "main": [process.pid], "child": children_of(process.pid)}
            how = chance.choice([how for how in sorted(victims) if victims[how] or how == "group"])
            if how == "group":
                os.killpg(process.pid, signal.SIGKILL)
            for pid in victims[how][:1]:
                os.kill(pid, signal.SIGKILL)
            num_kills += 1
            if how != "child":
                process.communicate(timeout=60)
                wait_for_no_worker(out)
                continue
            _, stderr = process.communicate(timeout=120)
            assert process.returncode == 0, stderr  # a crash costs no video that decodes at the second try
        assert hash_tree(out) == expected
        num_finished += 1
    last = start(many_videos, out, store)
    _, stderr = last.communicate(timeout=120)
    assert last.returncode == 0, stderr
    assert hash_tree(out) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_run_that_resumes(synthetic: Path, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    process = start(synthetic, out, "arrow")
    while not (out / ".work" / "spool").is_dir() or not os.listdir(out / ".work" / "spool"):
        assert process.poll() is None
        time.sleep(0.005)
    sent = time.monotonic()
    os.killpg(process.pid, number)  # as a terminal does: the whole group
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - sent < 20
    assert (process.returncode, stdout) == (130, "")
    assert "the same command resumes" in stderr
    assert f"prep extract {synthetic}" in stderr
    assert "Traceback" not in stderr
    assert not (out / "dataset.json").exists()
    wait_for_no_worker(out)
    again = start(synthetic, out, "arrow")
    _, stderr = again.communicate(timeout=120)
    assert again.returncode == 0, stderr
    undisturbed = start(synthetic, tmp_path / "undisturbed", "arrow")
    undisturbed.communicate(timeout=120)
    assert hash_tree(out) == hash_tree(tmp_path / "undisturbed")


@pytest.mark.parametrize("store", ["arrow", "frames"])
def test_a_second_run_in_the_same_out(prep: Prep, synthetic: Path, tmp_path: Path, store: str) -> None:
    """It is refused and told who is first, and begins at once when that one is dead, whatever it left."""
    out = tmp_path / "out"
    first = start(synthetic, out, store)
    try:
        while not (out / ".work" / "run.json").exists():
            assert first.poll() is None
            time.sleep(0.005)
        os.killpg(first.pid, signal.SIGSTOP)
        second = prep("extract", synthetic, "--dataset", "ucf101", "--out", out, "--store", store)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate(timeout=60)
    assert second.returncode == 5
    sentence = f"another run is at work in {out} (process {first.pid} on {socket.gethostname()}); wait for it"
    assert sentence in second.stderr
    assert "Traceback" not in second.stderr
    third = start(synthetic, out, store)
    _, stderr = third.communicate(timeout=120)
    assert third.returncode == 0, stderr
    undisturbed = start(synthetic, tmp_path / "undisturbed", store)
    undisturbed.communicate(timeout=120)
    assert hash_tree(out) == hash_tree(tmp_path / "undisturbed")
