"""Weights that are evaluated in place of the last ones: a moving average, and batch norms with precise statistics."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import paddle
from paddle import nn

from train.models.norms import NORMS
from train.ranks import Ranks


class MovingAverage:
    """Of all weights and running statistics of a model: average <- d * average + (1 - d) * weights after each step.

    d is `decay`, and less in the beginning, (1 + step) / (10 + step), so that the first weights are soon forgotten, as
    in TensorFlow's ExponentialMovingAverage with num_updates.
    """

    def __init__(self, model: nn.Layer, decay: float) -> None:
        self._decay = decay
        self.weights = {key: value.detach().astype("float32").clone() for key, value in model.state_dict().items()}

    def restore(self, weights: dict[str, Any]) -> None:
        for key, value in weights.items():
            self.weights[key].set_value(value)

    @paddle.no_grad()
    def update(self, model: nn.Layer, step: int) -> None:
        """After optimiser step `step`, counted from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        for key, value in model.state_dict().items():
            self.weights[key].scale_(decay)
            self.weights[key].add_(value.detach().astype("float32") * (1 - decay))

    @contextmanager
    def in_place(self, model: nn.Layer) -> Iterator[None]:
        """The model has the average inside; statistics that are set inside stay with the average."""
        own = model.state_dict()
        kept = {key: value.clone() for key, value in own.items()}
        try:
            for key, value in own.items():
                value.set_value(self.weights[key].astype(value.dtype))
            yield
            for key, value in _statistics(model).items():
                self.weights[key].set_value(value.astype("float32"))
        finally:
            for key, value in own.items():
                value.set_value(kept[key])


def _statistics(model: nn.Layer) -> dict[str, paddle.Tensor]:
    """Means and variances of all batch norms, by their keys in the state of the model."""
    norms = [(name, layer) for name, layer in model.named_sublayers() if isinstance(layer, NORMS)]
    return {f"{name}.{which}": getattr(layer, which) for name, layer in norms for which in ("_mean", "_variance")}


def running_statistics(model: nn.Layer) -> list[paddle.Tensor]:
    """Means and variances of all batch norms, which stay the same tensors as they change."""
    return list(_statistics(model).values())


@paddle.no_grad()
def set_precise_statistics(model: nn.Layer, batches: Iterator[paddle.Tensor], ranks: Ranks) -> None:
    """Let batch norms have the average of means and variances over `batches` (normalised clips) of all ranks.

    Peng et al., MegDet, CVPR 2018; Wu and Johnson, Rethinking "Batch" in BatchNorm, 2021. An exception leaves them as
    they were.
    """
    norms = [layer for layer in model.sublayers() if isinstance(layer, NORMS)]
    statistics = running_statistics(model)
    before = [statistic.clone() for statistic in statistics]
    momenta = [norm._momentum for norm in norms]
    sums: Sequence[paddle.Tensor] = [paddle.zeros_like(statistic) for statistic in statistics]
    num_batches = 0
    model.train()
    try:
        for norm in norms:
            norm._momentum = 0.0  # then a running statistic is that of the last batch
        for clips in batches:
            model(clips)
            num_batches += 1
            for total, statistic in zip(sums, statistics, strict=True):
                total.add_(statistic)
        ranks.average(sums)
    except BaseException:
        for statistic, value in zip(statistics, before, strict=True):
            statistic.set_value(value)
        raise
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm._momentum = momentum
    for statistic, total, value in zip(statistics, sums, before, strict=True):
        statistic.set_value(total / num_batches if num_batches else value)
