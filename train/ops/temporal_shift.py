"""Temporal shift: a share of the channels takes its values from the frame before, as many from the frame after.

Lin et al., TSM, ICCV 2019. Frames beyond the ends of a clip are zero. By default the first fold of channels comes from
the previous frame and the second from the next one, as in Paddle's operator and PaddleVideo's weights; the TSM
repository has it the other way round (`first_from="next"`).

Five versions of equal value: `shift_fused` (Paddle's kernel), `shift_composed` (reshape, pad, slice, concat, which is
how Paddle's documentation defines the operator), `shift_split` (split and concat), `shift_rows` (one look-up of rows)
and `shift_reference` (numpy). `temporal_shift` takes the fastest for the device: the kernel on a GPU, `shift_rows` on a
CPU.

Arrays: x_BCHW float32 or float64 with B = N * T, frames of a clip next to each other; rows_R int64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import paddle
from paddle.nn import functional

FirstFrom = Literal["previous", "next"]
Layout = Literal["NCHW", "NHWC"]
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Shift:
    """share: of the channels, each way, in [0, 1/2]. first_from: which neighbour the first fold takes its values from.

    Raises ValueError.
    """

    share: float
    first_from: FirstFrom = "previous"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 0.5:
            raise ValueError(f"the share of a temporal shift is in [0, 0.5], not {self.share}")
        if self.first_from not in ("previous", "next"):
            raise ValueError(f"the first fold comes from the previous or the next frame, not {self.first_from!r}")


def temporal_shift(x_BCHW: paddle.Tensor, num_frames: int, shift: Shift, layout: Layout = "NCHW") -> paddle.Tensor:
    """Shift within clips of `num_frames`, at least 1: the only frame of a clip has zeros in both folds.

    `layout` NHWC takes and gives x_BHWC. The result may be the input itself where no channel moves.
    """
    channels = x_BCHW.shape[1 if layout == "NCHW" else 3]
    if _fold_ends(channels, shift.share)[1] == 0:
        return x_BCHW
    if not paddle.in_dynamic_mode():
        return shift_split(x_BCHW, num_frames, shift, layout)
    version = fastest_version(shift, layout, is_on_gpu=x_BCHW.place.is_gpu_place())
    return version(x_BCHW, num_frames, shift, layout)


def fastest_version(shift: Shift, layout: Layout, *, is_on_gpu: bool) -> Callable[..., paddle.Tensor]:
    """On a GPU by PaddleVideo's figures, on a CPU by those of `train bench ops`."""
    if is_on_gpu and can_fuse(shift):
        return shift_fused
    return shift_rows if layout == "NCHW" and not is_on_gpu else shift_split


def can_fuse(shift: Shift) -> bool:
    """Whether Paddle's kernel has this shift: it knows one direction, and shares in (0, 1/2)."""
    return shift.first_from == "previous" and 0 < shift.share < 0.5


def shift_fused(x_BCHW: paddle.Tensor, num_frames: int, shift: Shift, layout: Layout = "NCHW") -> paddle.Tensor:
    """Paddle's kernel; for what `can_fuse` says."""
    return functional.temporal_shift(x_BCHW, num_frames, shift.share, data_format=layout)


def shift_composed(x_BCHW: paddle.Tensor, num_frames: int, shift: Shift, layout: Layout = "NCHW") -> paddle.Tensor:
    """Pad each clip with a frame of zeros at both ends, take each fold from its place, put the folds together."""
    axis = 2 if layout == "NCHW" else 4
    channels = x_BCHW.shape[axis - 1]
    first, second = _fold_ends(channels, shift.share)
    padded = functional.pad(
        x_BCHW.reshape([-1, num_frames, *x_BCHW.shape[1:]]), [0, 0, 1, 1, 0, 0, 0, 0, 0, 0], data_format="NCDHW"
    )
    one, other = (0, 2) if shift.first_from == "previous" else (2, 0)
    folds = [_cut(padded, axis, second, channels, 1, 1 + num_frames)] if second < channels else []
    if second > first:
        folds = [_cut(padded, axis, first, second, other, other + num_frames), *folds]
    if first > 0:
        folds = [_cut(padded, axis, 0, first, one, one + num_frames), *folds]
    return paddle.concat(folds, axis=axis).reshape(x_BCHW.shape)


def _cut(clips: paddle.Tensor, axis: int, begin: int, end: int, start: int, stop: int) -> paddle.Tensor:
    """Channels [begin, end) of frames [start, stop), in one slice: each has a gradient as large as `clips`."""
    if axis == 2:
        return clips[:, start:stop, begin:end]
    return clips[:, start:stop, :, :, begin:end]


