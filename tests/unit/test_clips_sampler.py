"""Clip samplers against their formulas, and against the numbers that other frameworks' samplers gave.

Arrays: indices_T int64, 0-based frame indices; indices_KT those of K clips; lo_T, hi_T the lowest and the highest index
drawn for each segment.
"""

import json
import math
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from train.clips import (
    SAMPLERS,
    dense_views,
    random_dense,
    random_segments,
    random_strided,
    random_window,
    segment_centres,
    segment_views,
    strided_views,
    training_clip,
    uniform_centres,
    view_clips,
    window_views,
)

PARITY = ROOT.parent / "shared" / "data" / "parity"
RECORDED = PARITY / "clip_indices.json"
RECORDED_VIEWS = PARITY / "test_views.json"
lengths, segment_counts, seeds = st.integers(1, 100_000), st.integers(1, 64), st.integers(0, 2**32)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """Indices by [framework][branch][number of segments][number of frames]."""
    if not RECORDED.is_file():
        pytest.skip(f"the recorded indices are not there: {RECORDED}")
    numbers: dict[str, Any] = json.loads(RECORDED.read_text())
    return numbers


@pytest.fixture(scope="module")
def recorded_views() -> dict[str, Any]:
    """Windows and indices by [framework][number of frames]."""
    if not RECORDED_VIEWS.is_file():
        pytest.skip(f"the recorded views are not there: {RECORDED_VIEWS}")
    numbers: dict[str, Any] = json.loads(RECORDED_VIEWS.read_text())
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


# --- All samplers, all lengths ---


