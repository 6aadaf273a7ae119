"""Changes of colour, alike for all frames of a clip, with the meaning that Pillow's ImageEnhance gives them.

Arrays: clip_THWC uint8 RGB in [0, 255]; table_256 uint8, or table_256C one for each channel.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

_LUMA = (0.299, 0.587, 0.114)
"""ITU-R BT.601, as Pillow turns RGB to grey."""


@dataclass(frozen=True)
class ColourJitter:
    """How far each factor is drawn around 1: U[max(0, 1 - x), 1 + x]; hue: U[-hue, hue] of a whole turn, up to 0.5.

    Krizhevsky et al., NIPS 2012, and Howard, 2013, in the form of torchvision's `ColorJitter`: the four in random
    order.
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __bool__(self) -> bool:
        return any((self.brightness, self.contrast, self.saturation, self.hue))


def jitter_colours(clip_THWC: Pixels, jitter: ColourJitter, rng: np.random.Generator) -> Pixels:
    """Draw the factors and apply them to all frames. Always draws as often, whatever is switched off."""
    order = rng.permutation(4)
    draws = rng.uniform(-1, 1, 4)
    for which in order:
        if which == 0 and jitter.brightness:
            clip_THWC = brightness(clip_THWC, _factor(draws[0], jitter.brightness))
        elif which == 1 and jitter.contrast:
            clip_THWC = contrast(clip_THWC, _factor(draws[1], jitter.contrast))
        elif which == 2 and jitter.saturation:
            clip_THWC = saturation(clip_THWC, _factor(draws[2], jitter.saturation))
        elif which == 3 and jitter.hue:
            clip_THWC = turn_hue(clip_THWC, draws[3] * jitter.hue)
    return clip_THWC


def _factor(draw: float, extent: float) -> float:
    """A draw from [-1, 1] as a factor from [max(0, 1 - extent), 1 + extent]."""
    low, high = max(0.0, 1 - extent), 1 + extent
    return low + (draw + 1) / 2 * (high - low)


def brightness(clip_THWC: Pixels, factor: float) -> Pixels:
    """Mix with black: 0 is black, 1 the clip itself."""
    return _blended(clip_THWC, 0, factor)


def contrast(clip_THWC: Pixels, factor: float) -> Pixels:
    """Mix with the mean grey of the clip: 0 is grey, 1 the clip itself.

    Pillow takes the mean of each picture; that of the clip does not flicker.
    """
    num_frames, height, width, _ = clip_THWC.shape
    means_C = cv2.mean(clip_THWC.reshape(num_frames * height, width, 3))[:3]
    return _blended(clip_THWC, int(np.dot(means_C, _LUMA) + 0.5), factor)


def saturation(clip_THWC: Pixels, factor: float) -> Pixels:
    """Mix with the grey of each pixel: 0 has no colour, 1 is the clip itself."""
    matrix = factor * np.eye(3) + (1 - factor) * np.tile(_LUMA, (3, 1))
    return _as_picture(clip_THWC, lambda picture: cv2.transform(picture, matrix))


def turn_hue(clip_THWC: Pixels, turn: float) -> Pixels:
    """Turn the hue by a share of the colour circle in [-0.5, 0.5] (HSV)."""
    hues = (np.arange(256) + round(turn * 256)).astype(np.uint8)

    def turned(picture: Pixels) -> Pixels:
        hsv = cv2.cvtColor(picture, cv2.COLOR_RGB2HSV_FULL)
        hsv[:, :, 0] = cv2.LUT(hsv[:, :, 0], hues)
        rgb: Pixels = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB_FULL)
        return rgb

    return _as_picture(clip_THWC, turned)


def look_up(clip_THWC: Pixels, table: Pixels) -> Pixels:
    """Each value through table_256, or through the column of its channel of table_256C."""
    columns = table if table.ndim == 1 else table[None]
    return _as_picture(clip_THWC, lambda picture: cv2.LUT(picture, columns))


def _blended(clip_THWC: Pixels, grey: int, factor: float) -> Pixels:
    values = grey + factor * (np.arange(256) - grey)
    return look_up(clip_THWC, np.clip(values, 0, 255).astype(np.uint8))


def _as_picture(clip_THWC: Pixels, change: Callable[[Pixels], Pixels]) -> Pixels:
    """`change` on all frames as one tall picture: what works pixel by pixel does not care."""
    num_frames, height, width, _ = clip_THWC.shape
    changed: Pixels = change(clip_THWC.reshape(num_frames * height, width, 3))
    return changed.reshape(clip_THWC.shape)
