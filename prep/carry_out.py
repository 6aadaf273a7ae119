"""Carry out a plan: make videos in parallel, commit group by group in source order, seal; or go on where a run stopped.

The unit of parallel work is a video, the unit of commit a group (a shard and its rows). Videos finish in any order
and wait on disk for their group, so the bytes depend neither on timing nor on the number of workers.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Protocol, Self

from manifests.atomic import disk_errors
from manifests.command import handle_signals
from manifests.description import Description
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


@dataclass(frozen=True)
class Done:
    """The dataset, how many videos were made for it by this run, and how many frames that stored."""

    description: Description
    num_attempted: int
    num_frames: int


class Maker(Protocol):
    """Makes the frames of rows: prep.decoding.Decoding or prep.taking.Taking. Used in a `with`."""

    @property
    def is_stopped(self) -> bool: ...

    def stop(self) -> None:
        """Make no more. Safe in a signal handler."""
        ...

    def make(self, rows: Sequence[int]) -> Iterator[tuple[int, Reply, bool]]:
        """(row, reply, whether it was copied from the dataset before) for each row, with the frames of ok ones in the
        spool; ends early after `stop`. Rows count within `plan.rows`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def carry_out(
    run: RunFolder,
    plan: Plan,
    before: Before | None,
    recipe: Recipe,
    libraries: dict[str, str],
    groups: Sequence[range],
    recovered: Recovered,
    maker: Maker,
    *,
    budget: Budget,
    quiet: bool,
) -> Done:
    """Do what is left of `plan`, and seal the dataset. `groups` are the rows of each group within `plan.rows`,
    `recovered` is what a run before this one has done, `maker` makes the frames of the others.

    Raises StoreError where the disk refuses, TooManyFailedError above `budget` or where no video is ok, Interrupted
    after a signal.
    """
    work, store = plan.work, recipe.store.format
    settled = Settled(run, store, work.sources, groups, recovered.finished)
    for entry in recovered.entries.values():
        settled.add(entry)
    num_attempted, num_frames = _settle_all(run, work, store, settled, maker, budget, quiet=quiet)
    num_kept = 0 if before is None else sum(before.rows[old]["status"] == "ok" for old in plan.kept.values())
    if settled.num_ok + num_kept == 0:
        videos = count(len(plan.sources.sources), "video")
        raise TooManyFailedError(
            f"none of {videos} is ok ({_kinds(settled)}), so {run.out} is not sealed; "
            "mend that, and the same command tries them all again"
        )
    description = seal(run, plan=plan, before=before, recipe=recipe, libraries=libraries, num_groups=len(groups))
    return Done(description, num_attempted, num_frames)


def _settle_all(
    run: RunFolder, work: SourceList, store: str, settled: Settled, maker: Maker, budget: Budget, *, quiet: bool
) -> tuple[int, int]:
    """Settle every row and commit every group. Returns how many videos were made, and how many frames that gave."""
    sources = work.sources
    for row, source in enumerate(sources):
        if source.status is not None:
            settled.add(Entry(row, Outcome(status=source.status, failure=source.failure, detail=source.detail), 0))
    todo = settled.rows_left()
    num_videos = sum(source.status is None for source in sources)
    num_attempted = num_frames = 0
    with (
        Journal(run.journal) as journal,
        maker,
        _stop_on_signals(maker),
        Progress(num_videos, num_videos - len(todo), quiet=quiet) as progress,
    ):
        for row, reply, is_copy in maker.make(todo):
            source = sources[row]
            if reply.outcome.failure == "unreadable":
                require_root(work)
            if reply.outcome.status == "ok" and store == "frames":
                folder = run.out / run.folder_location(source.video_id)
                with disk_errors(folder):
                    frames.publish_folder(spool.frames_path(run.spool, row, store), folder)
            entry = Entry(row, reply.outcome, reply.table_crc32)
            journal.add(entry)
            progress.add(source, reply.outcome)
            if not is_copy:
                num_attempted += 1
                num_frames += reply.outcome.num_frames
            settled.add(entry)
            if not budget.allows(settled.failures, num_videos):
                raise TooManyFailedError(
                    f"more than {budget} of {count(num_videos, 'video')} failed ({_kinds(settled)}), so the run stops; "
                    "find out why; the same command goes on, and tries those again"
                )
        if maker.is_stopped:
            num_left = len(settled.rows_left())
            raise Interrupted(f"interrupted with {num_left} of {count(num_videos, 'video')} to go")
    return num_attempted, num_frames


def _kinds(settled: Settled) -> str:
    return ", ".join(f"{kind} {number:,}" for kind, number in sorted(settled.failures.items()))


def require_root(sources: SourceList) -> None:
    """Raises StoreError where the source root is gone: then no video is at fault."""
    try:
        names = os.listdir(sources.root)
    except OSError as error:
        raise StoreError(f"the source root {sources.root} cannot be read: {error.strerror}; bring it back") from error
    if not names:
        raise StoreError(f"the source root {sources.root} has become empty; bring it back (is it mounted?)")


@contextmanager
def _stop_on_signals(maker: Maker) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP stops the maker; the second ends the program where it stands."""

    def stop(number: int, frame: FrameType | None) -> None:
        if maker.is_stopped:
            os._exit(Interrupted.exit_code)
        maker.stop()

    before = handle_signals(stop)
    try:
        yield
    finally:
        if not maker.is_stopped:  # else the second signal may still come, on the way out
            for number, handler in before.items():
                signal.signal(number, handler)
