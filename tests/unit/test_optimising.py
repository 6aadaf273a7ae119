"""Groups, rates and clipping: against the update written out, and against PaddlePaddle's own optimiser.

Arrays: x_NC float32.
"""

import math

import numpy as np
import pytest
from paddle_import import paddle

from train.models import MODELS, build_model
from train.optimising import build_optimizer, clip_gradients, parameter_groups, rate_at
from train.recipe import TrainRecipe
from train.recipe_of_learning import Model, Optimizer


def small_model() -> paddle.nn.Layer:
    paddle.seed(3)
    return paddle.nn.Sequential(
        paddle.nn.Conv2D(3, 4, 3), paddle.nn.BatchNorm2D(4), paddle.nn.Flatten(), paddle.nn.Linear(16, 2)
    )


def loss_of(model: paddle.nn.Layer, seed: int) -> paddle.Tensor:
    x_NCHW = np.random.default_rng(seed).standard_normal((2, 3, 4, 4)).astype(np.float32)
    return model(paddle.to_tensor(x_NCHW)).square().sum()


@pytest.mark.parametrize("name", MODELS)
def test_all_that_is_learned_is_in_one_group(name: str) -> None:
    model = build_model(Model(name=name), 3)
    groups = parameter_groups(model, Optimizer())
    assert [id(parameter) for parameter, _, _ in groups] == [
        id(parameter) for parameter in model.parameters() if not parameter.stop_gradient
    ]
    heads = [rate for _, rate, _ in parameter_groups(model, Optimizer(head_rate=5, head_bias_rate=10)) if rate != 1]
    assert heads == [5, 10]


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("decay_norms", [True, False])
def test_two_steps_by_the_formula(nesterov: bool, decay_norms: bool) -> None:
    """v = m v + g + d w; w -= r (g + d w + m v) with Nesterov, r v without; r is the head's own where it has one."""
    settings = Optimizer(
        momentum=0.9, weight_decay=0.1, nesterov=nesterov, decay_norms=decay_norms, head_rate=5, head_bias_rate=10
    )
    with paddle.utils.unique_name.guard():
        model = small_model()
        optimizer = build_optimizer(model, settings)
    names = [name for name, parameter in model.named_parameters() if not parameter.stop_gradient]
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]
    decays = [0.1, *([0.1] * 3 if decay_norms else [0.0] * 3), 0.1, 0.1 if decay_norms else 0.0]
    factors = [1, 1, 1, 1, 5, 10]
    parameters = [parameter for parameter in model.parameters() if not parameter.stop_gradient]
    expected = [parameter.numpy().astype(np.float64) for parameter in parameters]
    velocities = [np.zeros_like(weights) for weights in expected]
    for step, rate in enumerate((0.01, 0.002)):
        optimizer.set_lr(rate)
        loss_of(model, step).backward()
        for i, parameter in enumerate(parameters):
            gradient = parameter.grad.numpy() + decays[i] * expected[i]
            velocities[i] = 0.9 * velocities[i] + gradient
            moved = gradient + 0.9 * velocities[i] if nesterov else velocities[i]
            expected[i] = expected[i] - rate * factors[i] * moved
        optimizer.step()
        optimizer.clear_grad()
    for parameter, weights in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(parameter.numpy(), weights, rtol=1e-4, atol=1e-5)


def test_one_norm_over_all_gradients() -> None:
    """3 and 4 in two groups make 5: with a limit of 1 they become 0.6 and 0.8."""
    first, second = (paddle.create_parameter([1], "float32") for _ in range(2))
    (3 * first + 4 * second).backward()
    assert clip_gradients([first, second], 0) == pytest.approx(5)
    assert (first.grad.item(), second.grad.item()) == (3, 4)
    assert clip_gradients([first, second], 5.1) == pytest.approx(5)
    assert (first.grad.item(), second.grad.item()) == (3, 4)
    assert clip_gradients([first, second], 1) == pytest.approx(5)
    np.testing.assert_allclose([first.grad.item(), second.grad.item()], [0.6, 0.8], rtol=1e-6)


def test_gradients_without_a_finite_norm_are_left() -> None:
    first, second = (paddle.create_parameter([1], "float32") for _ in range(2))
    (math.inf * first + 4 * second).backward()
    assert clip_gradients([first, second], 1) == math.inf
    assert second.grad.item() == 4


def rate_of(settings: Optimizer, step: int, steps_per_epoch: int) -> float:
    """Of a run without cycles."""
    return rate_at(settings, TrainRecipe(optimizer=settings).schedule, step / steps_per_epoch, 1 / steps_per_epoch)


def test_rates_of_a_schedule_in_steps() -> None:
    """PaddleVideo's TSM on Kinetics: 0.02, a tenth at 20 and at 40 of 50 epochs; and with a warm-up."""
    settings = Optimizer(learning_rate=0.02, schedule="step", decay_epochs="20, 40", num_epochs=50, num_warmup_epochs=0)
    found = [rate_of(settings, step, 10) for step in (0, 199, 200, 399, 400, 499)]
    assert found == pytest.approx([0.02, 0.02, 0.002, 0.002, 0.0002, 0.0002])
    settings = Optimizer(
        learning_rate=1, schedule="step", decay_epochs="2.5", decay_factor=0.5, num_warmup_epochs=1, warmup_from=0.6
    )
    assert [rate_of(settings, step, 4) for step in range(12)] == pytest.approx(
        [0.7, 0.8, 0.9, 1.0, 1, 1, 1, 1, 1, 1, 0.5, 0.5]
    )


def test_rates_of_a_cosine_from_a_warm_up() -> None:
    """PaddleVideo's ppTSM: from 0.005 to 0.01 in 10 epochs, then to nothing."""
    settings = Optimizer(learning_rate=0.01, warmup_from=0.005, num_warmup_epochs=10, num_epochs=80)
    found = [rate_of(settings, step, 100) for step in (499, 999, 1000, 4500)]
    assert found == pytest.approx([0.0075, 0.01, 0.01, 0.005])
    assert 0 < rate_of(settings, 7999, 100) < 1e-8
