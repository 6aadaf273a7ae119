"""Batch norms in groups: they do what separate small batches do, and keep the statistics of the whole.

Arrays: x_BCHW, x_NCTHW float32; statistics_GC by group.
"""

from typing import Any

import numpy as np
import pytest
from paddle_import import paddle

from train.models import build_model
from train.models.norms import NORMS, BatchNorm2D, BatchNorm3D, set_groups
from train.recipe_of_learning import Model


def norm_of(kind: Any, channels: int) -> Any:
    norm = kind(channels)
    rng = np.random.default_rng(2)
    norm.weight.set_value(rng.normal(1, 0.3, channels).astype(np.float32))
    norm.bias.set_value(rng.normal(0, 0.3, channels).astype(np.float32))
    return norm


def input_of(kind: Any, num_clips: int) -> np.ndarray:
    """Clips that differ from each other by more than their pixels do. As pictures they have 3 frames."""
    shape = (num_clips * 3, 5, 4, 4) if kind is BatchNorm2D else (num_clips, 5, 3, 4, 4)
    rng = np.random.default_rng(1)
    levels = np.repeat(np.arange(num_clips), shape[0] // num_clips).reshape(-1, *[1] * (len(shape) - 1))
    return (rng.normal(0, 1, shape) + levels).astype(np.float32)


def through(norm: Any, x: np.ndarray, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Output, and gradients of input, weight and bias."""
    tensor = paddle.to_tensor(x, stop_gradient=False)
    out = norm(tensor)
    weights = np.random.default_rng(seed).normal(0, 1, x.shape).astype(np.float32)
    (out * paddle.to_tensor(weights)).sum().backward()
    found = out.numpy(), tensor.grad.numpy(), norm.weight.grad.numpy(), norm.bias.grad.numpy()
    norm.clear_gradients()
    return found


@pytest.mark.parametrize("kind", [BatchNorm2D, BatchNorm3D])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_are_separate_small_batches(kind: Any, groups: int) -> None:
    """The same outputs and gradients as Paddle's own layer gives for each group alone, added up for the affine part."""
    x = input_of(kind, 8)
    norm = norm_of(kind, 5)
    norm.num_groups = groups
    out, grad_x, grad_weight, grad_bias = through(norm, x)
    plain = norm_of(paddle.nn.BatchNorm2D if kind is BatchNorm2D else paddle.nn.BatchNorm3D, 5)
    weights = np.split(np.random.default_rng(3).normal(0, 1, x.shape).astype(np.float32), groups)
    pieces = []
    for piece, weight in zip(np.split(x, groups), weights, strict=True):
        tensor = paddle.to_tensor(piece, stop_gradient=False)
        normalised = plain(tensor)
        (normalised * paddle.to_tensor(weight)).sum().backward()
        pieces.append((normalised.numpy(), tensor.grad.numpy()))
    np.testing.assert_allclose(out, np.concatenate([piece for piece, _ in pieces]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grad_x, np.concatenate([grad for _, grad in pieces]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(grad_weight, plain.weight.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(grad_bias, plain.bias.grad.numpy(), rtol=1e-4, atol=1e-5)
    if groups > 1:
        norm.num_groups = 1
        assert np.abs(through(norm, x)[0] - out).max() > 0.1, "the groups make a difference here"


@pytest.mark.parametrize("kind", [BatchNorm2D, BatchNorm3D])
def test_running_statistics_are_those_of_the_whole_batch(kind: Any) -> None:
    """As the plain layer keeps them, step after step, in however many groups."""
    grouped, plain = norm_of(kind, 5), norm_of(kind, 5)
    for step, groups in enumerate((4, 1, 2, 8)):
        x = input_of(kind, 8) * (1 + step)
        grouped.num_groups = groups
        grouped(paddle.to_tensor(x))
        plain(paddle.to_tensor(x))
        np.testing.assert_allclose(grouped._mean.numpy(), plain._mean.numpy(), rtol=1e-5)
        np.testing.assert_allclose(grouped._variance.numpy(), plain._variance.numpy(), rtol=1e-5)


def test_the_rule_by_which_pyslowfast_aggregates() -> None:
    """Each group with running statistics of its own, aggregated by its formula: the same after one step; after
    several the same means, and a variance that is no larger."""
    momentum, steps = 0.9, 5
    norm = norm_of(BatchNorm2D, 5)
    norm.num_groups = 4
    means_GC, variances_GC = np.zeros((4, 5)), np.ones((4, 5))
    norm._mean.set_value(np.zeros(5, np.float32))
    rng = np.random.default_rng(5)
    for step in range(steps):
        x = input_of(BatchNorm2D, 8) + rng.normal(0, 1, (24, 1, 1, 1)).astype(np.float32)
        norm(paddle.to_tensor(x))
        pieces = [piece.transpose(1, 0, 2, 3).reshape(5, -1) for piece in np.split(x.astype(np.float64), 4)]
        means_GC = momentum * means_GC + (1 - momentum) * np.array([piece.mean(1) for piece in pieces])
        variances_GC = momentum * variances_GC + (1 - momentum) * np.array([piece.var(1) for piece in pieces])
        mean_C = means_GC.mean(0)
        np.testing.assert_allclose(norm._mean.numpy(), mean_C, rtol=1e-4)
        between_C = ((means_GC - mean_C) ** 2).mean(0)
        assert (norm._variance.numpy() >= variances_GC.mean(0) + between_C - 1e-5).all(), step
    fresh = norm_of(BatchNorm2D, 5)
    fresh.num_groups, fresh._momentum = 4, 0.0
    fresh(paddle.to_tensor(x))
    means_GC = np.array([piece.mean(1) for piece in pieces])
    expected = np.array([piece.var(1) for piece in pieces]).mean(0) + means_GC.var(0)
    np.testing.assert_allclose(fresh._variance.numpy(), expected, rtol=1e-5)


def test_an_evaluation_knows_no_groups() -> None:
    norm = norm_of(BatchNorm3D, 5)
    x = paddle.to_tensor(input_of(BatchNorm3D, 4))
    norm.eval()
    before = norm(x).numpy()
    norm.num_groups = 4
    np.testing.assert_array_equal(norm(x).numpy(), before)


@pytest.mark.parametrize("name", ["tsm_tiny", "pptsm_tiny", "slowfast_tiny"])
def test_models_have_no_other_norms(name: str) -> None:
    """The state is that of plain batch norms, under the same names; all of them are told."""
    model = build_model(Model(name=name), 3)
    norms = [layer for layer in model.sublayers() if isinstance(layer, NORMS)]
    assert norms
    assert all(isinstance(norm, BatchNorm2D | BatchNorm3D) for norm in norms)
    before = {key: value.shape for key, value in model.state_dict().items()}
    set_groups(model, 2)
    assert {norm.num_groups for norm in norms} == {2}
    model.train()
    model(paddle.to_tensor(np.random.default_rng(0).normal(0, 1, (4, 4, 3, 32, 32)).astype(np.float32)))
    assert {key: value.shape for key, value in model.state_dict().items()} == before


@pytest.mark.parametrize("name", ["tsm_tiny", "slowfast_tiny"])
def test_a_whole_model_in_groups_is_small_batches(name: str) -> None:
    """Its scores and its gradients are those of the groups alone, averaged."""
    paddle.seed(4)
    model = build_model(Model(name=name), 3)
    clips = np.random.default_rng(0).normal(0, 1, (8, 4, 3, 32, 32)).astype(np.float32)
    labels = paddle.to_tensor(np.arange(8) % 3)
    model.train()

    def gradients(parts: list[slice], groups: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        set_groups(model, groups)
        scores = []
        for part in parts:
            logits_NK = model(paddle.to_tensor(clips[part]))
            (paddle.nn.functional.cross_entropy(logits_NK, labels[part]) / len(parts)).backward()
            scores.append(logits_NK.numpy())
        found = {name: weight.grad.numpy() for name, weight in model.named_parameters() if weight.grad is not None}
        model.clear_gradients()
        return np.concatenate(scores), found

    whole_NK, whole = gradients([slice(0, 8)], 4)
    parts_NK, parts = gradients([slice(start, start + 2) for start in range(0, 8, 2)], 1)
    np.testing.assert_allclose(whole_NK, parts_NK, rtol=1e-4, atol=1e-5)
    assert whole.keys() == parts.keys()
    for key, value in whole.items():
        scale = np.abs(parts[key]).max() + 1e-7
        assert np.abs(value - parts[key]).max() <= 2e-4 * scale + 1e-6, key
