"""An extraction, from what the user asked for to a sealed dataset: a new one, one that was begun, or one that is done
and of which something is to be done again (`--retry`, `--update`)."""

import time
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manifests.description import Description, read_description
from manifests.errors import Error, StoreError, TooManyFailedError, UsageError
from manifests.lock import RunLock
from manifests.records import Source
from manifests.sources import SourceList
from manifests.wording import count
from prep.before import Before
from prep.budget import Budget
from prep.carry_out import carry_out, require_root
from prep.changes import Again, rows_to_redo
from prep.clear import clear, forget
from prep.commit import group_rows
from prep.decoding import VideoFiles
from prep.estimate import require_room
from prep.plan import Changes, Plan, count_changes, plan_again, plan_new, read_plan, write_plan
from prep.progress import announce
from prep.recipe import ExtractRecipe, recipe_of
from prep.recover import recover
from prep.run_folder import (
    Earlier,
    RunFolder,
    Update,
    bind,
    bound_settings,
    free_places,
    note,
    open_update,
    require_equal_settings,
    require_equal_sources,
    state_of,
)
from prep.versions import pixel_libraries
from prep.workers import Workers


@dataclass(frozen=True)
class Extraction:
    """What a run did: the dataset, how many videos this run decoded (none: it was complete already), how many frames
    that gave, and how long it took. `was_sealed`: nothing was to be done. `changes` tell what an update did.
    `unfinished` is the update that was begun and not finished. `is_held`: someone still reads what was replaced."""

    description: Description
    was_sealed: bool = False
    num_attempted: int = 0
    num_frames: int = 0
    wall_s: float = 0.0
    changes: Changes | None = None
    unfinished: str | None = None
    is_held: bool = False


@dataclass(frozen=True)
class Request:
    """What the user asks for. `again` is None for a new dataset, or to resume one. `force` is for an update that would
    remove most of the dataset, or that another one stands in the way of."""

    sources: SourceList
    recipe: ExtractRecipe
    out: Path
    num_jobs: int
    again: Again | None
    budget: Budget
    quiet: bool
    force: bool


def extract(request: Request) -> Extraction:
    """Extract the sources into `out`, or resume, or find that it is done, or do some of it again.

    Raises UsageError where `out` holds something else or was begun with other settings or sources, StoreError where
    the disk refuses or another run is at work, TooManyFailedError above the budget or where no video is ok, Interrupted
    after a signal.
    """
    require_root(request.sources)
    run = RunFolder(request.out)
    state = state_of(request.out)
    again = request.again
    if state != "sealed" and again is not None:
        if again.what != "update":
            raise UsageError(f"{request.out} is not a finished dataset; {again} is for one: run without it first")
        request = replace(request, again=None)
    if state == "sealed" and again is None:
        return clear_finished(run, require_same_dataset(run, request))
    if state == "sealed":
        _require_same_settings(run, request, pixel_libraries(request.recipe.decoder))
    run.make()
    with RunLock(run.lock):
        if request.again is not None:
            return _extract_again(run, request, request.again)
        if state_of(request.out) == "sealed":  # by another run, between the look and the lock
            done = require_same_dataset(run, request)
            clear(run)
            return done
        return _extract_new(run, request)


def _extract_new(run: RunFolder, request: Request) -> Extraction:
    earlier = bind(run, _bound(request), request.recipe.limits, request.sources)
    done = _carry_out(run, request, plan_new(request.sources), None, None, earlier)
    clear(run)
    return done


def _extract_again(run: RunFolder, request: Request, again: Again) -> Extraction:
    try:
        before = Before(run.out)
    except Error:
        clear(run)
        raise
    with before:
        update = Update(str(again), before.dataset.description.manifest_sha256)
        plan, earlier = _open_plan(run, request, before, update)
        if plan is None:
            try:
                (plan, is_mended), earlier = _new_plan(run, request, again, before), Earlier()
            except BaseException:
                clear(run)
                raise
            if not is_mended and not plan.changes(before.rows, before.dataset.classes):
                was_read = before.dataset.description
                before.close()
                return Extraction(was_read, was_sealed=True, is_held=not clear(run))
            write_plan(run.plan, plan)
            bind(run, _bound(request), request.recipe.limits, request.sources, update)
        changes = count_changes(plan, before.rows)
        if again.what == "update":
            announce(changes.sentence(run.out), quiet=request.quiet)
        done = _carry_out(replace(run, places=plan.places), request, plan, before, update, earlier)
    return replace(done, changes=changes, is_held=not clear(run))


def _open_plan(run: RunFolder, request: Request, before: Before, update: Update) -> tuple[Plan | None, Earlier]:
    """The plan of this update, if it was begun and not finished and can be gone on with; if not, what a run left is
    removed.

    Raises UsageError where another update is open, unless it is to be dropped by force.
    """
    begun = open_update(run)
    if begun is not None and begun.manifest_sha256 == update.manifest_sha256:
        if begun.asked_for != update.asked_for and not request.force:
            raise UsageError(
                f"a run with {begun.asked_for} was begun in {run.out} and not finished: finish it with the same "
                "command, or have it dropped by --force"
            )
        plan = read_plan(run.plan, request.sources, _locations(before))
        if begun.asked_for == update.asked_for and plan is not None:
            with suppress(UsageError):  # there are other videos than then
                earlier = bind(run, _bound(request), request.recipe.limits, request.sources, update)
                position_of = {row: position for position, row in enumerate(plan.rows) if row not in plan.copied}
                if earlier.changed_rows <= position_of.keys():
                    positions = frozenset(position_of[row] for row in earlier.changed_rows)
                    return plan, replace(earlier, changed_rows=positions)
        announce(f"the run with {begun.asked_for} that was begun is dropped", quiet=request.quiet)
    forget(run)
    run.make()
    return None, Earlier()


