"""Which frames are kept, against the rule written out: each output time looks through all frames."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep.decoders.interface import VideoError
from prep.recipe import Frames
from prep.sampling import EveryNth, NearestInTime, Sampler, make_sampler

RATES = st.sampled_from([Fraction(n, d) for n, d in [(1, 1), (5, 1), (8, 1), (10, 1), (25, 1), (30000, 1001), (1, 4)]])
TIMES_MS = st.lists(st.integers(0, 400), min_size=1, max_size=40)


def kept(sampler: Sampler[int], times_s: list[float | None]) -> list[int]:
    """The numbers of the frames that the sampler keeps."""
    chosen = [sampler.add(number, time_s) for number, time_s in enumerate(times_s)]
    return [number for number in [*chosen, sampler.end()] if number is not None]


def literal(times_ms: list[int], rate: Fraction) -> list[int]:
    """For the output times in turn, the nearest of all frames; of two as near, the earlier. Exact."""
    times = [Fraction(time_ms, 1000) for time_ms in times_ms]
    different = sorted(set(times))
    last_gap = different[-1] - different[-2] if len(different) > 1 else 1 / rate
    chosen, slot = [], 0
    while (now := times[0] + slot / rate) < times[-1] + last_gap / 2 or slot == 0:
        distances = [abs(time - now) for time in times]
        chosen.append(distances.index(min(distances)))
        slot += 1
    return sorted(set(chosen))


@given(TIMES_MS, RATES, st.integers(0, 10**7))
def test_the_nearest_frames_are_kept_once(gaps_ms: list[int], rate: Fraction, start_ms: int) -> None:
    times_ms = [start_ms + sum(gaps_ms[:i]) for i in range(len(gaps_ms))]
    assert kept(NearestInTime(float(rate), None), [time_ms / 1000 for time_ms in times_ms]) == literal(times_ms, rate)


@given(st.integers(1, 60), st.integers(1, 200), RATES)
def test_a_rate_at_or_above_that_of_the_video_keeps_every_frame_once(
    num_frames: int, source_fps: int, rate: Fraction
) -> None:
    times_s: list[float | None] = [i / source_fps for i in range(num_frames)]
    fps = max(float(rate), source_fps)
    assert kept(NearestInTime(fps, None), times_s) == list(range(num_frames))


@pytest.mark.parametrize(
    ("source_fps", "fps", "expected"),
    [
        (30, 15, [0, 2, 4, 6, 8, 10]),
        (25, 10, [0, 2, 5, 7, 10]),  # 0.1 s lies between frames 2 and 3: the earlier
        (30, 10, [0, 3, 6, 9]),
        (12, 100, list(range(12))),
        (12, 1, [0]),
    ],
)
def test_constant_rates(source_fps: int, fps: float, expected: list[int]) -> None:
    assert kept(NearestInTime(fps, None), [i / source_fps for i in range(12)]) == expected


def test_ten_seconds_give_ten_times_the_rate() -> None:
    for fps in (1, 2, 5, 8, 12, 24, 25):
        assert len(kept(NearestInTime(fps, None), [i / 25 for i in range(250)])) == 10 * fps


def test_a_gap_in_time_is_not_filled() -> None:
    times_s: list[float | None] = [0.0, 0.1, 0.2, 5.0, 5.1]
    assert kept(NearestInTime(10, None), times_s) == [0, 1, 2, 3, 4]


@given(TIMES_MS, RATES)
def test_missing_times_are_counted_at_the_rate_of_the_header(gaps_ms: list[int], rate: Fraction) -> None:
    num_frames = len(gaps_ms)
    counted = kept(NearestInTime(float(rate), Fraction(25)), [None] * num_frames)
    assert counted == kept(NearestInTime(float(rate), None), [i / 25 for i in range(num_frames)])


def test_a_frame_whose_time_does_not_go_forward_is_left_out() -> None:
    assert kept(NearestInTime(10, None), [0.0, 0.1, 0.1, 0.2, 0.15, 0.3]) == [0, 1, 3, 5]


def test_without_any_times_there_is_nothing_to_choose_by() -> None:
    with pytest.raises(VideoError, match="needs times") as caught:
        kept(NearestInTime(10, None), [None, None])
    assert caught.value.kind == "unsupported"


@given(st.integers(1, 50), st.integers(0, 100))
def test_every_nth(every: int, num_frames: int) -> None:
    assert kept(EveryNth(every), [None] * num_frames) == list(range(0, num_frames, every))


def test_the_recipe_says_which() -> None:
    sampler: Sampler[int] = make_sampler(Frames(fps=5), Fraction(25))
    assert kept(sampler, [i / 25 for i in range(11)]) == [0, 5, 10]
    sampler = make_sampler(Frames(every=3), None)
    assert kept(sampler, [math.nan] * 7) == [0, 3, 6]