def shift_split(x_BCHW: paddle.Tensor, num_frames: int, shift: Shift, layout: Layout = "NCHW") -> paddle.Tensor:
    """Take the folds apart, give each its zeros, put them together. Can be exported with any batch and size."""
    axis = 2 if layout == "NCHW" else 4
    channels = x_BCHW.shape[axis - 1]
    first, second = _fold_ends(channels, shift.share)
    # Sizes that are unknown in an export stand for themselves.
    sizes = [x_BCHW.shape[i] if x_BCHW.shape[i] >= 0 else paddle.shape(x_BCHW)[i] for i in (1, 2, 3)]
    clips = x_BCHW.reshape([-1, num_frames, *sizes])
    moves = ("previous", "next", "stay") if shift.first_from == "previous" else ("next", "previous", "stay")
    widths = (first, second - first, channels - second)
    # Paddle 2.6 has no gradient of an empty part.
    moves = [moves[i] for i in range(3) if widths[i] > 0]
    parts = paddle.split(clips, [width for width in widths if width > 0], axis=axis)
    return paddle.concat([_moved(parts[i], num_frames, moves[i]) for i in range(len(moves))], axis=axis).flatten(0, 1)


def _moved(clips: paddle.Tensor, num_frames: int, move: str) -> paddle.Tensor:
    """What each frame's previous or next one has, along axis 1, or its own."""
    if move == "stay":
        return clips
    zeros = paddle.zeros_like(clips[:, :1])
    if num_frames == 1:
        return zeros
    return paddle.concat([zeros, clips[:, :-1]] if move == "previous" else [clips[:, 1:], zeros], axis=1)


def shift_rows(x_BCHW: paddle.Tensor, num_frames: int, shift: Shift, layout: Layout = "NCHW") -> paddle.Tensor:
    """Look every channel of every frame up in a table of the channels of all frames, zeros where there is none.

    One pass over the memory where the others take two or more: the kernel behind Paddle's embeddings copies rows, and
    writes zeros for the row that its `padding_idx` names. A channel that leaves its clip is nobody's source, so its row
    can stand for the zeros; there has to be one. The gradient is the shift the other way round. NCHW only.
    """
    assert layout == "NCHW"
    shifted: paddle.Tensor = _RowShift.apply(x_BCHW, num_frames, shift)
    return shifted


class _RowShift(paddle.autograd.PyLayer):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, x_BCHW: paddle.Tensor, num_frames: int, shift: Shift) -> paddle.Tensor:
        back: FirstFrom = "next" if shift.first_from == "previous" else "previous"
        context.back = num_frames, Shift(shift.share, back)
        return _look_up(x_BCHW, num_frames, shift)

    @staticmethod
    def backward(context: Any, gradient_BCHW: paddle.Tensor) -> paddle.Tensor:
        return _look_up(gradient_BCHW, *context.back)


def _look_up(x_BCHW: paddle.Tensor, num_frames: int, shift: Shift) -> paddle.Tensor:
    size, channels, height, width = x_BCHW.shape
    rows_R, zero_row = _source_rows(size, channels, num_frames, shift)
    table_RP = x_BCHW.reshape([size * channels, height * width])
    return functional.embedding(rows_R, table_RP, padding_idx=zero_row).reshape(x_BCHW.shape)


@lru_cache(maxsize=256)  # a net has about as many shapes as blocks
def _source_rows(size: int, channels: int, num_frames: int, shift: Shift) -> tuple[paddle.Tensor, int]:
    """Of each row (frame, channel) the row that its values come from, and the row that stands for zeros."""
    first, second = _fold_ends(channels, shift.share)
    previous, following = slice(0, first), slice(first, second)
    if shift.first_from == "next":
        previous, following = following, previous
    own = np.arange(size * channels).reshape(-1, num_frames, channels)
    leaving = [*own[0, -1, previous], *own[0, 0, following]]
    zero_row = int(leaving[0])
    source = own.copy()
    source[:, 1:, previous] = own[:, :-1, previous]
    source[:, 0, previous] = zero_row
    source[:, :-1, following] = own[:, 1:, following]
    source[:, -1, following] = zero_row
    return paddle.to_tensor(source.reshape(-1), place=paddle.CPUPlace()), zero_row


def shift_reference(x_BCHW: Floats, num_frames: int, shift: Shift, layout: Layout = "NCHW") -> Floats:
    """The definition, one frame at a time."""
    x = x_BCHW if layout == "NCHW" else x_BCHW.transpose(0, 3, 1, 2)
    first, second = _fold_ends(x.shape[1], shift.share)
    shifted = x.copy()
    step = -1 if shift.first_from == "previous" else 1
    for b in range(len(x)):
        for fold, neighbour in ((slice(0, first), b + step), (slice(first, second), b - step)):
            is_inside = 0 <= neighbour < len(x) and neighbour // num_frames == b // num_frames
            shifted[b, fold] = x[neighbour, fold] if is_inside else 0
    return shifted if layout == "NCHW" else shifted.transpose(0, 2, 3, 1)


def _fold_ends(channels: int, share: float) -> tuple[int, int]:
    """Where the two folds end: [0, first) and [first, second), rounded as the kernel does, in float32.

    The second fold is one channel wider than the first where `channels * share` is not whole.
    """
    return int(np.float32(channels) * np.float32(share)), int(np.float32(2 * channels) * np.float32(share))
