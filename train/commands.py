"""The commands that train nothing: train plan and train bench."""

import argparse
import dataclasses
import importlib

from manifests.command import print_result
from manifests.description import read_description
from manifests.errors import UsageError
from manifests.recipe import load_recipe
from train.recipe import TrainRecipe, recipe_file, require_a_batch
from train.setting_up import TRAINING_SUBSETS, first_of, require_paddle, share_processors


def plan(arguments: argparse.Namespace) -> int:
    """What a recipe will do and take."""
    recipe = load_recipe(TrainRecipe, recipe_file(arguments.recipe), arguments.set)
    training = None
    if arguments.data is not None:
        from train.dataset import ClipDataset

        subsets = list(read_description(arguments.data).subsets)
        subset = arguments.train_subset or first_of(TRAINING_SUBSETS, subsets, "--train-subset")
        training = ClipDataset(arguments.data, subset, recipe, training=True)
        require_a_batch(recipe, len(training), subset)
    require_paddle()
    from train.device import set_cpu_threads
    from train.plan import make_plan, plan_lines

    num_workers, num_threads = share_processors(recipe, 1)
    set_cpu_threads(num_threads)
    plan = make_plan(
        recipe,
        num_classes=400 if training is None else len(training.classes),
        num_workers=num_workers,
        training=training,
    )
    table = {
        **dataclasses.asdict(plan),
        **{name: getattr(plan, name) for name in ("memory_bytes", "fewer_steps", "less_work")},
    }
    print_result(arguments, table, plan_lines(plan))
    return 0


def bench(arguments: argparse.Namespace) -> int:
    """Measure one of the tables of train.bench."""
    if arguments.data is None and arguments.table not in ("ops", "multigrid"):
        raise UsageError(f"train bench {arguments.table} needs --data OUT, or videos: a source list or a folder")
    require_paddle()
    exit_code: int = importlib.import_module(f"train.bench.{arguments.table}").run(arguments)
    return exit_code
