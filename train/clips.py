"""Clip samplers: which frames of a video make one training sample. Pure functions of lengths and an rng.

One policy for short videos: where a video has fewer frames than the clip spans at its spacing, the clip is spread over
the video instead (`segment_centres`): frames stay in order, repeated evenly where there are too few of them. Nothing
starts over in the middle of a clip, and no index is ever out of range.

Arrays: indices_T int64, 0-based frame indices in [0, num_frames); indices_KT those of K clips.
"""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]

SAMPLERS = ("segments", "uniform", "dense", "strided", "slowfast")
DENSE_WINDOW = 64
"""Frames that a dense clip spans, in TSM and PaddleVideo."""


def training_clip(
    sampler: str, num_frames: int, clip_len: int, rng: np.random.Generator, *, span: float = 1.0
) -> Indices:
    """indices_T of one random clip of `clip_len` frames; `sampler` is one of SAMPLERS.

    span: `strided`: frames from one of the clip to the next, a whole number; `slowfast`: video frames that the clip
    spans, for each frame of the clip. The others know no span.
    """
    _require_frames(num_frames)
    if sampler in ("segments", "uniform"):
        return random_segments(num_frames, clip_len, rng)
    if sampler == "dense":
        return random_dense(num_frames, clip_len, rng)
    if sampler == "strided":
        return random_strided(num_frames, clip_len, _whole(span), rng)
    return random_window(num_frames, clip_len, clip_len * span, rng)


def view_clips(sampler: str, num_frames: int, clip_len: int, num_clips: int, *, span: float = 1.0) -> Indices:
    """indices_KT of the clips of a test: those of the reference for K > 1, the middle one for K = 1."""
    _require_frames(num_frames)
    if num_clips < 1:
        raise ValueError(f"a test needs at least one clip, not {num_clips}")
    if sampler == "segments":
        return segment_views(num_frames, clip_len, num_clips)
    if sampler == "uniform":
        return np.tile(uniform_centres(num_frames, clip_len), (num_clips, 1))
    if sampler == "dense":
        return dense_views(num_frames, clip_len, num_clips)
    if sampler == "strided":
        return strided_views(num_frames, clip_len, _whole(span), num_clips)
    return window_views(num_frames, clip_len, clip_len * span, num_clips)


# --- Segments ---


def segment_centres(num_frames: int, num_segments: int) -> Indices:
    """One frame a segment, the middle one: floor((i + 1/2) * num_frames / num_segments).

    The test sampler of TSN and TSM wherever a video has more frames than segments, and mmaction2's for every
    length (`SampleFrames`, test mode): a shorter video repeats frames, in order.
    """
    return segment_views(num_frames, num_segments, 1)[0]


def segment_views(num_frames: int, num_segments: int, num_clips: int) -> Indices:
    """Clip k takes the frame at share (1/2 + k / num_clips) mod 1 of every segment.

    Two clips are `twice_sample` of TSM and mmaction2: the middles, then the beginnings of the segments.
    """
    _require_frames(num_frames)
    shares_K1 = (num_clips + 2 * np.arange(num_clips)) % (2 * num_clips)  # in 1 / (2 * num_clips)
    places_KT = 2 * num_clips * np.arange(num_segments) + shares_K1[:, None]
    return places_KT * num_frames // (2 * num_clips * num_segments)


def uniform_centres(num_frames: int, num_segments: int) -> Indices:
    """i * d + floor((d - 1) / 2) with d = floor(num_frames / num_segments), of PaddleVideo's ppTSM (`Sampler`, neither
    `select_left` nor `dense_sample`, validation and test)."""
    _require_frames(num_frames)
    length = num_frames // num_segments
    if length == 0:
        return segment_centres(num_frames, num_segments)
    return np.arange(num_segments) * length + (length - 1) // 2


def random_segments(num_frames: int, num_segments: int, rng: np.random.Generator) -> Indices:
    """One frame a segment, drawn uniformly: i * d + U{0 .. d-1} with d = floor(num_frames / num_segments).

    The training sampler of TSN and TSM (Wang et al., ECCV 2016; Lin et al., ICCV 2019). A video with fewer frames
    than segments has nothing to draw and gives its segment centres.
    """
    _require_frames(num_frames)
    length = num_frames // num_segments
    if length == 0:
        return segment_centres(num_frames, num_segments)
    return np.arange(num_segments) * length + rng.integers(0, length, num_segments)


# --- Dense: a window of 64 frames ---


