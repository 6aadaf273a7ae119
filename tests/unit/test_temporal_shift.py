"""Three versions of the temporal shift, and the recorded results of Paddle's operator.

Arrays: x_BCHW float32 with B = N * T.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from conftest import ROOT
from paddle_import import paddle

from train.ops.temporal_shift import shift_composed, shift_fused, shift_reference, temporal_shift

RECORDED = ROOT.parent / "shared" / "data" / "parity" / "temporal_shift.npz"
VERSIONS = (shift_fused, shift_composed, temporal_shift)


def noise(num_clips: int, num_frames: int, channels: int) -> npt.NDArray[np.float32]:
    """x_BCHW without a zero in it, so that a zero is one that was shifted in."""
    rng = np.random.default_rng(channels)
    return 0.5 + rng.random((num_clips * num_frames, channels, 2, 3), np.float32)


@pytest.mark.parametrize("num_frames", [1, 2, 3, 8])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 12, 16, 20, 30, 64])
def test_all_versions_give_the_same(channels: int, num_frames: int) -> None:
    """Also where the folds are no whole number of channels, or none at all."""
    x_BCHW = noise(2, num_frames, channels)
    for share in (1 / 16, 0.1, 1 / 8, 0.25, 0.29, 1 / 3, 0.49):
        expected_BCHW = shift_reference(x_BCHW, num_frames, share)
        for version in VERSIONS:
            shifted_BCHW = version(paddle.to_tensor(x_BCHW), num_frames, share).numpy()
            assert shifted_BCHW.dtype == np.float32
            np.testing.assert_array_equal(shifted_BCHW, expected_BCHW, f"{version.__name__} {share}")


@pytest.mark.parametrize("num_frames", [1, 2, 5])
@pytest.mark.parametrize("channels", [12, 16])
def test_gradients_are_the_same(channels: int, num_frames: int) -> None:
    weights = paddle.to_tensor(noise(2, num_frames, channels))
    gradients = []
    for version in VERSIONS:
        x = paddle.to_tensor(noise(2, num_frames, channels) + 1, stop_gradient=False)
        (version(x, num_frames, 1 / 8) * weights).sum().backward()
        gradients.append(x.grad.numpy())
    assert (gradients[0] != 0).any()
    for gradient in gradients[1:]:
        np.testing.assert_array_equal(gradient, gradients[0])


@pytest.mark.parametrize("version", [*VERSIONS, shift_reference])
def test_frames_by_hand(version: Callable[..., object]) -> None:
    """Two clips of three frames with eight channels, each value 10 * frame + channel."""
    x_BCHW = np.array([[10 * b + c for c in range(8)] for b in range(6)], np.float32)[:, :, None, None]
    argument = x_BCHW if version is shift_reference else paddle.to_tensor(x_BCHW)
    shifted_BC = np.asarray(version(argument, 3, 1 / 8))[:, :, 0, 0]
    assert shifted_BC[:, 0].tolist() == [0, 0, 10, 0, 30, 40]  # from the frame before
    assert shifted_BC[:, 1].tolist() == [11, 21, 0, 41, 51, 0]  # from the frame after
    np.testing.assert_array_equal(shifted_BC[:, 2:], x_BCHW[:, 2:, 0, 0])


@pytest.mark.parametrize("version", [*VERSIONS, shift_reference])
def test_the_input_stays_what_it_was(version: Callable[..., object]) -> None:
    x_BCHW = noise(1, 4, 8)
    argument = x_BCHW.copy() if version is shift_reference else paddle.to_tensor(x_BCHW)
    version(argument, 4, 1 / 8)
    np.testing.assert_array_equal(np.asarray(argument), x_BCHW)


# --- Recorded results ---


@pytest.fixture(scope="module")
def recorded() -> dict[str, npt.NDArray[np.float32]]:
    if not RECORDED.is_file():
        pytest.skip(f"the recorded results are not there: {RECORDED}")
    with np.load(RECORDED) as file:
        return dict(file)


@pytest.mark.parametrize("share", [0.125, 0.25])
def test_recorded_results_of_the_operator(recorded: dict[str, npt.NDArray[np.float32]], share: float) -> None:
    x_BCHW, expected_BCHW = recorded["input_nchw"], recorded[f"output_nchw_{share}"]
    np.testing.assert_array_equal(shift_reference(x_BCHW, 4, share), expected_BCHW)
    for version in VERSIONS:
        np.testing.assert_array_equal(version(paddle.to_tensor(x_BCHW), 4, share).numpy(), expected_BCHW)


def test_the_first_tsm_shifts_the_other_way(recorded: dict[str, npt.NDArray[np.float32]]) -> None:
    """With the first two folds swapped before and after, ours is the shift of the TSM repository."""
    swap = [2, 3, 0, 1, *range(4, 16)]
    shifted_BCHW = shift_reference(recorded["input_nchw"][:, swap], 4, 0.125)[:, swap]
    np.testing.assert_array_equal(shifted_BCHW, recorded["mit_output_nchw_div8"])


def test_folds_end_where_those_of_the_operator_do(recorded: dict[str, npt.NDArray[np.float32]]) -> None:
    tried = 0
    for channels, segments, first, second in recorded["fold_table"].tolist():
        if segments < 3 or channels > 256:  # the operator takes shares below one half only
            continue
        x_BCHW = np.ones((segments, channels, 1, 1), np.float32)
        shifted_BCHW = shift_composed(paddle.to_tensor(x_BCHW), segments, 1 / segments).numpy()
        assert np.flatnonzero(shifted_BCHW[0, :, 0, 0] == 0).tolist() == list(range(first))
        assert np.flatnonzero(shifted_BCHW[-1, :, 0, 0] == 0).tolist() == list(range(first, second))
        tried += 1
    assert tried > 3