@pytest.mark.parametrize("sampler", SAMPLERS)
@given(lengths, st.integers(1, 70), st.integers(1, 12), st.integers(1, 8), seeds)
def test_every_clip_is_ordered_frames_of_the_video(
    sampler: str, num_frames: int, clip_len: int, num_clips: int, interval: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    drawn_T = training_clip(sampler, num_frames, clip_len, rng, span=interval)
    viewed_KT = view_clips(sampler, num_frames, clip_len, num_clips, span=interval)
    assert (drawn_T.shape, drawn_T.dtype) == ((clip_len,), np.int64)
    assert (viewed_KT.shape, viewed_KT.dtype) == ((num_clips, clip_len), np.int64)
    for indices_T in (drawn_T, *viewed_KT):
        assert indices_T[0] >= 0
        assert indices_T[-1] < num_frames
        assert (np.diff(indices_T) >= 0).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_length_from_one(sampler: str) -> None:
    """A video that is too short for the clip's spacing gives the clip spread evenly, whatever the sampler."""
    rng = np.random.default_rng(0)
    wanted = {"segments": 8, "uniform": 8, "dense": 57, "strided": 29, "slowfast": 32}[sampler]
    for num_frames in range(1, 200):
        clips_KT = [training_clip(sampler, num_frames, 8, rng, span=4), *view_clips(sampler, num_frames, 8, 1, span=4)]
        for indices_T in clips_KT:
            assert set(indices_T.tolist()) <= set(range(num_frames))
            if num_frames < wanted:
                assert indices_T.tolist() == segment_centres(num_frames, 8).tolist()
    assert len(set(segment_centres(8, 8).tolist())) == 8


@given(lengths, st.integers(1, 64), st.floats(0.25, 8), st.integers(1, 12), seeds)
def test_a_window_of_any_span(num_frames: int, clip_len: int, span: float, num_clips: int, seed: int) -> None:
    drawn_T = training_clip("slowfast", num_frames, clip_len, np.random.default_rng(seed), span=span)
    viewed_KT = view_clips("slowfast", num_frames, clip_len, num_clips, span=span)
    for indices_T in (drawn_T, *viewed_KT):
        assert set(indices_T.tolist()) <= set(range(num_frames))
        if clip_len * span <= num_frames:
            assert indices_T[-1] - indices_T[0] <= math.ceil(clip_len * span)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_draws_by_its_generator(sampler: str) -> None:
    def clip(seed: int) -> tuple[int, ...]:
        return tuple(training_clip(sampler, 300, 8, np.random.default_rng(seed), span=4).tolist())

    assert clip(1) == clip(1)
    assert len({clip(seed) for seed in range(40)}) > 30


def test_one_clip_of_a_test_is_the_middle_one() -> None:
    assert view_clips("dense", 164, 8, 1).tolist() == [list(range(50, 114, 8))]
    assert view_clips("strided", 101, 3, 1, span=10).tolist() == [[40, 50, 60]]
    assert view_clips("slowfast", 100, 3, 1, span=20).tolist() == [[20, 49, 79]]
    assert view_clips("uniform", 80, 8, 2).tolist() == [list(range(4, 80, 10))] * 2


def test_three_views_of_segments_share_them_out() -> None:
    assert segment_views(60, 2, 3).tolist() == [[15, 45], [25, 55], [5, 35]]


def test_arguments_that_make_no_clip() -> None:
    with pytest.raises(ValueError, match=r"^a test needs at least one clip, not 0$"):
        view_clips("segments", 10, 8, 0)
    with pytest.raises(ValueError, match=r"^the interval of a strided clip is a whole number of frames, not 1\.5$"):
        view_clips("strided", 10, 8, 1, span=1.5)
    for sampler in SAMPLERS:
        with pytest.raises(ValueError, match=r"^a video without frames \(0\) cannot be sampled$"):
            view_clips(sampler, 0, 8, 1)
        with pytest.raises(ValueError, match=r"^a video without frames \(0\) cannot be sampled$"):
            training_clip(sampler, 0, 8, np.random.default_rng(0))


# --- The reference formulas, written out ---


def literal_dense_starts(num_frames: int) -> list[int]:
    """All that TSM's training can draw: `sample_pos = max(1, 1 + num_frames - 64)`, 0 or randint(0, sample_pos - 1)."""
    sample_pos = max(1, 1 + num_frames - 64)
    return [0] if sample_pos == 1 else list(range(sample_pos - 1))


@pytest.mark.parametrize("num_frames", [64, 65, 66, 70, 100])
@pytest.mark.parametrize("num_segments", [3, 8, 16])
def test_dense_draws_by_the_letter(num_frames: int, num_segments: int) -> None:
    rng = np.random.default_rng(3)
    drawn = {tuple(random_dense(num_frames, num_segments, rng).tolist()) for _ in range(600)}
    stride = 64 // num_segments
    expected = {
        tuple((i * stride + start) % num_frames for i in range(num_segments))
        for start in literal_dense_starts(num_frames)
    }
    assert drawn == expected


@pytest.mark.parametrize("num_frames", [64, 65, 70, 90])
def test_strided_draws_by_the_letter(num_frames: int) -> None:
    """mmaction2, one clip: average interval L - c + 1 with c = clip_len * interval, offset U{0 .. that - 1}."""
    rng = np.random.default_rng(4)
    drawn = {tuple(random_strided(num_frames, 16, 4, rng).tolist()) for _ in range(600)}
    assert drawn == {tuple(start + 4 * i for i in range(16)) for start in range(max(1, num_frames - 16 * 4 + 1))}


@given(st.integers(64, 2000), seeds)
def test_windows_by_the_letter(num_frames: int, seed: int) -> None:
    """PySlowFast: start = uniform(0, max(L - 64, 0)), end = start + 63, linspace, clamp, floor."""
    start = np.random.default_rng(seed).uniform(0, num_frames - 64)
    expected = [math.floor(min(max(start + 63 * i / 31, 0), num_frames - 1) + 1e-9) for i in range(32)]
    assert random_window(num_frames, 32, 64.0, np.random.default_rng(seed)).tolist() == expected


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


def test_two_views_are_the_twice_sample_of_tsm_and_mmaction2(recorded: dict[str, Any]) -> None:
    for table in (recorded["tsm"]["test_twice"], recorded["mmaction2"]["test_2d_twice"]):
        compared = entries(table)
        assert len(compared) == 3 * 14
        for num_segments, num_frames, expected in compared:
            assert segment_views(num_frames, num_segments, 2).ravel().tolist() == expected, (num_segments, num_frames)


def test_uniform_centres_are_those_of_paddlevideo(recorded: dict[str, Any]) -> None:
    compared = [entry for entry in entries(recorded["paddlevideo"]["uniform"]) if entry[1] >= entry[0]]
    assert len(compared) == 12 + 10 + 7
    for num_segments, num_frames, entry in compared:
        assert uniform_centres(num_frames, num_segments).tolist() == entry["valid_frames"], (num_segments, num_frames)


def test_dense_views_are_those_of_tsm_and_paddlevideo(recorded: dict[str, Any]) -> None:
    """Where a video is as long as the clip's frames lie apart; theirs start over in a shorter one."""
    tables = (
        [(key, value) for *key, value in entries(recorded["tsm"]["test_dense"])],
        [(key, entry["valid"]) for *key, entry in entries(recorded["paddlevideo"]["dense"])],
    )
    for table in tables:
        fitting = [item for item in table if (item[0][0] - 1) * (64 // item[0][0]) < item[0][1]]
        assert len(fitting) == 4 + 4 + 4
        for (num_segments, num_frames), expected in fitting:
            assert dense_views(num_frames, num_segments, 10).tolist() == expected, (num_segments, num_frames)


def test_dense_draws_are_those_of_tsm(recorded: dict[str, Any]) -> None:
    for num_segments, num_frames, entry in entries(recorded["tsm"]["train_dense"]):
        if (num_segments - 1) * (64 // num_segments) >= num_frames:
            continue
        rng = np.random.default_rng(5)
        drawn = np.stack([random_dense(num_frames, num_segments, rng) for _ in range(4000)])
        assert (drawn.min(axis=0) >= 0).all()
        assert [int(drawn[:, 0].min()), int(drawn[:, 0].max())] == entry["start"]


def test_strided_views_are_those_of_mmaction2(recorded: dict[str, Any]) -> None:
    num_compared = 0
    for spacing, by_length in recorded["mmaction2"]["test_3d_10clips"].items():
        clip_len, interval = map(int, spacing.split("x"))
        for length, entry in by_length.items():
            num_frames = int(length)
            if (clip_len - 1) * interval >= num_frames:
                continue
            num_compared += 1
            found_KT = strided_views(num_frames, clip_len, interval, 10)
            assert found_KT[:, 0].tolist() == entry["starts"], (spacing, length)
            assert (np.diff(found_KT) == interval).all()
            if "indices" in entry:
                assert found_KT.tolist() == entry["indices"]
            (middle,) = strided_views(num_frames, clip_len, interval, 1).tolist()
            assert middle == recorded["mmaction2"]["val_3d_1clip"][spacing][length]
    assert num_compared == 12


@pytest.mark.parametrize("length", ["64", "65", "300"])
def test_windows_are_those_of_pyslowfast_and_paddlevideo(recorded_views: dict[str, Any], length: str) -> None:
    found_KT = window_views(int(length), 32, 64.0, 10).tolist()
    assert found_KT == recorded_views["pyslowfast"][length]["whole_video_default"]["indices"]
    assert found_KT == recorded_views["paddlevideo"][length]["indices"]