def random_dense(num_frames: int, num_segments: int, rng: np.random.Generator) -> Indices:
    """start + i * floor(64 / num_segments), start drawn from {0 .. num_frames - 65}.

    Dense sampling of TSM (`TSNDataSet._sample_indices`) and PaddleVideo (`Sampler`, dense_sample), which never draw the
    last start that would fit.
    """
    _require_frames(num_frames)
    num_starts = num_frames - DENSE_WINDOW
    return _dense(num_frames, num_segments, int(rng.integers(num_starts)) if num_starts > 0 else 0)


def dense_views(num_frames: int, num_segments: int, num_clips: int) -> Indices:
    """Starts spread evenly from 0 to num_frames - 64, rounded down, as in both projects for ten clips."""
    _require_frames(num_frames)
    last = max(0, num_frames - DENSE_WINDOW)
    starts_K = np.linspace(0, last, num_clips).astype(np.int64) if num_clips > 1 else np.array([last // 2])
    return np.stack([_dense(num_frames, num_segments, int(start)) for start in starts_K])


def _dense(num_frames: int, num_segments: int, start: int) -> Indices:
    stride = max(1, DENSE_WINDOW // num_segments)
    return _spaced(num_frames, start + stride * np.arange(num_segments))


# --- Strided: every interval-th frame ---


def random_strided(num_frames: int, clip_len: int, interval: int, rng: np.random.Generator) -> Indices:
    """start + i * interval, start drawn from {0 .. num_frames - clip_len * interval}.

    I3D's clips as mmaction2 draws them (`SampleFrames`, one clip, training).
    """
    _require_frames(num_frames)
    start = int(rng.integers(max(0, num_frames - clip_len * interval) + 1))
    return _spaced(num_frames, start + interval * np.arange(clip_len))


def strided_views(num_frames: int, clip_len: int, interval: int, num_clips: int) -> Indices:
    """Starts round(k * m / (num_clips - 1)), m the last that fits; one clip starts at floor(m / 2).

    mmaction2's 3D test (`SampleFrames._get_test_clips`): the last clip ends with the video.
    """
    _require_frames(num_frames)
    last = max(0, num_frames - (clip_len - 1) * interval - 1)
    if num_clips > 1:
        starts_K = np.round(np.arange(num_clips) * last / (num_clips - 1)).astype(np.int64)
    else:
        starts_K = np.array([last // 2])
    return np.stack([_spaced(num_frames, start + interval * np.arange(clip_len)) for start in starts_K])


# --- A window of any length, the clip spread over it ---


def random_window(num_frames: int, clip_len: int, span: float, rng: np.random.Generator) -> Indices:
    """floor(linspace(start, start + span - 1, clip_len)), start drawn from [0, num_frames - span], a real number.

    SlowFast's clips (PySlowFast, slowfast/datasets/decoder.py; PaddleVideo's `DecodeSampler`), with
    span = clip_len * sampling rate * frames per second / target frames per second.
    """
    _require_frames(num_frames)
    return _window(num_frames, clip_len, span, rng.uniform(0, max(0.0, num_frames - span)))


def window_views(num_frames: int, clip_len: int, span: float, num_clips: int) -> Indices:
    """Starts k * (num_frames - span) / num_clips, as both projects by default: the last clip ends before the video.

    One clip starts in the middle; both would let it start at 0.
    """
    _require_frames(num_frames)
    room = max(0.0, num_frames - span)
    starts = [room * clip / num_clips for clip in range(num_clips)] if num_clips > 1 else [room / 2]
    return np.stack([_window(num_frames, clip_len, span, start) for start in starts])


def _window(num_frames: int, clip_len: int, span: float, start: float) -> Indices:
    last = start + max(0.0, span - 1)
    return _spaced(num_frames, np.floor(np.linspace(start, last, clip_len)).astype(np.int64))


def _spaced(num_frames: int, indices_T: Indices) -> Indices:
    """The indices, or the clip spread over the whole video where that is too short for them."""
    return indices_T if indices_T[-1] < num_frames else segment_centres(num_frames, len(indices_T))


def _whole(interval: float) -> int:
    if interval != int(interval) or interval < 1:
        raise ValueError(f"the interval of a strided clip is a whole number of frames, not {interval}")
    return int(interval)


def _require_frames(num_frames: int) -> None:
    if num_frames < 1:
        raise ValueError(f"a video without frames ({num_frames}) cannot be sampled")
