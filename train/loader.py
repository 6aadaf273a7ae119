"""Batches of clips from worker processes that live as long as the loader, and an end with a sentence when one fails.

Paddle's own loader hangs for ever on an exception without workers and on a hung worker, tells nothing about a killed
one, runs no signal handler while it waits, keeps some two hundred batches in /dev/shm, dies of a bus error where it is
full, and copies a clip four times on its way. So here workers write clips into memory that they share with us
(train.slots), which the tensors then are, and the wait for a batch is the place where whatever went wrong shows: a
sample that cannot be read comes as a value, a worker that died has closed its pipe, one that hangs has not moved on the
board (train.watchdog), and a signal ends the wait as it ends any other.

Which worker reads what is decided as they become free, and changes nothing: order and content are functions of the
items.

Arrays: clips_NTHWC uint8 RGB; labels_N, indices_N int64.
"""

import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Protocol

import numpy as np
import numpy.typing as npt
import paddle
from paddle.utils import dlpack

from manifests.closing import Closing
from manifests.errors import Error
from train.dataset import BadSample, ClipDataset
from train.sampler import Item
from train.slots import BATCHES_IN_USE, BATCHES_PER_WORKER, Slots, num_slots
from train.watchdog import Board, stuck_s
from train.workers import Answer, Task, Worker, shape_of, start_workers

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Batch:
    """clips_NTHWC as a uint8 tensor on the CPU, labels and sample indices as arrays."""

    clips_NTHWC: paddle.Tensor
    labels_N: npt.NDArray[np.int64]
    indices_N: npt.NDArray[np.int64]


class Batches(Protocol):
    """What makes batches: `Loader`, or another that gives the same ones."""

    name: str
    """As --loader has it."""

    def batches(self, dataset: ClipDataset, batches: Sequence[list[Item]]) -> Iterator[Batch]:
        """The batches, in order. Raises Error."""


