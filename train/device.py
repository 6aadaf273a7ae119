"""The device and its threads, and the one place where clips become what a model takes.

Arrays: clips_NTHWC uint8 RGB; clips_NTCHW, clips_NCTHW float32, normalised.
"""

import paddle

from train.normalisation import NORMALISATIONS

LAYOUTS = {"NTCHW": [0, 1, 4, 2, 3], "NCTHW": [0, 4, 1, 2, 3]}
"""What models take: frames as pictures, or as a volume."""


def normalise(clips_NTHWC: paddle.Tensor, normalisation: str = "imagenet", layout: str = "NTCHW") -> paddle.Tensor:
    """Move uint8 clips to the device, scale to [0, 1], subtract the mean, divide by the deviation, as `layout`.

    normalisation: one of train.normalisation.NORMALISATIONS; layout: one of LAYOUTS.
    """
    place = paddle.framework._current_expected_place()
    clips = clips_NTHWC if clips_NTHWC.place._equals(place) else clips_NTHWC._copy_to(place, True)
    numbers = NORMALISATIONS[normalisation]
    # Turned while they are bytes, and then changed in place: on a CPU a third of the time.
    normalised = clips.transpose(LAYOUTS[layout]).astype("float32")
    shape = [3, 1, 1] if layout == "NTCHW" else [3, 1, 1, 1]
    scale = paddle.to_tensor([1 / (255 * std) for std in numbers.std]).reshape(shape)
    shift = paddle.to_tensor([mean / std for mean, std in zip(numbers.mean, numbers.std, strict=True)]).reshape(shape)
    normalised.multiply_(scale)
    normalised.subtract_(shift)
    return normalised


def has_gpu() -> bool:
    """Whether Paddle computes on something else than a CPU."""
    return bool(paddle.device.get_device() != "cpu")


def set_cpu_threads(num_threads: int) -> None:
    """How many threads the kernels of a CPU use; Paddle alone takes one."""
    paddle.set_flags({"FLAGS_paddle_num_threads": num_threads})
    paddle.base.core.set_num_threads(num_threads)
