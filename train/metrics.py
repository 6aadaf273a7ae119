"""Accuracy, exactly: over every video once.

Arrays: scores_NK float32, labels_N int64, counts_KK int64.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Shares in [0, 1] over `num_videos`. `mean_class` averages the shares of the classes that have videos."""

    num_videos: int
    top1: float
    top5: float
    mean_class: float


def measure_accuracy(scores_NK: npt.NDArray[np.float32], labels_N: npt.NDArray[np.int64]) -> Accuracy:
    """A video counts as right in top k if fewer than k classes score higher than its own, ties going against it."""
    own_N1 = np.take_along_axis(scores_NK, labels_N[:, None], axis=1)
    rank_N = (~(scores_NK < own_N1)).sum(axis=1) - 1  # a score that is no number beats every other
    right_N = rank_N == 0
    shares = [right_N[labels_N == label].mean() for label in np.unique(labels_N)]
    return Accuracy(
        num_videos=len(labels_N),
        top1=float(right_N.mean()),
        top5=float((rank_N < 5).mean()),
        mean_class=float(np.mean(shares)),
    )


def count_confusions(scores_NK: npt.NDArray[np.float32], labels_N: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """counts_KK: how many videos of the class of the row were taken for that of the column, the first of the best."""
    num_classes = scores_NK.shape[1]
    counts_KK = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(counts_KK, (labels_N, scores_NK.argmax(axis=1)), 1)
    return counts_KK
