"""An extraction: plan, decode in parallel, commit group by group in source order, seal; or resume one.

The unit of parallel work is a video, the unit of commit a group (a shard and its rows). Videos finish in any order
and wait on disk for their group, so the bytes depend neither on timing nor on the number of workers.
"""

import dataclasses
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from manifests.atomic import disk_errors
from manifests.dataset import read_manifest
from manifests.description import Description, read_description
from manifests.errors import AllFailedError, Interrupted
from manifests.names import unescape_name
from manifests.recipe import recipe_from_table
from manifests.records import Outcome, Source
from manifests.sources import SourceList
from manifests.stores import frames
from prep import spool
from prep.child import Reply
from prep.commit import commit_group, count_ok, group_rows
from prep.extract_video import hash_source
from prep.journal import Entry, Journal
from prep.lock import RunLock
from prep.progress import Progress
from prep.recipe import ExtractRecipe
from prep.recover import recover
from prep.run_folder import (
    RunFolder,
    bind,
    bound_settings,
    require_equal_settings,
    require_equal_sources,
    state_of,
)
from prep.seal import remove_work, seal
from prep.versions import pixel_libraries
from prep.workers import Job, Workers

_TRIED_TWICE = ("crashed", "timeout", "out_of_memory")
"""Failures that may be the fault of the moment: tried once more, alone, before they become rows."""


@dataclass(frozen=True)
class Extraction:
    """What a run did: the dataset, how many videos this run attempted (none: it was complete already), how many frames
    it stored, and how long that took."""

    description: Description
    num_attempted: int = 0
    num_frames: int = 0
    wall_s: float = 0.0


def extract(sources: SourceList, recipe: ExtractRecipe, out: Path, *, num_jobs: int, quiet: bool = False) -> Extraction:
    """Extract `sources` into `out`, or resume, or find that it is done.

    Raises UsageError where `out` holds something else or was begun with other settings or sources, StoreError where
    the disk refuses or another run is at work, AllFailedError where no video is ok, Interrupted after a signal.
    """
    run = RunFolder(out)
    if state_of(out) == "sealed":
        return _already_sealed(run, sources, recipe)
    run.make()
    with RunLock(run.lock):
        # Another run may have sealed it between the look and the lock.
        if state_of(out) == "sealed":
            return _already_sealed(run, sources, recipe)
        libraries = pixel_libraries()
        bind(run, bound_settings(recipe, libraries), sources)
        started_s = time.monotonic()
        num_attempted, num_frames = _extract_groups(run, sources, recipe, num_jobs=num_jobs, quiet=quiet)
        description = seal(
            run,
            dataset=sources.dataset,
            classes=sources.classes,
            recipe=recipe,
            libraries=libraries,
            num_groups=len(group_rows(len(sources.sources), recipe.store.videos_per_shard)),
        )
        return Extraction(description, num_attempted, num_frames, time.monotonic() - started_s)


def _already_sealed(run: RunFolder, sources: SourceList, recipe: ExtractRecipe) -> Extraction:
    """Nothing is to be done for a sealed dataset of the same settings and sources; another is refused."""
    description = read_description(run.out)
    before = bound_settings(recipe_from_table(ExtractRecipe, description.recipe), {})
    require_equal_settings(run.out, before, bound_settings(recipe, {}))
    now = replace(sources, sources=tuple(_before_decoding(source) for source in sources.sources))
    sources_before = dataset_sources(run.out, description)
    require_equal_sources(run.out, (description.dataset, description.classes, sources_before), now)
    if run.work.exists():
        remove_work(run)  # killed between the last two steps of sealing
    return Extraction(description)


def dataset_sources(out: Path, description: Description) -> tuple[Source, ...]:
    """The sources of a sealed dataset as a scan would find them, without what only decoding tells."""
    names = ["video_id", "source", "source_bytes", "label", "class_name", "subsets"]
    rows = read_manifest(out, description.manifest_sha256).select(names).to_pylist()
    return tuple(Source(**{**row, "subsets": tuple(row["subsets"])}) for row in rows)


