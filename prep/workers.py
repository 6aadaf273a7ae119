"""Workers: threads of joblib, each of which owns one decoding process.

A task never raises: joblib drops the finished results of other tasks when one does. What went wrong with the run
itself (a full disk, a bug) travels as a value and is raised here, in the thread that asked for the results.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import joblib

from manifests.atomic import disk_errors, sync_file_system
from manifests.errors import Error
from prep.child import Child, Job, Reply
from prep.taking import Take

_VIDEOS_PER_CHILD = 300
"""A process is replaced after so many videos, which bounds what a leak in a native library can cost."""

_START_ATTEMPTS = 3
"""A process that does not start is tried again: on a busy machine that may be the fault of the moment."""


class Workers:
    """`num_workers` decoding processes; see `extract`, which gives nothing any more after `stop`."""

    def __init__(self, num_workers: int, timeout_s: float) -> None:
        self._num_workers = num_workers
        self._timeout_s = timeout_s
        self._local = threading.local()
        self._lock = threading.Lock()
        self._children: list[Child] = []
        self._videos_per_child = _VIDEOS_PER_CHILD
        self._stopped = False

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def extract(self, jobs: Iterable[tuple[int, Job | Take]], *, alone: bool = False) -> Iterator[tuple[int, Reply]]:
        """Yield (row, reply) for each (row, job), as they are done; one at a time if `alone`, each in a process of its
        own, so that nothing but itself can be its fault.

        After `stop` the iteration ends early, without the videos that were in flight.
        """
        self._videos_per_child = 1 if alone else _VIDEOS_PER_CHILD
        parallel = joblib.Parallel(
            n_jobs=1 if alone else self._num_workers,
            backend="threading",
            return_as="generator_unordered",
            batch_size=1,
        )
        results = parallel(joblib.delayed(self._task)(row, job) for row, job in self._until_stopped(jobs))
        try:
            for row, result in results:
                if isinstance(result, BaseException):
                    raise result
                if result is not None:
                    yield row, result
        except BaseException:
            # Closing joblib's generator would leave its tasks running; killed children end them at once.
            self.stop()
            for _ in results:
                pass
            raise
        finally:
            self._end_children()

    def stop(self) -> None:
        """Kill all processes at once and start no more. Safe in a signal handler."""
        self._stopped = True
        for child in list(self._children):
            child.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._end_children()

    def _until_stopped(self, jobs: Iterable[tuple[int, Job | Take]]) -> Iterator[tuple[int, Job | Take]]:
        for item in jobs:
            if self._stopped:
                return
            yield item

    def _task(self, row: int, job: Job | Take) -> tuple[int, Reply | BaseException | None]:
        if self._stopped:
            return row, None
        try:
            found = job if isinstance(job, Job) else job.take()
            reply = found if isinstance(found, Reply) else self._own_child().extract(found, self._timeout_s)
            if reply.outcome.status == "ok" and job.frames.is_dir():
                with disk_errors(job.frames):
                    sync_file_system(job.frames)  # a frame folder is renamed next
        except Exception as error:
            return row, None if self._stopped else error
        return row, None if self._stopped else reply

    def _own_child(self) -> Child:
        child: Child | None = getattr(self._local, "child", None)
        if child is not None and child.is_alive and child.num_videos < self._videos_per_child:
            return child
        if child is not None:
            self._local.child = None
            self._remove(child)
        self._local.child = child = self._start_child()
        return child

    def _start_child(self) -> Child:
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            child = Child()
            with self._lock:
                self._children.append(child)
            if self._stopped:
                child.kill()
            try:
                child.wait_until_ready()
                return child
            except Error:
                self._remove(child)
                if not attempts_left or self._stopped:
                    raise
        raise AssertionError("unreachable")

    def _remove(self, child: Child) -> None:
        with self._lock:
            self._children.remove(child)
        child.close()

    def _end_children(self) -> None:
        with self._lock:
            children, self._children = self._children, []
        self._local = threading.local()
        for child in children:
            with suppress(OSError):
                child.close()
