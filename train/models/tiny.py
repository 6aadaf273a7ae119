"""A TSN and a TSM of three residual blocks, small enough to learn on a CPU in seconds.

Arrays: clips_NTCHW float32 normalised; x_BCHW with B = N * T; logits_NK float32.
"""

import paddle
from paddle import nn

from train.models.norms import BatchNorm2D
from train.ops.temporal_shift import Shift, temporal_shift

_WIDTHS = (16, 32, 64)


class TinyNet(nn.Layer):
    """Stem and three residual blocks over frames, mean over space, per-frame classifier, mean over frames.

    With a `shift` the blocks shift channels in time before their first convolution (TSM, residual placement); without,
    the net is a TSN and cannot see the order of its frames.
    """

    def __init__(self, num_classes: int, *, dropout: float, shift: Shift | None) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2D(3, _WIDTHS[0], 3, stride=2, padding=1, bias_attr=False), BatchNorm2D(_WIDTHS[0]), nn.ReLU()
        )
        sizes = zip((_WIDTHS[0], *_WIDTHS), _WIDTHS, strict=False)
        self.blocks = nn.LayerList([_Block(before, after, shift=shift) for before, after in sizes])
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(_WIDTHS[-1], num_classes)

    def forward(self, clips_NTCHW: paddle.Tensor) -> paddle.Tensor:
        num_clips, num_frames = clips_NTCHW.shape[:2]
        x_BCHW = self.stem(clips_NTCHW.reshape([num_clips * num_frames, *clips_NTCHW.shape[2:]]))
        for block in self.blocks:
            x_BCHW = block(x_BCHW, num_frames)
        features_BC = x_BCHW.mean(axis=[2, 3])
        logits_BK = self.classifier(self.dropout(features_BC))
        return logits_BK.reshape([num_clips, num_frames, -1]).mean(axis=1)


class _Block(nn.Layer):
    """Two 3x3 convolutions with a shortcut, at half resolution."""

    def __init__(self, in_channels: int, out_channels: int, *, shift: Shift | None) -> None:
        super().__init__()
        self.shift = shift
        self.conv1 = nn.Conv2D(in_channels, out_channels, 3, stride=2, padding=1, bias_attr=False)
        self.norm1 = BatchNorm2D(out_channels)
        self.conv2 = nn.Conv2D(out_channels, out_channels, 3, padding=1, bias_attr=False)
        self.norm2 = BatchNorm2D(out_channels)
        self.shortcut = nn.Conv2D(in_channels, out_channels, 1, stride=2, bias_attr=False)

    def forward(self, x_BCHW: paddle.Tensor, num_frames: int) -> paddle.Tensor:
        shifted_BCHW = x_BCHW if self.shift is None else temporal_shift(x_BCHW, num_frames, self.shift)
        out_BCHW = nn.functional.relu(self.norm1(self.conv1(shifted_BCHW)))
        return nn.functional.relu(self.norm2(self.conv2(out_BCHW)) + self.shortcut(x_BCHW))
