"""One run at a time in one OUT, and no lock outlives its process."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manifests.errors import StoreError
from manifests.lock import RunLock

HOLD = (
    "import pathlib, sys\n"
    "from manifests.lock import RunLock\n"
    "with RunLock(pathlib.Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "out" / ".work").mkdir(parents=True)
    return tmp_path / "out" / ".work" / "lock"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its stdin ends."""
    command = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def note(path: Path) -> object:
    """What the file says; read by another process, since closing it in this one would end a lock held here."""
    return json.loads(subprocess.run(["cat", path], capture_output=True, check=True).stdout)


def test_the_second_is_refused_and_told_who_is_first(path: Path, holder: subprocess.Popen[str]) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        RunLock(path)
    assert str(caught.value) == (
        f"another run is at work in {path.parent.parent} (process {holder.pid} on {socket.gethostname()}); "
        "wait for it or choose another --out"
    )
    assert path.read_bytes() == before


def test_a_lock_ends_with_its_process(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path.exists()
    with RunLock(path):
        assert note(path) == {"host": socket.gethostname(), "pid": os.getpid()}
        assert_refused_elsewhere(path)


def test_a_lock_that_was_released_is_free(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.communicate(timeout=10)
    assert holder.returncode == 0
    with RunLock(path):
        assert_refused_elsewhere(path)
    done = subprocess.run([sys.executable, "-c", HOLD, path], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout == b"held\n"


def assert_refused_elsewhere(path: Path) -> None:
    command = [sys.executable, "-c", HOLD, path]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    who = f"process {os.getpid()} on {socket.gethostname()}"
    assert f"StoreError: another run is at work in {path.parent.parent} ({who}); wait for it" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"pid": 3}', '{"pid": "x", "host": "y"}', "\\xff"])
def test_a_holder_that_has_not_said_who_it_is(path: Path, holder: subprocess.Popen[str], text: str) -> None:
    """As in the moment between taking the lock and telling of it, or with what another program left in the file."""
    path.write_text(text)
    with pytest.raises(StoreError) as caught:
        RunLock(path)
    assert "is at work in " in str(caught.value)
    assert "(it has not said yet which); wait for it" in str(caught.value)


def test_a_longer_note_of_an_earlier_holder_is_replaced(path: Path) -> None:
    path.write_text("x" * 5000)
    with RunLock(path):
        assert note(path) == {"host": socket.gethostname(), "pid": os.getpid()}


def test_children_do_not_hold_it(path: Path) -> None:
    with RunLock(path):
        sleeper = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        done = subprocess.run([sys.executable, "-c", HOLD, path], stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0
    finally:
        sleeper.communicate()


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write .*/missing/lock: No such file or directory; mend that"):
        RunLock(tmp_path / "missing" / "lock")


def test_a_file_system_without_locks_is_not_another_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StoreError) as caught:
        RunLock(path)
    expected = f"cannot lock {path}: No locks available; choose an --out on a file system that has locks"
    assert str(caught.value) == expected
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_a_lock_on_a_file_that_is_removed_just_now_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_made_anew: bool
) -> None:
    """A run that ends removes the file, between the moment when another opens it and the moment when it locks it."""
    lockf = fcntl.lockf

    def remove_first(descriptor: int, command: int) -> None:
        path.unlink()
        if is_made_anew:
            path.touch()
        lockf(descriptor, command)

    monkeypatch.setattr(fcntl, "lockf", remove_first)
    with pytest.raises(StoreError, match=r"another run has just come to its end in .*; run the same command again"):
        RunLock(path)
    monkeypatch.undo()
    path.touch()
    with RunLock(path):
        pass
