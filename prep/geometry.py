"""Sizes and orientation of stored frames: pure arithmetic.

Arrays: plane_HW uint8, one plane of a picture; y_HW luma and u_hw, v_hw chroma of its 4:2:0 planes, h = ceil(H / 2).
"""

import math
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from prep.recipe import Frames

UInt8Array = npt.NDArray[np.uint8]
YuvPlanes = tuple[UInt8Array, UInt8Array, UInt8Array]


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


def turn_upright(planes: YuvPlanes, orientation: Orientation) -> YuvPlanes:
    """The planes of a picture turned and mirrored as `orientation` says, C-contiguous (as they are, where upright)."""
    if orientation == UPRIGHT:
        return planes
    y_HW, u_hw, v_hw = planes
    height, width = y_HW.shape
    turn = orientation.rotation_deg
    rows_reversed = (turn in (90, 180)) != (orientation.mirrored and orientation.swaps_sides)
    columns_reversed = (turn in (180, 270)) != (orientation.mirrored and not orientation.swaps_sides)
    if rows_reversed and height % 2:
        u_hw, v_hw = _paired_anew(u_hw), _paired_anew(v_hw)
    if columns_reversed and width % 2:
        u_hw, v_hw = _paired_anew(u_hw.T).T, _paired_anew(v_hw.T).T
    return turned(y_HW, orientation), turned(u_hw, orientation), turned(v_hw, orientation)


def _paired_anew(plane_hw: UInt8Array) -> UInt8Array:
    """Chroma for reversing 2h - 1 rows of luma: its pairs of rows then begin at the other end, so that each new one has
    a row of two old ones; the first old one is left with a single row."""
    levels_hw = plane_hw.astype(np.uint16)
    levels_hw[1:] += plane_hw[:-1]
    levels_hw[1:] += 1
    levels_hw[1:] >>= 1
    return levels_hw.astype(np.uint8)


def turned(plane_HW: UInt8Array, orientation: Orientation) -> UInt8Array:
    """A plane, or a picture with its channels last, turned and mirrored as `orientation` says, C-contiguous."""
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
        if not stretched:
            return coded
        return Size(target if width == target else _nearest_even(width), coded.height)
    scaled_long = _nearest_even(long * target / short)
    return Size(target, scaled_long) if width <= height else Size(scaled_long, target)


def _nearest_even(length: Fraction) -> int:
    """Ties go to the larger one; never 0."""
    return max(2, 2 * math.floor(length / 2 + Fraction(1, 2)))
