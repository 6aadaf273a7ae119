"""TSN, TSM, ppTSN and ppTSM: a residual net over frames, averages over space and frames, a classifier.

Wang et al., TSN, ECCV 2016; Lin et al., TSM, ICCV 2019; ppTSN and ppTSM are PaddleVideo's, on ResNet-50-vd. Layers are
named as in PaddleVideo, whose weights load.

Arrays: clips_NTCHW float32 normalised; features_NTC and features_NC float32; logits_NK float32.
"""

import paddle
from paddle import nn

from train.models.resnet import ResNet


class FrameModel(nn.Layer):
    """Scores of clips of any number of frames and any size.

    dropout: before the classifier; with `drops_per_frame` drawn for the features of each frame, else for their average.
    init_std: of the classifier's first weights.
    """

    def __init__(
        self, backbone: ResNet, num_classes: int, *, dropout: float, drops_per_frame: bool, init_std: float
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = _Head(backbone.num_features, num_classes, dropout, drops_per_frame, init_std)

    def forward(self, clips_NTCHW: paddle.Tensor) -> paddle.Tensor:
        num_frames = clips_NTCHW.shape[1]
        x_BCHW = self.backbone(clips_NTCHW.flatten(0, 1), num_frames)
        return self.head(x_BCHW.mean([2, 3]).reshape([-1, num_frames, self.backbone.num_features]))


class _Head(nn.Layer):
    def __init__(
        self, num_features: int, num_classes: int, dropout: float, drops_per_frame: bool, init_std: float
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(num_features, num_classes, weight_attr=nn.initializer.Normal(0.0, init_std))
        self._drops_per_frame = drops_per_frame

    def forward(self, features_NTC: paddle.Tensor) -> paddle.Tensor:
        """The average of the scores of frames is the score of the average, so one product does for both."""
        if self._drops_per_frame:
            features_NC = self.dropout(features_NTC).mean(1)
        else:
            features_NC = self.dropout(features_NTC.mean(1))
        return self.fc(features_NC)
