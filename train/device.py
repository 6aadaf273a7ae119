"""The device and its threads, and the one place where clips become what a model takes.

Arrays: clips_NTHWC uint8 RGB; clips_NTCHW float32, normalised.
"""

import paddle

from train.models import Pixels


def normalise(clips_NTHWC: paddle.Tensor, pixels: Pixels) -> paddle.Tensor:
    """Move uint8 clips to the device, scale to [0, 1], subtract the mean, divide by the deviation, channels first."""
    place = paddle.framework._current_expected_place()
    clips = clips_NTHWC if clips_NTHWC.place._equals(place) else clips_NTHWC._copy_to(place, True)
    scale = paddle.to_tensor([1 / (255 * std) for std in pixels.std])
    shift = paddle.to_tensor([mean / std for mean, std in zip(pixels.mean, pixels.std, strict=True)])
    return (clips.astype("float32") * scale - shift).transpose([0, 1, 4, 2, 3])


def set_cpu_threads(num_threads: int) -> None:
    """How many threads the kernels of a CPU use; Paddle alone takes one."""
    paddle.set_flags({"FLAGS_paddle_num_threads": num_threads})
    paddle.base.core.set_num_threads(num_threads)
