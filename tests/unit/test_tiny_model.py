"""The tiny nets: what a TSM sees that a TSN cannot, and the shapes they take.

Arrays: clips_NTCHW float32; logits_NK float32.
"""

import numpy as np
import numpy.typing as npt
import pytest
from paddle_import import paddle

from train.models import MODELS, build_model

Floats = npt.NDArray[np.float32]


def built(name: str, num_classes: int = 5, dropout: float = 0.0) -> paddle.nn.Layer:
    paddle.seed(3)
    model = build_model(name, num_classes, dropout)
    model.eval()
    return model


def noise(num_clips: int, num_frames: int, side_px: int = 32) -> Floats:
    """clips_NTCHW."""
    return np.random.default_rng(0).standard_normal((num_clips, num_frames, 3, side_px, side_px), np.float32)


def logits_of(model: paddle.nn.Layer, clips_NTCHW: Floats) -> Floats:
    with paddle.no_grad():
        logits_NK: Floats = model(paddle.to_tensor(clips_NTCHW)).numpy()
    return logits_NK


def test_the_order_of_frames_is_nothing_to_a_tsn() -> None:
    model, clips_NTCHW = built("tsn_tiny"), noise(2, 6)
    np.testing.assert_allclose(
        logits_of(model, clips_NTCHW[:, ::-1].copy()), logits_of(model, clips_NTCHW), rtol=0, atol=1e-5
    )


def test_the_order_of_frames_is_something_to_a_tsm() -> None:
    model, clips_NTCHW = built("tsm_tiny"), noise(2, 6)
    assert abs(logits_of(model, clips_NTCHW[:, ::-1].copy()) - logits_of(model, clips_NTCHW)).max() > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_clips_of_a_batch_do_not_mix(name: str) -> None:
    model, clips_NTCHW = built(name), noise(3, 4)
    alone = np.concatenate([logits_of(model, clips_NTCHW[n : n + 1]) for n in range(3)])
    np.testing.assert_allclose(logits_of(model, clips_NTCHW), alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("num_clips", "num_frames", "side_px"), [(1, 1, 16), (2, 2, 56), (1, 3, 33), (2, 8, 20)])
def test_any_number_of_frames_and_any_crop(name: str, num_clips: int, num_frames: int, side_px: int) -> None:
    logits_NK = logits_of(built(name, num_classes=7), noise(num_clips, num_frames, side_px))
    assert (logits_NK.shape, logits_NK.dtype) == ((num_clips, 7), np.float32)
    assert np.isfinite(logits_NK).all()


def test_both_have_the_same_weights() -> None:
    tsn, tsm = ({k: v.numpy() for k, v in built(name).state_dict().items()} for name in ("tsn_tiny", "tsm_tiny"))
    assert tsn.keys() == tsm.keys()
    for key in tsn:
        np.testing.assert_array_equal(tsn[key], tsm[key])


@pytest.mark.parametrize("name", MODELS)
def test_a_single_frame_has_no_neighbours(name: str) -> None:
    """A clip that repeats one frame is that frame to a TSN; a TSM meets zeros beyond the ends of a clip."""
    model, clips_NTCHW = built(name), noise(2, 1)
    same = np.allclose(
        logits_of(model, np.repeat(clips_NTCHW, 4, axis=1)), logits_of(model, clips_NTCHW), rtol=0, atol=1e-5
    )
    assert same == (name == "tsn_tiny")


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_learns(name: str) -> None:
    model = built(name)
    model.train()
    loss = paddle.nn.functional.cross_entropy(model(paddle.to_tensor(noise(4, 3))), paddle.to_tensor([0, 1, 2, 3]))
    loss.backward()
    learning = {key: parameter for key, parameter in model.named_parameters() if not parameter.stop_gradient}
    assert set(model.state_dict()) - set(learning) == {key for key in model.state_dict() if "._" in key}
    for key, parameter in learning.items():  # all but running means and variances
        assert abs(parameter.grad.numpy()).max() > 0, key


def test_dropout_acts_in_training_only() -> None:
    model, clips_NTCHW = built("tsn_tiny", dropout=0.5), noise(2, 2)
    np.testing.assert_array_equal(logits_of(model, clips_NTCHW), logits_of(model, clips_NTCHW))
    model.dropout.train()
    assert (logits_of(model, clips_NTCHW) != logits_of(model, clips_NTCHW)).any()
