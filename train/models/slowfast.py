"""SlowFast: a slow pathway over few frames with many channels, a fast one over all frames with few.

Feichtenhofer et al., SlowFast, ICCV 2019. Layers are named as in PaddleVideo, whose weights load.

Arrays: clips_NTCHW float32 normalised; slow and fast x_NCTHW; logits_NK; logits_NDHWK, one row of scores for each
position of the pooling window.
"""

import numpy as np
import numpy.typing as npt
import paddle
from paddle import nn
from paddle.nn import functional

from train.models.norms import BatchNorm3D

_FAST_TIMES = 2  # channels that a fusion makes of one of the fast pathway


def slow_indices(num_frames: int, alpha: int) -> npt.NDArray[np.int64]:
    """Which of the fast pathway's frames the slow one sees: evenly spread from the first to the last, rounded down.

    Not every alpha-th: of 32 frames and alpha 8 they are 0, 10, 20, 31.
    """
    return np.linspace(0, num_frames - 1, num_frames // alpha).astype(np.int64)


class SlowFast(nn.Layer):
    """Scores of clips of a multiple of `alpha` frames and of any size.

    alpha: frames of the fast pathway for one of the slow one. beta: channels of the slow pathway for one of the fast
    one. width: channels of the slow stem. fusion_kernel: frames of the convolutions that lead from fast to slow.
    pool_px: None averages features over the whole clip, as training always does. The crop of the training, for larger
    ones in an evaluation: averages over windows of that size, takes the softmax in each, and averages those
    (`logits_NK` are then their logarithms), as PaddleVideo and PySlowFast evaluate.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        dropout: float,
        alpha: int,
        fusion_kernel: int,
        num_blocks: tuple[int, ...] = (3, 4, 6, 3),
        width: int = 64,
        beta: int = 8,
        pool_px: int | None = None,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.pool_px = pool_px
        self.backbone = _Backbone(num_blocks, width, alpha, beta, fusion_kernel)
        self.head = _Head(self.backbone.num_features, num_classes, dropout)

    def forward(self, clips_NTCHW: paddle.Tensor) -> paddle.Tensor:
        """Raises ValueError where the number of frames is no multiple of alpha."""
        logits_NDHWK = self.position_logits(clips_NTCHW)
        positions = logits_NDHWK.flatten(1, 3)
        if positions.shape[1] == 1:
            return positions.squeeze(1)
        return functional.softmax(positions, axis=2).mean(1).clip(min=1e-38).log()

    def position_logits(self, clips_NTCHW: paddle.Tensor) -> paddle.Tensor:
        """logits_NDHWK: scores at each position of the window."""
        num_frames = clips_NTCHW.shape[1]
        if num_frames % self.alpha:
            raise ValueError(f"a SlowFast with alpha {self.alpha} takes a multiple of it, not {num_frames} frames")
        indices = paddle.to_tensor(slow_indices(num_frames, self.alpha))
        slow = paddle.index_select(clips_NTCHW, indices, axis=1).transpose([0, 2, 1, 3, 4])
        pathways = self.backbone(slow, clips_NTCHW.transpose([0, 2, 1, 3, 4]))
        return self.head([self._pool(x_NCTHW) for x_NCTHW in pathways])

    def _pool(self, x_NCTHW: paddle.Tensor) -> paddle.Tensor:
        if self.pool_px is None or self.training:
            return x_NCTHW.mean([2, 3, 4], keepdim=True)
        side = -(-self.pool_px // self.backbone.stride_px)  # every layer rounds up
        kernel = [side, side]
        if paddle.in_dynamic_mode():  # else the size is not known: an export
            kernel = [min(side, length) for length in x_NCTHW.shape[3:]]
        return functional.avg_pool3d(x_NCTHW, [x_NCTHW.shape[2], *kernel], stride=1)


class _Backbone(nn.Layer):
    def __init__(self, num_blocks: tuple[int, ...], width: int, alpha: int, beta: int, fusion_kernel: int) -> None:
        super().__init__()
        self.s1 = _Stems(width, width // beta)
        channels = [width, width // beta]
        self._stages = []
        for stage, count in enumerate(num_blocks):
            fusion = self.add_sublayer(f"s{stage + 1}_fuse", _Fusion(channels[1], fusion_kernel, alpha))
            inner = [width << stage, (width << stage) // beta]
            # Temporal kernels as in the paper: the slow pathway has them in its last two stages only.
            kernels = [3 if stage >= 2 else 1, 3]
            layer = _Stage(
                [channels[0] + _FAST_TIMES * channels[1], channels[1]], inner, kernels, count, 2 if stage > 0 else 1
            )
            self._stages.append((fusion, self.add_sublayer(f"s{stage + 2}", layer)))
            channels = [4 * size for size in inner]
        self.num_features = sum(channels)
        self.stride_px = 4 * 2 ** (len(num_blocks) - 1)  # of the stem and of every stage but the first

    def forward(self, slow: paddle.Tensor, fast: paddle.Tensor) -> list[paddle.Tensor]:
        pathways = self.s1([slow, fast])
        for fusion, stage in self._stages:
            pathways = stage([fusion(*pathways), pathways[1]])
        return pathways


class _Stems(nn.Layer):
    def __init__(self, slow_channels: int, fast_channels: int) -> None:
        super().__init__()
        self.pathway0_stem = _Stem(slow_channels, 1)
        self.pathway1_stem = _Stem(fast_channels, 5)

    def forward(self, pathways: list[paddle.Tensor]) -> list[paddle.Tensor]:
        return [self.pathway0_stem(pathways[0]), self.pathway1_stem(pathways[1])]


class _Stem(nn.Layer):
    def __init__(self, channels: int, temporal_kernel: int) -> None:
        super().__init__()
        self._conv = _conv(3, channels, (temporal_kernel, 7, 7), stride=2)
        self._bn = BatchNorm3D(channels)

    def forward(self, x_NCTHW: paddle.Tensor) -> paddle.Tensor:
        x_NCTHW = functional.relu(self._bn(self._conv(x_NCTHW)))
        return functional.max_pool3d(x_NCTHW, [1, 3, 3], stride=[1, 2, 2], padding=[0, 1, 1])


class _Fusion(nn.Layer):
    """The slow pathway with channels from the fast one, brought to its number of frames by a strided convolution."""

    def __init__(self, fast_channels: int, kernel: int, alpha: int) -> None:
        super().__init__()
        channels = _FAST_TIMES * fast_channels
        self._conv_f2s = _conv(fast_channels, channels, (kernel, 1, 1), temporal_stride=alpha)
        self._bn = BatchNorm3D(channels)

    def forward(self, slow: paddle.Tensor, fast: paddle.Tensor) -> paddle.Tensor:
        return paddle.concat([slow, functional.relu(self._bn(self._conv_f2s(fast)))], axis=1)


class _Stage(nn.Layer):
    """Residual blocks of both pathways; lists have the slow pathway first."""

    def __init__(self, in_channels: list[int], inner: list[int], kernels: list[int], count: int, stride: int) -> None:
        super().__init__()
        self._pathways = [self._blocks(i, in_channels[i], inner[i], kernels[i], count, stride) for i in (0, 1)]

    def _blocks(
        self, pathway: int, in_channels: int, inner: int, kernel: int, count: int, stride: int
    ) -> list["_Block"]:
        blocks = [
            _Block(in_channels, inner, kernel, stride),
            *(_Block(4 * inner, inner, kernel, 1) for _ in range(count - 1)),
        ]
        return [self.add_sublayer(f"pathway{pathway}_res{i}", block) for i, block in enumerate(blocks)]

    def forward(self, pathways: list[paddle.Tensor]) -> list[paddle.Tensor]:
        return [_through(self._pathways[0], pathways[0]), _through(self._pathways[1], pathways[1])]


def _through(blocks: list["_Block"], x_NCTHW: paddle.Tensor) -> paddle.Tensor:
    for block in blocks:
        x_NCTHW = block(x_NCTHW)
    return x_NCTHW


class _Block(nn.Layer):
    def __init__(self, in_channels: int, inner: int, temporal_kernel: int, stride: int) -> None:
        super().__init__()
        self._projects = in_channels != 4 * inner or stride != 1
        if self._projects:
            self.branch1 = _conv(in_channels, 4 * inner, (1, 1, 1), stride=stride)
            self.branch1_bn = BatchNorm3D(4 * inner)
        self.branch2 = _Bottleneck(in_channels, inner, temporal_kernel, stride)

    def forward(self, x_NCTHW: paddle.Tensor) -> paddle.Tensor:
        short = self.branch1_bn(self.branch1(x_NCTHW)) if self._projects else x_NCTHW
        return functional.relu(short + self.branch2(x_NCTHW))


class _Bottleneck(nn.Layer):
    """Tx1x1, 1x3x3 with the stride, 1x1x1; a new block is the identity, since its last norm begins at zero."""

    def __init__(self, in_channels: int, inner: int, temporal_kernel: int, stride: int) -> None:
        super().__init__()
        self.a = _conv(in_channels, inner, (temporal_kernel, 1, 1))
        self.a_bn = BatchNorm3D(inner)
        self.b = _conv(inner, inner, (1, 3, 3), stride=stride)
        self.b_bn = BatchNorm3D(inner)
        self.c = _conv(inner, 4 * inner, (1, 1, 1))
        self.c_bn = BatchNorm3D(4 * inner, weight_attr=nn.initializer.Constant(0.0))

    def forward(self, x_NCTHW: paddle.Tensor) -> paddle.Tensor:
        x_NCTHW = functional.relu(self.a_bn(self.a(x_NCTHW)))
        x_NCTHW = functional.relu(self.b_bn(self.b(x_NCTHW)))
        return self.c_bn(self.c(x_NCTHW))


class _Head(nn.Layer):
    def __init__(self, num_features: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.projection = nn.Linear(num_features, num_classes, weight_attr=nn.initializer.Normal(0.0, 0.01))

    def forward(self, pooled: list[paddle.Tensor]) -> paddle.Tensor:
        features_NDHWC = paddle.concat(pooled, axis=1).transpose([0, 2, 3, 4, 1])
        return self.projection(self.dropout(features_NDHWC))


def _conv(
    in_channels: int, out_channels: int, kernel: tuple[int, int, int], *, stride: int = 1, temporal_stride: int = 1
) -> nn.Conv3D:
    """Without bias, padded to keep the size where the stride is 1; He initialisation over the outputs, as the paper."""
    fan_out = out_channels * kernel[0] * kernel[1] * kernel[2]
    return nn.Conv3D(
        in_channels,
        out_channels,
        list(kernel),
        stride=[temporal_stride, stride, stride],
        padding=[size // 2 for size in kernel],
        weight_attr=nn.initializer.KaimingNormal(fan_in=fan_out),
        bias_attr=False,
    )
