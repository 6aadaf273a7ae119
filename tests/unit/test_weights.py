"""First weights from files of others and of our own: what is taken, what is left out and said, what is refused.

Arrays: x_BCHW, clips_NTCHW float32.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from paddle_import import paddle

from manifests.errors import UsageError
from train.checkpoint import BEST, Checkpoint, State, save_checkpoint
from train.models import build_model
from train.recipe_of_learning import Model
from train.weight_names import own_names
from train.weights import Loaded, load_first_weights

Weights = dict[str, npt.NDArray[Any]]
CLASSES = "0" * 64


def weights_of(name: str, num_classes: int = 4, seed: int = 1) -> Weights:
    """Of a model of ours, with nothing in it that another has by chance."""
    rng = np.random.default_rng(seed)
    shapes = build_model(Model(name=name), num_classes).state_dict()
    return {key: rng.random(value.shape).astype(np.float32) + 1 for key, value in shapes.items()}


def load(path: Path, name: str, num_classes: int = 4, **options: Any) -> tuple[Loaded, Weights]:
    """What is said, and what is in the model then."""
    model = build_model(Model(name=name), num_classes)
    loaded = load_first_weights(model, Model(name=name, init=str(path), **options), CLASSES)
    return loaded, {key: value.numpy() for key, value in model.state_dict().items()}


def refusal(path: Path, name: str, num_classes: int = 4, **options: Any) -> str:
    """The sentence; and the model stays what it was."""
    model = build_model(Model(name=name), num_classes)
    before = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    with pytest.raises(UsageError) as caught:
        load_first_weights(model, Model(name=name, init=str(path), **options), CLASSES)
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
    return str(caught.value)


def save(path: Path, weights: dict[str, Any]) -> Path:
    paddle.save({key: paddle.to_tensor(value) for key, value in weights.items()}, str(path))
    return path


# --- PaddleVideo ---


@pytest.mark.parametrize("name", ["pptsn_tiny", "pptsm_tiny", "slowfast_tiny"])
def test_a_whole_file(name: str, tmp_path: Path) -> None:
    weights = weights_of(name)
    path = save(tmp_path / "weights.pdparams", weights)
    loaded, taken = load(path, name)
    assert (loaded.num_loaded, loaded.left_out, loaded.random) == (len(weights), (), ())
    assert str(loaded) == f"began with {len(weights)} arrays of {path}"
    for key in weights:
        np.testing.assert_array_equal(taken[key], weights[key])


@pytest.mark.parametrize("name", ["pptsm_tiny", "slowfast_tiny"])
def test_another_number_of_classes_keeps_the_backbone(name: str, tmp_path: Path) -> None:
    weights = weights_of(name, num_classes=400)
    loaded, taken = load(save(tmp_path / "weights.pdparams", weights), name)
    layer = "head.projection" if name == "slowfast_tiny" else "head.fc"
    assert loaded.num_loaded == len(weights) - 2
    assert str(loaded).endswith(
        f"; left out of it: {layer}.weight, {layer}.bias (400 classes, not 4); random: {layer}.weight, {layer}.bias"
    )
    for key in weights.keys() - {f"{layer}.weight", f"{layer}.bias"}:
        np.testing.assert_array_equal(taken[key], weights[key])


@pytest.mark.parametrize("prefix", ["backbone.", ""])
def test_a_backbone_alone(prefix: str, tmp_path: Path) -> None:
    whole = weights_of("pptsm_tiny")
    weights = {key.replace("backbone.", prefix): value for key, value in whole.items() if key.startswith("backbone.")}
    loaded, taken = load(save(tmp_path / "weights.pdparams", weights), "pptsm_tiny")
    assert loaded.num_loaded == len(weights)
    assert str(loaded).endswith("; random: head.fc.weight, head.fc.bias")
    np.testing.assert_array_equal(
        taken["backbone.bb_1_0.conv0._conv.weight"], whole["backbone.bb_1_0.conv0._conv.weight"]
    )


def test_split_norms(tmp_path: Path) -> None:
    """As a multigrid training saves them: three sets of statistics a norm, of which one is whole."""
    plain = weights_of("slowfast_tiny")
    weights: Weights = {}
    for key, value in plain.items():
        name, _, last = key.rpartition(".")
        if last in ("_mean", "_variance"):
            weights[f"{name}.bn.{last}"] = value
            weights[f"{name}.split_bn.{last}"] = np.tile(value, 2)
        else:
            weights[key] = value
    assert len(weights) > len(plain)
    loaded, taken = load(save(tmp_path / "SlowFast_best.pdparams", weights), "slowfast_tiny")
    assert (loaded.num_loaded, loaded.left_out) == (len(plain), ())
    for key in plain:
        np.testing.assert_array_equal(taken[key], plain[key])


def test_half_precision_becomes_single(tmp_path: Path) -> None:
    weights = {key: value.astype(np.float16) for key, value in weights_of("pptsn_tiny").items()}
    _, taken = load(save(tmp_path / "weights.pdparams", weights), "pptsn_tiny")
    assert {str(value.dtype) for value in taken.values()} == {"float32"}
    np.testing.assert_array_equal(taken["head.fc.weight"], weights["head.fc.weight"].astype(np.float32))


# --- Wrong files ---


@pytest.mark.parametrize(
    ("file", "name", "message"),
    [
        ("TSN_k400.pdparams", "tsm_r50", "TSN_k400.pdparams seems to be of a tsn, and the model is tsm_r50"),
        ("ppTSM_k400_uniform.pdparams", "pptsn_tiny", "ppTSM_k400_uniform.pdparams seems to be of a pptsm"),
        ("pp-TSN_k400.pdparams", "tsn_tiny", "pp-TSN_k400.pdparams seems to be of a pptsn"),
        ("SlowFast.pdparams", "pptsm_tiny", "SlowFast.pdparams seems to be of a slowfast"),
    ],
)
def test_a_name_of_another_family(file: str, name: str, message: str, tmp_path: Path) -> None:
    """Though the keys would fit."""
    path = save(tmp_path / file, {"backbone.x": np.ones(1, np.float32)})
    assert message in refusal(path, name)


@pytest.mark.parametrize("file", ["ppTSM_epoch_00010.pdparams", "pptsm_from_pptsn.pdparams", "best.pdparams"])
def test_a_name_of_the_family_or_of_none(file: str, tmp_path: Path) -> None:
    weights = weights_of("pptsm_tiny")
    assert load(save(tmp_path / file, weights), "pptsm_tiny")[0].num_loaded == len(weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backbone.conv1_1._conv.weight": None}, "does not fit pptsm_tiny: it lacks backbone.conv1_1._conv.weight"),
        (
            {"backbone.conv1_1._conv.weight": np.ones((8, 3, 5, 5), np.float32)},
            "backbone.conv1_1._conv.weight has the shape [8, 3, 5, 5] there, not [8, 3, 3, 3]",
        ),
        (
            {"backbone.bb_3_0.conv0._conv.weight": np.ones(1, np.float32), "backbone.bb_3_0.x": np.ones(1, np.float32)},
            "backbone.bb_3_0.conv0._conv.weight has no place in it, and 1 more",
        ),
    ],
)
def test_a_backbone_that_does_not_fit(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    weights = {key: value for key, value in {**weights_of("pptsm_tiny"), **change}.items() if value is not None}
    assert refusal(save(tmp_path / "weights.pdparams", weights), "pptsm_tiny").endswith(message)


def test_families_whose_keys_do_not_fit(tmp_path: Path) -> None:
    path = save(tmp_path / "weights.pdparams", weights_of("slowfast_tiny"))
    assert "does not fit pptsm_tiny: it lacks backbone.conv1_1._conv.weight" in refusal(path, "pptsm_tiny")
    path = save(tmp_path / "weights.pdparams", weights_of("tsn_r18"))
    assert "does not fit tsn_r34: it lacks backbone.res2c" in refusal(path, "tsn_r34")


@pytest.mark.parametrize("kind", ["absent", "folder", "text", "list", "empty"])
def test_no_weights_at_all(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.pdparams"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("not weights")
    elif kind != "absent":
        paddle.save([paddle.ones([1])] if kind == "list" else {"epoch": 3}, str(path))
    message = refusal(path, "pptsm_tiny")
    assert message.startswith("model.init: ")
    assert str(path) in message


# --- ImageNet ---


@pytest.mark.parametrize(("layers", "name"), [(18, "tsm_r18"), (50, "tsn_r50")])
def test_resnets_of_paddle_vision(layers: int, name: str, tmp_path: Path) -> None:
    """The features of a frame are those of Paddle's own model."""
    paddle.seed(1)
    theirs = getattr(paddle.vision.models, f"resnet{layers}")(num_classes=10)
    for key, value in theirs.state_dict().items():
        if key.endswith(("_mean", "_variance")):
            value.set_value(paddle.uniform(value.shape, min=0.5, max=1.5))
    theirs.eval()
    path = tmp_path / "resnet.pdparams"
    paddle.save(theirs.state_dict(), str(path))
    model = build_model(Model(name=name, shift_share=0.0), 10)
    loaded = load_first_weights(model, Model(name=name, init=str(path)), CLASSES)
    assert loaded.num_loaded == len(theirs.state_dict()) - 2
    assert str(loaded).endswith(
        "; left out of it: fc.weight, fc.bias (no place for it); random: head.fc.weight, head.fc.bias"
    )
    model.eval()
    x_BCHW = paddle.to_tensor(np.random.default_rng(0).standard_normal((2, 3, 40, 56), np.float32))
    theirs.fc = paddle.nn.Identity()
    with paddle.no_grad():
        expected_BC = theirs(x_BCHW).numpy()
        features_BC = model.backbone(x_BCHW, 1).mean([2, 3]).numpy()
    assert abs(features_BC - expected_BC).max() <= 1e-5 * abs(expected_BC).max()


