"""Which data worker hangs: workers note on a board in shared memory what they are busy with."""

import mmap
import struct
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """What a worker says of itself: since when it reads sample `index` of dataset number `which`, or since when it
    reads none any more. 0: it has not read anything yet."""

    since_s: float
    is_busy: bool
    which: int
    index: int


class Board:
    """Shared memory with a note of each worker. Times are those of time.monotonic()."""

    _ENTRY = struct.Struct("d?qq")

    def __init__(self, num_workers: int) -> None:
        self._memory = mmap.mmap(-1, num_workers * self._ENTRY.size)

    def write(self, worker: int, *, is_busy: bool, which: int, index: int) -> None:
        at = worker * self._ENTRY.size
        self._ENTRY.pack_into(self._memory, at, time.monotonic(), is_busy, which, index)

    def read(self, worker: int) -> Note:
        return Note(*self._ENTRY.unpack_from(self._memory, worker * self._ENTRY.size))


def stuck_s(note: Note, awaited_since_s: float, now_s: float) -> float:
    """How long a worker that owes a batch has got nowhere: with one sample; or without any, although we wait (it was
    stopped between two samples)."""
    return now_s - (note.since_s if note.is_busy else max(note.since_s, awaited_since_s))
