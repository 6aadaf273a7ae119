"""Colour jitter and RandAugment against Pillow, which others' transforms call.

Arrays: clip_THWC, frame_HWC uint8 RGB.
"""

import colorsys

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from train.transforms.colour import ColourJitter, brightness, contrast, jitter_colours, saturation, turn_hue
from train.transforms.rand_augment import FILL, OPERATIONS, apply, rand_augment, sharpness

Pixels = npt.NDArray[np.uint8]
factors = st.floats(0, 3)


def noise(num_frames: int, height: int, width: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (num_frames, height, width, 3), np.uint8)


def smooth(num_frames: int, height: int, width: int, seed: int = 0) -> Pixels:
    frames = [cv2.GaussianBlur(frame_HWC, (0, 0), 3) for frame_HWC in noise(num_frames, height, width, seed)]
    return np.stack([cv2.normalize(frame_HWC, None, 20, 230, cv2.NORM_MINMAX) for frame_HWC in frames])


def difference(first: Pixels, second: Image.Image | Pixels) -> int:
    return int(np.abs(first.astype(int) - np.asarray(second).astype(int)).max())


# --- Colour ---


@settings(max_examples=40)
@given(factors, st.integers(0, 1000))
def test_brightness_is_pillows(factor: float, seed: int) -> None:
    clip_THWC = noise(2, 9, 11, seed)
    for found_HWC, frame_HWC in zip(brightness(clip_THWC, factor), clip_THWC, strict=True):
        assert difference(found_HWC, ImageEnhance.Brightness(Image.fromarray(frame_HWC)).enhance(factor)) <= 1


@settings(max_examples=40)
@given(factors, st.integers(0, 1000))
def test_contrast_of_one_frame_is_pillows(factor: float, seed: int) -> None:
    clip_THWC = noise(1, 9, 11, seed)
    expected = ImageEnhance.Contrast(Image.fromarray(clip_THWC[0])).enhance(factor)
    assert difference(contrast(clip_THWC, factor)[0], expected) <= 1 + abs(1 - factor)  # the mean may round otherwise


def test_contrast_takes_one_mean_for_all_frames() -> None:
    clip_THWC = np.stack([np.full((4, 4, 3), 50, np.uint8), np.full((4, 4, 3), 150, np.uint8)])
    assert np.unique(contrast(clip_THWC, 0.0)).tolist() == [100]
    assert np.unique(contrast(clip_THWC, 0.5)).tolist() == [75, 125]


@settings(max_examples=40)
@given(factors, st.integers(0, 1000))
def test_saturation_is_pillows(factor: float, seed: int) -> None:
    clip_THWC = noise(2, 9, 11, seed)
    for found_HWC, frame_HWC in zip(saturation(clip_THWC, factor), clip_THWC, strict=True):
        expected = ImageEnhance.Color(Image.fromarray(frame_HWC)).enhance(factor)
        assert difference(found_HWC, expected) <= 2 + abs(1 - factor)  # Pillow rounds the grey first, and down


@pytest.mark.parametrize("turn", [-0.5, -0.2, 0.0, 0.1, 1 / 3, 0.5])
def test_hue_turns_by_the_letter(turn: float) -> None:
    clip_THWC = noise(1, 12, 12)
    found_THWC = turn_hue(clip_THWC, turn)
    errors = []
    for pixel, found in zip(clip_THWC.reshape(-1, 3), found_THWC.reshape(-1, 3), strict=True):
        hue, share, value = colorsys.rgb_to_hsv(*(pixel / 255))
        expected = np.array(colorsys.hsv_to_rgb((hue + turn) % 1, share, value)) * 255
        errors.append(np.abs(found - expected).max())
    # A step of hue, of 256, is up to six levels; Pillow's HSV has as many.
    assert max(errors) <= 11
    assert np.mean(errors) <= 3


def test_a_factor_of_one_changes_nothing() -> None:
    clip_THWC = noise(3, 8, 8)
    for change in (brightness, contrast, saturation, sharpness):
        np.testing.assert_array_equal(change(clip_THWC, 1.0), clip_THWC)


def test_jitter_is_one_draw_for_all_frames() -> None:
    jitter = ColourJitter(0.4, 0.4, 0.4, 0.1)
    frame_HWC = noise(1, 16, 16)[0]
    clip_THWC = np.stack([frame_HWC] * 4)
    results = set()
    for seed in range(20):
        found_THWC = jitter_colours(clip_THWC, jitter, np.random.default_rng(seed))
        assert (found_THWC == found_THWC[:1]).all()
        results.add(found_THWC.tobytes())
    assert len(results) == 20
    np.testing.assert_array_equal(clip_THWC[0], frame_HWC)


def test_factors_stay_in_their_range() -> None:
    clip_THWC = np.full((1, 2, 2, 3), 100, np.uint8)
    found = {
        int(jitter_colours(clip_THWC, ColourJitter(brightness=0.3), np.random.default_rng(seed)).flat[0])
        for seed in range(400)
    }
    assert min(found) in (70, 71)
    assert max(found) in (128, 129)
    wide = [
        int(jitter_colours(clip_THWC, ColourJitter(brightness=2.0), np.random.default_rng(seed)).flat[0])
        for seed in range(200)
    ]
    assert min(wide) < 10  # from 0, not from -1
    assert max(wide) >= 240


