"""Residual nets over single frames, plain and "vd", with a temporal shift at the entry of every block or without.

He et al., Deep Residual Learning, CVPR 2016, with the stride on the 3x3 convolution; "vd" after He et al., Bag of
Tricks, CVPR 2019: three 3x3 convolutions for a stem, and shortcuts that average before they project. The shift is that
of Lin et al., TSM, ICCV 2019, in the residual branch: the shortcut sees what was not shifted. Layers are named as in
PaddleVideo, whose weights load.

Arrays: x_BCHW float32 with B = N * T, frames of a clip next to each other.
"""

from collections.abc import Callable

import paddle
from paddle import nn
from paddle.nn import functional

from train.models.norms import BatchNorm2D
from train.ops.temporal_shift import Shift, temporal_shift

Activation = Callable[[paddle.Tensor], paddle.Tensor]

NUM_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
"""Blocks a stage by the number of layers; 18 and 34 have basic blocks, 50 has bottlenecks."""


class ResNet(nn.Layer):
    """Feature maps of frames, at 1/4 of their size times 1/2 for each stage after the first, rounded up.

    width: channels of the stem and of the first stage's 3x3 convolutions; each stage doubles them. shift: None leaves
    frames alone. num_features: channels of the result.
    """

    def __init__(
        self,
        num_blocks: tuple[int, ...],
        *,
        width: int,
        has_bottlenecks: bool,
        is_vd: bool,
        activation: Activation,
        shift: Shift | None,
    ) -> None:
        super().__init__()
        if is_vd:
            self.conv1_1 = ConvNorm(3, width // 2, 3, stride=2, activation=activation)
            self.conv1_2 = ConvNorm(width // 2, width // 2, 3, activation=activation)
            self.conv1_3 = ConvNorm(width // 2, width, 3, activation=activation)
            self._stem = [self.conv1_1, self.conv1_2, self.conv1_3]
        else:
            self.conv = ConvNorm(3, width, 7, stride=2, activation=activation)
            self._stem = [self.conv]
        self._blocks = []
        channels = width
        for stage, count in enumerate(num_blocks):
            for i in range(count):
                block = _Block(
                    channels,
                    width << stage,
                    stride=2 if i == 0 and stage > 0 else 1,
                    is_bottleneck=has_bottlenecks,
                    is_vd=is_vd,
                    activation=activation,
                    shift=shift,
                )
                name = f"bb_{stage}_{i}" if is_vd else f"res{stage + 2}{chr(ord('a') + i)}"
                self._blocks.append(self.add_sublayer(name, block))
                channels = block.out_channels
        self.num_features = channels

    def forward(self, x_BCHW: paddle.Tensor, num_frames: int) -> paddle.Tensor:
        for conv in self._stem:
            x_BCHW = conv(x_BCHW)
        x_BCHW = functional.max_pool2d(x_BCHW, 3, stride=2, padding=1)
        for block in self._blocks:
            x_BCHW = block(x_BCHW, num_frames)
        return x_BCHW


class ConvNorm(nn.Layer):
    """Convolution without bias, batch norm, activation."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        *,
        stride: int = 1,
        activation: Activation | None = None,
        averages: bool = False,
    ) -> None:
        """`averages`: pool 2x2 to half the size, rounded up, instead of a stride."""
        super().__init__()
        self._conv = nn.Conv2D(
            in_channels,
            out_channels,
            kernel,
            stride=stride,
            padding=kernel // 2,
            weight_attr=nn.initializer.KaimingNormal(),
            bias_attr=False,
        )
        self._batch_norm = BatchNorm2D(out_channels)
        self._activation = activation
        self._averages = averages

    def forward(self, x_BCHW: paddle.Tensor) -> paddle.Tensor:
        if self._averages:
            x_BCHW = functional.avg_pool2d(x_BCHW, 2, stride=2, ceil_mode=True)
        x_BCHW = self._batch_norm(self._conv(x_BCHW))
        return x_BCHW if self._activation is None else self._activation(x_BCHW)


class _Block(nn.Layer):
    """A basic block (3x3, 3x3) or a bottleneck (1x1, 3x3, 1x1 to four times the channels), with its shortcut."""

    def __init__(
        self,
        in_channels: int,
        channels: int,
        *,
        stride: int,
        is_bottleneck: bool,
        is_vd: bool,
        activation: Activation,
        shift: Shift | None,
    ) -> None:
        super().__init__()
        self.out_channels = 4 * channels if is_bottleneck else channels
        if is_bottleneck:
            self.conv0 = ConvNorm(in_channels, channels, 1, activation=activation)
            self.conv1 = ConvNorm(channels, channels, 3, stride=stride, activation=activation)
            self.conv2 = ConvNorm(channels, self.out_channels, 1)
        else:
            self.conv0 = ConvNorm(in_channels, channels, 3, stride=stride, activation=activation)
            self.conv1 = ConvNorm(channels, channels, 3)
        if stride != 1 or in_channels != self.out_channels:
            averages = is_vd and stride != 1
            self.short = ConvNorm(
                in_channels, self.out_channels, 1, stride=1 if averages else stride, averages=averages
            )
        self._convs = [self.conv0, self.conv1, *([self.conv2] if is_bottleneck else [])]
        self._projects = stride != 1 or in_channels != self.out_channels
        self._activation = activation
        self._shift = shift

    def forward(self, x_BCHW: paddle.Tensor, num_frames: int) -> paddle.Tensor:
        out_BCHW = x_BCHW if self._shift is None else temporal_shift(x_BCHW, num_frames, self._shift)
        for conv in self._convs:
            out_BCHW = conv(out_BCHW)
        return self._activation(out_BCHW + (self.short(x_BCHW) if self._projects else x_BCHW))
