"""From JPEG bytes to the pixels of a plan: decode no larger than needed, cut, scale, mirror.

libjpeg decodes at 1/2, 1/4 and 1/8 for less than at full size, straight from the coefficients; the other scales cost
more than full size. A pixel of a picture at 1/n covers n x n pixels of the frame, from its upper left corner on, so a
box whose numbers are multiples of n stays a box of whole pixels: `snapped` moves it there.

Arrays: frame_HWC, clip_THWC uint8 RGB in [0, 255].
"""

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg

from train.transforms.crops import Box, Plan

Pixels = npt.NDArray[np.uint8]

SCALES = (8, 4, 2, 1)
MAX_LINEAR_SHRINK = 1.5
"""Up to this, bilinear interpolation takes pixels as they lie, as SlowFast and mmaction2 do at any scale; beyond, the
mean over the area, since it would skip some."""

_SMALLEST_PX = 16
"""Crops of a side below this are decoded at full size: the scales between would do for the size asked for."""


class BadJpeg(ValueError):
    """`position` of the JPEG in its sequence, and what is wrong with it, as the end of a sentence about the frame;
    is_size: another size than that of the first."""

    def __init__(self, position: int, problem: str, *, is_size: bool = False) -> None:
        super().__init__(problem)
        self.position = position
        self.is_size = is_size


def frame_size(jpeg: bytes) -> tuple[int, int]:
    """(width, height) of the picture, by its header (microseconds). Raises ValueError."""
    height, width, _, _ = simplejpeg.decode_jpeg_header(jpeg)
    return width, height


def decode_scale(plan: Plan, max_enlargement: float) -> int:
    """The largest n of SCALES for which the box at 1/n is at least the output, or is enlarged by `max_enlargement` at
    most. 1 where none does."""
    box = plan.box
    if min(box.width, box.height) < _SMALLEST_PX:
        return 1
    for scale in SCALES:
        width, height = box.width / scale * max_enlargement, box.height / scale * max_enlargement
        if width >= plan.width and height >= plan.height:
            return scale
    return 1


def snapped(plan: Plan, scale: int, width: int, height: int) -> Plan:
    """The plan with all numbers of its box moved to the nearest multiple of `scale`, inside of the frame where
    possible: no edge moves by more than `scale` / 2, which is one pixel of the decoded picture and less than one of the
    output's where that enlarges nothing."""
    if scale == 1:
        return plan
    box = plan.box
    (x, box_width), (y, box_height) = (
        _snapped_range(box.x, box.width, scale, width),
        _snapped_range(box.y, box.height, scale, height),
    )
    return replace(plan, box=Box(x, y, box_width, box_height))


def _snapped_range(start: int, length: int, scale: int, limit: int) -> tuple[int, int]:
    last = limit // scale
    end = min(max(1, round((start + length) / scale)), last)
    begin = min(round(start / scale), end - 1)
    return begin * scale, (end - begin) * scale


def require_one_size(jpegs: Sequence[bytes]) -> None:
    """Raises BadJpeg as `render` does for a size, by the headers alone."""
    size = _size_like(None, 0, jpegs[0])
    for position, jpeg in enumerate(jpegs):
        _size_like(size, position, jpeg)


def _size_like(first: tuple[int, int] | None, position: int, jpeg: bytes) -> tuple[int, int]:
    """(width, height) of a JPEG, those of the first. Raises BadJpeg where they are not, or it has no valid header."""
    try:
        size = frame_size(jpeg)
    except ValueError as error:
        raise BadJpeg(position, f"is no valid JPEG: {error}") from error
    if first is not None and size != first:
        raise BadJpeg(position, "has another size", is_size=True)
    return size


