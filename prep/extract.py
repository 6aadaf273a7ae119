"""An extraction, from what the user asked for to a sealed dataset: a new one, one that was begun, or one that is done
and of which something is to be done again (`--retry`, `--update`)."""

import time
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manifests.atomic import disk_errors
from manifests.description import Description, read_description
from manifests.errors import StoreError, TooManyFailedError, UsageError
from manifests.lock import RunLock
from manifests.names import shard_number
from manifests.records import Source
from manifests.sources import SourceList
from prep.before import Before
from prep.budget import Budget
from prep.carry_out import carry_out, require_root
from prep.changes import Again, rows_to_redo
from prep.clear import clear, clear_state
from prep.commit import group_rows
from prep.decoding import Decoding
from prep.plan import Plan, plan_again, plan_new, read_plan, write_plan
from prep.recipe import AdoptRecipe, ExtractRecipe, recipe_of
from prep.recover import recover
from prep.run_folder import (
    Earlier,
    RunFolder,
    Update,
    bind,
    bound_settings,
    note,
    open_update,
    require_equal_settings,
    require_equal_sources,
    state_of,
)
from prep.versions import pixel_libraries


@dataclass(frozen=True)
class Extraction:
    """What a run did: the dataset, how many videos this run attempted (none: it was complete already), how many frames
    it stored, and how long that took. `was_sealed`: nothing was to be done. `open_update`: one that was begun and not
    finished. `is_held`: someone still reads what was replaced."""

    description: Description
    was_sealed: bool = False
    num_attempted: int = 0
    num_frames: int = 0
    wall_s: float = 0.0
    open_update: str | None = None
    is_held: bool = False


@dataclass(frozen=True)
class Request:
    """What the user asks for. `again` is None for a new dataset, or to resume one."""

    sources: SourceList
    recipe: ExtractRecipe
    out: Path
    num_jobs: int
    again: Again | None
    budget: Budget
    quiet: bool


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
        return _find_finished(run, request)
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
    with Before(run.out) as before:
        description = before.dataset.description
        update = Update(str(again), description.manifest_sha256)
        if _is_open(run, update):
            earlier = bind(run, _bound(request), request.recipe.limits, request.sources, update)
            plan = read_plan(run.plan, request.sources)
        else:
            plan, earlier = _plan_again(run, request, again, before), Earlier()
            if again.what != "damaged" and not plan.changes(before.rows):
                clear(run)
                return Extraction(description, was_sealed=True)
            write_plan(run.plan, plan)
            bind(run, _bound(request), request.recipe.limits, request.sources, update)
        run = replace(run, first_shard=_num_shards(before), folders=_folders(before))
        done = _carry_out(run, request, plan, before, update, earlier)
    return replace(done, is_held=not clear(run))


def _plan_again(run: RunFolder, request: Request, again: Again, before: Before) -> Plan:
    sources = request.sources
    redo = rows_to_redo(again, run.out, before.rows, sources, num_jobs=request.num_jobs, quiet=request.quiet)
    if again.what != "update":
        try:
            _require_same_sources(run.out, before, redo, sources)
        except UsageError:
            clear(run)
            raise
    return plan_again(sources, before.rows, redo, request.recipe.store.format)


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
            Decoding(run, plan, before, recipe, request.num_jobs),
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


def _find_finished(run: RunFolder, request: Request) -> Extraction:
    """Nothing is to be done for a finished dataset, but that what a killed run left is removed."""
    done = require_same_dataset(run, request)
    if not run.work.exists():
        return done
    with suppress(StoreError), RunLock(run.lock):
        update = open_update(run)
        if update is not None and update.manifest_sha256 == done.description.manifest_sha256:
            return replace(done, open_update=update.asked_for)
        return replace(done, is_held=not clear(run))
    return done


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
    if isinstance(recipe_before, AdoptRecipe):
        raise UsageError(f"{run.out} was made by prep adopt, not of these videos: use another --out")
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


def _is_open(run: RunFolder, update: Update) -> bool:
    """Whether this update was begun and not finished; if not, what else a run left is removed.

    Raises UsageError where another update is open.
    """
    begun = open_update(run)
    if begun is None or begun.manifest_sha256 != update.manifest_sha256:
        with disk_errors(run.work):
            clear_state(run)
        run.make()
        return False
    if begun.asked_for != update.asked_for:
        raise UsageError(
            f"a run with {begun.asked_for} was begun in {run.out} and not finished: finish it with the same command, "
            f"or remove {run.work} to drop it"
        )
    return True


def _num_shards(before: Before) -> int:
    """One more than the largest number of a shard that the dataset has."""
    locations = {row["location"] for row in before.rows if row["location"]}
    return 1 + max(map(shard_number, locations), default=-1)


def _folders(before: Before) -> frozenset[str]:
    return frozenset(row["location"] for row in before.rows if row["location"])
