"""What the training process does with a batch, for comparison with what reading it takes.

Arrays: clips_NTHWC uint8 RGB.
"""

from collections.abc import Callable

import numpy as np
import paddle
from paddle.nn import functional
from paddle.utils import unique_name

from train.device import normalise
from train.models import build_model
from train.recipe import TrainRecipe

_NUM_CLASSES = 101


def training_step(recipe: TrainRecipe) -> Callable[[paddle.Tensor], None]:
    """Forward and backward of the model of a recipe, and the optimiser's step, on clips_NTHWC."""
    with unique_name.guard():
        model = build_model(recipe.model, _NUM_CLASSES)
        optimizer = paddle.optimizer.Momentum(
            learning_rate=1e-4, momentum=recipe.optimizer.momentum, use_nesterov=True, parameters=model.parameters()
        )
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
