"""The tiny models: what some see that a TSN cannot, the shapes they take, and the names of the whole ones.

Arrays: clips_NTCHW float32; logits_NK float32.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from paddle_import import paddle

from train.models import MODELS, build_model, family_of, frame_multiple
from train.recipe_of_learning import Model

TINY = [name for name in MODELS if name.endswith("_tiny")]

Floats = npt.NDArray[np.float32]


def built(name: str, num_classes: int = 5, **settings: Any) -> paddle.nn.Layer:
    """With norms that are not the identity: those at the end of SlowFast's blocks begin at zero."""
    paddle.seed(3)
    model = build_model(Model(name=name, **settings), num_classes)
    for key, parameter in model.state_dict().items():
        if len(parameter.shape) == 1:
            low = 0.5 if key.endswith(("weight", "_variance")) else -0.1
            parameter.set_value(paddle.uniform(parameter.shape, min=low, max=low + 1))
    model.eval()
    return model


def noise(num_clips: int, num_frames: int, side_px: int = 32) -> Floats:
    """clips_NTCHW."""
    return np.random.default_rng(0).standard_normal((num_clips, num_frames, 3, side_px, side_px), np.float32)


def logits_of(model: paddle.nn.Layer, clips_NTCHW: Floats) -> Floats:
    with paddle.no_grad():
        logits_NK: Floats = model(paddle.to_tensor(clips_NTCHW)).numpy()
    return logits_NK


def distance(some_NK: Floats, other_NK: Floats) -> float:
    return float(abs(some_NK - other_NK).max() / abs(other_NK).max())


@pytest.mark.parametrize("name", TINY)
def test_who_sees_the_order_of_frames(name: str) -> None:
    model, clips_NTCHW = built(name), noise(2, 8)
    away = distance(logits_of(model, clips_NTCHW[:, ::-1].copy()), logits_of(model, clips_NTCHW))
    if family_of(name) in ("tsn", "pptsn"):
        assert away < 1e-5
    else:
        assert away > 1e-3


@pytest.mark.parametrize("name", TINY)
def test_clips_of_a_batch_do_not_mix(name: str) -> None:
    model, clips_NTCHW = built(name), noise(3, 4)
    alone = np.concatenate([logits_of(model, clips_NTCHW[n : n + 1]) for n in range(3)])
    assert distance(logits_of(model, clips_NTCHW), alone) < 1e-5


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize(("num_clips", "num_frames", "side_px"), [(1, 1, 16), (2, 2, 56), (1, 3, 33), (2, 8, 20)])
def test_any_number_of_frames_and_any_crop(name: str, num_clips: int, num_frames: int, side_px: int) -> None:
    clips_NTCHW = noise(num_clips, num_frames * frame_multiple(name), side_px)
    logits_NK = logits_of(built(name, num_classes=7), clips_NTCHW)
    assert (logits_NK.shape, logits_NK.dtype) == ((num_clips, 7), np.float32)
    assert np.isfinite(logits_NK).all()


def test_a_slowfast_wants_whole_steps_of_the_slow_pathway() -> None:
    with pytest.raises(ValueError, match="a SlowFast with alpha 4 takes a multiple of it, not 6 frames"):
        built("slowfast_tiny")(paddle.to_tensor(noise(1, 6)))


@pytest.mark.parametrize(("tsn", "tsm"), [("tsn_tiny", "tsm_tiny"), ("pptsn_tiny", "pptsm_tiny")])
def test_a_shift_has_no_weights(tsn: str, tsm: str) -> None:
    first, second = ({key: value.numpy() for key, value in built(name).state_dict().items()} for name in (tsn, tsm))
    assert first.keys() == second.keys()
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])


@pytest.mark.parametrize("name", ["tsm_tiny", "pptsm_tiny"])
def test_share_and_direction_matter_and_mirroring_time_undoes_a_direction(name: str) -> None:
    clips_NTCHW = noise(2, 6)
    usual = logits_of(built(name), clips_NTCHW)
    assert distance(logits_of(built(name, shift_share=1 / 4), clips_NTCHW), usual) > 1e-3
    other = built(name, shift_first="next")
    assert distance(logits_of(other, clips_NTCHW), usual) > 1e-3
    assert distance(logits_of(other, clips_NTCHW[:, ::-1].copy()), usual) < 1e-5


def test_without_a_share_a_tsm_is_a_tsn() -> None:
    clips_NTCHW = noise(2, 6)
    ours = logits_of(built("tsm_tiny", shift_share=0.0), clips_NTCHW)
    np.testing.assert_array_equal(ours, logits_of(built("tsn_tiny"), clips_NTCHW))


@pytest.mark.parametrize("name", ["tsn_tiny", "tsm_tiny", "pptsn_tiny", "pptsm_tiny"])
def test_a_single_frame_has_no_neighbours(name: str) -> None:
    """A clip that repeats one frame is that frame to a TSN; a TSM meets zeros beyond the ends of a clip."""
    model, clips_NTCHW = built(name), noise(2, 1)
    away = distance(logits_of(model, np.repeat(clips_NTCHW, 4, axis=1)), logits_of(model, clips_NTCHW))
    assert (away < 1e-5) == (family_of(name) in ("tsn", "pptsn"))


