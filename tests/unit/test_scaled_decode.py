"""From JPEG bytes to the pixels of a plan, at full size and at the scales of libjpeg.

Arrays: frame_HWC, picture_HWC, clip_THWC, out_HWC uint8 RGB.
"""

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from train.transforms.crops import Box, Plan
from train.transforms.decode import BadJpeg, decode_scale, frame_size, render, resize, snapped

Pixels = npt.NDArray[np.uint8]
seeds = st.integers(0, 2**32)


def natural(width: int, height: int, seed: int = 0) -> Pixels:
    """Something like a photograph: smooth shades, sharp edges and some texture."""
    rng = np.random.default_rng(seed)
    picture_HWC = cv2.resize(rng.integers(40, 216, (6, 8, 3), np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(12):
        centre = (int(rng.integers(width)), int(rng.integers(height)))
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        cv2.circle(picture_HWC, centre, int(rng.integers(5, height // 4)), colour, -1, cv2.LINE_AA)
    texture_HWC = cv2.GaussianBlur(rng.normal(0, 40, (height, width, 3)), (0, 0), 1.5)
    return np.clip(picture_HWC + texture_HWC, 0, 255).astype(np.uint8)


def jpeg_of(picture_HWC: Pixels, quality: int = 95) -> bytes:
    data: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(picture_HWC), quality=quality, colorsubsampling="420")
    return data


def psnr(first: Pixels, second: Pixels) -> float:
    error = np.mean((first.astype(float) - second.astype(float)) ** 2)
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def cut(picture_HWC: Pixels, box: Box) -> Pixels:
    return picture_HWC[box.y : box.y + box.height, box.x : box.x + box.width]


# --- Full size ---


def test_a_box_of_the_wanted_size_is_cut_out_untouched() -> None:
    jpegs = [jpeg_of(natural(40, 30, seed)) for seed in range(3)]
    (clip_THWC,) = render(jpegs, [Plan(Box(7, 5, 16, 16), 16, 16)])
    assert (clip_THWC.shape, clip_THWC.dtype) == ((3, 16, 16, 3), np.uint8)
    for jpeg, frame_HWC in zip(jpegs, clip_THWC, strict=True):
        np.testing.assert_array_equal(frame_HWC, simplejpeg.decode_jpeg(jpeg)[5:21, 7:23])


def test_several_plans_of_one_decode_are_those_of_several() -> None:
    jpegs = [jpeg_of(natural(120, 90, seed)) for seed in range(2)]
    plans = [Plan(Box(0, 0, 90, 90), 32, 32), Plan(Box(30, 0, 90, 90), 40, 24, flip=True)]
    for plan, clip_THWC in zip(plans, render(jpegs, plans), strict=True):
        (alone_THWC,) = render(jpegs, [plan])
        np.testing.assert_array_equal(clip_THWC, alone_THWC)
        assert clip_THWC.shape == (2, plan.height, plan.width, 3)


@pytest.mark.parametrize("scale", [1, 2])
def test_a_flipped_plan_is_the_mirror_image(scale: int) -> None:
    jpegs = [jpeg_of(natural(160, 120))]
    box = Box(16, 8, 96, 80)
    straight, mirrored = render(jpegs, [Plan(box, 40, 36), Plan(box, 40, 36, flip=True)], scale)
    np.testing.assert_array_equal(mirrored, straight[:, :, ::-1])


def slow_bilinear(picture_HWC: Pixels, width: int, height: int) -> npt.NDArray[np.float64]:
    """Each output pixel's centre between four pixel centres, the border repeated."""
    rows, columns = picture_HWC.shape[:2]
    out_HWC = np.empty((height, width, 3))
    for y in range(height):
        for x in range(width):
            at_y = min(max((y + 0.5) * rows / height - 0.5, 0), rows - 1)
            at_x = min(max((x + 0.5) * columns / width - 0.5, 0), columns - 1)
            top, left = int(at_y), int(at_x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            down, along = at_y - top, at_x - left
            upper = (1 - along) * picture_HWC[top, left] + along * picture_HWC[top, right].astype(float)
            lower = (1 - along) * picture_HWC[bottom, left] + along * picture_HWC[bottom, right].astype(float)
            out_HWC[y, x] = (1 - down) * upper + down * lower
    return out_HWC


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), seeds)
def test_scaling_is_bilinear(width: int, height: int, out_width: int, out_height: int, seed: int) -> None:
    assume(max(width / out_width, height / out_height) <= 1.5)
    picture_HWC = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    out_HWC = np.empty((out_height, out_width, 3), np.uint8)
    resize(picture_HWC, out_HWC)
    assert np.abs(out_HWC - slow_bilinear(picture_HWC, out_width, out_height)).max() <= 2


def slow_area(picture_HWC: Pixels, side_px: int) -> npt.NDArray[np.float64]:
    """The mean over what each output pixel covers, pixels at its edge by their share."""
    size = picture_HWC.shape[0]
    weights = np.zeros((side_px, size))
    for out in range(side_px):
        start, stop = out * size / side_px, (out + 1) * size / side_px
        for pixel in range(size):
            weights[out, pixel] = max(0, min(stop, pixel + 1) - max(start, pixel))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("yr,xc,rck->yxk", weights, weights, picture_HWC)


@pytest.mark.parametrize(("size", "side_px"), [(32, 16), (48, 16), (50, 16), (27, 16)])
def test_shrinking_far_is_the_mean_over_the_area(size: int, side_px: int) -> None:
    picture_HWC = np.random.default_rng(0).integers(0, 256, (size, size, 3), np.uint8)
    out_HWC = np.empty((side_px, side_px, 3), np.uint8)
    resize(picture_HWC, out_HWC)
    assert np.abs(out_HWC - slow_area(picture_HWC, side_px)).max() <= 1


@pytest.mark.parametrize("side", [168, 192, 224, 256])
def test_the_crops_of_tsm_look_as_pillow_scales_them(side: int) -> None:
    """Pillow smooths a little where it shrinks (256 to 224); where it enlarges, all agree."""
    picture_HWC = natural(340, 256)
    out_HWC = np.empty((224, 224, 3), np.uint8)
    resize(cut(picture_HWC, Box(4, 0, side, side)), out_HWC)
    expected = Image.fromarray(picture_HWC).crop((4, 0, 4 + side, side)).resize((224, 224), Image.Resampling.BILINEAR)
    assert psnr(out_HWC, np.asarray(expected)) > (33 if side > 224 else 50)


@settings(max_examples=30)
@given(st.integers(16, 90), st.integers(16, 90), st.integers(1, 40), st.integers(0, 255), seeds)
def test_a_constant_stays_constant(width: int, height: int, side_px: int, value: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    box_width, box_height = int(rng.integers(1, width + 1)), int(rng.integers(1, height + 1))
    box = Box(
        int(rng.integers(width - box_width + 1)), int(rng.integers(height - box_height + 1)), box_width, box_height
    )
    jpeg = jpeg_of(np.full((height, width, 3), value, np.uint8))
    for scale in (1, 2):
        (clip_THWC,) = render([jpeg], [Plan(box, side_px, side_px)], scale)
        assert np.abs(clip_THWC.astype(int) - value).max() <= 1


# --- At a half, a quarter, an eighth ---


@pytest.mark.parametrize(
    ("box_side", "out", "enlargement", "scale"),
    [
        (224, 224, 1.34, 1),
        (240, 112, 1.34, 2),  # 120 px cover 112
        (168, 112, 1.34, 2),  # 84 px are enlarged 1.33 times
        (166, 112, 1.34, 1),  # 83 px would be enlarged 1.35 times
        (168, 112, 1.0, 1),
        (224, 112, 1.0, 2),
        (448, 112, 1.0, 4),
        (896, 112, 1.0, 8),
        (4000, 112, 1.0, 8),
        (15, 1, 1.0, 1),
        (100, 300, 1.34, 1),
    ],
)
def test_how_large_a_crop_is_decoded(box_side: int, out: int, enlargement: float, scale: int) -> None:
    assert decode_scale(Plan(Box(3, 5, box_side, box_side), out, out), enlargement) == scale


def test_the_narrower_side_decides() -> None:
    assert decode_scale(Plan(Box(0, 0, 448, 224), 112, 112), 1.0) == 2
    assert decode_scale(Plan(Box(0, 0, 448, 223), 112, 112), 1.0) == 1


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 400), st.floats(1, 4))
def test_no_crop_is_enlarged_further_than_allowed(width: int, height: int, out: int, enlargement: float) -> None:
    scale = decode_scale(Plan(Box(0, 0, width, height), out, out), enlargement)
    assert scale in (1, 2, 4, 8)
    if scale > 1:
        assert width / scale * enlargement >= out
        assert height / scale * enlargement >= out


@given(st.integers(16, 500), st.integers(16, 500), st.sampled_from([1, 2, 4, 8]), seeds)
def test_a_snapped_box_lies_on_the_grid_and_nearly_where_it_was(width: int, height: int, scale: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    box_width, box_height = int(rng.integers(16, width + 1)), int(rng.integers(16, height + 1))
    x, y = int(rng.integers(width - box_width + 1)), int(rng.integers(height - box_height + 1))
    plan = Plan(Box(x, y, box_width, box_height), 8, 9, flip=True)
    found = snapped(plan, scale, width, height)
    assert (found.width, found.height, found.flip) == (8, 9, True)
    box = found.box
    assert {number % scale for number in (box.x, box.y, box.width, box.height)} == {0}
    assert min(box.x, box.y) >= 0
    assert box.x + box.width <= width
    assert box.y + box.height <= height
    for before, after, limit in (
        (x, box.x, width),
        (y, box.y, height),
        (x + box_width, box.x + box.width, width),
        (y + box_height, box.y + box.height, height),
    ):
        # To the nearest multiple, or to the last one in the frame.
        assert abs(before - after) <= scale / 2 or limit - before < scale
    assert snapped(plan, 1, width, height) == plan


@pytest.mark.parametrize("scale", [2, 4, 8])
@pytest.mark.parametrize("seed", range(4))
def test_scaled_decode_shows_what_full_decode_shows(scale: int, seed: int) -> None:
    """Against full decode and the mean over the area, and far from that of a box that is one output pixel aside."""
    picture_HWC = natural(1280, 720, seed)
    jpeg = jpeg_of(picture_HWC)
    box = Box(64 + 8 * seed, 40, 640, 560)
    plan = Plan(box, 640 // scale, 560 // scale, flip=seed % 2 == 1)
    (found_THWC,) = render([jpeg], [plan], scale)
    full_HWC = cut(simplejpeg.decode_jpeg(jpeg), box)
    expected_HWC = cv2.resize(full_HWC, (plan.width, plan.height), interpolation=cv2.INTER_AREA)
    if plan.flip:
        expected_HWC = expected_HWC[:, ::-1]
    right = psnr(found_THWC[0], expected_HWC)
    aside = psnr(found_THWC[0][:, 1:], expected_HWC[:, :-1])
    assert right > 34
    assert right > aside + 6


@pytest.mark.parametrize("side", [97, 98, 105, 121])
def test_a_last_column_of_fewer_pixels_moves_nothing(side: int) -> None:
    """At an eighth, the 97 columns of a frame are 13."""
    jpeg = jpeg_of(natural(side, side))
    (found_THWC,) = render([jpeg], [Plan(Box(0, 0, 96, 96), 12, 12)], 8)
    full_HWC = cut(simplejpeg.decode_jpeg(jpeg), Box(0, 0, 96, 96))
    assert psnr(found_THWC[0], cv2.resize(full_HWC, (12, 12), interpolation=cv2.INTER_AREA)) > 34


@pytest.mark.parametrize(("width", "height"), [(320, 240), (341, 257), (455, 256)])
@pytest.mark.parametrize("box", [Box(0, 0, 168, 168), Box(61, 33, 180, 201), Box(85, 16, 223, 224)])
def test_boxes_off_the_grid_too(width: int, height: int, box: Box) -> None:
    """Where a box is between pixels of the scaled picture, it is interpolated, not moved."""
    jpeg = jpeg_of(natural(width, height))
    (found_THWC,) = render([jpeg], [Plan(box, 112, 112)], 2)
    full_HWC = cut(simplejpeg.decode_jpeg(jpeg), box)
    expected_HWC = cv2.resize(full_HWC, (112, 112), interpolation=cv2.INTER_AREA)
    right = psnr(found_THWC[0], expected_HWC)
    assert right > 30
    for aside in (psnr(found_THWC[0][:, 1:], expected_HWC[:, :-1]), psnr(found_THWC[0][:-1], expected_HWC[1:])):
        assert right > aside + 4


@pytest.mark.parametrize("scale", [1, 2, 4])
@pytest.mark.parametrize("start", [60, 61, 62, 63])
def test_a_ramp_shows_where_each_pixel_is_taken(scale: int, start: int) -> None:
    """In a picture whose value is the place, an output pixel's value is the middle of what it covers."""
    places = np.arange(256, dtype=np.uint8)
    for axis, ramp_HW in enumerate((np.tile(places[:, None], (1, 256)), np.tile(places, (256, 1)))):
        jpeg = simplejpeg.encode_jpeg(np.repeat(ramp_HW[:, :, None], 3, axis=2), quality=100)
        (clip_THWC,) = render([jpeg], [Plan(Box(start, start, 130, 130), 40, 40)], scale)
        found = clip_THWC[0].mean(axis=(1 - axis, 2))[2:-2]
        expected = start + (np.arange(40) + 0.5) * 130 / 40 - 0.5
        assert abs(np.mean(found - expected[2:-2])) < 0.6  # the decoder rounds means of n + 1/2 up
        assert np.abs(found - expected[2:-2]).max() < 1.3


def test_a_gray_jpeg_becomes_rgb() -> None:
    gray_HWC = natural(64, 48)[:, :, :1]
    jpeg = simplejpeg.encode_jpeg(np.ascontiguousarray(gray_HWC), colorspace="GRAY", colorsubsampling="Gray")
    (clip_THWC,) = render([jpeg], [Plan(Box(0, 0, 64, 48), 64, 48)])
    assert psnr(clip_THWC[0], np.repeat(gray_HWC, 3, axis=2)) > 30
    assert (clip_THWC == clip_THWC[..., :1]).all()


# --- Damage ---


def test_which_jpeg_is_bad() -> None:
    good = jpeg_of(natural(64, 48))
    for bad in (b"", b"\xff\xd8", good[: len(good) // 2], b"x" * 100):
        with pytest.raises(BadJpeg, match=r"^is no valid JPEG: ") as caught:
            render([good, good, bad], [Plan(Box(0, 0, 32, 32), 16, 16)])
        assert (caught.value.position, caught.value.is_size) == (2, False)


@pytest.mark.parametrize("size", [(64, 47), (48, 64), (128, 96), (32, 24)])
def test_a_jpeg_of_another_size(size: tuple[int, int]) -> None:
    jpegs = [jpeg_of(natural(64, 48)), jpeg_of(natural(*size))]
    with pytest.raises(BadJpeg, match=r"^has another size$") as caught:
        render(jpegs, [Plan(Box(0, 0, 32, 32), 16, 16)])
    assert (caught.value.position, caught.value.is_size) == (1, True)
    assert frame_size(jpegs[1]) == size
