"""Multigrid schedules: PySlowFast's and PaddleVideo's own tables, a small one by hand, and what holds for all."""

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from conftest import ROOT
from hypothesis import assume, given
from hypothesis import strategies as st

from manifests.errors import UsageError
from manifests.recipe import load_recipe
from train.optimising import rate_at
from train.recipe import TrainRecipe
from train.schedules import (
    Factors,
    Schedule,
    Shape,
    Stage,
    jitter_ends,
    longest_interval,
    multigrid_schedule,
    num_groups,
    num_steps,
    plain_schedule,
    short_cycle,
)

PARITY = ROOT.parent / "shared" / "data" / "parity" / "multigrid.json"
MODES = {"both": "long_and_short", "long": "long_only", "short": "short_only"}
CASES = ("k400_T32_S224", "small_T8_S64", "small_T8_S64_factor1")


def recorded() -> Any:
    if not PARITY.is_file():
        pytest.skip(f"the recorded schedules are not there: {PARITY}")
    return json.loads(PARITY.read_text())


def recipe_of(settings: dict[str, Any], cycles: str, *more: str) -> TrainRecipe:
    keys = {
        "clip.num_frames": settings["frames"],
        "clip.crop_px": settings["crop"],
        "clip.interval": settings["sampling_rate"],
        "optimizer.batch_size": settings["total_batch"],
        "optimizer.num_parts": settings["gpus"],
        "optimizer.num_epochs": settings["max_epoch"],
        "optimizer.schedule": "step",
        "optimizer.decay_epochs": ", ".join(map(str, settings["steps"][1:])),
        "optimizer.decay_factor": settings["gamma"],
        "optimizer.learning_rate": settings["base_lr"],
        "optimizer.num_warmup_epochs": settings["warmup_epochs"],
        "optimizer.warmup_from": settings["warmup_start_lr"],
        "multigrid.cycles": cycles,
        "multigrid.epoch_factor": settings["epoch_factor"],
        "multigrid.norm_size": settings["bn_base_size"],
    }
    return load_recipe(TrainRecipe, None, [*(f"{key}={value}" for key, value in keys.items()), *more])


# --- Against the references ---


