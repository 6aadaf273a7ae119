"""Sizes and orientations of stored frames.

Arrays: plane_HW, y_HW uint8; u_hw, v_hw uint8 chroma, h = ceil(H / 2), w = ceil(W / 2).
"""

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep.geometry import UPRIGHT, Orientation, Size, orientation_from_matrix, scaled_size, turn_upright
from prep.recipe import Frames

UInt8Array = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]

SIDES = st.integers(1, 5000)
SIZES = st.builds(Size, SIDES, SIDES)
TARGETS = st.integers(8, 1080)
ASPECTS = st.builds(Fraction, st.integers(1, 200), st.integers(1, 200)).filter(lambda aspect: 0.2 <= aspect <= 5)
SQUARE, UNKNOWN = Fraction(1), Fraction(0)


# --- Size ---


@pytest.mark.parametrize(
    ("coded", "frames", "expected"),
    [
        (Size(320, 240), Frames(), Size(320, 240)),  # smaller than 256: left as it is
        (Size(320, 240), Frames(enlarge=True), Size(342, 256)),  # 341.33
        (Size(340, 256), Frames(), Size(340, 256)),
        (Size(1920, 1080), Frames(), Size(456, 256)),  # 455.11
        (Size(1080, 1920), Frames(), Size(256, 456)),
        (Size(560, 240), Frames(short_side_px=120), Size(280, 120)),
        (Size(161, 121), Frames(), Size(161, 121)),  # odd sides that are not scaled stay odd
        (Size(161, 121), Frames(short_side_px=0), Size(161, 121)),
        (Size(640, 480), Frames(short_side_px=101), Size(134, 101)),  # 134.67: the nearest even number
        (Size(1200, 800), Frames(short_side_px=90), Size(136, 90)),  # 135: the larger of two as near
        (Size(500, 500), Frames(short_side_px=101), Size(101, 102)),  # of a square the height follows
    ],
)
def test_scaled_size(coded: Size, frames: Frames, expected: Size) -> None:
    assert scaled_size(coded, SQUARE, frames) == expected


@given(SIZES, TARGETS, st.booleans())
def test_the_short_side_is_exact_when_scaled(coded: Size, target: int, enlarge: bool) -> None:
    short = min(coded.width, coded.height)
    scaled = scaled_size(coded, SQUARE, Frames(short_side_px=target, enlarge=enlarge))
    if short > target or (enlarge and short != target):
        assert min(scaled.width, scaled.height) == target
    else:
        assert scaled == coded


@given(SIZES, TARGETS, st.booleans())
def test_the_shape_is_kept_but_for_an_even_step(coded: Size, target: int, enlarge: bool) -> None:
    scaled = scaled_size(coded, SQUARE, Frames(short_side_px=target, enlarge=enlarge))
    if coded.width >= coded.height:
        assert abs(scaled.width - Fraction(scaled.height * coded.width, coded.height)) <= 1
    if coded.height >= coded.width:
        assert abs(scaled.height - Fraction(scaled.width * coded.height, coded.width)) <= 1


@given(SIZES, st.one_of(st.just(0), TARGETS), ASPECTS)
def test_nothing_is_enlarged_unless_asked(coded: Size, target: int, aspect: Fraction) -> None:
    scaled = scaled_size(coded, aspect, Frames(short_side_px=target))
    # The long side may be rounded up to an even number.
    assert scaled.width <= coded.width + 1
    assert scaled.height <= coded.height + 1


@given(SIZES, ASPECTS, st.booleans())
def test_native_is_native(coded: Size, aspect: Fraction, enlarge: bool) -> None:
    assert scaled_size(coded, aspect, Frames(short_side_px=0, enlarge=enlarge)) == coded


@given(SIZES, TARGETS, ASPECTS)
def test_sample_aspect_is_ignored_unless_pixels_are_to_be_square(coded: Size, target: int, aspect: Fraction) -> None:
    frames = Frames(short_side_px=target)
    assert scaled_size(coded, aspect, frames) == scaled_size(coded, SQUARE, frames)


@given(SIZES, TARGETS)
def test_unknown_sample_aspect_is_square(coded: Size, target: int) -> None:
    frames = Frames(short_side_px=target, square_pixels=True)
    assert scaled_size(coded, UNKNOWN, frames) == scaled_size(coded, SQUARE, frames)


