"""The device and its threads, and the one place where clips become what a model takes.

Arrays: clips_NTHWC uint8 RGB; plane_HW one colour of one frame; clips_NTCHW, clips_NCTHW float32, normalised.
"""

import cv2
import numpy as np
import paddle
from paddle.utils import dlpack

from train.normalisation import NORMALISATIONS, Normalisation

LAYOUTS = {"NTCHW": [0, 1, 4, 2, 3], "NCTHW": [0, 4, 1, 2, 3]}
"""What models take: frames as pictures, or as a volume."""


def normalise(clips_NTHWC: paddle.Tensor, normalisation: str = "imagenet", layout: str = "NTCHW") -> paddle.Tensor:
    """Move uint8 clips to the device, scale to [0, 1], subtract the mean, divide by the deviation, as `layout`.

    normalisation: one of train.normalisation.NORMALISATIONS; layout: one of LAYOUTS.
    """
    numbers = NORMALISATIONS[normalisation]
    if not has_gpu():
        return _looked_up(clips_NTHWC, numbers, layout)
    clips = clips_NTHWC._copy_to(paddle.framework._current_expected_place(), True)
    normalised = clips.transpose(LAYOUTS[layout]).astype("float32")  # turned while they are bytes
    shape = [3, 1, 1] if layout == "NTCHW" else [3, 1, 1, 1]
    normalised.multiply_(paddle.to_tensor(_scale(numbers)).reshape(shape))
    normalised.subtract_(paddle.to_tensor(_shift(numbers)).reshape(shape))
    return normalised


def _looked_up(clips_NTHWC: paddle.Tensor, numbers: Normalisation, layout: str) -> paddle.Tensor:
    """The same numbers on a CPU in a third of the time: a byte has 256 values, and a plane fits into the cache."""
    levels = np.arange(256, dtype=np.float32)
    tables = [levels * scale - shift for scale, shift in zip(_scale(numbers), _shift(numbers), strict=True)]
    # PaddlePaddle 2.6 lends its memory to nobody.
    clips = np.from_dlpack(clips_NTHWC) if hasattr(clips_NTHWC, "__dlpack_device__") else clips_NTHWC.numpy()
    normalised = np.empty([clips.shape[axis] for axis in LAYOUTS[layout]], np.float32)
    planes_NTCHW = normalised if layout == "NTCHW" else normalised.transpose(0, 2, 1, 3, 4)
    for clip, frame in np.ndindex(clips.shape[:2]):
        for colour, plane_HW in enumerate(cv2.split(clips[clip, frame])):
            cv2.LUT(plane_HW, tables[colour], dst=planes_NTCHW[clip, frame, colour])
    return dlpack.from_dlpack(normalised.__dlpack__())


def _scale(numbers: Normalisation) -> np.ndarray:
    return np.array([1 / (255 * std) for std in numbers.std], np.float32)


def _shift(numbers: Normalisation) -> np.ndarray:
    return np.array([mean / std for mean, std in zip(numbers.mean, numbers.std, strict=True)], np.float32)


def has_gpu() -> bool:
    """Whether Paddle computes on something else than a CPU."""
    return bool(paddle.device.get_device() != "cpu")


def set_cpu_threads(num_threads: int) -> None:
    """How many threads the kernels of a CPU use; Paddle alone takes one."""
    paddle.set_flags({"FLAGS_paddle_num_threads": num_threads})
    paddle.base.core.set_num_threads(num_threads)