@pytest.mark.parametrize("cycles", MODES)
@pytest.mark.parametrize("case", CASES)
def test_the_recorded_schedules(case: str, cycles: str) -> None:
    """Stages, those without an epoch too, rates and their epochs, the rate at the beginning of every epoch, what each
    change of shape brings with it, and the evaluations. Small clips have fewer pixels than a recipe takes."""
    found = recorded()["cases"][case]
    settings = found["settings"]
    expected = found[MODES[cycles]]["pyslowfast"]
    if "error" in expected:  # of the long cycle alone
        expected = found[MODES[cycles]]["paddlevideo"]
    recipe = recipe_of(settings, cycles)
    schedule = recipe.schedule
    assert schedule.num_epochs == expected["max_epoch"]
    assert [epoch for epoch, _ in schedule.rates] == expected["lr_steps"]
    num_rates = len(schedule.rates)
    assert [rate for _, rate in schedule.rates] == pytest.approx(expected["relative_lrs"][:num_rates])
    rates = [rate_at(recipe.optimizer, schedule, epoch, 0.0) for epoch in range(schedule.num_epochs)]
    assert rates == pytest.approx(expected["lr_per_epoch"])
    if cycles == "short":
        return
    assert [
        {
            "lr_index": min(number // 4, 3),
            "batch_multiple": stage.base.multiple,
            "frames": stage.base.num_frames,
            "crop": stage.base.crop_px,
            "start_epoch": stage.first_epoch,
            "end_epoch": stage.end_epoch,
            "empty": stage.num_epochs == 0,
        }
        for number, stage in enumerate(schedule.stages)
    ] == expected["schedule"]
    changes = []
    for stage in schedule.stages:
        shape = stage.base
        longest = longest_interval(settings["sampling_rate"], shape.num_frames, settings["frames"])
        change = (shape.num_frames, shape.crop_px, recipe.norm_groups(shape.multiple), longest)
        if stage.num_epochs and (not changes or changes[-1][1:] != change):
            changes.append((stage.first_epoch, *change))
    assert changes == [
        (
            change["epoch"],
            change["frames"],
            change["crop"],
            change.get("bn_splits", 1),
            change["long_cycle_sampling_rate"],
        )
        for change in expected["changes"]
    ]
    if cycles == "both":
        evaluated = [epoch for epoch in range(schedule.num_epochs) if schedule.is_evaluated(epoch, 3)]
        assert evaluated == found["long_and_short"]["eval_epochs_pyslowfast"]


def test_the_recorded_short_cycles() -> None:
    for case in recorded()["short_cycle"]["pyslowfast"].values():
        shapes = short_cycle(Shape(1, 8, case["long_cycle_crop"]), case["default_crop"], (0.5, 0.7071))
        assert [shape.multiple for shape in shapes] == case["batch_multiple"]
        found = [
            (shape.crop_px, *jitter_ends(*case["jitter"], shape.crop_px, case["default_crop"]))  # type: ignore[call-arg]
            for shape in shapes
        ]
        assert found == [(place["crop"], place["min_scale"], place["max_scale"]) for place in case["positions"]]
        sizes = [case["batch_size"] * shape.multiple for shape in shapes]
        assert num_steps(case["samples"], sizes) == case["yielded_batches"]
        assert [[sizes[step % 3], step % 3] for step in range(6)] == case["first_six_batches"]


def test_the_table_of_kinetics() -> None:
    """Ends of stages, as PySlowFast logs them (its issue 231 and a run of its code), without the recorded file."""
    recipe = load_recipe(TrainRecipe, ROOT / "train" / "recipes" / "slowfast_multigrid_k400.toml", [])
    stages = recipe.schedule.stages
    assert [stage.end_epoch for stage in stages] == [73, 110, 142, 158, 205, 228, 248, 259, 291, 308, 322, 329, 358]
    assert [tuple(stage.base) for stage in stages[:4]] == [(8, 8, 158), (4, 16, 158), (2, 16, 224), (1, 32, 224)]
    assert stages[0].shapes == (Shape(16, 8, 112), Shape(8, 8, 158), Shape(8, 8, 158))
    assert stages[2].shapes == (Shape(8, 16, 112), Shape(4, 16, 158), Shape(2, 16, 224))
    iterations = sum(stage.num_epochs / stage.mean_multiple for stage in stages)
    assert 239 / iterations == pytest.approx(3.42, abs=0.005)
    long = load_recipe(
        TrainRecipe, ROOT / "train" / "recipes" / "slowfast_multigrid_k400.toml", ["multigrid.cycles=long"]
    )
    ends = [87, 130, 152, 162, 218, 245, 259, 266, 305, 324, 334, 339, 358]
    assert [stage.end_epoch for stage in long.schedule.stages] == ends


# --- By hand ---


def test_a_small_long_cycle_by_hand() -> None:
    """Batches times 2 and 1, nine epochs, one decay at six.

    4 and 2 epochs before it, which are 2 and 2 in iterations instead of 6: the last three are shortened by 1.5 to 2.
    Eight in all, stretched to nine: 4.5, 6.75 and 9, rounded half to even.
    """
    schedule = multigrid_schedule(
        8, 64, 9, [6], 0.1, cycles="long", epoch_factor=1.0, factors=Factors(((0.5, 1.0), (1.0, 1.0)), (0.5, 0.7))
    )
    small, full = Shape(2, 4, 64), Shape(1, 8, 64)
    assert schedule.stages == (Stage(0, 4, (small,)), Stage(4, 7, (full,)), Stage(7, 9, (full,)))
    assert schedule.rates == ((0, 2.0), (4, 1.0), (7, 1.0), (8, 0.1))
    assert [schedule.rates_of(stage) for stage in schedule.stages] == [[2.0], [1.0], [1.0, 0.1]]
    assert schedule.stage_of(6) is schedule.stages[1]
    assert schedule.stage_of(7) is schedule.stages[2]


def test_no_cycle_is_one_stage() -> None:
    schedule = plain_schedule(8, 64, 9, [2.5, 6], 0.5)
    assert schedule == Schedule((Stage(0, 9, (Shape(1, 8, 64),)),), ((0, 1.0), (2.5, 0.5), (6, 0.25)))
    assert all(schedule.is_evaluated(epoch, 0) for epoch in range(9))


def test_when_it_is_evaluated() -> None:
    """A stage of ten epochs: every 10 // 3 + 1 = 4, counted from its last."""
    schedule = Schedule((Stage(0, 10, (Shape(1, 1, 16),)), Stage(10, 11, (Shape(1, 1, 16),))), ((0, 1.0),))
    assert [epoch for epoch in range(11) if schedule.is_evaluated(epoch, 3)] == [1, 5, 9, 10]
    assert [epoch for epoch in range(11) if schedule.is_evaluated(epoch, 1)] == [9, 10]


def test_how_batch_norms_are_grouped() -> None:
    """Rounded down, as the references; and where that does not divide, the next smaller number."""
    assert [num_groups(clips, 8) for clips in (1, 7, 8, 15, 16, 64)] == [1, 1, 1, 1, 2, 8]
    assert [num_groups(clips, 8) for clips in (28, 20, 26, 29)] == [2, 2, 2, 1]


# --- For all ---

sizes_st = st.lists(st.integers(1, 50), min_size=1, max_size=3)


@given(st.integers(0, 2000), sizes_st)
def test_an_epoch_ends_with_the_first_batch_that_is_not_whole(num_samples: int, sizes: list[int]) -> None:
    steps, left = 0, num_samples
    while sizes[steps % len(sizes)] <= left:
        left -= sizes[steps % len(sizes)]
        steps += 1
    assert num_steps(num_samples, sizes) == steps


@given(
    num_epochs=st.integers(4, 300),
    places=st.sets(st.integers(1, 299), min_size=1, max_size=4),
    cycles=st.sampled_from(("long", "both")),
    epoch_factor=st.floats(0.3, 4),
    num_frames=st.sampled_from((8, 16, 32, 64)),
    crop_px=st.integers(48, 320),
)
def test_all_epochs_are_in_one_stage(
    num_epochs: int, places: set[int], cycles: str, epoch_factor: float, num_frames: int, crop_px: int
) -> None:
    decays = sorted(place for place in places if place < num_epochs)
    assume(decays)
    schedule = multigrid_schedule(
        num_frames,
        crop_px,
        num_epochs,
        decays,
        0.1,
        cycles=cycles,
        epoch_factor=epoch_factor,
        factors=Factors(((0.25, 0.7071), (0.5, 0.7071), (0.5, 1.0), (1.0, 1.0)), (0.5, 0.7071)),
    )
    assert abs(schedule.num_epochs - num_epochs * epoch_factor) <= 0.5 + 1e-6
    assert len(schedule.stages) == 4 * len(decays) + 1
    assert schedule.stages[0].first_epoch == 0
    for stage, after in zip(schedule.stages, schedule.stages[1:], strict=False):
        assert stage.end_epoch == after.first_epoch
    epochs = [epoch for epoch, _ in schedule.rates]
    assert epochs == sorted(epochs)
    pixels = num_frames * crop_px**2
    for stage in schedule.stages:
        for shape in stage.shapes:
            assert shape.multiple * shape.num_frames * shape.crop_px**2 == pytest.approx(pixels, rel=0.2)
    for epoch in range(schedule.num_epochs):
        stage = schedule.stage_of(epoch)
        assert stage.first_epoch <= epoch < stage.end_epoch
    if schedule.num_epochs:
        assert schedule.is_evaluated(schedule.num_epochs - 1, 3)


@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 64))
def test_clips_of_fewer_frames_span_no_more_time(interval: int, base: int, num_frames: int) -> None:
    num_frames = min(num_frames, base)
    longest = longest_interval(interval, num_frames, base)
    assert longest % interval == 0
    assert longest * num_frames <= interval * base < (longest + interval) * num_frames


