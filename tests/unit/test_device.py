"""What models take of uint8 clips.

Arrays: clips_NTHWC uint8 RGB; expected_NTHWC float64, normalised.
"""

import numpy as np
import pytest
from paddle_import import paddle

from train.device import normalise
from train.normalisation import NORMALISATIONS


@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize(("layout", "axes"), [("NTCHW", (0, 1, 4, 2, 3)), ("NCTHW", (0, 4, 1, 2, 3))])
def test_normalisation_by_the_letter(name: str, layout: str, axes: tuple[int, ...]) -> None:
    clips_NTHWC = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 7, 3), np.uint8)
    mean, std = {
        "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        "kinetics": ([0.45, 0.45, 0.45], [0.225, 0.225, 0.225]),
    }[name]
    expected_NTHWC = (clips_NTHWC / 255 - np.array(mean)) / np.array(std)
    found = normalise(paddle.to_tensor(clips_NTHWC, place=paddle.CPUPlace()), name, layout)
    assert found.dtype == paddle.float32
    np.testing.assert_allclose(found.numpy(), expected_NTHWC.transpose(axes), atol=2e-6)


def test_by_default_as_the_2d_models_take_them() -> None:
    clips_NTHWC = paddle.to_tensor(np.zeros((1, 2, 4, 5, 3), np.uint8))
    found = normalise(clips_NTHWC)
    assert found.shape == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        found.numpy()[0, 0, :, 0, 0], [-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225], rtol=1e-5
    )
