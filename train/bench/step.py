"""What the training process does with a batch, for comparison with what reading it takes.

Arrays: clips_NTHWC uint8 RGB.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import paddle
from paddle.nn import functional
from paddle.utils import unique_name

from train.device import normalise
from train.models import build_model
from train.optimising import build_optimizer
from train.recipe import TrainRecipe

_NUM_CLASSES = 101
_RATE = 1e-4
"""So that the same clips over and over lead nowhere that numbers are slow."""


def training_step(recipe: TrainRecipe) -> Callable[[paddle.Tensor], None]:
    """Forward and backward of the model of a recipe, and its optimiser's step, on clips_NTHWC, in one part: without
    clipping, mixing and mixed precision."""
    with unique_name.guard():
        model = build_model(recipe.model, _NUM_CLASSES)
        optimizer = build_optimizer(model, replace(recipe.optimizer, learning_rate=_RATE))
    model.train()

    def step(clips_NTHWC: paddle.Tensor) -> None:
        labels_N = paddle.to_tensor(np.arange(len(clips_NTHWC)) % _NUM_CLASSES)
        loss = functional.cross_entropy(model(normalise(clips_NTHWC, recipe.normalisation)), labels_N)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        float(loss)

    return step


def to_device(recipe: TrainRecipe) -> Callable[[paddle.Tensor], None]:
    """Only what it does before the model: clips_NTHWC to the device, to float32, normalised, channels first."""

    def step(clips_NTHWC: paddle.Tensor) -> None:
        normalise(clips_NTHWC, recipe.normalisation)

    return step
