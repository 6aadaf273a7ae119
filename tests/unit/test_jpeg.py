"""JPEG from planes: the picture, the whole picture, and nothing but the picture.

Arrays: y_HW, u_hw, v_hw uint8 full-range BT.601 4:2:0; frame_HWC uint8 RGB.
"""

import io
import math

import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from prep.decoders.interface import Planes
from prep.jpeg import encode_jpeg

UInt8Array = npt.NDArray[np.uint8]

SIDES = st.integers(1, 70)


def smooth_planes(width: int, height: int) -> Planes:
    """Planes of a picture that changes slowly, as JPEG likes it."""
    y_H1, x_1W = np.ogrid[0:height, 0:width]
    y_HW = 128 + 80 * np.sin(x_1W / 19) * np.cos(y_H1 / 23)
    y_h1, x_1w = np.ogrid[0 : math.ceil(height / 2), 0 : math.ceil(width / 2)]
    u_hw = 128 + 40 * np.sin(x_1w / 17 + y_h1 / 13)
    v_hw = 128 + 40 * np.cos(x_1w / 11 - y_h1 / 19)
    y_HW, u_hw, v_hw = (plane.round().astype(np.uint8) for plane in (y_HW, u_hw, v_hw))
    return y_HW, u_hw, v_hw


def inside(plane_HW: UInt8Array, fill: int) -> UInt8Array:
    """The same plane as a view into larger memory that holds `fill` all around it."""
    height, width = plane_HW.shape
    memory = np.full((height + 9, width + 40), fill, np.uint8)
    memory[3 : 3 + height, 5 : 5 + width] = plane_HW
    return memory[3 : 3 + height, 5 : 5 + width]


def decode_planes(jpeg: bytes) -> tuple[npt.NDArray[np.float64], ...]:
    """Y, Cb, Cr as Pillow decodes them, all at full size."""
    image = Image.open(io.BytesIO(jpeg))
    image.draft("YCbCr", image.size)
    return tuple(np.moveaxis(np.asarray(image, np.float64), -1, 0))


@given(SIDES, SIDES)
@settings(deadline=None)
def test_nothing_beyond_the_planes_is_read(width: int, height: int) -> None:
    planes = smooth_planes(width, height)
    jpegs = set()
    for fill in (0, 255):
        y_HW, u_hw, v_hw = (inside(plane, fill) for plane in planes)
        jpegs.add(encode_jpeg((y_HW, u_hw, v_hw), 90))
    assert jpegs == {encode_jpeg(planes, 90)}


@given(SIDES, SIDES)
@settings(deadline=None)
def test_the_picture_comes_back(width: int, height: int) -> None:
    planes = smooth_planes(width, height)
    decoded = decode_planes(encode_jpeg(planes, 95))
    assert decoded[0].shape == (height, width)
    assert np.abs(decoded[0] - planes[0]).max() <= 8
    assert np.abs(decoded[0] - planes[0]).mean() <= 1.5
    for decoded_HW, plane_hw in zip(decoded[1:], planes[1:], strict=True):
        plane_HW = plane_hw.repeat(2, 0).repeat(2, 1)[:height, :width]
        assert np.abs(decoded_HW - plane_HW).mean() <= 5


@pytest.mark.parametrize(("width", "height"), [(2, 2), (17, 9), (16, 16), (161, 121), (340, 256)])
def test_size_and_subsampling(width: int, height: int) -> None:
    jpeg = encode_jpeg(smooth_planes(width, height), 90)
    assert simplejpeg.decode_jpeg_header(jpeg) == (height, width, "YCbCr", "420")
    assert jpeg[:4] == b"\xff\xd8\xff\xe0"
    assert jpeg[6:11] == b"JFIF\0"


@pytest.mark.parametrize("level", [0, 1, 16, 128, 235, 254, 255])
def test_levels_keep_full_range(level: int) -> None:
    gray_hw = np.full((16, 16), 128, np.uint8)
    jpeg = encode_jpeg((np.full((32, 32), level, np.uint8), gray_hw, gray_hw), 90)
    assert np.abs(simplejpeg.decode_jpeg(jpeg, colorspace="RGB").astype(int) - level).max() <= 1


@pytest.mark.parametrize(
    ("cb", "cr", "rgb"),
    [
        (128, 128, (100, 100, 100)),
        (188, 128, (100, 79, 206)),  # 100 - 0.34414 * 60, 100 + 1.772 * 60
        (128, 188, (184, 57, 100)),  # 100 + 1.402 * 60, 100 - 0.71414 * 60
    ],
)
def test_the_second_plane_is_blue_and_the_third_red(cb: int, cr: int, rgb: tuple[int, int, int]) -> None:
    planes = (np.full((32, 32), 100, np.uint8), np.full((16, 16), cb, np.uint8), np.full((16, 16), cr, np.uint8))
    decoded_HWC = simplejpeg.decode_jpeg(encode_jpeg(planes, 95), colorspace="RGB")
    assert np.abs(decoded_HWC.astype(int) - rgb).max() <= 3


def test_quality_is_libjpegs() -> None:
    """The quantisation tables are those that Pillow, also a libjpeg, writes for the same number."""
    for quality in (1, 25, 75, 90, 100):
        ours = Image.open(io.BytesIO(encode_jpeg(smooth_planes(32, 32), quality)))
        buffer = io.BytesIO()
        Image.new("RGB", (32, 32)).save(buffer, "JPEG", quality=quality)
        assert ours.quantization == Image.open(buffer).quantization  # type: ignore[attr-defined]


def test_the_same_planes_give_the_same_bytes() -> None:
    assert encode_jpeg(smooth_planes(161, 121), 90) == encode_jpeg(smooth_planes(161, 121), 90)
