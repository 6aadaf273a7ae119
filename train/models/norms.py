"""Batch norms that see a batch in groups, for batches that grow while the noise of their statistics should not.

Wu et al., A Multigrid Method for Efficiently Training Video Models, CVPR 2020, normalise so: each group of clips by its
own statistics, with weights and biases in common, as if they were separate small batches. The grouping is a value that
may change at every step, and leaves nothing in the layer's state: running statistics are those of the whole batch, by
the law of total variance (mean of means; mean of variances plus variance of means), which is the rule by which
PySlowFast aggregates its groups (slowfast/models/batchnorm_helper.py). There each group has running statistics of its
own, aggregated at the end: after one step that is the same, later the variance of means is here that of single batches.

Arrays: x_BC... with B = N clips, times T frames where they are pictures, frames of a clip next to each other; group j
has the N / groups clips after the first j * N / groups.
"""

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional

NORMS = (nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D)
"""All kinds there are, ours included."""


class _Grouped:
    """num_groups: of the clips of a batch in training; it divides their number."""

    num_groups = 1


class BatchNorm2D(_Grouped, nn.BatchNorm2D):
    """Of pictures x_BCHW."""

    def forward(self, x_BCHW: paddle.Tensor) -> paddle.Tensor:
        return _forward(self, x_BCHW)


class BatchNorm3D(_Grouped, nn.BatchNorm3D):
    """Of clips x_NCTHW."""

    def forward(self, x_NCTHW: paddle.Tensor) -> paddle.Tensor:
        return _forward(self, x_NCTHW)


def set_groups(model: nn.Layer, num_groups: int) -> None:
    """Let the batch norms of a model see the next batches in so many groups."""
    for layer in model.sublayers():
        if isinstance(layer, _Grouped):
            layer.num_groups = num_groups


def _forward(norm: Any, x: paddle.Tensor) -> paddle.Tensor:
    """Without `super().forward`: PaddlePaddle's export cannot convert that."""
    if norm.training and norm.num_groups > 1:
        return _normalise_in_groups(norm, x)
    return _normalise(norm, x, norm._mean, norm._variance, norm._momentum)


def _normalise(
    norm: Any, x: paddle.Tensor, mean_C: paddle.Tensor, variance_C: paddle.Tensor, momentum: float
) -> paddle.Tensor:
    return functional.batch_norm(
        x,
        mean_C,
        variance_C,
        norm.weight,
        norm.bias,
        training=norm.training,
        momentum=momentum,
        epsilon=norm._epsilon,
        data_format=norm._data_format,
    )


def _normalise_in_groups(norm: Any, x: paddle.Tensor) -> paddle.Tensor:
    """Piece by piece: on a CPU as fast as the whole, where turning groups into channels takes ten times as long."""
    normalised, statistics = [], []
    for piece in paddle.split(x, norm.num_groups):
        mean_C, variance_C = paddle.zeros_like(norm._mean), paddle.zeros_like(norm._variance)
        normalised.append(_normalise(norm, piece, mean_C, variance_C, 0.0))  # what stays is of this piece alone
        statistics.append((mean_C, variance_C))
    means_GC, variances_GC = (paddle.stack(found) for found in zip(*statistics, strict=True))
    _keep_statistics(norm, means_GC, variances_GC)
    return paddle.concat(normalised)


@paddle.no_grad()
def _keep_statistics(norm: Any, means_GC: paddle.Tensor, variances_GC: paddle.Tensor) -> None:
    mean_C = means_GC.mean(0)
    variance_C = variances_GC.mean(0) + (means_GC - mean_C).square().mean(0)
    for running_C, value_C in ((norm._mean, mean_C), (norm._variance, variance_C)):
        running_C.set_value(norm._momentum * running_C + (1 - norm._momentum) * value_C)
