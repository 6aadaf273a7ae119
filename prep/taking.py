"""Videos whose frames are there already (`prep adopt`, `prep pack`): taken over by threads, as prep.decoding decodes
others.

A task never raises, as in prep.workers: what went wrong with the run itself travels as a value.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import joblib

from prep import spool
from prep.child import Reply
from prep.run_folder import RunFolder


class FrameSource(Protocol):
    """Where the frames are: prep.adopt.FrameTree, prep.pack.Packed. Used by several threads."""

    def take(self, row: int, frames: Path, table: Path) -> Reply:
        """Put the frames of a row and their table into the spool, as a decoding process does. Raises Error where the
        run cannot go on."""
        ...


class Taking:
    """Takes `num_jobs` videos at a time."""

    def __init__(self, run: RunFolder, store: str, source: FrameSource, num_jobs: int) -> None:
        self._run = run
        self._store = store
        self._source = source
        self._num_jobs = num_jobs
        self._stopped = False

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Begin no more. Safe in a signal handler."""
        self._stopped = True

    def make(self, rows: Sequence[int]) -> Iterator[tuple[int, Reply, bool]]:
        """(row, reply, False) for each row, as they are done."""
        parallel = joblib.Parallel(
            n_jobs=self._num_jobs, backend="threading", return_as="generator_unordered", batch_size=1
        )
        results = parallel(joblib.delayed(self._task)(row) for row in self._until_stopped(rows))
        try:
            for row, result in results:
                if isinstance(result, BaseException):
                    raise result
                if result is not None:
                    yield row, result, False
        except BaseException:
            # Closing joblib's generator would leave its tasks running.
            self.stop()
            for _ in results:
                pass
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _until_stopped(self, rows: Sequence[int]) -> Iterator[int]:
        for row in rows:
            if self._stopped:
                return
            yield row

    def _task(self, row: int) -> tuple[int, Reply | BaseException | None]:
        if self._stopped:
            return row, None
        frames, table = spool.frames_path(self._run.spool, row, self._store), spool.table_path(self._run.spool, row)
        try:
            return row, self._source.take(row, frames, table)
        except Exception as error:
            return row, error
