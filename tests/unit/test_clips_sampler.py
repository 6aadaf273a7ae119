"""Clip samplers against their formulas, and against the numbers that other frameworks' samplers gave.

Arrays: indices_T int64, 0-based frame indices; lo_T, hi_T the lowest and the highest index drawn for each segment.
"""

import json
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from train.clips import random_segments, segment_centres

RECORDED = ROOT.parent / "shared" / "data" / "parity" / "clip_indices.json"
lengths, segment_counts, seeds = st.integers(1, 100_000), st.integers(1, 64), st.integers(0, 2**32)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """Indices by [framework][branch][number of segments][number of frames]."""
    if not RECORDED.is_file():
        pytest.skip(f"the recorded indices are not there: {RECORDED}")
    numbers: dict[str, Any] = json.loads(RECORDED.read_text())
    return numbers


def entries(table: dict[str, Any]) -> list[tuple[int, int, Any]]:
    """(num_segments, num_frames, entry) of a branch."""
    return [
        (int(num_segments), int(num_frames), entry)
        for num_segments, by_length in table.items()
        for num_frames, entry in by_length.items()
    ]


def extremes(num_frames: int, num_segments: int, num_draws: int = 300) -> tuple[list[int], list[int]]:
    """lo_T, hi_T over many draws."""
    rng = np.random.default_rng(1)
    drawn = np.stack([random_segments(num_frames, num_segments, rng) for _ in range(num_draws)])
    return drawn.min(axis=0).tolist(), drawn.max(axis=0).tolist()


# --- Formulas ---


def slow_centre(num_frames: int, num_segments: int, segment: int) -> int:
    """The frame whose half-open interval [index, index + 1) holds the middle of the segment, found by walking."""
    index = 0
    while not 2 * num_segments * index <= (2 * segment + 1) * num_frames < 2 * num_segments * (index + 1):
        index += 1
    return index


@pytest.mark.parametrize("num_segments", [1, 2, 3, 5, 8, 16])
@pytest.mark.parametrize("num_frames", [1, 2, 3, 7, 8, 9, 16, 17, 40, 101])
def test_centres_by_walking(num_frames: int, num_segments: int) -> None:
    expected = [slow_centre(num_frames, num_segments, segment) for segment in range(num_segments)]
    assert segment_centres(num_frames, num_segments).tolist() == expected


@given(lengths, segment_counts)
def test_centres_are_ordered_frames_of_the_video(num_frames: int, num_segments: int) -> None:
    indices_T = segment_centres(num_frames, num_segments)
    assert (indices_T.shape, indices_T.dtype) == ((num_segments,), np.int64)
    assert indices_T[0] >= 0
    assert indices_T[-1] < num_frames
    assert (np.diff(indices_T) >= 0).all()


@given(lengths, segment_counts, seeds)
def test_draws_are_ordered_frames_of_the_video(num_frames: int, num_segments: int, seed: int) -> None:
    indices_T = random_segments(num_frames, num_segments, np.random.default_rng(seed))
    assert (indices_T.shape, indices_T.dtype) == ((num_segments,), np.int64)
    assert indices_T[0] >= 0
    assert indices_T[-1] < num_frames
    assert (np.diff(indices_T) >= (1 if num_frames >= num_segments else 0)).all()


@given(lengths, segment_counts, seeds)
def test_a_draw_stays_in_its_segment(num_frames: int, num_segments: int, seed: int) -> None:
    length = num_frames // num_segments
    indices = random_segments(num_frames, num_segments, np.random.default_rng(seed)).tolist()
    if length == 0:
        assert indices == segment_centres(num_frames, num_segments).tolist()
    else:
        assert [index // length for index in indices] == list(range(num_segments))


@given(lengths, segment_counts, seeds)
def test_the_same_generator_draws_the_same(num_frames: int, num_segments: int, seed: int) -> None:
    first, second = (random_segments(num_frames, num_segments, np.random.default_rng(seed)) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_another_generator_draws_another() -> None:
    draws = {tuple(random_segments(80, 8, np.random.default_rng(seed)).tolist()) for seed in range(50)}
    assert len(draws) == 50


def test_every_frame_of_a_segment_is_drawn_and_none_beyond() -> None:
    assert extremes(83, 8) == ([10 * segment for segment in range(8)], [10 * segment + 9 for segment in range(8)])


def test_draws_are_even_and_independent() -> None:
    rng = np.random.default_rng(2)
    drawn = np.stack([random_segments(6, 2, rng) for _ in range(9000)])
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 9  # 3 x 3 pairs
    assert abs(counts - 1000).max() < 150  # five standard deviations of a binomial count


def test_a_video_without_frames() -> None:
    for draw in (segment_centres, lambda *lengths: random_segments(*lengths, np.random.default_rng(0))):
        with pytest.raises(ValueError, match=r"^a video without frames \(0\) cannot be sampled$"):
            draw(0, 8)


# --- Numbers of others ---


def test_centres_are_those_of_mmaction2(recorded: dict[str, Any]) -> None:
    compared = entries(recorded["mmaction2"]["test_2d"])
    assert len(compared) == 3 * 14
    for num_segments, num_frames, expected in compared:
        assert segment_centres(num_frames, num_segments).tolist() == expected, (num_segments, num_frames)


def test_centres_are_those_of_tsm(recorded: dict[str, Any]) -> None:
    """Its validation repeats frame 0 unless there are more frames than segments; its test does not."""
    for num_segments, num_frames, expected in entries(recorded["tsm"]["test"]):
        assert segment_centres(num_frames, num_segments).tolist() == expected, (num_segments, num_frames)
    longer = [entry for entry in entries(recorded["tsm"]["val"]) if entry[1] > entry[0]]
    assert len(longer) == 11 + 9 + 6
    for num_segments, num_frames, expected in longer:
        assert segment_centres(num_frames, num_segments).tolist() == expected, (num_segments, num_frames)


def test_centres_are_those_of_paddlevideo(recorded: dict[str, Any]) -> None:
    table = entries(recorded["paddlevideo"]["select_left"])
    sound = [entry for entry in table if "valid_problem" not in entry[2]]
    assert len(sound) == 11 + 9 + 6
    for num_segments, num_frames, entry in sound:
        assert segment_centres(num_frames, num_segments).tolist() == entry["valid"], (num_segments, num_frames)


def test_draws_are_those_of_paddlevideo(recorded: dict[str, Any]) -> None:
    table = entries(recorded["paddlevideo"]["select_left"])
    sound = [entry for entry in table if "train_problem" not in entry[2]]
    assert len(sound) == 12 + 10 + 7
    for num_segments, num_frames, entry in sound:
        low, high = entry["train"]["lo"], entry["train"]["hi"]
        if high[0] - low[0] < 40:
            assert extremes(num_frames, num_segments) == (low, high), (num_segments, num_frames)
        else:  # too many frames to meet both ends of all segments for sure
            drawn_low, drawn_high = extremes(num_frames, num_segments)
            assert (np.array(drawn_low) >= low).all()
            assert (np.array(drawn_high) <= high).all()
