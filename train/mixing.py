"""Mixing the clips of a batch in pairs, on the device that computes.

A mixed batch has two labels for every clip; its loss is weight * loss(first) + (1 - weight) * loss(second). What is
drawn is drawn on the host, by a generator of (seed, step), so that a resumed run mixes alike.

Arrays: clips_NTCHW (or any [N, ..., H, W]) float32; labels_N int64; partners_N int64, a permutation of [0, N).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import paddle
from paddle.nn import functional

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Mixed:
    """Clips, and the two labels of each; `weight` is the share of the first."""

    clips: paddle.Tensor
    labels_N: Labels
    partner_labels_N: Labels
    weight: float

    def loss(self, logits_NK: paddle.Tensor, *, label_smoothing: float = 0.0) -> paddle.Tensor:
        """Mean cross entropy over the batch."""
        first = functional.cross_entropy(logits_NK, paddle.to_tensor(self.labels_N), label_smoothing=label_smoothing)
        if self.weight == 1:
            return first
        second = functional.cross_entropy(
            logits_NK, paddle.to_tensor(self.partner_labels_N), label_smoothing=label_smoothing
        )
        return self.weight * first + (1 - self.weight) * second


def mix(
    clips: paddle.Tensor,
    labels_N: Labels,
    rng: np.random.Generator,
    *,
    mixup_alpha: float = 0.0,
    cutmix_alpha: float = 0.0,
    cutmix_share: float = 0.5,
) -> Mixed:
    """Mixup, CutMix, or one of the two drawn for each batch, CutMix with probability `cutmix_share`.

    An alpha of 0 leaves its kind out. With both this is VideoMix as PaddleVideo has it (mixup 0.2, CutMix 1, share
    0.5), after Yun et al., VideoMix, 2020, whose spatial variant, the best one, is CutMix with one box for all frames.
    """
    if not mixup_alpha and not cutmix_alpha:
        return Mixed(clips, labels_N, labels_N, 1.0)
    is_cutmix = bool(cutmix_alpha) and (not mixup_alpha or rng.random() < cutmix_share)
    weight = float(rng.beta(*2 * [cutmix_alpha if is_cutmix else mixup_alpha]))
    partners_N = rng.permutation(len(labels_N))
    if not is_cutmix:
        return mixup(clips, labels_N, partners_N, weight)
    height, width = clips.shape[-2:]
    return cutmix(clips, labels_N, partners_N, cutmix_box(width, height, weight, rng))


def mixup(clips: paddle.Tensor, labels_N: Labels, partners_N: Labels, weight: float) -> Mixed:
    """weight * clip + (1 - weight) * partner. Zhang et al., mixup, ICLR 2018; one weight for a batch."""
    partners = paddle.gather(clips, paddle.to_tensor(partners_N))
    return Mixed(weight * clips + (1 - weight) * partners, labels_N, labels_N[partners_N], weight)


def cutmix_box(width: int, height: int, weight: float, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of a box of share 1 - weight of the area around a random place, cut off at the edges.

    Yun et al., CutMix, ICCV 2019 (`rand_bbox` of its code).
    """
    share = (1 - weight) ** 0.5
    half_width, half_height = int(width * share) // 2, int(height * share) // 2
    x, y = int(rng.integers(width)), int(rng.integers(height))
    left, right = max(0, x - half_width), min(width, x + half_width)
    top, bottom = max(0, y - half_height), min(height, y + half_height)
    return left, top, right, bottom


def cutmix(clips: paddle.Tensor, labels_N: Labels, partners_N: Labels, box: tuple[int, int, int, int]) -> Mixed:
    """Inside of the box the partner's pixels, in all frames; the weight is the share of the area outside."""
    left, top, right, bottom = box
    height, width = clips.shape[-2:]
    inside_HW = np.zeros((height, width), bool)
    inside_HW[top:bottom, left:right] = True
    partners = paddle.gather(clips, paddle.to_tensor(partners_N))
    mask_HW = paddle.to_tensor(inside_HW).expand(clips.shape)
    weight = 1 - (right - left) * (bottom - top) / (width * height)
    return Mixed(paddle.where(mask_HW, partners, clips), labels_N, labels_N[partners_N], weight)