@pytest.mark.parametrize("name", ["pptsm_tiny", "pptsm_r50", "tsm_r18"])
def test_resnets_of_paddleclas(name: str) -> None:
    """Blocks are counted through all stages there."""
    keys = [key for key in build_model(Model(name=name), 4).state_dict() if key.startswith("backbone.")]
    blocks = list(dict.fromkeys(key.split(".")[1] for key in keys if "conv1_" not in key and ".conv." not in key))
    theirs = {}
    for key in keys:
        _, layer, *rest = key.split(".")
        end = ".".join(rest).replace("_batch_norm", "bn").replace("_conv", "conv")
        stem = int(layer[-1]) - 1 if layer.startswith("conv1_") else 0
        theirs[f"blocks.{blocks.index(layer)}.{end}" if layer in blocks else f"stem.{stem}.{end}"] = key
    assert own_names([*theirs, "fc.weight"], keys) == {**theirs, "fc.weight": "fc.weight"}


def test_a_plain_resnet_is_no_vd(tmp_path: Path) -> None:
    path = tmp_path / "resnet.pdparams"
    paddle.save(paddle.vision.models.resnet18(num_classes=1).state_dict(), str(path))
    assert "does not fit pptsm_tiny: it lacks backbone.conv1_1._conv.weight" in refusal(path, "pptsm_tiny")


