"""Transforms of a clip: the same crop and flip for all its frames, on uint8.

Arrays: frame_HWC, clip_THWC uint8 RGB in [0, 255].
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

Clip = npt.NDArray[np.uint8]

CROP_SCALES = (1.0, 0.875, 0.75, 0.66)
MAX_DISTORT = 1
"""Multi-scale crop as in the TSN and TSM recipes: side lengths as shares of the short side, and by how many places in
that list width and height may differ."""

EVAL_SHARE = 224 / 256
"""A centre crop keeps this share of the short side: 224 of frames of short side 256."""


@dataclass(frozen=True)
class Box:
    """A crop: left and top corner, width and height, in pixels of the frame."""

    x: int
    y: int
    width: int
    height: int


def multi_scale_box(width: int, height: int, rng: np.random.Generator) -> Box:
    """A random crop: sides drawn from CROP_SCALES, place drawn from 13 fixed offsets.

    As `GroupMultiScaleCrop` of the TSM reference (ops/transforms.py) does with its defaults, but for sides within 3 px
    of the input's, which that one snaps to it.
    """
    sides = [max(1, int(min(width, height) * scale)) for scale in CROP_SCALES]
    pairs = [
        (crop_width, crop_height)
        for i, crop_height in enumerate(sides)
        for j, crop_width in enumerate(sides)
        if abs(i - j) <= MAX_DISTORT
    ]
    crop_width, crop_height = pairs[rng.integers(len(pairs))]
    offsets = fixed_offsets(width, height, crop_width, crop_height)
    x, y = offsets[rng.integers(len(offsets))]
    return Box(x, y, crop_width, crop_height)


def fixed_offsets(width: int, height: int, crop_width: int, crop_height: int) -> list[tuple[int, int]]:
    """The 13 places of a crop: corners, centre, middles of the sides, and the middles of the four quarters."""
    step_x, step_y = (width - crop_width) // 4, (height - crop_height) // 4
    quarters = [(0, 0), (4, 0), (0, 4), (4, 4), (2, 2), (0, 2), (4, 2), (2, 4), (2, 0), (1, 1), (3, 1), (1, 3), (3, 3)]
    return [(column * step_x, row * step_y) for column, row in quarters]


def centre_box(width: int, height: int) -> Box:
    """The square in the middle that a centre crop of the evaluation keeps."""
    side = max(1, round(min(width, height) * EVAL_SHARE))
    return Box((width - side) // 2, (height - side) // 2, side, side)


def crop_and_resize(frames: Sequence[Clip], box: Box, side_px: int) -> Clip:
    """Cut `box` out of every frame_HWC and scale it to side_px x side_px, bilinear with antialiasing: clip_THWC."""
    clip_THWC = np.empty((len(frames), side_px, side_px, 3), np.uint8)
    for index, frame_HWC in enumerate(frames):
        # Cut first: Pillow's own `box` lets pixels around it shine in.
        cut_HWC = frame_HWC[box.y : box.y + box.height, box.x : box.x + box.width]
        resized = Image.fromarray(cut_HWC).resize((side_px, side_px), Image.Resampling.BILINEAR)
        clip_THWC[index] = np.asarray(resized)
    return clip_THWC


def flip(clip_THWC: Clip) -> Clip:
    """Left to right."""
    return np.ascontiguousarray(clip_THWC[:, :, ::-1])
