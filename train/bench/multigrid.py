"""Training a recipe without cycles, with the short, the long and both, one after the other: time, steps, accuracy.

Each row is a run of `train fit` from its first step to its last, so this takes as long as they do.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from manifests.command import print_result, say
from manifests.dataset import open_dataset
from manifests.description import DESCRIPTION_FILE, read_description
from manifests.errors import Error, UsageError
from manifests.recipe import load_recipe
from manifests.table import table_lines
from train.bench.data import run_prep
from train.bench.machine import machine_line
from train.recipe import TrainRecipe, recipe_file, require_a_batch
from train.schedules import CYCLES
from train.setting_up import TRAINING_SUBSETS, first_of

DEFAULT_RECIPE = "demo_multigrid"
FULL_DECODE = "both, JPEGs decoded at full size"


def run(arguments: argparse.Namespace) -> int:
    recipe = load_recipe(
        TrainRecipe, recipe_file(arguments.recipe or DEFAULT_RECIPE), [*arguments.set, "multigrid.cycles=both"]
    )
    with (
        _data(arguments.data, recipe) as (data, note),
        tempfile.TemporaryDirectory(prefix="decode-once-bench-") as folder,
    ):
        rows = []
        for name in (*CYCLES, FULL_DECODE):
            cycles = name if name in CYCLES else "both"
            say(arguments, f"{note}: training with multigrid.cycles={cycles}, run {len(rows) + 1} of {len(CYCLES) + 1}")
            settings = [f"multigrid.cycles={cycles}", "run.log_every_steps=1"]
            settings += ["clip.max_enlargement=0"] if name == FULL_DECODE else []
            rows.append({"row": name, **_fit(arguments, data, Path(folder) / str(len(rows)), settings)})
    for row in rows:
        row["x_plain"] = rows[0]["total_s"] / row["total_s"]
        row["x_fewer_steps"] = rows[0]["num_steps"] / row["num_steps"]
    table = {
        "machine": machine_line(),
        "data": note,
        "model": recipe.model.name,
        "plain_num_epochs": recipe.optimizer.num_epochs,
        "rows": rows,
    }
    print_result(arguments, table, _lines(table))
    return 0


@contextmanager
def _data(data: Path | None, recipe: TrainRecipe) -> Iterator[tuple[Path, str]]:
    """A prepared dataset that fills the largest batch of `recipe`, or the synthetic one. Raises UsageError."""
    if data is not None:
        if not (data / DESCRIPTION_FILE).exists():
            raise UsageError(f"{data} is no prepared dataset: train bench multigrid trains on one, or on none given")
        with open_dataset(data) as dataset:  # else it shows in the fourth run
            subset = first_of(TRAINING_SUBSETS, list(read_description(data).subsets), "train fit --train-subset")
            require_a_batch(recipe, len(dataset.rows(subset)), subset)
        yield data, str(data)
        return
    with tempfile.TemporaryDirectory(prefix="decode-once-bench-") as name:
        videos, folder = Path(name) / "videos", Path(name) / "data"
        run_prep("synth", videos, "--quiet")
        run_prep("extract", videos, "--dataset", "ucf101", "--out", folder, "--quiet")
        yield folder, "the synthetic set of prep synth"


def _fit(arguments: argparse.Namespace, data: Path, run: Path, settings: list[str]) -> dict[str, Any]:
    """One run, in a process of its own. Raises Error, or UsageError, with what it has to say."""
    overrides = [word for setting in [*arguments.set, *settings] for word in ("--set", setting)]
    recipe = recipe_file(arguments.recipe or DEFAULT_RECIPE)
    command = ["fit", "--data", data, "--recipe", recipe, "--out", run, *overrides, "--json", "--quiet"]
    started_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "train", *map(str, command)], capture_output=True, text=True, check=False
    )
    total_s = time.monotonic() - started_s
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        kind = UsageError if done.returncode == UsageError.exit_code else Error
        raise kind(f"a run ended early: {said}")
    fitted = json.loads(done.stdout)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [line for line in lines if line["kind"] == "train"]
    stages = [line for line in lines if line["kind"] == "stage"]
    steps_s = sum(stage["seconds"] for stage in stages)
    return {
        "num_epochs": fitted["epochs"],
        "num_steps": fitted["steps"],
        "num_clips": sum(step["batch_size"] for step in steps),
        "epoch_s": steps_s / fitted["epochs"],
        "steps_s": steps_s,
        "total_s": total_s,
        "top1": fitted["top1"],
        "best_top1": fitted["best_top1"],
        "shapes": _shapes(steps),
        "stages": [
            {
                key: stage[key]
                for key in ("epoch", "multiple", "num_frames", "crop_px", "seconds", "clips_per_s", "data_wait_share")
            }
            for stage in stages
        ],
    }


def _shapes(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The median step of each shape, the largest clips first."""
    found: dict[tuple[int, int, int], list[float]] = {}
    for step in steps:
        shape = step["batch_size"], step["num_frames"], step["crop_px"]
        found.setdefault(shape, []).append((1 - step["data_wait_share"]) * step["batch_size"] / step["clips_per_s"])
    ordered = sorted(found.items(), key=lambda item: (-item[0][1] * item[0][2] ** 2, item[0][0]))
    (clips, frames, side), first = ordered[0]
    pixels, first_s = clips * frames * side**2, median(first)
    return [
        {
            "batch_size": clips,
            "num_frames": frames,
            "crop_px": side,
            "num_steps": len(seconds),
            "step_s": median(seconds),
            "x_pixels": clips * frames * side**2 / pixels,
            "x_step": median(seconds) / first_s,
        }
        for (clips, frames, side), seconds in ordered
    ]


