"""The one place where clips become what a model takes.

Arrays: clips_NTHWC uint8; clips_NTCHW float32.
"""

import numpy as np
import pytest
from paddle_import import paddle

from train.device import normalise
from train.models import IMAGENET, KINETICS, Pixels


@pytest.mark.parametrize("pixels", [IMAGENET, KINETICS, Pixels((0.1, 0.2, 0.3), (1.0, 2.0, 4.0))])
def test_normalised_by_the_formula(pixels: Pixels) -> None:
    """In [0, 1], minus the mean, divided by the deviation, red first; channels before height and width."""
    clips_NTHWC = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 5, 3), np.uint8)
    expected_NTHWC = (clips_NTHWC / 255 - np.array(pixels.mean)) / np.array(pixels.std)
    clips_NTCHW = normalise(paddle.to_tensor(clips_NTHWC), pixels).numpy()
    assert (clips_NTCHW.dtype, clips_NTCHW.shape) == (np.float32, (2, 3, 3, 4, 5))
    np.testing.assert_allclose(clips_NTCHW.transpose(0, 1, 3, 4, 2), expected_NTHWC, rtol=0, atol=2e-6)


def test_known_values() -> None:
    """Of black and white, with the numbers of the recipes written out."""
    clips_NTHWC = np.array([0, 255], np.uint8).reshape(1, 2, 1, 1, 1).repeat(3, axis=-1)
    values = normalise(paddle.to_tensor(clips_NTHWC), IMAGENET).numpy().reshape(2, 3)
    np.testing.assert_allclose(values[0], [-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225], rtol=1e-6)
    np.testing.assert_allclose(values[1], [0.515 / 0.229, 0.544 / 0.224, 0.594 / 0.225], rtol=1e-6)
    values = normalise(paddle.to_tensor(clips_NTHWC), KINETICS).numpy().reshape(2, 3)
    np.testing.assert_allclose(values, [[-2] * 3, [0.55 / 0.225] * 3], rtol=1e-6)
