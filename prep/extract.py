"""An extraction: plan, decode in parallel, commit group by group in source order, seal; or resume one.

The unit of parallel work is a video, the unit of commit a group (a shard and its rows). Videos finish in any order
and wait on disk for their group, so the bytes depend neither on timing nor on the number of workers.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from manifests.atomic import disk_errors
from manifests.command import handle_signals
from manifests.dataset import read_manifest
from manifests.description import Description, hash_file, read_description
from manifests.errors import AllFailedError, Interrupted, StoreError
from manifests.lock import RunLock
from manifests.names import unescape_name
from manifests.recipe import recipe_from_table
from manifests.records import Outcome, Source
from manifests.sources import SourceList
from manifests.stores import frames
from manifests.wording import count
from prep import spool
from prep.child import Job, Reply
from prep.commit import group_rows
from prep.journal import Entry, Journal
from prep.progress import Progress
from prep.recipe import ExtractRecipe
from prep.recover import recover
from prep.run_folder import (
    RunFolder,
    bind,
    bound_settings,
    note_limits,
    require_equal_settings,
    require_equal_sources,
    state_of,
)
from prep.seal import remove_work, seal
from prep.settled import Settled
from prep.versions import pixel_libraries
from prep.workers import Workers

_TRIED_TWICE = ("crashed", "timeout", "out_of_memory")
"""Failures that may be the fault of the moment: tried once more, alone, before they become rows."""


@dataclass(frozen=True)
class Extraction:
    """What a run did: the dataset, how many videos this run attempted (none: it was complete already), how many frames
    it stored, and how long that took. `was_sealed`: the dataset was there before."""

    description: Description
    was_sealed: bool = False
    num_attempted: int = 0
    num_frames: int = 0
    wall_s: float = 0.0


def extract(sources: SourceList, recipe: ExtractRecipe, out: Path, *, num_jobs: int, quiet: bool = False) -> Extraction:
    """Extract `sources` into `out`, or resume, or find that it is done.

    Raises UsageError where `out` holds something else or was begun with other settings or sources, StoreError where
    the disk refuses or another run is at work, AllFailedError where no video is ok, Interrupted after a signal.
    """
    _require_root(sources)
    run = RunFolder(out)
    if state_of(out) == "sealed":
        done = _sealed_already(run, sources, recipe)
        if run.work.exists():  # a run was killed between the last two steps of sealing, or is there just now
            with suppress(StoreError), RunLock(run.lock):
                remove_work(run)
        return done
    run.make()
    with RunLock(run.lock):
        # Another run may have sealed it between the look and the lock.
        if state_of(out) == "sealed":
            done = _sealed_already(run, sources, recipe)
            remove_work(run)
            return done
        libraries = pixel_libraries(recipe.decoder)
        bound = bound_settings(recipe, libraries)
        same_limits = bind(run, bound, recipe.limits, sources)
        started_s = time.monotonic()
        groups = group_rows(len(sources.sources), recipe.store.videos_per_shard)
        recovered = recover(run, recipe.store.format, sources.sources, groups, same_limits=same_limits)
        if not same_limits:
            note_limits(run, bound, recipe.limits)
        settled = Settled(run, recipe.store.format, sources.sources, groups, recovered.num_ok)
        for entry in recovered.entries.values():
            settled.add(entry)
        num_attempted, num_frames = _extract_groups(run, sources, recipe, settled, num_jobs=num_jobs, quiet=quiet)
        description = seal(
            run,
            dataset=sources.dataset,
            classes=sources.classes,
            recipe=recipe,
            libraries=libraries,
            num_groups=len(groups),
        )
        wall_s = time.monotonic() - started_s
        return Extraction(description, num_attempted=num_attempted, num_frames=num_frames, wall_s=wall_s)


def _sealed_already(run: RunFolder, sources: SourceList, recipe: ExtractRecipe) -> Extraction:
    """Nothing is to be done for a sealed dataset of the same settings and sources; another is refused."""
    description = read_description(run.out)
    before = bound_settings(recipe_from_table(ExtractRecipe, description.recipe), {})
    require_equal_settings(run.out, before, bound_settings(recipe, {}))
    names = ["video_id", "source", "source_bytes", "label", "class_name", "subsets"]
    rows = read_manifest(run.out, description.manifest_sha256).select(names).to_pylist()
    sources_before = tuple(Source(**{**row, "subsets": tuple(row["subsets"])}) for row in rows)
    now = replace(sources, sources=tuple(_before_decoding(source) for source in sources.sources))
    require_equal_sources(run.out, (description.dataset, description.classes, sources_before), now)
    return Extraction(description, was_sealed=True)


def _before_decoding(source: Source) -> Source:
    return replace(source, status=None, failure=None, detail=None)


def _extract_groups(
    run: RunFolder, sources: SourceList, recipe: ExtractRecipe, settled: Settled, *, num_jobs: int, quiet: bool
) -> tuple[int, int]:
    """Settle every row and commit every group. Returns how many videos were attempted and how many frames stored."""
    store = recipe.store.format
    for row, source in enumerate(sources.sources):
        if source.status is not None:
            settled.add(Entry(row, Outcome(status=source.status, failure=source.failure, detail=source.detail), 0))
    todo = settled.rows_left()
    num_videos = sum(source.status is None for source in sources.sources)
    num_frames = 0
    with (
        Journal(run.journal) as journal,
        Workers(num_jobs, recipe.limits.timeout_s) as workers,
        _stop_on_signals(workers),
        Progress(num_videos, num_videos - len(todo), quiet=quiet) as progress,
    ):
        for row, reply in _replies(workers, run, sources, recipe, todo):
            source = sources.sources[row]
            if reply.outcome.failure == "unreadable":
                _require_root(sources)
            if reply.outcome.status == "ok" and store == "frames":
                folder = run.out / frames.location_of(source.video_id)
                with disk_errors(folder):
                    frames.publish_folder(spool.frames_path(run.spool, row, store), folder)
            entry = Entry(row, reply.outcome, reply.table_crc32)
            journal.add(entry)
            progress.add(source, reply.outcome)
            num_frames += reply.outcome.num_frames
            settled.add(entry)
        if workers.is_stopped:
            num_left = len(settled.rows_left())
            raise Interrupted(f"interrupted with {num_left} of {count(num_videos, 'video')} to go")
    if settled.num_ok == 0:
        remove_work(run)  # nothing to resume: the next run tries all again
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in sorted(settled.failures.items()))
        raise AllFailedError(
            f"none of {count(len(sources.sources), 'video')} is ok ({kinds}), so {run.out} is not sealed; "
            "mend that, and the same command tries them all again"
        )
    return len(todo), num_frames


def _replies(
    workers: Workers, run: RunFolder, sources: SourceList, recipe: ExtractRecipe, rows: list[int]
) -> Iterator[tuple[int, Reply]]:
    """The reply for each row, in the order of completion; those of `_TRIED_TWICE` last, after a second try."""
    again = []
    for row, reply in workers.extract((row, _job(run, sources, recipe, row)) for row in rows):
        if reply.outcome.failure in _TRIED_TWICE:
            again.append(row)
        else:
            yield row, reply
    for row, reply in workers.extract(((row, _job(run, sources, recipe, row)) for row in sorted(again)), alone=True):
        if reply.outcome.failure in _TRIED_TWICE:
            # The process ended before it could tell the hash of its source, or clear its spool.
            job = _job(run, sources, recipe, row)
            with disk_errors(run.spool):
                spool.remove(job.frames)
                spool.remove(job.table)
            yield row, Reply(replace(reply.outcome, source_sha256=_hash_or_none(job.source)), 0)
        else:
            yield row, reply


def _require_root(sources: SourceList) -> None:
    """Raises StoreError where the source root is gone: then no video is at fault."""
    try:
        names = os.listdir(sources.root)
    except OSError as error:
        raise StoreError(f"the source root {sources.root} cannot be read: {error.strerror}; bring it back") from error
    if not names:
        raise StoreError(f"the source root {sources.root} has become empty; bring it back (is it mounted?)")


def _job(run: RunFolder, sources: SourceList, recipe: ExtractRecipe, row: int) -> Job:
    return Job(
        source=_source_path(sources, row),
        source_bytes=sources.sources[row].source_bytes,
        frames=spool.frames_path(run.spool, row, recipe.store.format).absolute(),
        table=spool.table_path(run.spool, row).absolute(),
        recipe=recipe,
    )


def _source_path(sources: SourceList, row: int) -> Path:
    return sources.root / unescape_name(sources.sources[row].source)


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
        for number, handler in before.items():
            signal.signal(number, handler)
