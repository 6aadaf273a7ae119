"""Which frames are in a window, against exact arithmetic; and what is said of windows that the video does not fill."""

from fractions import Fraction
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.windows import Window
from prep.decoders.interface import VideoError
from prep.in_window import InWindow

TICKS = st.sampled_from([Fraction(1, 1000), Fraction(1, 90000), Fraction(1001, 30000), Fraction(1, 12800)])


def taken(times_s: list[float], window: Window) -> tuple[list[int], InWindow]:
    part = InWindow(window)
    inside = []
    for number, time_s in enumerate(times_s):
        if part.take(time_s):
            inside.append(number)
        if part.is_left:
            break
    return inside, part


@given(st.lists(st.integers(1, 300), max_size=40), TICKS, st.integers(0, 10**6), st.data())
def test_the_frames_from_start_to_before_end(
    gaps: list[int], tick_s: Fraction, first: int, data: st.DataObject
) -> None:
    """Times as decoders give them, rounded to a float; windows that begin and end at frames, where it matters."""
    ticks = [first + sum(gaps[:index]) for index in range(len(gaps) + 1)]
    bounds = st.integers(0, ticks[-1] - first + 300)
    start, end = sorted(data.draw(st.tuples(bounds, bounds).filter(lambda pair: pair[0] != pair[1])))
    window = Window(float(start * tick_s), float(end * tick_s))
    inside, part = taken([tick * tick_s.numerator / tick_s.denominator for tick in ticks], window)
    assert inside == [number for number, tick in enumerate(ticks) if start <= tick - first < end]
    assert part.num_frames == len(inside)
    assert part.is_left == (ticks[-1] - first >= end)


@given(st.lists(st.integers(0, 4000), min_size=2, max_size=6, unique=True).map(sorted), st.integers(1, 60))
def test_windows_that_meet_share_no_frame_and_lose_none(bounds_ms: list[int], fps: int) -> None:
    times_s = [7.3 + index / fps for index in range(100)]
    bounds_s = [bound / 1000 for bound in bounds_ms]
    pieces = [taken(times_s, Window(*pair))[0] for pair in pairwise(bounds_s)]
    assert list(chain(*pieces)) == taken(times_s, Window(bounds_s[0], bounds_s[-1]))[0]


def test_a_frame_without_a_time() -> None:
    for num_timed in (0, 1):
        part = InWindow(Window(1, 2))
        for index in range(num_timed):
            part.take(float(index) / 10)
        with pytest.raises(
            VideoError, match="unsupported: a list names the window from 1 s to 2 s, and the file does not"
        ):
            part.take(None)


@pytest.mark.parametrize(
    ("window", "shortage"),
    [
        (Window(1, 2), None),
        (Window(1, 2.5), None),
        (Window(1), None),
        (Window(1, 2.51), "the video ends at 2 s, and a list names the window from 1 s to 2.51 s"),
        (Window(0, 1.5), None),
    ],
)
def test_the_end_of_the_video(window: Window, shortage: str | None) -> None:
    """Twenty frames of 0.1 s, the last one included, that begin late."""
    assert taken([5 + index / 10 for index in range(20)], window)[1].shortage() == shortage


def test_windows_without_a_frame() -> None:
    times_s = [index / 10 for index in range(20)]
    assert taken(times_s, Window(3))[1].nothing() == "no frame from 3 s to the end: the video ends at 2 s"
    assert taken(times_s, Window(2.25, 9))[1].nothing() == "no frame from 2.25 s to 9 s: the video ends at 2 s"
    assert taken(times_s, Window(0.61, 0.69))[1].nothing() == "no frame from 0.61 s to 0.69 s"
    assert taken([0.0], Window(1))[1].nothing() == "no frame from 1 s to the end: the video ends at 0 s"