def test_no_jitter_is_none() -> None:
    clip_THWC = noise(2, 4, 4)
    assert not ColourJitter()
    assert jitter_colours(clip_THWC, ColourJitter(), np.random.default_rng(0)) is clip_THWC


# --- RandAugment ---


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(0, 255), st.integers(0, 255))
def test_histogram_operations_of_one_frame_are_pillows(seed: int, low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    clip_THWC = np.random.default_rng(seed).integers(low, high + 1, (1, 40, 50, 3)).astype(np.uint8)
    picture = Image.fromarray(clip_THWC[0])
    assert difference(apply(clip_THWC, "autocontrast", 0.5)[0], ImageOps.autocontrast(picture)) <= 1
    assert difference(apply(clip_THWC, "equalize", 0.5)[0], ImageOps.equalize(picture)) == 0


def test_histograms_are_those_of_the_clip() -> None:
    clip_THWC = np.stack([np.full((4, 4, 3), 50, np.uint8), np.full((4, 4, 3), 150, np.uint8)])
    assert np.unique(apply(clip_THWC, "autocontrast", 0.5)).tolist() == [0, 255]


@pytest.mark.parametrize("level", [-1.0, -0.3, 0.0, 0.3, 0.9, 1.0])
def test_tables_are_pillows(level: float) -> None:
    clip_THWC = noise(1, 16, 16)
    picture = Image.fromarray(clip_THWC[0])
    threshold = 256 - int(abs(level) * 256)
    assert difference(apply(clip_THWC, "solarize", level)[0], ImageOps.solarize(picture, threshold)) == 0
    bits = max(1, 4 - int(abs(level) * 4))
    assert difference(apply(clip_THWC, "posterize", level)[0], ImageOps.posterize(picture, bits)) == 0


@pytest.mark.parametrize("level", [-1.0, -0.3, 0.0, 0.5, 1.0])
def test_enhancements_are_pillows(level: float) -> None:
    clip_THWC = smooth(1, 30, 40)
    picture = Image.fromarray(clip_THWC[0])
    factor = 1 + 0.9 * level
    kinds = {
        "saturation": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "brightness": ImageEnhance.Brightness,
        "sharpness": ImageEnhance.Sharpness,
    }
    for name, kind in kinds.items():
        assert difference(apply(clip_THWC, name, level)[0], kind(picture).enhance(factor)) <= 2, name


@pytest.mark.parametrize("level", [-0.9, -0.2, 0.4, 1.0])
@pytest.mark.parametrize("name", ["rotate", "shear_x", "shear_y", "translate_x", "translate_y"])
def test_geometry_is_pillows(name: str, level: float) -> None:
    clip_THWC = smooth(1, 60, 80)
    picture = Image.fromarray(clip_THWC[0])
    options = {"resample": Image.Resampling.BILINEAR, "fillcolor": (FILL, FILL, FILL)}
    matrices = {
        "shear_x": (1, 0.3 * level, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, 0.3 * level, 1, 0),
        "translate_x": (1, 0, 0.45 * level * 80, 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, 0.45 * level * 60),
    }
    if name == "rotate":
        expected = picture.rotate(30 * level, **options)
    else:
        expected = picture.transform(picture.size, Image.Transform.AFFINE, matrices[name], **options)
    found_HWC = apply(clip_THWC, name, level)[0].astype(int)
    # The edge of what comes in is smooth in one library and hard in the other.
    is_far_off = np.abs(found_HWC - np.asarray(expected).astype(int)).max(axis=2) > 4
    assert is_far_off.mean() < 0.06
    assert (found_HWC == FILL).all(axis=2).any()


@pytest.mark.parametrize("name", OPERATIONS)
def test_all_frames_are_changed_alike(name: str) -> None:
    frame_HWC = smooth(1, 24, 32)[0]
    clip_THWC = np.stack([frame_HWC] * 3)
    found_THWC = apply(clip_THWC, name, 0.7)
    assert (found_THWC.shape, found_THWC.dtype) == (clip_THWC.shape, np.uint8)
    assert (found_THWC == found_THWC[:1]).all()
    np.testing.assert_array_equal(clip_THWC[1], frame_HWC)
    assert (name == "identity") == np.array_equal(found_THWC, clip_THWC)


def test_operations_are_drawn_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[tuple[str, float]] = []
    monkeypatch.setattr(
        "train.transforms.rand_augment.apply", lambda clip, name, level: met.append((name, level)) or clip
    )
    rng = np.random.default_rng(0)
    for _ in range(700):
        rand_augment(noise(1, 2, 2), 2, 9.0, rng)
    assert len(met) == 1400
    assert {name for name, _ in met} == set(OPERATIONS)
    counts = [sum(name == wanted for name, _ in met) for wanted in OPERATIONS]
    assert min(counts) > 55
    assert max(counts) < 150  # of 100
    assert {level for _, level in met} == {0.9, -0.9}


def test_no_operations_change_nothing() -> None:
    clip_THWC = noise(2, 4, 4)
    assert rand_augment(clip_THWC, 0, 9.0, np.random.default_rng(0)) is clip_THWC
