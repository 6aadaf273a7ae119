"""The moving average of weights and precise statistics of batch norms: against numpy.

Arrays: x_NC float32.
"""

import numpy as np
import pytest
from paddle_import import paddle

from train.averaging import MovingAverage, running_statistics, set_precise_statistics
from train.ranks import Ranks


def model_of(seed: int = 0) -> paddle.nn.Layer:
    paddle.seed(seed)
    return paddle.nn.Sequential(paddle.nn.Conv2D(3, 2, 1), paddle.nn.BatchNorm2D(2))


def arrays(model: paddle.nn.Layer) -> dict[str, np.ndarray]:
    return {key: value.numpy().copy() for key, value in model.state_dict().items()}


def test_an_average_of_three_steps() -> None:
    """By the formula: the decay is 2/11, 3/12, and then the recipe's 0.28."""
    model = model_of()
    average = MovingAverage(model, 0.28)
    expected = arrays(model)
    for step, decay in ((1, 2 / 11), (2, 3 / 12), (3, 0.28)):
        for value in model.state_dict().values():
            value.set_value(value + step)
        average.update(model, step)
        expected = {key: decay * expected[key] + (1 - decay) * value for key, value in arrays(model).items()}
    assert {"0.weight", "1._mean", "1._variance"} < set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(average.weights[key].numpy(), value, rtol=1e-5)


def test_a_model_has_the_average_inside_and_its_own_outside() -> None:
    model = model_of()
    average = MovingAverage(model, 0.5)
    before = arrays(model)
    for value in model.state_dict().values():
        value.set_value(value + 1)
    own = arrays(model)
    with average.in_place(model):
        for key, value in arrays(model).items():
            np.testing.assert_array_equal(value, before[key])
        model[1]._mean.set_value(np.array([7, 8], np.float32))
    for key, value in arrays(model).items():
        np.testing.assert_array_equal(value, own[key])
    assert average.weights["1._mean"].tolist() == [7, 8], "statistics stay with the average"
    np.testing.assert_array_equal(average.weights["0.weight"].numpy(), before["0.weight"])


def batches() -> list[paddle.Tensor]:
    rng = np.random.default_rng(1)
    return [paddle.to_tensor(rng.normal(i, 1 + i, (4, 3, 5, 5)).astype(np.float32)) for i in range(3)]


def test_precise_statistics_are_means_over_batches() -> None:
    """Of means and of the (biased) variances of what the batch norm is given."""
    model = model_of()
    weight_OI = model[0].weight.numpy()[:, :, 0, 0]
    seen = [np.einsum("oi,nihw->onhw", weight_OI, batch.numpy()).reshape(2, -1) for batch in batches()]
    set_precise_statistics(model, iter(batches()), Ranks())
    np.testing.assert_allclose(model[1]._mean.numpy(), np.mean([x.mean(1) for x in seen], axis=0), rtol=1e-4)
    np.testing.assert_allclose(model[1]._variance.numpy(), np.mean([x.var(1) for x in seen], axis=0), rtol=1e-4)
    assert model[1]._momentum == 0.9


def test_an_interruption_leaves_statistics_as_they_were() -> None:
    model = model_of()
    model(batches()[0])
    before = [value.numpy().copy() for value in running_statistics(model)]

    def interrupted():
        yield batches()[1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        set_precise_statistics(model, interrupted(), Ranks())
    for value, own in zip(running_statistics(model), before, strict=True):
        np.testing.assert_array_equal(value.numpy(), own)
    assert model[1]._momentum == 0.9
    assert len(before) == 2
