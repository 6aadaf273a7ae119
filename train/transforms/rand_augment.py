"""RandAugment: some of fourteen changes of a picture, drawn at random, alike for all frames of a clip.

Cubuk et al., RandAugment, CVPR Workshops 2020; ranges of the magnitudes as in timm (`rand_augment_ops`, the
"increasing" ones), which PySlowFast's rand_augment.py follows. Meanings of the operations as in Pillow (ImageOps,
ImageEnhance, Image.transform); what Pillow takes from the histogram of a picture is taken from that of the clip, so
that nothing flickers.

Arrays: clip_THWC, frame_HWC uint8 RGB in [0, 255]; table_256, table_256C uint8.
"""

import math

import cv2
import numpy as np
import numpy.typing as npt

from train.transforms.colour import brightness, contrast, look_up, saturation

Pixels = npt.NDArray[np.uint8]

OPERATIONS = (
    *("identity", "autocontrast", "equalize", "rotate", "solarize", "saturation", "posterize"),
    *("contrast", "brightness", "sharpness", "shear_x", "shear_y", "translate_x", "translate_y"),
)
MAX_MAGNITUDE = 10
FILL = 128
"""The grey that comes in from outside of a picture that is turned, shifted or sheared."""


def rand_augment(clip_THWC: Pixels, num_operations: int, magnitude: float, rng: np.random.Generator) -> Pixels:
    """`num_operations` of OPERATIONS, each drawn anew, at `magnitude` in [0, 10], in a random direction."""
    for number in rng.integers(len(OPERATIONS), size=num_operations).tolist():
        sign = 1 if rng.random() < 0.5 else -1
        clip_THWC = apply(clip_THWC, OPERATIONS[number], sign * magnitude / MAX_MAGNITUDE)
    return clip_THWC


def apply(clip_THWC: Pixels, name: str, level: float) -> Pixels:
    """One of OPERATIONS at `level` in [-1, 1]; those without a direction take its absolute value."""
    strength = abs(level)
    if name in _CHANGES:
        return _CHANGES[name](clip_THWC, 1 + 0.9 * level)
    if name == "autocontrast":
        return look_up(clip_THWC, autocontrast_table(_histograms(clip_THWC)))
    if name == "equalize":
        return look_up(clip_THWC, equalize_table(_histograms(clip_THWC)))
    if name == "solarize":  # inverts what is at least the threshold
        values = np.arange(256)
        return look_up(clip_THWC, np.where(values < 256 - int(strength * 256), values, 255 - values).astype(np.uint8))
    if name == "posterize":
        num_bits = max(1, 4 - int(4 * strength))
        return look_up(clip_THWC, (np.arange(256) & (0xFF << (8 - num_bits))).astype(np.uint8))
    height, width = clip_THWC.shape[1:3]
    if name == "rotate":
        return _warped(clip_THWC, rotation(30 * level, width, height))
    if name == "shear_x":
        return _warped(clip_THWC, (1, 0.3 * level, 0, 0, 1, 0))
    if name == "shear_y":
        return _warped(clip_THWC, (1, 0, 0, 0.3 * level, 1, 0))
    if name == "translate_x":
        return _warped(clip_THWC, (1, 0, 0.45 * level * width, 0, 1, 0))
    if name == "translate_y":
        return _warped(clip_THWC, (1, 0, 0, 0, 1, 0.45 * level * height))
    return clip_THWC


def sharpness(clip_THWC: Pixels, factor: float) -> Pixels:
    """Mix with the picture smoothed by (1 1 1, 1 5 1, 1 1 1) / 13: 0 is smooth, 1 the clip itself. The border, which
    has no neighbours, stays."""
    kernel = np.ones((3, 3)) / 13
    kernel[1, 1] = 5 / 13
    changed_THWC = clip_THWC.copy()
    for frame_HWC, changed_HWC in zip(clip_THWC, changed_THWC, strict=True):
        smooth_HWC = cv2.filter2D(frame_HWC, -1, kernel)
        mixed_HWC = cv2.addWeighted(frame_HWC, factor, smooth_HWC, 1 - factor, 0)
        changed_HWC[1:-1, 1:-1] = mixed_HWC[1:-1, 1:-1]
    return changed_THWC


_CHANGES = {"saturation": saturation, "contrast": contrast, "brightness": brightness, "sharpness": sharpness}


def autocontrast_table(histograms_C256: npt.NDArray[np.int64]) -> Pixels:
    """table_256C that stretches each channel to [0, 255]."""
    columns = []
    for histogram_256 in histograms_C256:
        used = np.flatnonzero(histogram_256)
        low, high = int(used[0]), int(used[-1])
        values, scale = np.arange(256), 255 / max(1, high - low)
        columns.append(values if low >= high else np.clip(values * scale - low * scale, 0, 255))
    return np.stack(columns, axis=1).astype(np.uint8)


def equalize_table(histograms_C256: npt.NDArray[np.int64]) -> Pixels:
    """table_256C that spreads each channel evenly, as Pillow rounds it."""
    columns = []
    for histogram_256 in histograms_C256:
        used = np.flatnonzero(histogram_256)
        step = int(histogram_256.sum() - histogram_256[used[-1]]) // 255
        before_256 = np.cumsum(histogram_256) - histogram_256
        columns.append(np.arange(256) if step == 0 else np.minimum((step // 2 + before_256) // step, 255))
    return np.stack(columns, axis=1).astype(np.uint8)


def rotation(degrees: float, width: int, height: int) -> tuple[float, float, float, float, float, float]:
    """Counter-clockwise around the centre, as the map from a place in the output to one in the input."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = width / 2, height / 2
    return cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y


def _histograms(clip_THWC: Pixels) -> npt.NDArray[np.int64]:
    """histograms_C256 of the clip; of each frame alone, OpenCV's are exact."""
    histograms_C256 = np.zeros((3, 256), np.int64)
    for frame_HWC in clip_THWC:
        for channel in range(3):
            counted = cv2.calcHist([frame_HWC], [channel], None, [256], [0, 256])
            histograms_C256[channel] += counted.ravel().astype(np.int64)
    return histograms_C256


def _warped(clip_THWC: Pixels, to_input: tuple[float, float, float, float, float, float]) -> Pixels:
    """Output place (x, y) shows input place (a x + b y + c, d x + e y + f), bilinear; a pixel's centre is at half."""
    a, b, c, d, e, f = to_input
    matrix = np.array([[a, b, c + (a + b - 1) / 2], [d, e, f + (d + e - 1) / 2]])
    height, width = clip_THWC.shape[1:3]
    warped_THWC = np.empty_like(clip_THWC)
    for frame_HWC, warped_HWC in zip(clip_THWC, warped_THWC, strict=True):
        cv2.warpAffine(
            frame_HWC,
            matrix,
            (width, height),
            dst=warped_HWC,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=(FILL, FILL, FILL),
        )
    return warped_THWC