@given(st.integers(1, 500), st.integers(1, 40))
def test_groups_divide_the_clips_and_are_not_too_small(num_clips: int, norm_size: int) -> None:
    groups = num_groups(num_clips, norm_size)
    assert num_clips % groups == 0
    assert groups == 1 or num_clips // groups >= norm_size
    if num_clips % norm_size == 0:
        assert Fraction(num_clips, groups) == norm_size


# --- Recipes ---

LONG = ("multigrid.cycles=long", "optimizer.schedule=step", "optimizer.decay_epochs=4, 8")


def refusal(*overrides: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_recipe(TrainRecipe, None, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("multigrid.cycles=on", "multigrid.cycles is one of off, short, long, both, not 'on'"),
        ("multigrid.epoch_factor=0", "multigrid.epoch_factor is in (0, 1000], not 0.0"),
        ("multigrid.norm_size=0", "multigrid.norm_size is at least 1, not 0"),
        ("multigrid.evals_per_stage=-1", "multigrid.evals_per_stage is at least 0, not -1"),
        (
            "multigrid.time_factors=1, 2",
            "multigrid.time_factors is a list of shares in (0, 1], such as '0.5, 0.7071', not '1, 2'",
        ),
        (
            "multigrid.space_factors=",
            "multigrid.space_factors is a list of shares in (0, 1], such as '0.5, 0.7071', not ''",
        ),
        (
            "multigrid.time_factors=1",
            "multigrid.time_factors and multigrid.space_factors are as many and end with 1, not '1' and "
            "'0.7071, 0.7071, 1, 1'",
        ),
        (
            "multigrid.short_factors=0.5",
            "multigrid.short_factors is a list of two, such as '0.5, 0.7071', not '0.5'",
        ),
    ],
)
def test_values_out_of_range(override: str, message: str) -> None:
    assert refusal(override) == message


