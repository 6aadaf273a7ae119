"""The videos of an extraction: copied from the dataset before where the plan says so, else decoded by workers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from manifests.atomic import disk_errors, sync_file_system
from manifests.description import hash_file
from manifests.names import unescape_name
from manifests.sources import SourceList
from prep import spool
from prep.before import Before
from prep.child import Job, Reply
from prep.plan import Plan
from prep.recipe import ExtractRecipe
from prep.run_folder import RunFolder
from prep.workers import Workers

_TRIED_TWICE = ("crashed", "timeout", "out_of_memory")
"""Failures that may be the fault of the moment: tried once more, alone, before they become rows."""


class Decoding:
    """Rows count within `plan.work`, as in prep.carry_out."""

    def __init__(self, run: RunFolder, plan: Plan, before: Before | None, recipe: ExtractRecipe, num_jobs: int) -> None:
        self._run = run
        self._sources: SourceList = plan.work
        self._copied: Mapping[int, int] = {
            position: plan.copied[row] for position, row in enumerate(plan.rows) if row in plan.copied
        }
        self._before = before
        self._recipe = recipe
        self._workers = Workers(num_jobs, recipe.limits.timeout_s)

    @property
    def is_stopped(self) -> bool:
        return self._workers.is_stopped

    def stop(self) -> None:
        self._workers.stop()

    def make(self, rows: Sequence[int]) -> Iterator[tuple[int, Reply, bool]]:
        """(row, reply, whether it was copied) for each row: first those that are copied, then the others as they are
        done, and those of `_TRIED_TWICE` last, after a second try."""
        to_decode = []
        for row in rows:
            reply = None if self.is_stopped else self._copy(row)
            if reply is None:
                to_decode.append(row)
            else:
                yield row, reply, True
        again = []
        for row, reply in self._workers.extract(map(self._job, to_decode)):
            if reply.outcome.failure in _TRIED_TWICE:
                again.append(row)
            else:
                yield row, reply, False
        for row, reply in self._workers.extract(map(self._job, sorted(again)), alone=True):
            if reply.outcome.failure in _TRIED_TWICE:
                # The process ended before it could tell the hash of its source, or clear its spool.
                with disk_errors(self._run.spool):
                    spool.remove(self._frames_path(row))
                    spool.remove(self._table_path(row))
                sha256 = _hash_or_none(self._source_path(row))
                yield row, Reply(replace(reply.outcome, source_sha256=sha256), 0), False
            else:
                yield row, reply, False

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workers.__exit__(kind, error, trace)

    def _copy(self, row: int) -> Reply | None:
        """The frames of the dataset before into the spool, where the plan says so; None where to decode them."""
        if row not in self._copied or self._before is None:
            return None
        frames_path = self._frames_path(row)
        store = self._recipe.store.format
        reply = self._before.copy_video(self._copied[row], frames_path, self._table_path(row), store)
        if reply is not None and store == "frames":
            with disk_errors(frames_path):
                sync_file_system(frames_path)  # it is renamed next
        return reply

    def _job(self, row: int) -> tuple[int, Job]:
        return row, Job(
            source=self._source_path(row),
            source_bytes=self._sources.sources[row].source_bytes,
            frames=self._frames_path(row),
            table=self._table_path(row),
            recipe=self._recipe,
        )

    def _source_path(self, row: int) -> Path:
        return self._sources.root / unescape_name(self._sources.sources[row].source)

    def _frames_path(self, row: int) -> Path:
        return spool.frames_path(self._run.spool, row, self._recipe.store.format).absolute()

    def _table_path(self, row: int) -> Path:
        return spool.table_path(self._run.spool, row).absolute()


def _hash_or_none(path: Path) -> str | None:
    try:
        return hash_file(path)
    except OSError:
        return None
