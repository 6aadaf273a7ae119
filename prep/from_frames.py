"""A new dataset of frames that are there already: what `prep adopt` and `prep pack` do alike."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from manifests.errors import UsageError
from manifests.lock import RunLock
from manifests.records import Outcome
from manifests.sources import SourceList
from prep.budget import Budget
from prep.carry_out import carry_out
from prep.clear import clear
from prep.commit import group_rows
from prep.extract import Extraction
from prep.journal import Entry
from prep.plan import plan_new
from prep.recipe import Limits, Recipe
from prep.recover import recover
from prep.run_folder import RunFolder, bind, bound_settings, note, state_of
from prep.taking import FrameSource
from prep.workers import Workers


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be made. `bound` is what must be the same when it is resumed, besides recipe, libraries and sources.
    `settled` are outcomes by row that are known before. `retry_failed`: a run that is resumed tries again what was not
    ok."""

    out: Path
    sources: SourceList
    recipe: Recipe
    libraries: dict[str, str]
    frames: FrameSource
    settled: Mapping[int, Outcome] = field(default_factory=dict)
    num_jobs: int
    quiet: bool
    bound: dict[str, Any] = field(default_factory=dict)
    retry_failed: bool = False


def require_apart(source: Path, out: Path) -> None:
    """Raises UsageError where what a run removes from `out` could be the frames of others, or what it adds theirs."""
    there, here = os.path.realpath(source), os.path.realpath(out)
    if here == there or here.startswith(there.rstrip("/") + "/"):
        raise UsageError(f"--out {out} lies in {source}, where the frames are: choose a folder beside it")
    if there.startswith(here.rstrip("/") + "/"):
        raise UsageError(f"{source} lies in --out {out}, which must be a folder of its own: choose one beside {source}")


def make_dataset(order: Order) -> Extraction | None:
    """Make the dataset, or go on where a run before stopped; None where `out` has a finished one.

    Raises UsageError where `out` holds something else, StoreError where the disk refuses or another run is at work,
    DamagedError where frames are not what they should be, TooManyFailedError where no video is ok, Interrupted.
    """
    run = RunFolder(order.out)
    if state_of(order.out) == "sealed":
        return None
    run.make()
    with RunLock(run.lock):
        # Sealed by another run, between the look and the lock?
        done = None if state_of(order.out) == "sealed" else _make(run, order)
        clear(run)
        return done


def _make(run: RunFolder, order: Order) -> Extraction:
    store = order.recipe.store.format
    bound = {**bound_settings(order.recipe, order.libraries), **order.bound}
    is_resumed = run.settings.exists()
    earlier = bind(run, bound, Limits(), order.sources)
    if is_resumed and order.retry_failed:
        earlier = replace(earlier, other_limits=True)
    started_s = time.monotonic()
    plan = plan_new(order.sources)
    groups = group_rows(len(plan.rows), order.recipe.store.videos_per_shard)
    recovered = recover(run, store, plan.work.sources, groups, earlier)
    recovered.entries.update({row: Entry(row, outcome, 0) for row, outcome in order.settled.items()})
    if earlier.changed_rows:
        note(run, bound, Limits(), order.sources, None)
    done = carry_out(
        run,
        plan,
        None,
        order.recipe,
        order.libraries,
        groups,
        recovered,
        order.frames,
        Workers(order.num_jobs, Limits().timeout_s),
        budget=Budget(),
        quiet=order.quiet,
    )
    wall_s = time.monotonic() - started_s
    return Extraction(done.description, num_attempted=done.num_attempted, num_frames=done.num_frames, wall_s=wall_s)