def render(jpegs: Sequence[bytes], plans: Sequence[Plan], scale: int = 1) -> list[Pixels]:
    """clip_THWC of each plan: every JPEG is decoded once, at 1/`scale`, and all plans are taken from it.

    All JPEGs must have the size of the first. Raises BadJpeg for one that has not, or that is no valid JPEG.
    """
    clips = [np.empty((len(jpegs), plan.height, plan.width, 3), np.uint8) for plan in plans]
    size = _size_like(None, 0, jpegs[0])
    buffer = np.empty(3 * size[0] * size[1], np.uint8)
    for position, jpeg in enumerate(jpegs):
        _size_like(size, position, jpeg)
        try:
            frame_HWC = decode(jpeg, size, scale, buffer)
        except ValueError as error:
            raise BadJpeg(position, f"is no valid JPEG: {error}") from error
        for clip_THWC, plan in zip(clips, plans, strict=True):
            take(frame_HWC, scale, plan, clip_THWC[position])
    return clips


def render_pictures(pictures: Sequence[Pixels], plan: Plan) -> Pixels:
    """clip_THWC of the plan from frame_HWC of full size."""
    clip_THWC = np.empty((len(pictures), plan.height, plan.width, 3), np.uint8)
    for frame_HWC, out_HWC in zip(pictures, clip_THWC, strict=True):
        take(frame_HWC, 1, plan, out_HWC)
    return clip_THWC


def decode(jpeg: bytes, size: tuple[int, int], scale: int, buffer: Pixels) -> Pixels:
    """frame_HWC at 1/`scale`, in `buffer` of 3 * width * height; `size`: (width, height) in full. Raises ValueError."""
    width, height = size
    smallest = {} if scale == 1 else {"min_height": -(-height // scale), "min_width": -(-width // scale)}
    frame_HWC: Pixels = simplejpeg.decode_jpeg(jpeg, **smallest, buffer=buffer)
    return frame_HWC


def take(frame_HWC: Pixels, scale: int, plan: Plan, out_HWC: Pixels) -> None:
    """Cut, scale and mirror into out_HWC. The picture was decoded at 1/`scale`; the box is that of the full size."""
    box = plan.box
    left, right = box.x / scale, (box.x + box.width) / scale
    top, bottom = box.y / scale, (box.y + box.height) / scale
    if left == int(left) and right == int(right) and top == int(top) and bottom == int(bottom):
        cut_HWC = frame_HWC[int(top) : int(bottom), int(left) : int(right)]
        resize(cut_HWC, out_HWC)
    else:
        _warp(frame_HWC, left, top, right - left, bottom - top, out_HWC)
    if plan.flip:
        cv2.flip(out_HWC, 1, dst=out_HWC)


def resize(frame_HWC: Pixels, out_HWC: Pixels) -> None:
    """Scale a picture into out_HWC: bilinear, or the mean over the area where it shrinks by more than
    MAX_LINEAR_SHRINK in one direction."""
    height, width, _ = out_HWC.shape
    shrink_y, shrink_x = frame_HWC.shape[0] / height, frame_HWC.shape[1] / width
    is_area = max(shrink_x, shrink_y) > MAX_LINEAR_SHRINK and min(shrink_x, shrink_y) >= 1
    cv2.resize(frame_HWC, (width, height), dst=out_HWC, interpolation=cv2.INTER_AREA if is_area else cv2.INTER_LINEAR)


def _warp(frame_HWC: Pixels, left: float, top: float, width: float, height: float, out_HWC: Pixels) -> None:
    """Bilinear with a box between pixels; slower than `resize`, and the pixels around the box shine in."""
    step_x, step_y = width / out_HWC.shape[1], height / out_HWC.shape[0]
    # Pixel centres lie at half pixels, OpenCV's at whole ones.
    matrix = np.array([[step_x, 0, left + step_x / 2 - 0.5], [0, step_y, top + step_y / 2 - 0.5]])
    cv2.warpAffine(
        frame_HWC,
        matrix,
        (out_HWC.shape[1], out_HWC.shape[0]),
        dst=out_HWC,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
