"""Tiny nets written out in numpy from the papers' definitions, with the weights that ours have.

Arrays: x_BCHW and x_NCTHW float64; clips_NTCHW float32; logits_NK.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from paddle_import import paddle

from train.models.frames import FrameModel
from train.models.resnet import ResNet
from train.models.slowfast import SlowFast
from train.ops.temporal_shift import Shift, shift_reference

Array = npt.NDArray[Any]
Weights = dict[str, Array]


def windows(x: Array, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], fill: float) -> Array:
    """All values under the kernel, along a new first axis, for x of (batch, channels, *space)."""
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=fill)
    counts = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(x.shape[2:], padding, kernel, stride, strict=True)]
    return np.stack(
        [
            padded[:, :, *(slice(o, o + s * n, s) for o, s, n in zip(offset, stride, counts, strict=True))]
            for offset in itertools.product(*map(range, kernel))
        ]
    )


def convolution(x: Array, weights: Array, stride: tuple[int, ...]) -> Array:
    """Padded by half the kernel."""
    kernel = weights.shape[2:]
    under = windows(x, kernel, stride, tuple(k // 2 for k in kernel), 0.0)
    return np.einsum("pbc...,ocp->bo...", under, weights.reshape(*weights.shape[:2], -1))


def norm(x: Array, weights: Weights, name: str) -> Array:
    gain, offset, mean, variance = (
        weights[f"{name}.{part}"].reshape(-1, *[1] * (x.ndim - 2)) for part in ("weight", "bias", "_mean", "_variance")
    )
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + offset


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def leaky_relu(x: Array) -> Array:
    return np.where(x > 0, x, 0.01 * x)


def identity(x: Array) -> Array:
    return x


def average_to_half(x_BCHW: Array) -> Array:
    """2x2 with stride 2; at an odd edge over what there is."""
    height, width = x_BCHW.shape[2:]
    return np.stack(
        [
            np.stack([x_BCHW[:, :, i : i + 2, j : j + 2].mean((2, 3)) for j in range(0, width, 2)], axis=-1)
            for i in range(0, height, 2)
        ],
        axis=2,
    )


def with_weights(model: paddle.nn.Layer) -> tuple[paddle.nn.Layer, Weights]:
    """The model with weights that leave nothing out, and these."""
    rng = np.random.default_rng(5)
    for key, parameter in model.state_dict().items():
        low = 0.5 if key.endswith("_variance") else -0.5
        parameter.set_value(rng.uniform(low, low + 1, parameter.shape).astype(np.float32))
    model.eval()
    return model, {key: value.numpy().astype(np.float64) for key, value in model.state_dict().items()}


def assert_same(model: paddle.nn.Layer, clips_NTCHW: Array, expected_NK: Array) -> None:
    with paddle.no_grad():
        logits_NK = model(paddle.to_tensor(clips_NTCHW)).numpy()
    assert logits_NK.shape == expected_NK.shape
    assert abs(logits_NK - expected_NK).max() <= 1e-5 * abs(expected_NK).max()


def noise(num_clips: int, num_frames: int, height: int, width: int) -> Array:
    return np.random.default_rng(2).standard_normal((num_clips, num_frames, 3, height, width), np.float32)


# --- Frames ---


def frames_forward(
    weights: Weights,
    clips_NTCHW: Array,
    *,
    is_vd: bool,
    num_convs: int,
    activation: Callable[[Array], Array],
    shift: Shift | None,
) -> Array:
    """Two stages with one block each."""
    num_clips, num_frames = clips_NTCHW.shape[:2]

    def conv_norm(x: Array, name: str, stride: int, act: Callable[[Array], Array]) -> Array:
        convolved = convolution(x, weights[f"backbone.{name}._conv.weight"], (stride, stride))
        return act(norm(convolved, weights, f"backbone.{name}._batch_norm"))

    x_BCHW = clips_NTCHW.astype(np.float64).reshape(-1, *clips_NTCHW.shape[2:])
    for name, stride in (("conv1_1", 2), ("conv1_2", 1), ("conv1_3", 1)) if is_vd else (("conv", 2),):
        x_BCHW = conv_norm(x_BCHW, name, stride, activation)
    x_BCHW = windows(x_BCHW, (3, 3), (2, 2), (1, 1), -np.inf).max(0)
    for stage, block in enumerate(("bb_0_0", "bb_1_0") if is_vd else ("res2a", "res3a")):
        y_BCHW = x_BCHW if shift is None else shift_reference(x_BCHW, num_frames, shift)
        for i in range(num_convs):
            is_strided = i == (1 if num_convs == 3 else 0)
            stride = 2 if stage > 0 and is_strided else 1
            y_BCHW = conv_norm(y_BCHW, f"{block}.conv{i}", stride, identity if i == num_convs - 1 else activation)
        if f"backbone.{block}.short._conv.weight" in weights:
            averaged = average_to_half(x_BCHW) if is_vd and stage > 0 else x_BCHW
            x_BCHW = conv_norm(averaged, f"{block}.short", 2 if stage > 0 and not is_vd else 1, identity)
        x_BCHW = activation(x_BCHW + y_BCHW)
    features_NTC = x_BCHW.mean((2, 3)).reshape(num_clips, num_frames, -1)
    return (features_NTC @ weights["head.fc.weight"] + weights["head.fc.bias"]).mean(1)


@pytest.mark.parametrize("is_vd", [False, True])
@pytest.mark.parametrize("has_bottlenecks", [False, True])
@pytest.mark.parametrize("shift", [None, Shift(1 / 4), Shift(1 / 8, "next")])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (18, 23)])
def test_models_of_frames(is_vd: bool, has_bottlenecks: bool, shift: Shift | None, height: int, width: int) -> None:
    """Odd sizes too, where the averages of vd's shortcuts are over what is left; leaky units with the vd ones."""
    backbone = ResNet(
        (1, 1),
        width=8,
        has_bottlenecks=has_bottlenecks,
        is_vd=is_vd,
        activation=paddle.nn.functional.leaky_relu if is_vd else paddle.nn.functional.relu,
        shift=shift,
    )
    head = {"dropout": 0.5, "drops_per_frame": True, "init_std": 0.01}
    model, weights = with_weights(FrameModel(backbone, 4, **head))
    clips_NTCHW = noise(2, 3, height, width)
    expected_NK = frames_forward(
        weights,
        clips_NTCHW,
        is_vd=is_vd,
        num_convs=3 if has_bottlenecks else 2,
        activation=leaky_relu if is_vd else relu,
        shift=shift,
    )
    assert_same(model, clips_NTCHW, expected_NK)


