"""Clip samplers: which frames of a video make one training sample. Pure functions of lengths and an rng.

Arrays: indices_T int64, 0-based frame indices in [0, num_frames).
"""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def segment_centres(num_frames: int, num_segments: int) -> Indices:
    """One frame a segment, the middle one: floor((i + 1/2) * num_frames / num_segments).

    The test sampler of TSN and TSM wherever a video has more frames than segments, and mmaction2's for every
    length (`SampleFrames`, test mode): a shorter video repeats frames, in order.
    """
    _require_frames(num_frames)
    segments_T = np.arange(num_segments)
    return (2 * segments_T + 1) * num_frames // (2 * num_segments)


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


def _require_frames(num_frames: int) -> None:
    if num_frames < 1:
        raise ValueError(f"a video without frames ({num_frames}) cannot be sampled")
