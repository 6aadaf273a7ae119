"""Crops: where a clip is cut from its frames, decided before a frame is decoded. Pure functions of sizes and an rng.

All boxes are in whole pixels of the stored frame. Where a reference scales the whole frame first and cuts then, the box
is what that cut covers of the frame, rounded to whole pixels: at most half a pixel of the frame off on each side.
"""

import math
from dataclasses import dataclass

import numpy as np

CROPS = ("multi_scale", "random_resized", "jitter", "centre")
VIEW_CROPS = {"centre": 1, "three": 3, "ten": 10}
"""Crops of the evaluation, and how many views of a clip each makes."""

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


@dataclass(frozen=True)
class Plan:
    """What to make of every frame of a clip: cut `box` out, scale it to width x height, mirror it if `flip`."""

    box: Box
    width: int
    height: int
    flip: bool = False


# --- Training ---


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


def random_resized_box(
    width: int,
    height: int,
    rng: np.random.Generator,
    *,
    area: tuple[float, float] = (0.08, 1.0),
    aspect: tuple[float, float] = (3 / 4, 4 / 3),
) -> Box:
    """A crop of a random share of the area and a random aspect ratio, at a random place.

    Szegedy et al., Going deeper with convolutions, CVPR 2015, in the form of mmaction2's `RandomResizedCrop`: the
    logarithm of the ratio is uniform; the first of ten draws that fits is taken, else the largest centred square.
    """
    ratios = np.exp(rng.uniform(math.log(aspect[0]), math.log(aspect[1]), 10))
    areas = rng.uniform(*area, 10) * width * height
    for ratio, size in zip(ratios.tolist(), areas.tolist(), strict=True):
        crop_width, crop_height = round(math.sqrt(size * ratio)), round(math.sqrt(size / ratio))
        if 1 <= crop_width <= width and 1 <= crop_height <= height:
            x, y = rng.integers(width - crop_width + 1), rng.integers(height - crop_height + 1)
            return Box(int(x), int(y), crop_width, crop_height)
    side = min(width, height)
    return Box((width - side) // 2, (height - side) // 2, side, side)


def jitter_box(width: int, height: int, crop_px: int, short_side: tuple[float, float], rng: np.random.Generator) -> Box:
    """Scale the short side to a length drawn from `short_side` (ends included, at least crop_px), then cut crop_px x
    crop_px at a random place: what that covers of the frame.

    VGG's scale jitter (Simonyan and Zisserman, ICLR 2015) as SlowFast has it: `random_short_side_scale_jitter` and
    `random_crop` of PySlowFast (slowfast/datasets/transform.py), 256 to 320 for crops of 224.
    """
    short_px = max(crop_px, round(rng.uniform(*short_side)))
    scaled_width, scaled_height = scaled_size(width, height, short_px)
    x, y = rng.integers(scaled_width - crop_px + 1), rng.integers(scaled_height - crop_px + 1)
    return _in_frame(width, height, scaled_width, scaled_height, int(x), int(y), crop_px)


# --- Evaluation ---


def centre_box(width: int, height: int) -> Box:
    """The square in the middle that a centre crop of the evaluation keeps."""
    side = max(1, round(min(width, height) * EVAL_SHARE))
    return Box((width - side) // 2, (height - side) // 2, side, side)


def three_boxes(width: int, height: int) -> tuple[Box, Box, Box]:
    """Squares of the short side at the beginning, the middle and the end of the long side.

    `uniform_crop` of PySlowFast and `UniformCrop` of PaddleVideo, where crop and short side are equal; the middle is
    rounded up.
    """
    side = min(width, height)
    x, y = width - side, height - side
    return Box(0, 0, side, side), Box(-(-x // 2), -(-y // 2), side, side), Box(x, y, side, side)


def ten_boxes(width: int, height: int) -> tuple[tuple[Box, bool], ...]:
    """Five squares of EVAL_SHARE of the short side (corners, then centre), each as it is and mirrored.

    Krizhevsky et al., NIPS 2012, at the places of mmaction2's `TenCrop`: multiples of a quarter of what is left over.
    """
    side = max(1, round(min(width, height) * EVAL_SHARE))
    places = fixed_offsets(width, height, side, side)[:5]
    return tuple((Box(x, y, side, side), flip) for x, y in places for flip in (False, True))


def view_plans(width: int, height: int, crops: str, crop_px: int) -> tuple[Plan, ...]:
    """The views of a clip; `crops` is one of VIEW_CROPS."""
    if crops == "centre":
        return (Plan(centre_box(width, height), crop_px, crop_px),)
    if crops == "three":
        return tuple(Plan(box, crop_px, crop_px) for box in three_boxes(width, height))
    return tuple(Plan(box, crop_px, crop_px, flip) for box, flip in ten_boxes(width, height))


def scaled_size(width: int, height: int, short_px: int) -> tuple[int, int]:
    """Width and height once the short side is short_px; the long side is rounded down, as SlowFast does."""
    if width <= height:
        return short_px, math.floor(height / width * short_px)
    return math.floor(width / height * short_px), short_px


def _in_frame(width: int, height: int, scaled_width: int, scaled_height: int, x: int, y: int, crop_px: int) -> Box:
    """What the cut of a scaled frame covers of the frame."""
    left, right = round(x * width / scaled_width), round((x + crop_px) * width / scaled_width)
    top, bottom = round(y * height / scaled_height), round((y + crop_px) * height / scaled_height)
    left, top = min(left, width - 1), min(top, height - 1)
    return Box(left, top, max(1, right - left), max(1, bottom - top))
