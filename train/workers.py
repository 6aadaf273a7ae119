"""Processes that read clips into shared memory, for as long as the loader lives.

A worker is a fork of the training process: it has the datasets without reading them again, opens shards itself when
it first needs them, and uses one thread. It is in a process group of its own (a Ctrl-C is not for it) and dies when we
do. It holds nothing that matters, so its end is SIGKILL.

Arrays: batch_NTHWC, clip_THWC uint8.
"""

import ctypes
import os
import signal
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import cv2

from manifests.errors import Error
from manifests.program import STOPPING_SIGNALS
from manifests.wording import count
from train.dataset import BadSample, ClipDataset
from train.device import set_cpu_threads
from train.memory import keep_freed_memory
from train.sampler import Item
from train.slots import Shape, Slots
from train.watchdog import Board

_PR_SET_PDEATHSIG = 1
_LEAVE_WITHIN_S = 2.0


@dataclass(frozen=True)
class Task:
    """Read `items` of dataset number `which` into `slot`; `number` is that of the batch."""

    number: int
    which: int
    items: list[Item]
    slot: int


@dataclass(frozen=True)
class Answer:
    """The batch is in its slot, with these labels; or `error` says why it is not."""

    number: int
    labels: list[int]
    error: BadSample | None = None


class Worker:
    """A worker as we see it; `owed` are the tasks that it has not answered, in order."""

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self._process = process
        self.pid = process.pid
        self.connection = connection
        self.owed: deque[Task] = deque()

    def give(self, task: Task) -> None:
        """Raises OSError where it is dead."""
        self.owed.append(task)
        self.connection.send(task)

    def take(self) -> tuple[Task, Answer]:
        """Its next answer, which is there. Raises EOFError, OSError where it is dead."""
        answer: Answer = self.connection.recv()
        return self.owed.popleft(), answer

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Kill it. One that the kernel does not let go of (a network disk that is gone) is left to end by itself."""
        self.connection.close()
        self._process.kill()
        self._process.join(_LEAVE_WITHIN_S)


def shape_of(items: Sequence[Item]) -> Shape:
    """N, T, H, W, C of the batch of these items, which are all alike."""
    return len(items), items[0].num_frames, items[0].crop_px, items[0].crop_px, 3


def start_workers(datasets: Sequence[ClipDataset], slots: Slots, board: Board, num_workers: int) -> list[Worker]:
    """Fork them, in the main thread. No signal that stops a program reaches one before it has its own group.

    Raises Error where the system does not let us.
    """
    context = get_context("fork")
    pipes: list[tuple[Connection, Connection]] = []
    parent = os.getpid()
    workers: list[Worker] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
    try:
        pipes += [context.Pipe() for _ in range(num_workers)]
        for number, (ours, _) in enumerate(pipes):
            process = context.Process(
                target=_work, args=(number, parent, datasets, slots, board, pipes), daemon=True, name=f"data {number}"
            )
            with warnings.catch_warnings():
                # Python 3.12 warns of forks of a process with threads, locks of which nobody would open in the child:
                # what runs there is NumPy, OpenCV and simplejpeg, which have none.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            workers.append(Worker(process, ours))
    except OSError as error:
        for worker in workers:
            worker.close()
        raise Error(
            f"cannot start {count(num_workers, 'data worker')}: {error.strerror}; use fewer (loader.num_workers)"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for _, theirs in pipes:
            theirs.close()
    return workers


def _work(
    number: int,
    parent: int,
    datasets: Sequence[ClipDataset],
    slots: Slots,
    board: Board,
    pipes: Sequence[tuple[Connection, Connection]],
) -> None:
    _settle_in(parent)
    connection = pipes[number][1]
    for other, (ours, theirs) in enumerate(pipes):  # else nobody would see that one of us is dead
        ours.close()
        if other != number:
            theirs.close()
    try:
        while True:
            connection.send(_answer(connection.recv(), number, datasets, slots, board))
    except (EOFError, OSError):
        os._exit(0)  # nobody waits for us any more


def _answer(task: Task, number: int, datasets: Sequence[ClipDataset], slots: Slots, board: Board) -> Answer:
    labels = []
    try:
        batch_NTHWC = slots.array(task.slot, shape_of(task.items))
        for place, item in enumerate(task.items):
            board.write(number, is_busy=True, which=task.which, index=item.index)
            sample = datasets[task.which][item]
            board.write(number, is_busy=False, which=task.which, index=item.index)
            if isinstance(sample, BadSample):
                return Answer(task.number, [], sample)
            batch_NTHWC[place] = sample.clip_THWC
            labels.append(sample.label)
    except Exception as error:
        words = f"unexpected {type(error).__name__} in a data worker: {error}"
        return Answer(task.number, [], BadSample(words, Error.exit_code))
    return Answer(task.number, labels)


def _settle_in(parent: int) -> None:
    for number in STOPPING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # forgets one that came to the group meanwhile
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked to be told
        os._exit(1)
    keep_freed_memory()
    cv2.setNumThreads(1)
    set_cpu_threads(1)
    for number in STOPPING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)