@pytest.mark.parametrize(
    ("coded", "aspect", "short_side_px", "expected"),
    [
        (Size(720, 576), Fraction(64, 45), 0, Size(1024, 576)),  # PAL, wide
        (Size(720, 576), Fraction(16, 15), 288, Size(384, 288)),  # PAL, 4:3
        (Size(340, 256), Fraction(64, 51), 0, Size(426, 256)),  # 426.67
        (Size(340, 256), Fraction(1, 2), 0, Size(170, 256)),
        (Size(340, 256), Fraction(1, 2), 128, Size(128, 192)),  # 170x256 stretched: now the width is shorter
    ],
)
def test_square_pixels(coded: Size, aspect: Fraction, short_side_px: int, expected: Size) -> None:
    assert scaled_size(coded, aspect, Frames(short_side_px=short_side_px, square_pixels=True)) == expected


@given(SIZES, st.one_of(st.just(0), TARGETS), ASPECTS)
def test_square_pixels_show_the_shape_meant(coded: Size, target: int, aspect: Fraction) -> None:
    scaled = scaled_size(coded, aspect, Frames(short_side_px=target, square_pixels=True, enlarge=True))
    meant = coded.width * aspect / coded.height  # width over height as shown
    # One even step of the side that follows.
    assert abs(scaled.width - scaled.height * meant) <= 2 or abs(scaled.height - scaled.width / meant) <= 2


# --- Orientation ---

ONE = 1 << 16
SIGNS = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
# The turns and mirrorings of a rectangle: a, b, c, d of the matrix.
DIHEDRAL = [(s, 0, 0, t) for s, t in SIGNS] + [(0, s, t, 0) for s, t in SIGNS]


def matrix_bytes(a: int, b: int, c: int, d: int, scale: int = ONE) -> bytes:
    """A display matrix as libavutil/display.h lays it out."""
    return struct.pack("=9i", a * scale, b * scale, 0, c * scale, d * scale, 0, 0, 0, 1 << 30)


def shown_by_matrix(plane_HW: AnyArray, a: int, b: int, c: int, d: int) -> AnyArray:
    """Every pixel moved to where the matrix sends it, and the whole shifted to begin at (0, 0)."""
    height, width = plane_HW.shape
    moved = {(a * x + c * y, b * x + d * y): plane_HW[y, x] for y in range(height) for x in range(width)}
    left, top = min(x for x, _ in moved), min(y for _, y in moved)
    shown_HW = np.zeros((max(y for _, y in moved) - top + 1, max(x for x, _ in moved) - left + 1), plane_HW.dtype)
    for (x, y), value in moved.items():
        shown_HW[y - top, x - left] = value
    return shown_HW


def test_the_eight_are_told_apart() -> None:
    assert len({orientation_from_matrix(matrix_bytes(*entries)) for entries in DIHEDRAL}) == 8


