"""Mixup, CutMix and VideoMix of a batch, against their formulas in NumPy.

Arrays: clips_NTCHW float32; labels_N, partners_N int64; logits_NK float32.
"""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paddle_import import paddle

from train.mixing import Mixed, cutmix, cutmix_box, mix, mixup

LABELS_N = np.array([0, 1, 2, 3])
PARTNERS_N = np.array([2, 0, 3, 1])


def batch(seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(4, 3, 2, 6, 8)).astype(np.float32)


def test_mixup_by_the_letter() -> None:
    clips_NTCHW = batch()
    mixed = mixup(paddle.to_tensor(clips_NTCHW), LABELS_N, PARTNERS_N, 0.3)
    expected = 0.3 * clips_NTCHW + 0.7 * clips_NTCHW[[2, 0, 3, 1]]
    np.testing.assert_allclose(mixed.clips.numpy(), expected, atol=1e-6)
    assert (mixed.labels_N.tolist(), mixed.partner_labels_N.tolist()) == ([0, 1, 2, 3], [2, 0, 3, 1])
    assert mixed.weight == 0.3


@pytest.mark.parametrize("shape", [(4, 3, 2, 6, 8), (4, 2, 3, 6, 8), (4, 3, 6, 8)])
def test_cutmix_by_the_letter(shape: tuple[int, ...]) -> None:
    """Rows and columns are the last two axes, whatever lies before; all frames get the same box."""
    clips = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    mixed = cutmix(paddle.to_tensor(clips), LABELS_N, PARTNERS_N, (1, 2, 5, 6))
    expected = clips.copy()
    for clip, partner in enumerate(PARTNERS_N):
        expected[clip][..., 2:6, 1:5] = clips[partner][..., 2:6, 1:5]
    np.testing.assert_array_equal(mixed.clips.numpy(), expected)
    assert mixed.weight == pytest.approx(1 - 16 / 48)


def literal_box(width: int, height: int, weight: float, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """rand_bbox of CutMix's own code."""
    cut_ratio = np.sqrt(1.0 - weight)
    cut_width, cut_height = int(width * cut_ratio), int(height * cut_ratio)
    centre_x, centre_y = rng.integers(width), rng.integers(height)
    return (
        int(np.clip(centre_x - cut_width // 2, 0, width)),
        int(np.clip(centre_y - cut_height // 2, 0, height)),
        int(np.clip(centre_x + cut_width // 2, 0, width)),
        int(np.clip(centre_y + cut_height // 2, 0, height)),
    )


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0, 1), st.integers(0, 2**32))
def test_a_box_is_that_of_cutmix(width: int, height: int, weight: float, seed: int) -> None:
    box = cutmix_box(width, height, weight, np.random.default_rng(seed))
    assert box == literal_box(width, height, weight, np.random.default_rng(seed))
    assert 0 <= box[0] <= box[2] <= width
    assert 0 <= box[1] <= box[3] <= height


def test_the_loss_is_that_of_soft_labels() -> None:
    """weight * CE(a) + (1 - weight) * CE(b) is the cross entropy with the weighted one-hot labels."""
    logits_NK = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    mixed = Mixed(paddle.zeros([4, 1]), LABELS_N, LABELS_N[PARTNERS_N], 0.3)
    soft_NK = 0.3 * np.eye(5)[LABELS_N] + 0.7 * np.eye(5)[LABELS_N[PARTNERS_N]]
    for smoothing in (0.0, 0.1):
        target_NK = (1 - smoothing) * soft_NK + smoothing / 5
        log_NK = logits_NK - np.log(np.exp(logits_NK).sum(axis=1, keepdims=True))
        expected = -(target_NK * log_NK).sum(axis=1).mean()
        found = float(mixed.loss(paddle.to_tensor(logits_NK), label_smoothing=smoothing))
        assert found == pytest.approx(expected, rel=1e-5)


def test_without_alphas_nothing_is_mixed() -> None:
    clips_NTCHW = paddle.to_tensor(batch())
    mixed = mix(clips_NTCHW, LABELS_N, np.random.default_rng(0))
    assert mixed.clips is clips_NTCHW
    assert mixed.weight == 1
    logits_NK = paddle.to_tensor(np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32))
    plain = paddle.nn.functional.cross_entropy(logits_NK, paddle.to_tensor(LABELS_N))
    assert float(mixed.loss(logits_NK)) == float(plain)


def kinds(draws: int, **alphas: float) -> dict[str, int]:
    """How often clips of constant values are blended, and how often a box of one lies in the other."""
    clips = np.arange(4, dtype=np.float32)[:, None, None, None] * np.ones((4, 1, 16, 16), np.float32)
    found = {"blended": 0, "boxed": 0, "same": 0}
    for seed in range(draws):
        mixed = mix(paddle.to_tensor(clips), LABELS_N, np.random.default_rng(seed), **alphas)
        values = mixed.clips.numpy()
        if np.array_equal(values, clips):
            found["same"] += 1
        elif set(np.unique(values)) <= {0, 1, 2, 3}:
            found["boxed"] += 1
        else:
            found["blended"] += 1
    return found


def test_which_kind_is_drawn() -> None:
    assert kinds(40, mixup_alpha=1.0)["boxed"] == 0
    assert kinds(40, cutmix_alpha=1.0)["blended"] == 0
    both = kinds(200, mixup_alpha=1.0, cutmix_alpha=1.0, cutmix_share=0.25)
    assert 110 < both["blended"] < 190  # 150, but for permutations that change nothing
    assert 20 < both["boxed"] < 80


def test_a_weight_is_drawn_from_the_beta_distribution() -> None:
    clips = paddle.to_tensor(batch())
    weights = [mix(clips, LABELS_N, np.random.default_rng(seed), mixup_alpha=0.2).weight for seed in range(1500)]
    assert abs(np.mean(weights) - 0.5) < 0.04
    assert abs(np.var(weights) - 1 / (4 * (2 * 0.2 + 1))) < 0.015


def test_the_same_generator_mixes_alike() -> None:
    clips = paddle.to_tensor(batch())
    first, second = (
        mix(clips, LABELS_N, np.random.default_rng(7), mixup_alpha=0.2, cutmix_alpha=1.0) for _ in range(2)
    )
    np.testing.assert_array_equal(first.clips.numpy(), second.clips.numpy())
    assert first.weight == second.weight
    assert first.partner_labels_N.tolist() == second.partner_labels_N.tolist()