def _lines(table: dict[str, Any]) -> list[str]:
    rows = table["rows"]
    both, full = rows[CYCLES.index("both")], rows[-1]
    return [
        table["machine"],
        f"{table['data']}; {table['model']}; {table['plain_num_epochs']} epochs without cycles",
        "",
        *table_lines(
            ["cycles", "epochs", "steps", "clips", "an epoch", "steps in all", "whole run", "x plain", "top-1"],
            [
                [
                    row["row"],
                    f"{row['num_epochs']}",
                    f"{row['num_steps']:,}",
                    f"{row['num_clips']:,}",
                    f"{row['epoch_s']:.2f} s",
                    f"{row['steps_s']:.1f} s",
                    f"{row['total_s']:.1f} s",
                    f"{row['x_plain']:.2f}",
                    f"{row['top1']:.1%}",
                ]
                for row in rows
            ],
        ),
        "",
        "a whole run has evaluations, checkpoints and the start of the program besides its steps",
        "",
        *table_lines(
            ["both: clips x frames x px", "steps", "a step without waiting", "pixels x largest", "time x largest"],
            [
                [
                    f"{shape['batch_size']} x {shape['num_frames']} x {shape['crop_px']}",
                    f"{shape['num_steps']:,}",
                    f"{shape['step_s'] * 1000:.1f} ms",
                    f"{shape['x_pixels']:.2f}",
                    f"{shape['x_step']:.2f}",
                ]
                for shape in both["shapes"]
            ],
        ),
        "",
        *table_lines(
            ["both: up to epoch", "frames x px", "steps of the stage", "waiting for data", "decoded at full size"],
            [
                [
                    f"{stage['epoch']}",
                    f"{stage['num_frames']} x {stage['crop_px']}",
                    f"{stage['seconds']:.1f} s",
                    _percent(stage["data_wait_share"]),
                    _percent(other["data_wait_share"]),
                ]
                for stage, other in zip(both["stages"], full["stages"], strict=True)
            ],
        ),
        "",
        f"without cycles {_percent(rows[0]['stages'][0]['data_wait_share'])} of the time of steps are spent waiting",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