def test_schedules_that_cannot_be() -> None:
    message = (
        "multigrid.cycles={} goes through its shapes before each of optimizer.decay_epochs: it needs "
        "optimizer.schedule=step and some of them, all before optimizer.num_epochs"
    )
    assert refusal("multigrid.cycles=long") == message.format("long")
    assert refusal("multigrid.cycles=both", "optimizer.schedule=step") == message.format("both")
    assert refusal(*LONG[:2], "optimizer.decay_epochs=4, 10") == message.format("long")
    message = "multigrid.epoch_factor=0.01 leaves no epoch to train"
    assert refusal(*LONG, "multigrid.epoch_factor=0.01") == message
    assert refusal("multigrid.cycles=short", "multigrid.epoch_factor=0.01") == message
    message = "multigrid.cycles=long has no clips of 0 frames and 158 px: use other factors, or larger clips"
    assert refusal(*LONG, "clip.num_frames=2") == message
    message = (
        "multigrid.cycles=long has clips of 2 frames and 158 px, and slowfast_tiny takes frames in multiples of 4, and "
        "at least 16 px: use other factors, or larger clips"
    )
    assert refusal(*LONG, "model.name=slowfast_tiny") == message
    assert "has clips of 8 frames and 15 px" in refusal("multigrid.cycles=short", "clip.crop_px=30")
    assert load_recipe(TrainRecipe, None, [*LONG, "clip.num_frames=4"]).schedule.num_epochs == 15


def test_a_cosine_goes_with_the_short_cycle() -> None:
    recipe = load_recipe(TrainRecipe, None, ["multigrid.cycles=short", "optimizer.num_warmup_epochs=0"])
    assert recipe.schedule.num_epochs == 15
    peak = recipe.optimizer.learning_rate
    found = [rate_at(recipe.optimizer, recipe.schedule, epoch, 0.0) for epoch in (0, 5, 7.5)]
    assert found == pytest.approx([peak, peak * (1 + math.cos(math.pi / 3)) / 2, peak / 2])


def test_what_a_recipe_makes_of_it() -> None:
    """Steps and shapes, by hand: 112 videos in batches of 4 times 16, 8, 8 are two steps, times 4, 2, 1 twelve."""
    recipe = load_recipe(TrainRecipe, ROOT / "train" / "recipes" / "demo_multigrid.toml", [])
    first, last = recipe.schedule.stages[0], recipe.schedule.stages[-1]
    assert [shape.multiple for shape in (*first.shapes, *last.shapes)] == [16, 8, 8, 4, 2, 1]
    assert recipe.steps_per_epoch(first, 112) == 2
    assert recipe.steps_per_epoch(last, 112) == 12
    total = sum(stage.num_epochs * recipe.steps_per_epoch(stage, 112) for stage in recipe.schedule.stages)
    assert recipe.num_steps(112) == total
    assert recipe.part_shapes[:2] == [(64, 2, 28), (32, 2, 40)]
    assert recipe.largest_batch_bytes == max(clips * frames * side**2 * 3 for clips, frames, side in recipe.part_shapes)
    assert [recipe.norm_groups(multiple) for multiple in (16, 8, 1)] == [16, 8, 1]
    plain = load_recipe(TrainRecipe, ROOT / "train" / "recipes" / "demo_multigrid.toml", ["multigrid.cycles=off"])
    assert (plain.part_shapes, plain.norm_groups(1), plain.num_steps(112)) == ([(4, 8, 56)], 1, 48 * 28)
