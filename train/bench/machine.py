"""What all tables say of the machine, and read of the flags."""

import argparse
import math
from pathlib import Path

import paddle

from manifests.errors import UsageError
from manifests.machine import usable_processors
from manifests.recipe import load_recipe
from manifests.wording import count
from train.recipe import TrainRecipe, recipe_file


def machine_line() -> str:
    """The processor as the kernel names it, how much of it may be used, and the device."""
    processors = usable_processors()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "processor")
    return (
        f"{name}, {count(processors.count, 'processor')} ({processors.reason}); Paddle {paddle.__version__} on "
        f"{paddle.get_device()}"
    )


def recipe_of(arguments: argparse.Namespace) -> TrainRecipe:
    """--recipe and --set, or the defaults. Raises UsageError."""
    return load_recipe(TrainRecipe, recipe_file(arguments.recipe) if arguments.recipe else None, arguments.set)


def require_seconds(seconds: float) -> None:
    """Raises UsageError for no time, or for one without end."""
    if not 0 < seconds < math.inf:
        raise UsageError(f"--seconds is above 0, not {seconds:g}")
