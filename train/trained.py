"""A model with the weights of a checkpoint, as evaluations use it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paddle

from manifests.errors import DamagedError, UsageError
from manifests.recipe import recipe_with_overrides
from train.checkpoint import State, find_checkpoint, load_checkpoint
from train.models import build_model
from train.recipe import TrainRecipe

_MAY_CHANGE = ("views.", "loader.", "run.")


@dataclass(frozen=True)
class Trained:
    """`path` is the checkpoint's; `recipe` is its own with what the user changed of it."""

    path: Path
    state: State
    recipe: TrainRecipe
    model: paddle.nn.Layer


def load_trained(run_or_checkpoint: Path, overrides: Sequence[str] = ()) -> Trained:
    """The best checkpoint of a run, or a file. Unpickles: only load files that you trust.

    Raises UsageError where there is none, or an override is of another key than views.*, loader.* and run.*;
    DamagedError where it is no checkpoint.
    """
    path = find_checkpoint(run_or_checkpoint)
    checkpoint = load_checkpoint(path)
    recipe = _with_overrides(checkpoint.state.recipe, overrides)
    model = build_model(recipe.model, len(checkpoint.state.classes), recipe.window_px)
    restore(model, checkpoint.scored, path)
    model.eval()
    return Trained(path, checkpoint.state, recipe, model)


def restore(model: paddle.nn.Layer, weights: dict[str, Any], path: Path) -> None:
    """Raises DamagedError where weights are missing or do not fit; Paddle alone only warns."""
    missing, unexpected = model.set_state_dict(weights)
    if missing or unexpected:
        raise DamagedError(f"{path} does not fit the model: {[*missing, *unexpected][0]} is missing or left over")


def _with_overrides(table: dict[str, Any], overrides: Sequence[str]) -> TrainRecipe:
    others = [override for override in overrides if not override.startswith(_MAY_CHANGE)]
    if others:
        raise UsageError(f"an evaluation takes --set for views.*, loader.* and run.* only, not {others[0]!r}")
    return recipe_with_overrides(TrainRecipe, table, overrides)
