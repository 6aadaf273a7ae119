"""Batches of clips from worker processes, and an end with a sentence when one of them fails.

Paddle's loader alone hangs for ever on an exception without workers and on a hung worker, tells nothing about a killed
one, and keeps some two hundred batches in shared memory. So here: samples that cannot be read travel as values; workers
note in shared memory what they are busy with; a watchdog kills one that is busy with one sample for too long, owes us a
batch without being busy, or does not leave (train.watchdog); a death is an error of the wait for a batch and of no
other place; a signal ends that wait, during which Python runs no handler; the collector runs after each batch; workers
leave our process group (a Ctrl-C is ours alone) and die when we do.

Arrays: clips_NTHWC uint8 RGB; labels_N, indices_N int64.
"""

import ctypes
import gc
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle

from manifests.errors import DamagedError, Error
from manifests.program import STOPPING_SIGNALS
from train.dataset import BadSample, ClipDataset, Sample
from train.memory import keep_freed_memory
from train.sampler import Item
from train.watchdog import Board, Watchdog

_PR_SET_PDEATHSIG = 1

_ERRORS: dict[int, type[Error]] = {DamagedError.exit_code: DamagedError}


@dataclass(frozen=True)
class Batch:
    """clips_NTHWC as a uint8 tensor on the CPU, labels and sample indices as arrays."""

    clips_NTHWC: paddle.Tensor
    labels_N: npt.NDArray[np.int64]
    indices_N: npt.NDArray[np.int64]


class _Watched:
    """The dataset as workers see it: notes on the board what it reads."""

    def __init__(self, dataset: ClipDataset, board: Board) -> None:
        self._dataset = dataset
        self._board = board

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, item: Item) -> Sample | BadSample:
        worker = paddle.io.get_worker_info().id
        self._board.write(worker, is_busy=True, index=item.index)
        sample = self._dataset[item]
        self._board.write(worker, is_busy=False, index=item.index)
        return sample


class _Batches:
    """A batch sampler for Paddle: it needs no more than iteration and a length."""

    def __init__(self, batches: Sequence[list[Item]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[Item]]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def load(dataset: ClipDataset, batches: Sequence[list[Item]], *, num_workers: int, timeout_s: float) -> Iterator[Batch]:
    """The batches, in order. Raises DamagedError for a frame that cannot be read, and Error where a worker process was
    killed, crashed, or read one sample for longer than `timeout_s` (within a second), KeyboardInterrupt for a signal of
    STOPPING_SIGNALS while it waits for a batch of a worker. Only for the main thread."""
    if num_workers == 0:
        for items in batches:
            yield _as_batch(collate([dataset[item] for item in items]))
        return
    if not batches:
        return
    board = Board(num_workers)
    loader = paddle.io.DataLoader(
        _Watched(dataset, board),
        batch_sampler=_Batches(batches),
        collate_fn=collate,
        num_workers=num_workers,
        places=paddle.CPUPlace(),
        return_list=True,
        timeout=1,  # after which Paddle's reader thread sees that it may end and close its pipes
        worker_init_fn=partial(_start_worker, parent=os.getpid()),
    )
    iterator = _fork_workers(loader)
    pids = [process.pid for process in iterator._workers]
    with Watchdog(pids, board, dataset, timeout_s, give_up=iterator._exit_thread_unexpectedly) as watchdog:
        try:
            for number in range(len(batches)):
                try:
                    with watchdog.waiting_for(number):
                        fields = next(iterator)
                except SystemError as error:
                    if watchdog.is_interrupted:
                        raise KeyboardInterrupt from None
                    raise watchdog.explain() from error
                batch = _as_batch(fields)
                del fields
                gc.collect(0)  # batches wait in a reference cycle, in shared memory
                yield batch
        finally:
            watchdog.let_leave()
            iterator._try_shutdown_all()  # not by `del`: the traceback of an error may hold the iterator
            watchdog.remove_segments_of_killed()


def _fork_workers(loader: paddle.io.DataLoader) -> Any:
    """Paddle's iterator. No signal that stops a program reaches a worker before it has a process group of its own, and
    none of Paddle's handlers stays that raises SystemError wherever the program is when a worker dies."""
    child_handler = signal.getsignal(signal.SIGCHLD)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
    try:
        return iter(loader)
    finally:
        signal.signal(signal.SIGCHLD, child_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def collate(samples: Sequence[Sample | BadSample]) -> list[Any]:
    """Stack samples into [clips_NTHWC, labels_N, indices_N, errors]: where one is bad, only errors count."""
    errors = [[str(sample.exit_code), sample.message] for sample in samples if isinstance(sample, BadSample)]
    good = [sample for sample in samples if isinstance(sample, Sample)]
    if errors:
        return [np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64), errors[0]]
    return [
        np.stack([sample.clip_THWC for sample in good]),
        np.array([sample.label for sample in good], np.int64),
        np.array([sample.index for sample in good], np.int64),
        [],
    ]


def _as_batch(fields: list[Any]) -> Batch:
    clips_NTHWC, labels_N, indices_N, error = fields
    if error:
        exit_code, message = error
        raise _ERRORS.get(int(exit_code), Error)(message)
    if not isinstance(clips_NTHWC, paddle.Tensor):
        clips_NTHWC = paddle.to_tensor(clips_NTHWC, place=paddle.CPUPlace())
    return Batch(clips_NTHWC, np.array(labels_N), np.array(indices_N))


def _start_worker(worker: int, *, parent: int) -> None:
    for number in STOPPING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # forgets one that came to the group meanwhile
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked to be told
        os._exit(1)
    keep_freed_memory()
    for number in STOPPING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)