def chroma_of(levels_HW: FloatArray) -> FloatArray:
    """The mean over each 2x2 pixels from the top left; at odd sides the last row or column goes on."""
    height, width = levels_HW.shape
    padded_HW = np.pad(levels_HW, ((0, height % 2), (0, width % 2)), mode="edge")
    means_hw: FloatArray = padded_HW.reshape((height + 1) // 2, 2, (width + 1) // 2, 2).mean(axis=(1, 3))
    return means_hw


def shown_by_chroma(plane_hw: UInt8Array, height: int, width: int) -> FloatArray:
    """Each sample spread over its pixels."""
    return plane_hw.repeat(2, 0).repeat(2, 1)[:height, :width].astype(float)


@pytest.mark.parametrize("entries", DIHEDRAL)
@pytest.mark.parametrize("scale", [ONE, ONE * 2, ONE // 3])
@given(height=st.integers(1, 7), width=st.integers(1, 7), seed=st.integers(0, 1000))
def test_turning_upright_does_what_the_matrix_says(
    entries: tuple[int, int, int, int], scale: int, height: int, width: int, seed: int
) -> None:
    """Luma pixel by pixel; chroma as the turned pixels would give it anew."""
    rng = np.random.default_rng(seed)
    half = ((height + 1) // 2, (width + 1) // 2)
    y_HW, u_hw, v_hw = (rng.integers(0, 256, shape, np.uint8) for shape in ((height, width), half, half))
    orientation = orientation_from_matrix(matrix_bytes(*entries, scale=scale))
    upright = turn_upright((y_HW, u_hw, v_hw), orientation)
    assert np.array_equal(upright[0], shown_by_matrix(y_HW, *entries))
    for turned_hw, plane_hw in zip(upright[1:], (u_hw, v_hw), strict=True):
        expected_hw = chroma_of(shown_by_matrix(shown_by_chroma(plane_hw, height, width), *entries))
        assert turned_hw.shape == expected_hw.shape
        assert np.abs(turned_hw - expected_hw).max() <= 1  # rounded in each direction that is reversed
    assert all(plane.flags.c_contiguous and plane.dtype == np.uint8 for plane in upright)
    assert orientation.swaps_sides == (entries[0] == 0)


def test_what_is_upright_is_not_copied() -> None:
    planes = (np.zeros((4, 4), np.uint8), np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.uint8))
    assert turn_upright(planes, UPRIGHT) is planes


@pytest.mark.parametrize("entries", DIHEDRAL)
@given(skew=st.tuples(*[st.integers(-20000, 20000)] * 4))
def test_a_matrix_that_is_a_little_off_counts_as_the_nearest(
    entries: tuple[int, int, int, int], skew: tuple[int, int, int, int]
) -> None:
    a, b, c, d = (entry * ONE + change for entry, change in zip(entries, skew, strict=True))
    assert orientation_from_matrix(matrix_bytes(a, b, c, d, scale=1)) == orientation_from_matrix(matrix_bytes(*entries))


@pytest.mark.parametrize("entries", [(0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 1, 1)])
def test_a_matrix_that_flattens_counts_as_upright(entries: tuple[int, int, int, int]) -> None:
    assert orientation_from_matrix(matrix_bytes(*entries)) == UPRIGHT


def test_clockwise_is_clockwise() -> None:
    corner_HW = np.array([[1, 0, 0, 0], [0, 0, 0, 0]], np.uint8)
    gray_hw = np.full((1, 2), 128, np.uint8)
    for mirrored, expected in ((False, [[0, 1], [0, 0], [0, 0], [0, 0]]), (True, [[1, 0], [0, 0], [0, 0], [0, 0]])):
        y_HW, _, _ = turn_upright((corner_HW, gray_hw, gray_hw), Orientation(90, mirrored=mirrored))
        assert y_HW.tolist() == expected


# --- Size and orientation together ---


@given(SIZES, TARGETS, ASPECTS)
def test_turned_pictures_show_the_same_shape(coded: Size, target: int, aspect: Fraction) -> None:
    """A picture on its side whose pixels lie on their side is stored, turned back, like the one that stands."""
    frames = Frames(short_side_px=target, enlarge=True, square_pixels=True)
    scaled, turned = (
        scaled_size(coded, aspect, frames),
        scaled_size(Size(coded.height, coded.width), 1 / aspect, frames),
    )
    assert {turned.width, turned.height} == {scaled.height, scaled.width} or max(
        abs(turned.width - scaled.height), abs(turned.height - scaled.width)
    ) <= 2


@given(SIZES, TARGETS, ASPECTS, st.booleans())
def test_portrait_is_landscape_on_its_side(coded: Size, target: int, aspect: Fraction, enlarge: bool) -> None:
    frames = Frames(short_side_px=target, enlarge=enlarge)
    if coded.width != coded.height:
        scaled, turned = (
            scaled_size(coded, aspect, frames),
            scaled_size(Size(coded.height, coded.width), aspect, frames),
        )
        assert (turned.width, turned.height) == (scaled.height, scaled.width)


@given(SIZES, TARGETS, ASPECTS, st.booleans(), st.booleans())
def test_a_side_that_follows_is_even(
    coded: Size, target: int, aspect: Fraction, enlarge: bool, square_pixels: bool
) -> None:
    scaled = scaled_size(coded, aspect, Frames(short_side_px=target, enlarge=enlarge, square_pixels=square_pixels))
    assert scaled.width in (coded.width, target) or scaled.width % 2 == 0
    assert scaled.height in (coded.height, target) or scaled.height % 2 == 0
    assert scaled.width > 0
    assert scaled.height > 0


@given(SIZES, TARGETS, ASPECTS)
def test_scaling_twice_is_scaling_once(coded: Size, target: int, aspect: Fraction) -> None:
    """Stored frames that are stored again keep their size."""
    frames = Frames(short_side_px=target, enlarge=True, square_pixels=True)
    scaled = scaled_size(coded, aspect, frames)
    assert scaled_size(scaled, SQUARE, frames) == scaled
