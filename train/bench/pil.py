"""The loader that everybody writes first, as the baseline: Pillow and NumPy, one frame after the other.

Per frame `Image.open`, decode, crop, resize; a multi-scale crop at one of 13 places, the same for all frames of a clip,
and a flip of every other clip, as the readers of TSN and TSM have it; then stack, to float32, normalise. No part of it
is slow on purpose: frames are taken by number, cropped before they are scaled, scaled bilinearly, and turned into an
array once; normalisation is in place.

Arrays: clip_TCHW float32, normalised.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from train.normalisation import NORMALISATIONS
from train.transforms.crops import multi_scale_box


def read_clip(
    frames: Sequence[Path | bytes], crop_px: int, rng: np.random.Generator, *, flips: bool, normalise: str
) -> npt.NDArray[np.float32]:
    """clip_TCHW of these files, or of these JPEGs, with a random crop."""
    pictures = []
    box: tuple[int, int, int, int] | None = None
    for frame in frames:
        with Image.open(io.BytesIO(frame) if isinstance(frame, bytes) else frame) as image:
            picture = image.convert("RGB")
        if box is None:
            drawn = multi_scale_box(*picture.size, rng)
            box = (drawn.x, drawn.y, drawn.x + drawn.width, drawn.y + drawn.height)
            is_flipped = flips and rng.random() < 0.5
        cut = picture.crop(box).resize((crop_px, crop_px), Image.Resampling.BILINEAR)
        pictures.append(np.asarray(cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if is_flipped else cut))
    numbers = NORMALISATIONS[normalise]
    clip_TCHW = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32)
    clip_TCHW /= 255
    clip_TCHW -= np.array(numbers.mean, np.float32).reshape(3, 1, 1)
    clip_TCHW /= np.array(numbers.std, np.float32).reshape(3, 1, 1)
    return clip_TCHW
