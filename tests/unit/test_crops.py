"""Crops, scaling and flips.

Arrays: frame_HWC, clip_THWC uint8 RGB.
"""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from train.transforms import Box, centre_box, crop_and_resize, fixed_offsets, flip, multi_scale_box

sides, seeds = st.integers(1, 4000), st.integers(0, 2**32)


def noise(num_frames: int, height: int, width: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """clip_THWC."""
    return np.random.default_rng(seed).integers(0, 256, (num_frames, height, width, 3), np.uint8)


def is_inside(box: Box, width: int, height: int) -> bool:
    return min(box.x, box.y) >= 0 and box.x + box.width <= width and box.y + box.height <= height


# --- Boxes ---


def reference_boxes(width: int, height: int) -> set[Box]:
    """All that the multi-scale crop can give, spelled out."""
    base = min(width, height)
    scaled = [int(base * 1.0), int(base * 0.875), int(base * 0.75), int(base * 0.66)]
    boxes = set()
    for i in (0, 1, 2, 3):
        for j in (0, 1, 2, 3):
            if i - j in (-1, 0, 1):
                w, h = scaled[j], scaled[i]
                a, b = (width - w) // 4, (height - h) // 4
                for x, y in (
                    *((0, 0), (4 * a, 0), (0, 4 * b), (4 * a, 4 * b), (2 * a, 2 * b)),
                    *((0, 2 * b), (4 * a, 2 * b), (2 * a, 4 * b), (2 * a, 0)),
                    *((a, b), (3 * a, b), (a, 3 * b), (3 * a, 3 * b)),
                ):
                    boxes.add(Box(x, y, w, h))
    return boxes


@given(sides, sides, seeds)
def test_a_random_crop_is_inside(width: int, height: int, seed: int) -> None:
    box = multi_scale_box(width, height, np.random.default_rng(seed))
    assert is_inside(box, width, height)
    assert min(box.width, box.height) >= 1


@given(st.integers(2, 4000), st.integers(2, 4000), seeds)
def test_a_random_crop_is_one_of_the_reference(width: int, height: int, seed: int) -> None:
    assert multi_scale_box(width, height, np.random.default_rng(seed)) in reference_boxes(width, height)


@pytest.mark.parametrize(("width", "height"), [(340, 256), (256, 454), (64, 64)])
def test_every_crop_of_the_reference_is_drawn(width: int, height: int) -> None:
    rng = np.random.default_rng(0)
    assert {multi_scale_box(width, height, rng) for _ in range(3000)} == reference_boxes(width, height)


def test_sides_differ_by_one_step_at_most() -> None:
    rng = np.random.default_rng(0)
    drawn = {(box.width, box.height) for box in (multi_scale_box(340, 256, rng) for _ in range(500))}
    assert drawn == {
        *((256, 256), (224, 256), (256, 224), (224, 224), (192, 224)),
        *((224, 192), (192, 192), (168, 192), (192, 168), (168, 168)),
    }


def test_thirteen_places() -> None:
    places = fixed_offsets(340, 256, 224, 192)
    assert len(places) == len(set(places)) == 13
    assert {x for x, _ in places} == {0, 29, 58, 87, 116}
    assert {y for _, y in places} == {0, 16, 32, 48, 64}


@given(sides, sides)
def test_the_centre_crop_is_a_square_in_the_middle(width: int, height: int) -> None:
    box = centre_box(width, height)
    assert is_inside(box, width, height)
    assert box.width == box.height >= 1
    assert abs(box.width - min(width, height) * 7 / 8) <= 0.5
    assert abs(box.x - (width - box.x - box.width)) <= 1
    assert abs(box.y - (height - box.y - box.height)) <= 1


def test_a_known_centre_crop() -> None:
    assert centre_box(340, 256) == Box(58, 16, 224, 224)
    assert centre_box(256, 340) == Box(16, 58, 224, 224)


# --- Pixels ---


def test_a_box_of_the_wanted_size_is_cut_out_untouched() -> None:
    clip_THWC = noise(3, 30, 40)
    cropped_THWC = crop_and_resize(list(clip_THWC), Box(7, 5, 16, 16), 16)
    np.testing.assert_array_equal(cropped_THWC, clip_THWC[:, 5:21, 7:23])


@pytest.mark.parametrize("side_px", [7, 16, 50])
def test_each_frame_is_as_pillow_scales_the_cut(side_px: int) -> None:
    """As the TSM reference does; with a box of Pillow's `resize` the pixels around the cut would count, too."""
    clip_THWC = noise(2, 33, 47)
    found_THWC = crop_and_resize(list(clip_THWC), Box(3, 4, 24, 20), side_px)
    assert (found_THWC.shape, found_THWC.dtype) == ((2, side_px, side_px, 3), np.uint8)
    for frame_HWC, found_HWC in zip(clip_THWC, found_THWC, strict=True):
        cut = Image.fromarray(frame_HWC).crop((3, 4, 27, 24))
        expected = cut.resize((side_px, side_px), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(found_HWC, np.asarray(expected))


def test_halving_averages_with_a_triangle() -> None:
    """Bilinear with antialiasing at half size weighs the four pixels around by 1, 3, 3, 1."""
    row = np.array([0, 0, 0, 160, 0, 0, 0, 0], np.uint8)
    frame_HWC = np.repeat(np.tile(row, (8, 1))[:, :, None], 3, axis=2)
    found_THWC = crop_and_resize([frame_HWC], Box(0, 0, 8, 8), 4)
    # The first output pixel lacks its outer neighbour: weights 3, 3, 1 of 7 over columns 0, 1, 2.
    assert found_THWC[0, 2, :, 0].tolist() == [0, 60, 20, 0]


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 60), seeds, st.integers(0, 255), st.integers(1, 40))
def test_a_constant_stays_constant(width: int, height: int, seed: int, value: int, side_px: int) -> None:
    frame_HWC = np.full((height, width, 3), value, np.uint8)
    box = multi_scale_box(width, height, np.random.default_rng(seed))
    assert (crop_and_resize([frame_HWC], box, side_px) == value).all()


@settings(max_examples=30)
@given(st.integers(4, 60), st.integers(4, 60), seeds)
def test_all_frames_are_cut_alike(width: int, height: int, seed: int) -> None:
    frame_HWC = noise(1, height, width)[0]
    box = multi_scale_box(width, height, np.random.default_rng(seed))
    clip_THWC = crop_and_resize([frame_HWC] * 3, box, 16)
    assert (clip_THWC == clip_THWC[:1]).all()


def test_a_flip_mirrors_columns_only() -> None:
    clip_THWC = noise(2, 3, 4)
    flipped_THWC = flip(clip_THWC)
    assert flipped_THWC.flags.c_contiguous
    for x in range(4):
        np.testing.assert_array_equal(flipped_THWC[:, :, x], clip_THWC[:, :, 3 - x])


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), seeds)
def test_two_flips_are_none(num_frames: int, height: int, width: int, seed: int) -> None:
    clip_THWC = noise(num_frames, height, width, seed)
    np.testing.assert_array_equal(flip(flip(clip_THWC)), clip_THWC)