def _new_plan(run: RunFolder, request: Request, again: Again, before: Before) -> tuple[Plan, bool]:
    """The plan, and whether there is more to mend than that: files that no row tells of, or counts in dataset.json,
    which a new seal does."""
    sources = request.sources
    if again.what == "update" and sources.dataset != before.dataset.description.dataset:
        name = before.dataset.description.dataset
        raise UsageError(f"{run.out} was made as --dataset {name}, not {sources.dataset}: use another --out")
    redo, is_mended = rows_to_redo(again, run.out, before.rows, sources, num_jobs=request.num_jobs, quiet=request.quiet)
    if again.what != "update":
        _require_same_sources(run.out, before, redo, sources)
    plan = plan_again(sources, before.rows, redo, request.recipe.store.format)
    changes = count_changes(plan, before.rows)
    if 2 * changes.num_gone > len(before.rows) and not request.force:
        raise UsageError(
            f"{changes.num_gone:,} of {count(len(before.rows), 'video')} are gone from {sources.root}; is all of it "
            f"there? If so, --force removes their frames from {run.out}"
        )
    if not request.force:
        to_decode = [position for position, row in enumerate(plan.rows) if row not in plan.copied]
        require_room(plan.work, to_decode, request.recipe, run.out, num_jobs=request.num_jobs)
    return replace(plan, places=free_places(run.out, _locations(before))), is_mended


def _carry_out(
    run: RunFolder, request: Request, plan: Plan, before: Before | None, update: Update | None, earlier: Earlier
) -> Extraction:
    recipe = request.recipe
    started_s = time.monotonic()
    groups = group_rows(len(plan.rows), recipe.store.videos_per_shard)
    recovered = recover(run, recipe.store.format, plan.work.sources, groups, earlier)
    if not earlier.is_equal:
        note(run, _bound(request), recipe.limits, plan.sources, update)
    try:
        done = carry_out(
            run,
            plan,
            before,
            recipe,
            pixel_libraries(request.recipe.decoder),
            groups,
            recovered,
            VideoFiles(run.out, plan, before, recipe),
            Workers(request.num_jobs, recipe.limits.timeout_s),
            budget=request.budget,
            quiet=request.quiet,
        )
    except TooManyFailedError:
        note(run, _bound(request), None, plan.sources, update)
        raise
    return Extraction(
        done.description,
        num_attempted=done.num_attempted,
        num_frames=done.num_frames,
        wall_s=time.monotonic() - started_s,
    )


def _bound(request: Request) -> dict[str, Any]:
    return bound_settings(request.recipe, pixel_libraries(request.recipe.decoder))


def clear_finished(run: RunFolder, done: Extraction) -> Extraction:
    """Nothing is to be done for a finished dataset, but that what a killed run left is removed."""
    if not run.work.exists():
        return done
    try:
        lock = RunLock(run.lock)
    except StoreError:
        return done  # it is at work, or the folder cannot be written
    with lock:
        update = open_update(run)
        if update is not None and update.manifest_sha256 == done.description.manifest_sha256:
            return replace(done, unfinished=update.asked_for)
        return replace(done, is_held=not clear(run))


def require_same_dataset(run: RunFolder, request: Request) -> Extraction:
    """Raises UsageError where the dataset has other settings or sources."""
    description = _require_same_settings(run, request, None)
    with Before(run.out) as dataset:
        _require_same_sources(run.out, dataset, frozenset(), request.sources)
    return Extraction(description, was_sealed=True)


def _require_same_settings(run: RunFolder, request: Request, libraries: dict[str, str] | None) -> Description:
    """Raises UsageError where the dataset was made with other settings, or other than these `libraries`."""
    description = read_description(run.out)
    recipe_before = recipe_of(description.recipe)
    libraries_before = {} if libraries is None else description.libraries
    before = bound_settings(recipe_before, libraries_before)
    require_equal_settings(run.out, before, bound_settings(request.recipe, libraries or {}))
    return description


def _require_same_sources(out: Path, before: Before, redo: Set[int], now: SourceList) -> None:
    """Raises UsageError unless `now` are the sources of the dataset, whatever the files of the rows `redo` are."""
    file_now = {source.source: source for source in now.sources}
    sources_before = []
    for index, row in enumerate(before.rows):
        source = Source(
            video_id=row["video_id"],
            source=row["source"],
            source_bytes=row["source_bytes"],
            label=row["label"],
            class_name=row["class_name"],
            subsets=tuple(row["subsets"]),
        )
        if index in redo and source.source in file_now:
            source = replace(source, source_bytes=file_now[source.source].source_bytes)
        sources_before.append(source)
    description = before.dataset.description
    undecided = [replace(source, status=None, failure=None, detail=None) for source in now.sources]
    require_equal_sources(
        out,
        (description.dataset, description.classes, tuple(sources_before)),
        replace(now, sources=tuple(undecided)),
        "restore them, take them over with --update, or use another --out",
    )


def _locations(before: Before) -> frozenset[str]:
    return frozenset(row["location"] for row in before.rows if row["location"])