# --- Our own checkpoints ---


def checkpoint(path: Path, name: str, /, num_classes: int = 4, classes: str = CLASSES, **saved: Any) -> Weights:
    weights = weights_of(name, num_classes)
    recipe = {"model": {**vars(Model(name=name)), **saved}}
    state = State(recipe=recipe, classes=tuple("abcdef"[:num_classes]), classes_sha256=classes)
    tensors = {key: paddle.to_tensor(value) for key, value in weights.items()}
    save_checkpoint(path, Checkpoint(state, tensors, {}))
    return weights


@pytest.mark.parametrize("name", ["tsm_tiny", "pptsm_tiny"])
def test_a_checkpoint_and_a_run(name: str, tmp_path: Path) -> None:
    weights = checkpoint(tmp_path / BEST, name)
    for path in (tmp_path / BEST, tmp_path):
        loaded, taken = load(path, name)
        assert (loaded.num_loaded, loaded.left_out, loaded.random) == (len(weights), (), ())
        for key in weights:
            np.testing.assert_array_equal(taken[key], weights[key])


@pytest.mark.parametrize(
    ("num_classes", "classes", "reason"),
    [(6, "1" * 64, "6 classes, not 4"), (4, "1" * 64, "other classes, or in another order")],
)
def test_a_checkpoint_of_other_classes(num_classes: int, classes: str, reason: str, tmp_path: Path) -> None:
    weights = checkpoint(tmp_path / BEST, "tsm_tiny", num_classes, classes)
    loaded, taken = load(tmp_path / BEST, "tsm_tiny")
    assert loaded.num_loaded == len(weights) - 2
    assert f"left out of it: classifier.weight, classifier.bias ({reason})" in str(loaded)
    np.testing.assert_array_equal(taken["blocks.0.conv1.weight"], weights["blocks.0.conv1.weight"])
    assert taken["classifier.weight"].max() < 1


@pytest.mark.parametrize(
    ("saved", "now", "message"),
    [
        ({"name": "tsn_tiny"}, {}, "was trained with model.name 'tsn_tiny', not 'tsm_tiny'"),
        ({"shift_share": 0.25}, {}, "was trained with model.shift_share 0.25, not 0.125"),
        ({}, {"shift_first": "next"}, "was trained with model.shift_first 'previous', not 'next'"),
    ],
)
def test_a_checkpoint_of_another_model(saved: Any, now: Any, message: str, tmp_path: Path) -> None:
    """Though its keys fit."""
    checkpoint(tmp_path / BEST, "tsm_tiny", **saved)
    assert message in refusal(tmp_path / BEST, "tsm_tiny", **now)
