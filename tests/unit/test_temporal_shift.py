"""The versions of the temporal shift, and the recorded results of Paddle's operator.

Arrays: x_BCHW float32 with B = N * T.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from paddle_import import paddle

from train.ops.temporal_shift import (
    Shift,
    can_fuse,
    fastest_version,
    shift_composed,
    shift_fused,
    shift_reference,
    shift_rows,
    shift_split,
    temporal_shift,
)

RECORDED = ROOT.parent / "shared" / "data" / "parity" / "temporal_shift.npz"
SHARES = (1 / 16, 0.1, 1 / 8, 0.25, 0.29, 1 / 3, 0.49, 0.5)
VERSIONS = (shift_fused, shift_composed, shift_split, shift_rows, temporal_shift)


def noise(num_clips: int, num_frames: int, channels: int) -> npt.NDArray[np.float32]:
    """x_BCHW without a zero in it, so that a zero is one that was shifted in."""
    rng = np.random.default_rng(channels)
    return 0.5 + rng.random((num_clips * num_frames, channels, 2, 3), np.float32)


def versions_of(shift: Shift, channels: int) -> list[Callable[..., Any]]:
    """Those that can do it: the kernel has one direction only, and rows need one that leaves its clip."""
    moves = bool((shift_reference(np.ones((1, channels, 1, 1), np.float32), 1, shift) == 0).any())
    usable = {shift_fused: can_fuse(shift), shift_rows: moves}
    return [version for version in VERSIONS if usable.get(version, True)]


@pytest.mark.parametrize("first_from", ["previous", "next"])
@pytest.mark.parametrize("num_frames", [1, 2, 3, 8])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 12, 16, 20, 30, 64])
def test_all_versions_give_the_same(channels: int, num_frames: int, first_from: Any) -> None:
    """Also where the folds are no whole number of channels, or none at all."""
    x_BCHW = noise(2, num_frames, channels)
    for share in SHARES:
        shift = Shift(share, first_from)
        expected_BCHW = shift_reference(x_BCHW, num_frames, shift)
        for version in versions_of(shift, channels):
            shifted_BCHW = version(paddle.to_tensor(x_BCHW), num_frames, shift).numpy()
            assert shifted_BCHW.dtype == np.float32
            np.testing.assert_array_equal(shifted_BCHW, expected_BCHW, f"{version.__name__} {share}")


@pytest.mark.parametrize("first_from", ["previous", "next"])
@pytest.mark.parametrize("num_frames", [1, 2, 5])
def test_channels_last(num_frames: int, first_from: Any) -> None:
    for channels in (4, 12, 30):
        x_BHWC = noise(2, num_frames, channels).transpose(0, 2, 3, 1).copy()
        for share in SHARES:
            shift = Shift(share, first_from)
            expected_BHWC = shift_reference(x_BHWC, num_frames, shift, "NHWC")
            for version in versions_of(shift, channels):
                if version is shift_rows:
                    continue  # has no such layout
                shifted_BHWC = version(paddle.to_tensor(x_BHWC), num_frames, shift, "NHWC").numpy()
                np.testing.assert_array_equal(shifted_BHWC, expected_BHWC, f"{version.__name__} {share}")


@settings(max_examples=40, deadline=None)
@given(
    num_clips=st.integers(1, 3),
    num_frames=st.integers(1, 9),
    channels=st.integers(1, 24),
    share=st.floats(0, 0.5, width=32),
    first_from=st.sampled_from(["previous", "next"]),
    layout=st.sampled_from(["NCHW", "NHWC"]),
)
def test_the_gradient_is_the_shift_the_other_way_round(
    num_clips: int, num_frames: int, channels: int, share: float, first_from: Any, layout: Any
) -> None:
    """<shift(x), w> = <x, back(w)>, for every version; float64, exact since no value is added to another."""
    shift = Shift(share, first_from)
    back = Shift(share, "next" if first_from == "previous" else "previous")
    x = noise(num_clips, num_frames, channels).astype(np.float64)
    if layout == "NHWC":
        x = x.transpose(0, 2, 3, 1).copy()
    weights = np.random.default_rng(1).random(x.shape)
    expected = shift_reference(weights, num_frames, back, layout)
    for version in versions_of(shift, channels):
        if version is shift_rows and layout == "NHWC":
            continue
        argument = paddle.to_tensor(x, stop_gradient=False)
        shifted = version(argument, num_frames, shift, layout)
        (shifted * paddle.to_tensor(weights)).sum().backward()
        gradient = np.zeros_like(x) if argument.grad is None else argument.grad.numpy()  # None: all is zero
        np.testing.assert_array_equal(gradient, expected, version.__name__)


@pytest.mark.parametrize("version", [*VERSIONS, shift_reference])
def test_frames_by_hand(version: Callable[..., object]) -> None:
    """Two clips of three frames with eight channels, each value 10 * frame + channel."""
    x_BCHW = np.array([[10 * b + c for c in range(8)] for b in range(6)], np.float32)[:, :, None, None]
    argument = x_BCHW if version is shift_reference else paddle.to_tensor(x_BCHW)
    shifted_BC = np.asarray(version(argument, 3, Shift(1 / 8)))[:, :, 0, 0]
    assert shifted_BC[:, 0].tolist() == [0, 0, 10, 0, 30, 40]  # from the frame before
    assert shifted_BC[:, 1].tolist() == [11, 21, 0, 41, 51, 0]  # from the frame after
    np.testing.assert_array_equal(shifted_BC[:, 2:], x_BCHW[:, 2:, 0, 0])


def test_one_and_two_frames_by_hand() -> None:
    """Shares of one over the number of frames, which Paddle's kernel refuses."""
    x_BCHW = 1 + np.arange(8, dtype=np.float32).reshape(2, 4, 1, 1)
    two_BC = temporal_shift(paddle.to_tensor(x_BCHW), 2, Shift(1 / 2)).numpy()[:, :, 0, 0]
    assert two_BC.tolist() == [[0, 0, 7, 8], [1, 2, 0, 0]]
    one_BC = temporal_shift(paddle.to_tensor(x_BCHW), 1, Shift(1 / 4)).numpy()[:, :, 0, 0]
    assert one_BC.tolist() == [[0, 0, 3, 4], [0, 0, 7, 8]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.51,), "the share of a temporal shift is in [0, 0.5], not 0.51"),
        ((-0.1,), "the share of a temporal shift is in [0, 0.5], not -0.1"),
        ((float("nan"),), "the share of a temporal shift is in [0, 0.5], not nan"),
        ((0.1, "both"), "the first fold comes from the previous or the next frame, not 'both'"),
    ],
)
def test_no_such_shift(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared
        Shift(*arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("shift", "layout", "is_on_gpu", "expected"),
    [
        (Shift(1 / 8), "NCHW", True, shift_fused),
        (Shift(1 / 8), "NHWC", True, shift_fused),
        (Shift(1 / 2), "NCHW", True, shift_split),
        (Shift(1 / 8, "next"), "NCHW", True, shift_split),
        (Shift(1 / 2, "next"), "NCHW", False, shift_rows),
        (Shift(1 / 8), "NHWC", False, shift_split),
    ],
)
def test_which_version_is_used(shift: Shift, layout: Any, is_on_gpu: bool, expected: Any) -> None:
    assert fastest_version(shift, layout, is_on_gpu=is_on_gpu) is expected


@pytest.mark.parametrize("version", [*VERSIONS, shift_reference])
def test_the_input_stays_what_it_was(version: Callable[..., object]) -> None:
    x_BCHW = noise(1, 4, 8)
    argument = x_BCHW.copy() if version is shift_reference else paddle.to_tensor(x_BCHW)
    version(argument, 4, Shift(1 / 8))
    np.testing.assert_array_equal(np.asarray(argument), x_BCHW)


def test_a_net_with_the_shift_can_be_exported(tmp_path: Any) -> None:
    """With any batch and size; the result is the same."""

    class Net(paddle.nn.Layer):
        def forward(self, x):
            return temporal_shift(x, 4, Shift(1 / 8))

    spec = paddle.static.InputSpec([None, 16, None, None], "float32")
    paddle.jit.save(Net(), str(tmp_path / "net"), input_spec=[spec])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for num_clips in (1, 3):
        x_BCHW = noise(num_clips, 4, 16)
        expected_BCHW = shift_reference(x_BCHW, 4, Shift(1 / 8))
        np.testing.assert_array_equal(loaded(paddle.to_tensor(x_BCHW)).numpy(), expected_BCHW)


# --- Recorded results ---


@pytest.fixture(scope="module")
def recorded() -> dict[str, npt.NDArray[np.float32]]:
    if not RECORDED.is_file():
        pytest.skip(f"the recorded results are not there: {RECORDED}")
    with np.load(RECORDED) as file:
        return dict(file)


@pytest.mark.parametrize("share", [0.125, 0.25])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_recorded_results_of_the_operator(
    recorded: dict[str, npt.NDArray[np.float32]], layout: Any, share: float
) -> None:
    x, expected = recorded[f"input_{layout.lower()}"], recorded[f"output_{layout.lower()}_{share}"]
    np.testing.assert_array_equal(shift_reference(x, 4, Shift(share), layout), expected)
    for version in VERSIONS:
        if version is shift_rows and layout == "NHWC":
            continue
        np.testing.assert_array_equal(version(paddle.to_tensor(x), 4, Shift(share), layout).numpy(), expected)


@pytest.mark.parametrize("divisor", [4, 8])
def test_the_first_tsm_shifts_the_other_way(recorded: dict[str, npt.NDArray[np.float32]], divisor: int) -> None:
    x_BCHW, expected_BCHW = recorded["input_nchw"], recorded[f"mit_output_nchw_div{divisor}"]
    np.testing.assert_array_equal(shift_reference(x_BCHW, 4, Shift(1 / divisor, "next")), expected_BCHW)
    shifted_BCHW = temporal_shift(paddle.to_tensor(x_BCHW), 4, Shift(1 / divisor, "next")).numpy()
    np.testing.assert_array_equal(shifted_BCHW, expected_BCHW)


def test_folds_end_where_those_of_the_operator_do(recorded: dict[str, npt.NDArray[np.float32]]) -> None:
    tried = 0
    for channels, segments, first, second in recorded["fold_table"].tolist():
        if segments < 2 or channels > 256:
            continue
        x_BCHW = np.ones((segments, channels, 1, 1), np.float32)
        shifted_BCHW = temporal_shift(paddle.to_tensor(x_BCHW), segments, Shift(1 / segments)).numpy()
        assert np.flatnonzero(shifted_BCHW[0, :, 0, 0] == 0).tolist() == list(range(first))
        assert np.flatnonzero(shifted_BCHW[-1, :, 0, 0] == 0).tolist() == list(range(first, second))
        tried += 1
    assert tried > 3