def _before_decoding(source: Source) -> Source:
    return replace(source, status=None, failure=None, detail=None)


def _extract_groups(
    run: RunFolder, sources: SourceList, recipe: ExtractRecipe, *, num_jobs: int, quiet: bool
) -> tuple[int, int]:
    """Settle every row and commit every group. Returns how many videos were attempted and how many frames stored."""
    store = recipe.store.format
    groups = group_rows(len(sources.sources), recipe.store.videos_per_shard)
    recovered = recover(run, store, sources.sources, groups)
    settled = _Settled(run, store, sources, groups, recovered.finished)
    for row, source in enumerate(sources.sources):
        if source.status is not None:
            settled.add(Entry(row, Outcome(status=source.status, failure=source.failure, detail=source.detail), 0))
        elif row in recovered.entries:
            settled.add(recovered.entries[row])
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
            raise Interrupted(f"interrupted with {num_left} of {num_videos} videos to go; the same command resumes")
    if settled.num_ok == 0:
        raise AllFailedError(
            f"no video could be prepared: all {num_videos} failed, so {run.out} is not sealed; "
            "mend the videos, remove that folder, and run again"
        )
    return len(todo), num_frames


class _Settled:
    """The rows whose outcome is known, kept until their group is complete and committed."""

    def __init__(
        self, run: RunFolder, store: str, sources: SourceList, groups: list[range], finished: frozenset[int]
    ) -> None:
        self._run = run
        self._store = store
        self._sources = sources.sources
        self._groups = groups
        self._finished = set(finished)
        self._waiting: dict[int, dict[int, Entry]] = {}
        self._rows_per_group = len(groups[0])
        self.num_ok = 0
        for group in finished:
            self.num_ok += count_ok(run, group)

    def add(self, entry: Entry) -> None:
        """Take an outcome; commit its group if that completes it. Raises StoreError."""
        group = entry.row // self._rows_per_group
        if group in self._finished:
            return
        self.num_ok += entry.outcome.status == "ok"
        waiting = self._waiting.setdefault(group, {})
        waiting[entry.row] = entry
        rows = self._groups[group]
        if len(waiting) == len(rows):
            commit_group(
                self._run,
                self._store,
                group,
                [self._sources[row] for row in rows],
                [waiting[row] for row in rows],
            )
            self._finished.add(group)
            del self._waiting[group]

    def rows_left(self) -> list[int]:
        """The rows that are still to be decoded, in order."""
        return [
            row
            for group, rows in enumerate(self._groups)
            if group not in self._finished
            for row in rows
            if row not in self._waiting.get(group, {})
        ]


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
            # The process died before it could tell the hash of its source.
            sha256 = _hash_or_none(_source_path(sources, row))
            yield row, Reply(replace(reply.outcome, source_sha256=sha256), 0)
        else:
            yield row, reply


def _job(run: RunFolder, sources: SourceList, recipe: ExtractRecipe, row: int) -> Job:
    return {
        "source": os.fspath(_source_path(sources, row)),
        "frames": os.fspath(spool.frames_path(run.spool, row, recipe.store.format).absolute()),
        "table": os.fspath(spool.table_path(run.spool, row).absolute()),
        "recipe": dataclasses.asdict(recipe),
    }


def _source_path(sources: SourceList, row: int) -> Path:
    return sources.root / unescape_name(sources.sources[row].source)


def _hash_or_none(path: Path) -> str | None:
    try:
        return hash_source(path, lambda: None)[0]
    except OSError:
        return None


@contextmanager
def _stop_on_signals(workers: Workers) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP stops the workers; the second ends the program where it stands."""

    def stop(number: int, frame: FrameType | None) -> None:
        if workers.is_stopped:
            os._exit(Interrupted.exit_code)
        workers.stop()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
