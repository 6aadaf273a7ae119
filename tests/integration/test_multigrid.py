"""Runs whose batches vary in shape: what they log, and that a run killed anywhere goes on as if it had not been."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import Prep
from training_runs import assert_nothing_left, assert_same_run, end, fit, fit_arguments, metrics_of, start, wait_for

from train.checkpoint import load_checkpoint

NUM_KILLS = max(2, int(os.environ.get("DECODE_ONCE_KILLS", "6")) // 3)

SETTINGS = {
    "clip__num_frames": 4,
    "clip__crop_px": 40,
    "optimizer__batch_size": 2,
    "optimizer__num_parts": 2,
    "optimizer__num_epochs": 4,
    "optimizer__schedule": "step",
    "optimizer__decay_epochs": "2",
    "optimizer__num_warmup_epochs": 0.5,
    "multigrid__cycles": "both",
    "multigrid__time_factors": "0.5, 1",
    "multigrid__space_factors": "1, 1",
    "multigrid__norm_size": 1,
    "multigrid__epoch_factor": 1.25,
    "multigrid__short_factors": "0.7071, 0.7071",
    "average__precise_bn_batches": 2,
    "loader__num_workers": 0,
}

LARGE, SMALL = [(8, 2, 28), (8, 2, 28)], [(4, 4, 28), (4, 4, 28), (2, 4, 40), (4, 4, 28)]
STAGES = [(0, 2, LARGE), (2, 3, SMALL), (3, 5, SMALL)]
"""First and last epoch, and the batches that 16 videos make in each: what is left does not fill the next one."""


def arguments_of(data: Path, run: Path, **more: object) -> list[str]:
    return [*fit_arguments(data, run, **{**SETTINGS, **more}), "--train-subset", "all"]


@pytest.fixture(scope="module")
def whole(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped."""
    run = tmp_path_factory.mktemp("whole") / "run"
    code, stderr = end(start(arguments_of(prepared["arrow"], run)))
    assert (code, stderr) == (0, "")
    return run


def test_every_step_has_the_shape_of_the_schedule(whole: Path) -> None:
    """In a log that names it; and each stage says at its end how long it took and how much of that it waited."""
    lines = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "train"]
    found = [(step["epoch"], (step["batch_size"], step["num_frames"], step["crop_px"])) for step in steps]
    assert found == [
        (epoch, shape) for first, last, shapes in STAGES for epoch in range(first, last) for shape in shapes
    ]
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    # Twice the base rate in the first stage, after a warm-up of half an epoch, which is its first step.
    assert [step["learning_rate"] for step in steps] == pytest.approx([*[0.1] * 4, *[0.05] * 8, *[0.005] * 4])
    stages = [line for line in lines if line["kind"] == "stage"]
    assert [(stage["epoch"], stage["multiple"], stage["num_frames"], stage["crop_px"]) for stage in stages] == [
        *((2, 2, 2, 40), (3, 1, 4, 40), (5, 1, 4, 40))
    ]
    for stage in stages:
        assert stage["seconds"] > 0
        assert 0 <= stage["data_wait_share"] <= 1
        assert stage["clips_per_s"] > 0
    assert [line["epoch"] for line in lines if line["kind"] == "eval"] == [1, 2, 3, 4, 5]


def test_killed_anywhere_and_resumed(prepared: dict[str, Path], whole: Path, tmp_path: Path) -> None:
    """By SIGKILL after random steps, with a checkpoint after every step: the same metrics, weights and velocities.

    Kills fall inside stages, inside short cycles and at their ends. DECODE_ONCE_KILLS makes them more.
    """
    chance = random.Random(NUM_KILLS)
    num_steps = max(line["step"] for line in metrics_of(whole))
    hits: set[tuple[int, int]] = set()
    for number in range(NUM_KILLS):
        run = tmp_path / str(number)
        step = chance.randrange(1, num_steps)
        process = start(arguments_of(prepared["arrow"], run, run__checkpoint_every_s=0.0001))
        wait_for(lambda run=run, step=step: any(line["step"] >= step for line in metrics_of(run)), process)
        os.killpg(process.pid, signal.SIGKILL)
        assert end(process, 10)[0] == -signal.SIGKILL
        assert_nothing_left(run)
        if (run / "last.ckpt").exists():
            state = load_checkpoint(run / "last.ckpt").state
            hits.add((state.epoch, state.step_in_epoch))
        code, stderr = end(start(arguments_of(prepared["arrow"], run, loader__num_workers=number % 2)))
        assert (code, stderr) == (0, "")
        assert_same_run(run, whole)
    assert hits, "no kill has hit a run with a checkpoint: the test shows nothing"


def test_a_step_that_the_videos_do_not_fill(prepared: dict[str, Path], tmp_path: Path) -> None:
    code, stderr = fit(prepared["arrow"], tmp_path / "run", **{**SETTINGS, "optimizer__batch_size": 4})
    assert code == 2
    expected = "subset 'train01' has 8 videos, fewer than optimizer.batch_size=4 times 4 (multigrid.cycles=both)"
    assert expected in stderr


def test_another_schedule_is_another_run(prepared: dict[str, Path], whole: Path) -> None:
    code, stderr = end(start(arguments_of(prepared["arrow"], whole, multigrid__norm_size=2)))
    assert code == 2
    assert "was begun with multigrid.norm_size 1, not 2: use the same recipe or another --out" in stderr


def test_a_plan_leaves_out_stages_without_an_epoch(train: Prep) -> None:
    """A decay so early that rounding leaves shapes no epoch at all, which a run skips too."""
    done = train("plan", "--recipe", "demo_multigrid", "--set", "optimizer.decay_epochs=1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert [(stage["first_epoch"], stage["end_epoch"]) for stage in plan["stages"]] == [(0, 1), (1, 2), (2, 48)]
    assert {tuple(shape[1:]) for stage in plan["stages"] for shape in stage["shapes"]} == {
        (2, 28), (2, 40), (4, 28), (4, 40), (8, 28), (8, 40), (8, 56),
    }  # fmt: skip


def test_a_plan_shows_stages_and_what_they_save(train: Prep, prepared: dict[str, Path]) -> None:
    """Of the recipe for Kinetics, by relative numbers; of a dataset, in steps and clips."""
    overrides = [
        word
        for key, value in {**SETTINGS, "model__name": "tsm_tiny"}.items()
        for word in ("--set", f"{key.replace('__', '.')}={value}")
    ]
    flags = ("--recipe", "demo_tsm", *overrides, "--data", prepared["arrow"])
    plan: dict[str, Any] = json.loads(train("plan", *flags, "--json").stdout)
    assert (plan["num_steps"], plan["plain_num_steps"], plan["steps_per_epoch"]) == (8, 16, None)
    assert plan["fewer_steps"] == 2
    assert [stage["num_steps"] for stage in plan["stages"]] == [2, 2, 4]
    assert [stage["num_clips"] for stage in plan["stages"]] == [16, 8, 16]
    assert [stage["norm_groups"] for stage in plan["stages"]] == [[4, 4, 2], [2, 2, 1], [2, 2, 1]]
    assert plan["is_reading_measured"]
    assert all(stage["reading"] > 0 for stage in plan["stages"])
    assert plan["batch_bytes"] == max(4 * 2 * 28 * 28 * 3, 2 * 2 * 40 * 40 * 3, 2 * 4 * 28 * 28 * 3)
    text = train("plan", "--recipe", "demo_multigrid").stdout
    assert "64 x 2 x 28, 32 x 2 x 40, 32 x 2 x 40" in text
    assert "times fewer steps and" in text
    assert "estimated for frames of 340x256" in text
