"""Colour arithmetic against the definitions of ITU-T H.273 and JFIF, written out in floating point.

Arrays: y_HW uint8 luma; u_hw, v_hw uint8 chroma, h = ceil(H / 2), w = ceil(W / 2); frame_HWC float RGB in [0, 1].
"""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prep.colour import to_jfif
from prep.decoders.interface import Planes

FloatArray = npt.NDArray[np.float64]

# Red and blue shares of luma, ITU-T H.273 table 4, by matrix coefficients. 2 is unspecified.
SHARES = {
    1: (0.2126, 0.0722),
    2: (0.299, 0.114),
    4: (0.30, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
    10: (0.2627, 0.0593),
}


def literal(planes: Planes, matrix: int, full_range: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """By way of RGB, sample by sample; chroma from the chroma samples alone, luma with its nearest chroma sample."""
    y_HW, u_hw, v_hw = (plane.astype(float) for plane in planes)
    if full_range:
        y_HW, u_hw, v_hw = y_HW / 255, (u_hw - 128) / 255, (v_hw - 128) / 255
    else:
        y_HW, u_hw, v_hw = (y_HW - 16) / 219, (u_hw - 128) / 224, (v_hw - 128) / 224
    height, width = y_HW.shape
    kr, kb = SHARES[matrix]

    def rgb(luma: FloatArray, cb: FloatArray, cr: FloatArray) -> FloatArray:
        red, blue = luma + (2 - 2 * kr) * cr, luma + (2 - 2 * kb) * cb
        return np.stack([red, (luma - kr * red - kb * blue) / (1 - kr - kb), blue], axis=-1)

    def jfif(frame_HWC: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        luma = frame_HWC @ [0.299, 0.587, 0.114]
        cb, cr = (frame_HWC[..., 2] - luma) / 1.772, (frame_HWC[..., 0] - luma) / 1.402
        return luma * 255, cb * 255 + 128, cr * 255 + 128

    full_size = (plane_hw.repeat(2, 0).repeat(2, 1)[:height, :width] for plane_hw in (u_hw, v_hw))
    luma_HW = jfif(rgb(y_HW, *full_size))[0]
    _, cb_hw, cr_hw = jfif(rgb(np.zeros_like(u_hw), u_hw, v_hw))
    return luma_HW, cb_hw, cr_hw


@st.composite
def any_planes(draw: st.DrawFn) -> Planes:
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shapes = [(height, width), ((height + 1) // 2, (width + 1) // 2), ((height + 1) // 2, (width + 1) // 2)]
    y_HW, u_hw, v_hw = (rng.integers(0, 256, shape, np.uint8) for shape in shapes)
    return y_HW, u_hw, v_hw


@given(any_planes(), st.sampled_from(sorted(SHARES)), st.booleans())
def test_each_level_is_the_nearest(planes: Planes, matrix: int, full_range: bool) -> None:
    before = [plane.copy() for plane in planes]
    for plane, expected in zip(to_jfif(planes, matrix, full_range), literal(planes, matrix, full_range), strict=True):
        assert plane.dtype == np.uint8
        assert plane.shape == expected.shape
        assert np.abs(plane - np.clip(expected, 0, 255)).max() <= 0.504  # luma is counted in parts of a level
    assert all(np.array_equal(plane, copy) for plane, copy in zip(planes, before, strict=True))


@pytest.mark.parametrize("matrix", sorted(SHARES))
@pytest.mark.parametrize(("full_range", "black", "white"), [(True, 0, 255), (False, 16, 235)])
def test_gray_stays_gray(matrix: int, full_range: bool, black: int, white: int) -> None:
    y_HW = np.array([[black, white, black, white]], np.uint8)
    gray_hw = np.full((1, 2), 128, np.uint8)
    y_HW, u_hw, v_hw = to_jfif((y_HW, gray_hw, gray_hw), matrix, full_range)
    assert y_HW.tolist() == [[0, 255, 0, 255]]
    assert u_hw.tolist() == v_hw.tolist() == [[128, 128]]


def test_what_is_right_already_is_not_copied() -> None:
    planes = (np.zeros((4, 4), np.uint8), np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.uint8))
    assert to_jfif(planes, 6, True) is planes