class Loader(Closing):
    """Reads batches of any of `datasets` by `num_workers` processes, or in this one if there are none.

    Workers start with the first batch, stay from epoch to epoch and from dataset to dataset, and start anew after an
    iteration that was left early or failed. Only for the main thread.
    """

    name = "paddle"

    def __init__(self, datasets: Sequence[ClipDataset], *, num_workers: int, timeout_s: float) -> None:
        self._datasets = datasets
        self._num_workers = num_workers
        self._timeout_s = timeout_s
        self._crew: _Crew | None = None

    def batches(self, dataset: ClipDataset, batches: Sequence[list[Item]]) -> Iterator[Batch]:
        """The batches of one of the datasets, in order.

        Raises DamagedError for a frame that cannot be read, and Error where a worker cannot be started, was killed,
        crashed, or read one sample for longer than `timeout_s` (within a second), or where there is no memory for a
        batch. What a signal handler raises while a batch is waited for comes through.
        """
        if self._num_workers == 0:
            for items in batches:
                yield _read(dataset, items)
            return
        if not batches:
            return
        if self._crew is not None and self._crew.is_at_work:
            self.close()
        if self._crew is None:
            self._crew = _Crew(self._datasets, self._num_workers, self._timeout_s)
        crew = self._crew
        try:
            yield from crew.batches(self._datasets.index(dataset), batches)
        finally:
            if crew.is_at_work and self._crew is crew:  # with batches that nobody wants
                self.close()

    def close(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()


class _Crew(Closing):
    """The workers, and the memory that is shared with them. `is_at_work`: batches were begun and not all were given."""

    is_at_work = False

    def __init__(self, datasets: Sequence[ClipDataset], num_workers: int, timeout_s: float) -> None:
        self._datasets = datasets
        self._timeout_s = timeout_s
        self._slots = Slots(num_slots(num_workers))
        self._free = list(range(len(self._slots)))
        self._num_lent = 0
        self._board = Board(num_workers)
        try:
            self._workers = start_workers(datasets, self._slots, self._board, num_workers)
        except Error:
            self._slots.close()
            raise

    def batches(self, which: int, batches: Sequence[list[Item]]) -> Iterator[Batch]:
        self.is_at_work = True
        done: dict[int, tuple[Task, Answer]] = {}
        num_given = 0
        for number, items in enumerate(batches):
            while num_given < min(len(batches), number + BATCHES_PER_WORKER * len(self._workers)):
                self._give(Task(num_given, which, batches[num_given], self._free.pop()))
                num_given += 1
            awaited_since_s = time.monotonic()
            while number not in done:
                self._wait(done, awaited_since_s)
            task, answer = done.pop(number)
            if answer.error is not None:
                raise answer.error.as_error()
            yield Batch(self._tensor(task), np.array(answer.labels, np.int64), _indices(items))
        self.is_at_work = False

    def _give(self, task: Task) -> None:
        num_bytes = int(np.prod(shape_of(task.items)))
        self._slots.make_room(task.slot, num_bytes)
        worker = min(self._workers, key=lambda worker: len(worker.owed))
        try:
            worker.give(task)
        except OSError as error:
            raise self._death(worker) from error

    def _wait(self, done: dict[int, tuple[Task, Answer]], awaited_since_s: float) -> None:
        """Until some worker answers, or for a moment. Raises Error where one is dead or hangs."""
        workers = {worker.connection: worker for worker in self._workers}
        for connection in wait(workers, _LOOK_EVERY_S):
            worker = workers[connection]  # type: ignore[index]
            try:
                task, answer = worker.take()
            except (EOFError, OSError) as error:
                raise self._death(worker) from error
            done[answer.number] = task, answer
        now_s = time.monotonic()
        for number, worker in enumerate(self._workers):
            if worker.owed and stuck_s(self._board.read(number), awaited_since_s, now_s) > self._timeout_s:
                worker.kill()
                raise Error(
                    f"data worker {self._at(number)} was killed: nothing came of it for more than "
                    f"{self._timeout_s:g} s; check that disk, or raise loader.timeout_s"
                )

    def _tensor(self, task: Task) -> paddle.Tensor:
        """The slot itself, which is free again once nobody holds the tensor; a copy where many are held."""
        clips_NTHWC = self._slots.array(task.slot, shape_of(task.items))
        if self._num_lent >= BATCHES_IN_USE:
            self._free.append(task.slot)
            return paddle.to_tensor(clips_NTHWC, place=paddle.CPUPlace())
        self._num_lent += 1
        weakref.finalize(clips_NTHWC, self._take_back, task.slot).atexit = False
        return dlpack.from_dlpack(clips_NTHWC.__dlpack__())

    def _take_back(self, slot: int) -> None:
        self._free.append(slot)
        self._num_lent -= 1

    def _death(self, worker: Worker) -> Error:
        return Error(
            f"a data worker process ended unexpectedly ({self._at(self._workers.index(worker))}), killed or out of "
            "memory; see dmesg, or run with fewer workers"
        )

    def _at(self, number: int) -> str:
        note = self._board.read(number)
        dataset = self._datasets[note.which]
        video = f"video {dataset.video_id(note.index)}" if note.since_s else "its first video"
        return f"{self._workers[number].pid} at {video} of {dataset.folder}"

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._slots.close()


def _read(dataset: ClipDataset, items: list[Item]) -> Batch:
    clips_NTHWC = np.empty(shape_of(items), np.uint8)
    labels = []
    for clip_THWC, item in zip(clips_NTHWC, items, strict=True):
        sample = dataset[item]
        if isinstance(sample, BadSample):
            raise sample.as_error()
        clip_THWC[:] = sample.clip_THWC
        labels.append(sample.label)
    return Batch(dlpack.from_dlpack(clips_NTHWC.__dlpack__()), np.array(labels, np.int64), _indices(items))


def _indices(items: Sequence[Item]) -> npt.NDArray[np.int64]:
    return np.array([item.index for item in items], np.int64)
