"""Carry out a plan: make videos in parallel, commit group by group in source order, seal; or go on where a run stopped.

The unit of parallel work is a video, the unit of commit a group (a shard and its rows). Videos finish in any order
and wait on disk for their group, so the bytes depend neither on timing nor on the number of workers.
"""

import os
import signal
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from manifests.atomic import disk_errors
from manifests.command import handle_signals
from manifests.description import Description, hash_file
from manifests.errors import Interrupted, StoreError, TooManyFailedError
from manifests.records import Outcome
from manifests.sources import SourceList
from manifests.stores import frames
from manifests.wording import count
from prep import spool
from prep.before import Before
from prep.budget import Budget
from prep.child import Reply
from prep.journal import Entry, Journal
from prep.plan import Plan
from prep.progress import Progress
from prep.recipe import Recipe
from prep.recover import Recovered
from prep.run_folder import RunFolder
from prep.seal import seal
from prep.settled import Settled
from prep.taking import FrameSource, Take
from prep.workers import Workers

_TRIED_TWICE = ("crashed", "timeout", "out_of_memory")
"""Failures that may be the fault of the moment: tried once more, alone, before they become rows."""


@dataclass(frozen=True)
class Done:
    """The dataset, how many videos were made for it by this run, and how many frames that stored."""

    description: Description
    num_attempted: int
    num_frames: int


@dataclass(frozen=True)
class _Work:
    """`sources` are those of the rows of the plan, and rows count from here on within them. `copied` are those rows
    whose frames the dataset before has."""

    run: RunFolder
    sources: SourceList
    copied: Set[int]
    store: str
    frames: FrameSource

    def source_path(self, row: int) -> Path:
        return self.sources.path_of(self.sources.sources[row])

    def frames_path(self, row: int) -> Path:
        return spool.frames_path(self.run.spool, row, self.store).absolute()

    def table_path(self, row: int) -> Path:
        return spool.table_path(self.run.spool, row).absolute()

    def take(self, row: int) -> tuple[int, Take]:
        return row, Take(self.frames, row, self.frames_path(row), self.table_path(row))


def carry_out(
    run: RunFolder,
    plan: Plan,
    before: Before | None,
    recipe: Recipe,
    libraries: dict[str, str],
    groups: Sequence[range],
    recovered: Recovered,
    source: FrameSource,
    workers: Workers,
    *,
    budget: Budget,
    quiet: bool,
) -> Done:
    """Do what is left of `plan`, and seal the dataset. `groups` are the rows of each group within `plan.rows`,
    `recovered` is what a run before this one has done; the frames of the other rows come from `source`, or from
    `workers` where it tells them to decode.

    Raises StoreError where the disk refuses, TooManyFailedError above `budget` or where no video is ok, Interrupted
    after a signal.
    """
    rows = plan.rows
    copied = {position for position, row in enumerate(rows) if row in plan.copied}
    work = _Work(run, plan.work, copied, recipe.store.format, source)
    settled = Settled(run, work.store, work.sources.sources, groups, recovered.finished)
    for entry in recovered.entries.values():
        settled.add(entry)
    num_attempted, num_frames = _settle_all(work, workers, settled, budget, quiet=quiet)
    num_kept = 0 if before is None else sum(before.rows[old]["status"] == "ok" for old in plan.kept.values())
    if settled.num_ok + num_kept == 0:
        videos = count(len(plan.sources.sources), "video")
        state = "is not sealed" if before is None else "stays as it was"
        raise TooManyFailedError(
            f"none of {videos} is ok ({_kinds(settled)}), so {run.out} {state}; "
            "mend that, and the same command tries them all again"
        )
    description = seal(run, plan=plan, before=before, recipe=recipe, libraries=libraries, num_groups=len(groups))
    return Done(description, num_attempted, num_frames)


def _settle_all(work: _Work, workers: Workers, settled: Settled, budget: Budget, *, quiet: bool) -> tuple[int, int]:
    """Settle every row and commit every group. Returns how many videos were made, and how many frames that gave."""
    run, sources = work.run, work.sources.sources
    for row, source in enumerate(sources):
        if source.status is not None:
            settled.add(Entry(row, Outcome(status=source.status, failure=source.failure, detail=source.detail), 0))
    todo = settled.rows_left()
    num_videos = sum(source.status is None for source in sources)
    num_attempted = num_frames = 0
    with (
        Journal(run.journal) as journal,
        workers,
        _stop_on_signals(workers),
        Progress(num_videos, num_videos - len(todo), quiet=quiet) as progress,
    ):
        for row, reply in _replies(workers, work, todo):
            source = sources[row]
            if reply.outcome.failure == "unreadable":
                require_root(work.sources)
            if reply.outcome.status == "ok" and work.store == "frames":
                folder = run.out / run.places.folder_location(source.video_id)
                with disk_errors(folder):
                    frames.publish_folder(work.frames_path(row), folder)
            entry = Entry(row, reply.outcome, reply.table_crc32)
            journal.add(entry)
            progress.add(source, reply.outcome)
            if row not in work.copied:
                num_attempted += 1
                num_frames += reply.outcome.num_frames
            settled.add(entry)
            if not budget.allows(settled.failures, num_videos):
                raise TooManyFailedError(
                    f"more than {budget} of {count(num_videos, 'video')} failed ({_kinds(settled)}), so the run stops; "
                    "mend that, and the same command goes on and tries those again"
                )
        if workers.is_stopped:
            num_left = len(settled.rows_left())
            raise Interrupted(f"interrupted with {num_left} of {count(num_videos, 'video')} to go")
    return num_attempted, num_frames


def _kinds(settled: Settled) -> str:
    return ", ".join(f"{kind} {number:,}" for kind, number in sorted(settled.failures.items()))


def _replies(workers: Workers, work: _Work, rows: list[int]) -> Iterator[tuple[int, Reply]]:
    """The reply for each row, as they are done; those of `_TRIED_TWICE` last, after a second try."""
    again = []
    for row, reply in workers.extract(map(work.take, rows)):
        if reply.outcome.failure in _TRIED_TWICE:
            again.append(row)
        else:
            yield row, reply
    for row, reply in workers.extract(map(work.take, sorted(again)), alone=True):
        if reply.outcome.failure in _TRIED_TWICE:
            # The process ended before it could tell the hash of its source, or clear its spool.
            with disk_errors(work.run.spool):
                spool.remove(work.frames_path(row))
                spool.remove(work.table_path(row))
            yield row, Reply(replace(reply.outcome, source_sha256=_hash_or_none(work.source_path(row))), 0)
        else:
            yield row, reply


def require_root(sources: SourceList) -> None:
    """Raises StoreError where the source root is gone: then no video is at fault."""
    try:
        names = os.listdir(sources.root)
    except OSError as error:
        raise StoreError(f"the source root {sources.root} cannot be read: {error.strerror}; bring it back") from error
    if not names:
        raise StoreError(f"the source root {sources.root} has become empty; bring it back (is it mounted?)")


def _hash_or_none(path: Path) -> str | None:
    try:
        return hash_file(path)
    except OSError:
        return None


@contextmanager
def _stop_on_signals(workers: Workers) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP stops the workers; the second ends the program where it stands."""

    def stop(number: int, frame: FrameType | None) -> None:
        if workers.is_stopped:
            os._exit(Interrupted.exit_code)
        workers.stop()

    before = handle_signals(stop)
    try:
        yield
    finally:
        if not workers.is_stopped:  # else the second signal may still come, on the way out
            for number, handler in before.items():
                signal.signal(number, handler)