@pytest.mark.parametrize("name", TINY)
def test_every_weight_learns(name: str) -> None:
    model = built(name)
    model.train()
    loss = paddle.nn.functional.cross_entropy(model(paddle.to_tensor(noise(4, 4))), paddle.to_tensor([0, 1, 2, 3]))
    loss.backward()
    learning = {key: parameter for key, parameter in model.named_parameters() if not parameter.stop_gradient}
    assert {key for key in model.state_dict() if not key.endswith(("._mean", "._variance"))} == set(learning)
    for key, parameter in learning.items():
        assert abs(parameter.grad.numpy()).max() > 0, key


@pytest.mark.parametrize("name", TINY)
def test_dropout_acts_in_training_only(name: str) -> None:
    model, clips_NTCHW = built(name, dropout=0.5), noise(2, 4)
    np.testing.assert_array_equal(logits_of(model, clips_NTCHW), logits_of(model, clips_NTCHW))
    for layer in model.sublayers():
        if isinstance(layer, paddle.nn.Dropout):
            layer.train()
    assert (logits_of(model, clips_NTCHW) != logits_of(model, clips_NTCHW)).any()


@pytest.mark.parametrize("name", TINY)
def test_two_models_in_one_process(name: str) -> None:
    """No fixed global names of parameters."""
    assert built(name).state_dict().keys() == built(name).state_dict().keys()


def test_windows_of_a_larger_crop() -> None:
    """One window is the average over all of it; the scores of several are averaged after their softmax."""
    model, clips_NTCHW = built("slowfast_tiny"), noise(2, 4, 64)
    whole_NK = logits_of(model, clips_NTCHW)
    side = model.backbone(*[paddle.to_tensor(noise(1, t, 64).transpose(0, 2, 1, 3, 4)) for t in (1, 4)])[0].shape[3]
    model.pool_px = model.backbone.stride_px * side
    assert distance(logits_of(model, clips_NTCHW), whole_NK) < 1e-5
    model.pool_px = model.backbone.stride_px * (side - 1)
    windows_NDHWK = model.position_logits(paddle.to_tensor(clips_NTCHW)).numpy()
    assert windows_NDHWK.shape == (2, 1, 2, 2, 5)
    exp_NDHWK = np.exp(windows_NDHWK - windows_NDHWK.max(-1, keepdims=True))
    scores_NK = (exp_NDHWK / exp_NDHWK.sum(-1, keepdims=True)).mean((1, 2, 3))
    np.testing.assert_allclose(np.exp(logits_of(model, clips_NTCHW)), scores_NK, rtol=0, atol=1e-6)


NUM_KEYS = {"tsn_r18": 102, "tsm_r34": 182, "tsn_r50": 267, "pptsm_r50": 277, "slowfast_4x16": 552, "slowfast_8x8": 552}
SHAPES = """
tsn_r18        backbone.conv._conv.weight                  64 3 7 7
tsn_r18        backbone.res3a.short._conv.weight           128 64 1 1
tsn_r18        head.fc.weight                              512 12
tsm_r34        backbone.res4f.conv1._conv.weight           256 256 3 3
tsm_r34        backbone.res5c.conv0._batch_norm._mean      512
tsn_r50        backbone.res2a.short._conv.weight           256 64 1 1
tsn_r50        head.fc.weight                              2048 12
pptsm_r50      backbone.conv1_3._conv.weight               64 32 3 3
pptsm_r50      backbone.bb_3_2.conv2._batch_norm._variance 2048
slowfast_4x16  backbone.s1.pathway1_stem._conv.weight      8 3 5 7 7
slowfast_4x16  backbone.s1_fuse._conv_f2s.weight           16 8 5 1 1
slowfast_4x16  backbone.s4.pathway0_res0.branch2.a.weight  256 640 3 1 1
slowfast_4x16  head.projection.weight                      2304 12
slowfast_8x8   backbone.s1_fuse._conv_f2s.weight           16 8 7 1 1
slowfast_8x8   backbone.s2.pathway1_res0.branch1_bn._mean  32
"""


@pytest.mark.parametrize("name", NUM_KEYS)
def test_names_and_shapes_of_the_whole_models(name: str) -> None:
    """As the published files have them; the numbers of keys of ResNet-50 and SlowFast are those of PaddleVideo."""
    state = build_model(Model(name=name), 12).state_dict()
    assert len(state) == NUM_KEYS[name]
    rows = [line.split() for line in SHAPES.strip().splitlines()]
    expected = {key: list(map(int, shape)) for own, key, *shape in rows if own == name}
    assert expected
    assert {key: state[key].shape for key in expected} == expected


def test_what_the_names_tell() -> None:
    assert {family_of(name) for name in MODELS} == {"tsn", "tsm", "pptsn", "pptsm", "slowfast"}
    assert {name: frame_multiple(name) for name in MODELS if frame_multiple(name) > 1} == {
        "slowfast_tiny": 4,
        "slowfast_4x16": 8,
        "slowfast_8x8": 4,
    }


@pytest.mark.parametrize("name", TINY)
def test_a_model_can_be_exported(name: str, tmp_path: Path) -> None:
    """With any batch and crop."""
    model = built(name)
    spec = paddle.static.InputSpec([None, 4, 3, None, None], "float32")
    paddle.jit.save(paddle.jit.to_static(model, input_spec=[spec]), str(tmp_path / "model"))
    loaded = paddle.jit.load(str(tmp_path / "model"))
    loaded.eval()
    fresh = built(name)
    for num_clips, side_px in ((1, 32), (3, 40)):
        clips_NTCHW = noise(num_clips, 4, side_px)
        assert distance(logits_of(loaded, clips_NTCHW), logits_of(fresh, clips_NTCHW)) < 1e-5
