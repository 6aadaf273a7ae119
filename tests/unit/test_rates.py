"""The learning rate over a run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.rates import cosine_with_warmup, steps_with_warmup


def rates(num_steps: int, num_warmup_steps: int, peak: float = 0.1) -> list[float]:
    return [
        cosine_with_warmup(step, width=1, end=num_steps, warmup_end=num_warmup_steps, peak=peak)
        for step in range(num_steps)
    ]


def test_the_warm_up_is_a_line() -> None:
    assert rates(20, 5)[:5] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1])


def test_known_values_of_the_cosine() -> None:
    found = rates(18, 6, peak=2.0)[6:]
    root2, root3 = math.sqrt(2), math.sqrt(3)
    assert found[:10] == pytest.approx(
        [
            *(2.0, 1 + (root2 + math.sqrt(6)) / 4, 1 + root3 / 2, 1 + root2 / 2, 1.5),
            *(1 + (math.sqrt(6) - root2) / 4, 1.0, 1 - (math.sqrt(6) - root2) / 4, 0.5, 1 - root2 / 2),
        ]
    )


def test_without_warm_up_it_starts_at_the_peak() -> None:
    assert rates(4, 0) == pytest.approx([0.1, 0.05 * (1 + math.sqrt(0.5)), 0.05, 0.05 * (1 - math.sqrt(0.5))])


@given(st.integers(1, 400), st.integers(0, 400), st.floats(1e-6, 10))
def test_up_to_the_peak_then_down_to_almost_nothing(num_steps: int, num_warmup_steps: int, peak: float) -> None:
    found = rates(num_steps, num_warmup_steps, peak)
    assert all(0 < rate <= peak * (1 + 1e-12) for rate in found)
    warm, cool = found[:num_warmup_steps], found[num_warmup_steps:]
    assert warm == sorted(warm)
    assert cool == sorted(cool, reverse=True)
    if cool:
        assert cool[0] == peak
        # One step before half a cosine over n steps ends: 1 - cos(pi / n) < (pi / n)^2 / 2.
        assert cool[-1] <= peak * (math.pi / len(cool)) ** 2 / 4 + 1e-12 or len(cool) == 1


def test_the_warm_up_may_be_the_whole_run() -> None:
    assert rates(3, 3) == pytest.approx([0.1 / 3, 0.2 / 3, 0.1])
    assert cosine_with_warmup(3, width=1, end=3, warmup_end=3, peak=0.1) == 0.1


def test_no_peak_is_no_rate() -> None:
    assert rates(5, 2, peak=0.0) == [0.0] * 5


def test_the_unit_does_not_matter() -> None:
    """Epochs of ten steps and of four, against one unit for all steps."""
    for num_steps in (4, 10):
        in_epochs = [
            cosine_with_warmup(step / num_steps, width=1 / num_steps, end=3, warmup_end=0.5, peak=2.0)
            for step in range(3 * num_steps)
        ]
        assert in_epochs == pytest.approx(rates(3 * num_steps, num_steps // 2, peak=2.0))


def test_a_warm_up_goes_to_the_rate_that_holds_at_its_end() -> None:
    """By hand: from 1 to the rate of 3 to 4, which is 7, however the rates before are."""
    changes = [(0.0, 100.0), (2.0, 50.0), (3.0, 7.0), (4.0, 5.0)]

    def rate(position: float, width: float = 0.0) -> float:
        return steps_with_warmup(position, width=width, changes=changes, warmup_end=3.0, warmup_from=1.0)

    assert [rate(position) for position in (0, 1, 2, 3, 3.99, 4, 9)] == [1, 3, 5, 7, 7, 5, 5]
    assert [rate(position, 0.5) for position in (0, 2, 2.5, 3)] == [2, 6, 7, 7]
    assert steps_with_warmup(0, width=0.1, changes=[(0, 2.0), (0, 3.0)], warmup_end=0) == 3.0
