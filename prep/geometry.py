"""Sizes and orientation of stored frames: pure arithmetic.

Arrays: plane_HW uint8, one plane of a picture.
"""

import math
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from prep.recipe import Frames

UInt8Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Size:
    """Width and height in pixels."""

    width: int
    height: int


@dataclass(frozen=True)
class Orientation:
    """How a coded picture becomes upright: turned clockwise by `rotation_deg` (0, 90, 180 or 270), then, where
    `mirrored`, flipped left to right."""

    rotation_deg: int = 0
    mirrored: bool = False

    @property
    def swaps_sides(self) -> bool:
        return self.rotation_deg in (90, 270)


UPRIGHT = Orientation()


def orientation_from_matrix(matrix: bytes) -> Orientation:
    """The nearest orientation of a display matrix as libavutil keeps it: nine int32 in native byte order.

    A point (x, y) of the coded picture is shown at (a*x + c*y, b*x + d*y), with a, b the first two numbers and c,
    d the fourth and fifth (16.16 fixed point), y downwards; see ISO/IEC 14496-12, 6.2.2, and
    libavutil/display.h. Degenerate matrices count as upright.
    """
    a, b, _, c, d = struct.unpack("=9i", matrix[:36])[:5]
    determinant = a * d - b * c
    if determinant == 0:
        return UPRIGHT
    # Undo the mirroring of x after the turn, so that (a, b) is where a plain turn sends the x axis.
    mirrored = determinant < 0
    turn_deg = math.degrees(math.atan2(b, -a if mirrored else a))
    return Orientation(rotation_deg=round(turn_deg / 90) % 4 * 90, mirrored=mirrored)


def turn_upright(plane_HW: UInt8Array, orientation: Orientation) -> UInt8Array:
    """One plane turned and mirrored as `orientation` says, C-contiguous."""
    turned_HW = np.rot90(plane_HW, k=-(orientation.rotation_deg // 90))
    if orientation.mirrored:
        turned_HW = turned_HW[:, ::-1]
    return np.ascontiguousarray(turned_HW)


def scaled_size(coded: Size, sample_aspect: Fraction, frames: Frames) -> Size:
    """The size to which the coded picture is scaled, before it is turned.

    With `frames.square_pixels` the width is first stretched by the sample aspect ratio. Then, unless
    `frames.short_side_px` is 0 or the picture is smaller and may not be enlarged, the short side becomes
    short_side_px and the long side follows. A side that was stretched or follows is the nearest even number.
    """
    width, height = Fraction(coded.width), Fraction(coded.height)
    stretched = frames.square_pixels and sample_aspect not in (0, 1)
    if stretched:
        width *= sample_aspect
    short, long, target = min(width, height), max(width, height), frames.short_side_px
    if target == 0 or short == target or (short < target and not frames.enlarge):
        return Size(_nearest_even(width), coded.height) if stretched else coded
    scaled_long = _nearest_even(long * target / short)
    return Size(target, scaled_long) if width <= height else Size(scaled_long, target)


def _nearest_even(length: Fraction) -> int:
    """Ties go to the larger one; never 0."""
    return max(2, 2 * math.floor(length / 2 + Fraction(1, 2)))
