"""Accuracy against counting by hand.

Arrays: scores_NK float32, labels_N int64.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.metrics import Accuracy, measure_accuracy


def counted(scores: list[list[float]], labels: list[int]) -> Accuracy:
    """One video at a time: whoever scores as high as the true class stands before it."""
    top1, top5 = [], []
    by_class: dict[int, list[bool]] = defaultdict(list)
    for row, label in zip(scores, labels, strict=True):
        before = [other for other, score in enumerate(row) if other != label and score >= row[label]]
        top1.append(not before)
        top5.append(len(before) < 5)
        by_class[label].append(not before)
    class_shares = [sum(right) / len(right) for right in by_class.values()]
    return Accuracy(
        num_videos=len(labels),
        top1=sum(top1) / len(top1),
        top5=sum(top5) / len(top5),
        mean_class=sum(class_shares) / len(class_shares),
    )


def arrays(scores: list[list[float]], labels: list[int]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    return np.array(scores, np.float32), np.array(labels, np.int64)


@st.composite
def scored(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    """Few different scores, so that there are many ties."""
    num_videos, num_classes = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    row = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=num_classes, max_size=num_classes)
    scores = draw(st.lists(row, min_size=num_videos, max_size=num_videos))
    labels = draw(st.lists(st.integers(0, num_classes - 1), min_size=num_videos, max_size=num_videos))
    return scores, labels


@given(scored())
def test_as_counted_by_hand(case: tuple[list[list[float]], list[int]]) -> None:
    found, expected = measure_accuracy(*arrays(*case)), counted(*case)
    assert (found.num_videos, found.top1, found.top5) == (expected.num_videos, expected.top1, expected.top5)
    assert found.mean_class == pytest.approx(expected.mean_class, abs=1e-12)


def test_known_numbers() -> None:
    scores = [[9, 1, 0, 0, 0, 0, 0], [2, 1, 3, 4, 5, 6, 0], [1, 5, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 7]]
    found = measure_accuracy(*arrays(scores, [0, 0, 0, 6]))
    assert found == Accuracy(num_videos=4, top1=0.5, top5=1.0, mean_class=pytest.approx((1 / 3 + 1) / 2))


def test_ties_go_against_the_true_class() -> None:
    assert measure_accuracy(*arrays([[1.0] * 6] * 3, [0, 3, 5])) == Accuracy(
        num_videos=3, top1=0.0, top5=0.0, mean_class=0.0
    )
    assert measure_accuracy(*arrays([[1.0] * 5] * 3, [0, 3, 4])).top5 == 1.0


def test_scores_that_are_no_numbers_are_wrong() -> None:
    nothing = Accuracy(num_videos=2, top1=0.0, top5=0.0, mean_class=0.0)
    assert measure_accuracy(*arrays([[np.nan] * 8] * 2, [0, 7])) == nothing


def test_results_are_plain_numbers() -> None:
    found: dict[str, Any] = vars(measure_accuracy(*arrays([[0.0, 1.0]], [1])))
    assert {name: type(value) for name, value in found.items()} == {
        "num_videos": int,
        "top1": float,
        "top5": float,
        "mean_class": float,
    }
