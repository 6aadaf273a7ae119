"""A watch over the data workers: it kills one that hangs, ends the wait for a batch that will not come, and says why.

Workers note on a board in shared memory what they are busy with; the watch is a thread of the training process.
"""

import mmap
import os
import select
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from manifests.errors import Error
from manifests.program import STOPPING_SIGNALS
from train.dataset import ClipDataset

_WATCH_EVERY_S = 0.5
_LEAVE_WITHIN_S = 2.0
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Note:
    """What a worker says of itself: since when it reads sample `index`, or since when it reads none any more. 0: it has
    not read anything yet."""

    since_s: float
    is_busy: bool
    index: int


class Board:
    """Shared memory with a note of each worker."""

    _ENTRY = struct.Struct("d?q")

    def __init__(self, num_workers: int) -> None:
        self._memory = mmap.mmap(-1, num_workers * self._ENTRY.size)

    def write(self, worker: int, *, is_busy: bool, index: int) -> None:
        self._ENTRY.pack_into(self._memory, worker * self._ENTRY.size, time.monotonic(), is_busy, index)

    def read(self, worker: int) -> Note:
        return Note(*self._ENTRY.unpack_from(self._memory, worker * self._ENTRY.size))


class Watchdog:
    """Kills a worker that hangs, ends the wait for a batch that will not come, and explains why.

    One hangs that reads one sample for longer than `timeout_s`; that has read nothing for so long although we wait for
    its batch (stopped between two samples); and that has not left `_LEAVE_WITHIN_S` after it was let go.
    """

    is_interrupted = False

    def __init__(
        self, pids: list[int], board: Board, dataset: ClipDataset, timeout_s: float, give_up: Callable[[], None]
    ) -> None:
        self._pids = pids
        self._board = board
        self._give_up = give_up
        self._dataset = dataset
        self._timeout_s = timeout_s
        self._waiting: tuple[int, float] | None = None
        self._leaving_since_s: float | None = None
        self._hung: int | None = None
        self._ended = False
        self._signals, self._signals_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._signals_in, warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        self._ended = True
        os.write(self._signals_in, b"\0")
        self._thread.join()
        os.close(self._signals)
        os.close(self._signals_in)

    @contextmanager
    def waiting_for(self, batch: int) -> Iterator[None]:
        """We wait for batch number `batch`, which Paddle gives to the workers by turns."""
        self._waiting = batch % len(self._pids), time.monotonic()
        try:
            yield
        finally:
            self._waiting = None

    def let_leave(self) -> None:
        self._leaving_since_s = time.monotonic()

    def remove_segments_of_killed(self) -> None:
        """What a worker that was killed left in shared memory; others remove their own."""
        for pid in self._pids:
            _remove_segments(pid)

    def explain(self) -> Error:
        if self._hung is not None:
            return Error(
                f"data worker {self._at(self._hung)} was killed: nothing came of it for more than "
                f"{self._timeout_s:g} s; check that disk, or raise loader.timeout_s"
            )
        dead = [self._at(worker) for worker, pid in enumerate(self._pids) if not _is_alive(pid)]
        return Error(
            f"a data worker process ended unexpectedly ({', '.join(dead) or 'one of them'}), killed or out of memory; "
            "see dmesg, or run with fewer workers"
        )

    def _at(self, worker: int) -> str:
        note = self._board.read(worker)
        video = f"video {self._dataset.video_id(note.index)}" if note.since_s else "its first video"
        return f"{self._pids[worker]} at {video} of {self._dataset.folder}"

    def _watch(self) -> None:
        while not self._ended:
            is_signalled = select.select([self._signals], [], [], _WATCH_EVERY_S)[0]
            numbers = os.read(self._signals, 4096) if is_signalled else b""
            if self._waiting is not None and any(number in STOPPING_SIGNALS for number in numbers):
                self.is_interrupted = True
                self._give_up()
            now_s = time.monotonic()
            if self._leaving_since_s is not None:
                if now_s - self._leaving_since_s > _LEAVE_WITHIN_S:
                    for pid in self._pids:
                        _kill(pid)
                continue
            waiting = self._waiting
            for worker, pid in enumerate(self._pids):
                if self._hung is not None:
                    break
                if not _is_alive(pid):
                    self._give_up()
                    continue
                note = self._board.read(worker)
                since_s = note.since_s if note.is_busy else now_s
                if not note.is_busy and waiting is not None and waiting[0] == worker:
                    since_s = max(note.since_s, waiting[1])
                if now_s - since_s > self._timeout_s:
                    self._hung = worker
                    _kill(pid)
                    self._give_up()


def _kill(pid: int) -> None:
    """A worker of ours; its pid is its own until it was waited for."""
    if _is_alive(pid) and _parent_of(pid) == os.getpid():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _parent_of(pid: int) -> int | None:
    fields = _stat_of(pid)
    return int(fields[1]) if fields else None


def _stat_of(pid: int) -> list[str] | None:
    """State, parent, ... of a process as in proc(5); None where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended but was not waited for does not."""
    fields = _stat_of(pid)
    return fields is not None and fields[0] not in "ZX"


def remove_dead_segments() -> int:
    """Remove what killed runs left of Paddle's segments in shared memory, and return their number.

    A process of a container that shares our memory, but not our process ids, would look dead from here.
    """
    pids = {path.name.split("_")[1] for path in _SHARED_MEMORY.glob("paddle_*")}
    return sum(_remove_segments(int(pid)) for pid in pids if pid.isdecimal() and not _is_alive(int(pid)))


def _remove_segments(pid: int) -> int:
    num_removed = 0
    for path in _SHARED_MEMORY.glob(f"paddle_{pid}_*"):
        with suppress(OSError):  # another user's
            path.unlink()
            num_removed += 1
    return num_removed
