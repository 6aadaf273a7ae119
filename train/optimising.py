"""The optimiser of a recipe: which parameter has which rate and decay, its rate at a step, and the clipping.

Paddle's own clipping by global norm takes every group of parameters by itself; here all gradients have one norm.
"""

import math
from collections.abc import Iterable

import paddle
from paddle import nn

from train.models.norms import NORMS
from train.rates import cosine_with_warmup, steps_with_warmup
from train.recipe_of_learning import Optimizer
from train.schedules import Schedule


def build_optimizer(model: nn.Layer, settings: Optimizer) -> paddle.optimizer.Optimizer:
    """SGD with momentum over groups of parameters: those with and without decay, and the classifier's."""
    grouped: dict[tuple[float, float], list[paddle.Tensor]] = {}
    for parameter, rate, decay in parameter_groups(model, settings):
        grouped.setdefault((rate, decay), []).append(parameter)
    return paddle.optimizer.Momentum(
        learning_rate=settings.learning_rate,
        momentum=settings.momentum,
        use_nesterov=settings.nesterov,
        parameters=[
            {"params": parameters, "learning_rate": rate, "weight_decay": decay}
            for (rate, decay), parameters in grouped.items()
        ],
    )


def parameter_groups(model: nn.Layer, settings: Optimizer) -> list[tuple[paddle.Tensor, float, float]]:
    """(parameter, its rate as a multiple, its decay) for everything that is learned, in the order of the model.

    The classifier is the one fully connected layer, as in Lin et al., TSM, ICCV 2019.
    """
    groups = []
    for layer in model.sublayers(include_self=True):
        for name, parameter in layer.named_parameters(include_sublayers=False):
            if parameter.stop_gradient:  # running statistics
                continue
            is_bias = name == "bias"
            rate = 1.0
            if isinstance(layer, nn.Linear):
                rate = settings.head_bias_rate if is_bias else settings.head_rate
            is_decayed = settings.decay_norms or not (is_bias or isinstance(layer, NORMS))
            groups.append((parameter, rate, settings.weight_decay if is_decayed else 0.0))
    return groups


def rate_at(settings: Optimizer, schedule: Schedule, position: float, width: float) -> float:
    """The learning rate of an optimiser step, which is the same for all parts of its batch.

    It begins at `position`, in epochs, and is `width` of an epoch long.
    """
    if settings.schedule == "cosine":
        return cosine_with_warmup(
            position,
            width=width,
            end=schedule.num_epochs,
            warmup_end=settings.num_warmup_epochs,
            peak=settings.learning_rate,
            warmup_from=settings.warmup_from,
        )
    return steps_with_warmup(
        position,
        width=width,
        changes=[(epoch, multiple * settings.learning_rate) for epoch, multiple in schedule.rates],
        warmup_end=settings.num_warmup_epochs,
        warmup_from=settings.warmup_from,
    )


@paddle.no_grad()
def clip_gradients(parameters: Iterable[paddle.Tensor], max_norm: float) -> float:
    """Scale all gradients down to one norm over all of them (0: leave them); returns the norm that they had.

    Gradients whose norm is not finite are left.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = [gradient.astype("float32").square().sum() for gradient in gradients]
    norm = math.sqrt(float(paddle.stack(squares).sum()))
    if max_norm and max_norm < norm < math.inf:
        for gradient in gradients:
            gradient.scale_(max_norm / norm)
    return norm