# --- SlowFast ---


def slowfast_forward(weights: Weights, clips_NTCHW: Array, alpha: int, num_stages: int) -> Array:
    def conv_norm(
        x: Array, conv: str, norm_name: str, stride: tuple[int, int, int], act: Callable[[Array], Array]
    ) -> Array:
        return act(norm(convolution(x, weights[f"backbone.{conv}.weight"], stride), weights, f"backbone.{norm_name}"))

    fast = clips_NTCHW.astype(np.float64).transpose(0, 2, 1, 3, 4)
    count, num_slow = fast.shape[2], fast.shape[2] // alpha
    # Spread from the first frame to the last, in whole numbers; one slow frame is the first.
    slow = fast[:, :, [i * (count - 1) // max(1, num_slow - 1) for i in range(num_slow)]]
    pathways = []
    for number, x in enumerate((slow, fast)):
        name = f"s1.pathway{number}_stem"
        x = conv_norm(x, f"{name}._conv", f"{name}._bn", (1, 2, 2), relu)
        pathways.append(windows(x, (1, 3, 3), (1, 2, 2), (0, 1, 1), -np.inf).max(0))
    for stage in range(num_stages):
        fuse, stride = f"s{stage + 1}_fuse", (1, 2, 2) if stage > 0 else (1, 1, 1)
        fused = conv_norm(pathways[1], f"{fuse}._conv_f2s", f"{fuse}._bn", (alpha, 1, 1), relu)
        pathways[0] = np.concatenate([pathways[0], fused], axis=1)
        for number, x in enumerate(pathways):
            block = f"s{stage + 2}.pathway{number}_res0"
            y = conv_norm(x, f"{block}.branch2.a", f"{block}.branch2.a_bn", (1, 1, 1), relu)
            y = conv_norm(y, f"{block}.branch2.b", f"{block}.branch2.b_bn", stride, relu)
            y = conv_norm(y, f"{block}.branch2.c", f"{block}.branch2.c_bn", (1, 1, 1), identity)
            pathways[number] = relu(y + conv_norm(x, f"{block}.branch1", f"{block}.branch1_bn", stride, identity))
    features_NC = np.concatenate([x.mean((2, 3, 4)) for x in pathways], axis=1)
    return features_NC @ weights["head.projection.weight"] + weights["head.projection.bias"]


@pytest.mark.parametrize(("alpha", "num_frames"), [(2, 2), (2, 8), (4, 12)])
def test_slowfast(alpha: int, num_frames: int) -> None:
    small = {"alpha": alpha, "fusion_kernel": 5, "num_blocks": (1, 1, 1), "width": 8, "beta": 4}
    model, weights = with_weights(SlowFast(3, dropout=0.5, **small))
    assert weights["backbone.s3.pathway0_res0.branch2.a.weight"].shape[2] == 1
    assert weights["backbone.s4.pathway0_res0.branch2.a.weight"].shape[2] == 3
    clips_NTCHW = noise(2, num_frames, 20, 27)
    assert_same(model, clips_NTCHW, slowfast_forward(weights, clips_NTCHW, alpha, 3))
