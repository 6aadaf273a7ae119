"""The wiring of mixed precision, with a stand-in for paddle.amp: on a CPU the real one does nothing."""

from contextlib import contextmanager
from typing import Any

import pytest
from paddle_import import paddle

from train.precision import Precision, open_precision, precision_text
from train.recipe_of_learning import Amp


class Scaler:
    """Multiplies the loss by 8; `found` says whether a gradient is not finite."""

    def __init__(self, calls: list[Any], scale: float) -> None:
        self.calls, self.scale_value, self.is_bad = calls, scale, False
        self.saved: dict[str, Any] = {"scale": scale}

    def scale(self, loss: paddle.Tensor) -> paddle.Tensor:
        self.calls.append("scale")
        return loss * 8

    def unscale_(self, optimizer: Any) -> None:
        self.calls.append("unscale")
        for parameter in optimizer.parameters:
            parameter.grad.set_value(parameter.grad / 8)
        self.is_bad = not all(bool(paddle.isfinite(parameter.grad).all()) for parameter in optimizer.parameters)

    def step(self, optimizer: Any) -> None:
        self.calls.append("skip" if self.is_bad else "step")
        if not self.is_bad:
            optimizer.step()

    def update(self) -> None:
        self.calls.append("update")

    def state_dict(self) -> dict[str, Any]:
        return self.saved

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state:
            raise ValueError("as Paddle does")
        self.saved = state


class StandIn:
    """paddle.amp that writes down what it is asked."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def GradScaler(self, init_loss_scaling: float) -> Scaler:  # noqa: N802 - Paddle's name
        return Scaler(self.calls, init_loss_scaling)

    @contextmanager
    def auto_cast(self, **keywords: Any):
        self.calls.append(("enter", keywords))
        yield
        self.calls.append("leave")

    def decorate(self, **keywords: Any) -> tuple[Any, Any]:
        self.calls.append(("decorate", keywords["level"], keywords["dtype"], keywords["save_dtype"]))
        return "decorated model", "decorated optimiser"


class Optimizer:
    def __init__(self, parameters: list[paddle.Tensor]) -> None:
        self.parameters, self.seen = parameters, []

    def step(self) -> None:
        self.seen.append([parameter.grad.item() for parameter in self.parameters])

    def clear_grad(self) -> None:
        for parameter in self.parameters:
            parameter.clear_gradient()


def test_on_a_cpu_nothing_of_it_is_used() -> None:
    amp = StandIn()
    for level in ("off", "O1", "O2"):
        precision, model, optimizer = open_precision(Amp(level=level), "model", "optimiser", has_gpu=False, amp=amp)
        assert (precision, model, optimizer) == (Precision(), "model", "optimiser")
        assert precision.state() == {}
    assert amp.calls == []
    text = "amp.level=O2 does nothing on a CPU: computing in float32"
    assert precision_text(Amp(level="O2"), has_gpu=False) == text
    assert precision_text(Amp(), has_gpu=False) == precision_text(Amp(), has_gpu=True) == ""
    assert precision_text(Amp(level="O1"), has_gpu=True) == "mixed precision O1 in float16"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_one_step(level: str, dtype: str) -> None:
    """Scaled backward, gradients unscaled before they are clipped, one step; only float16 is scaled."""
    amp = StandIn()
    settings = Amp(level=level, dtype=dtype, black_list="reduce_mean, conv3d")
    precision, model, _ = open_precision(settings, "model", "optimiser", has_gpu=True, amp=amp)
    assert amp.calls == ([("decorate", "O2", dtype, "float32")] if level == "O2" else [])
    assert model == ("decorated model" if level == "O2" else "model")
    amp.calls.clear()

    first, second = (paddle.create_parameter([1], "float32") for _ in range(2))
    optimizer = Optimizer([first, second])
    logits = precision.forward(lambda clips: (3 * first + 4 * second).astype("float64"), paddle.zeros([1]))
    assert logits.dtype == paddle.float32
    precision.backward(logits.sum())
    assert precision.step(optimizer, [first, second], 1.0) == pytest.approx(5)
    assert optimizer.seen == [pytest.approx([0.6, 0.8])]
    assert first.grad is None or first.grad.item() == 0
    cast = {"custom_black_list": ["reduce_mean", "conv3d"], "level": level, "dtype": dtype}
    scaled = ["scale", "unscale", "step", "update"] if dtype == "float16" else []
    assert amp.calls == [("enter", cast), "leave", *scaled]


def test_a_step_whose_gradients_are_not_finite_is_left_out() -> None:
    amp = StandIn()
    precision, _, _ = open_precision(Amp(level="O1"), "model", "optimiser", has_gpu=True, amp=amp)
    parameter = paddle.create_parameter([1], "float32")
    optimizer = Optimizer([parameter])
    precision.backward((float("inf") * parameter).sum())
    precision.step(optimizer, [parameter], 1.0)
    assert amp.calls == ["scale", "unscale", "skip", "update"]
    assert optimizer.seen == []


def test_the_scale_goes_into_checkpoints_and_comes_back() -> None:
    precision, _, _ = open_precision(Amp(level="O1"), "model", "optimiser", has_gpu=True, amp=StandIn())
    assert precision.state() == {"scale": 2.0**16}
    precision.restore({})  # of a checkpoint that a CPU wrote
    assert precision.state() == {"scale": 2.0**16}
    precision.restore({"scale": 4.0})
    assert precision.state() == {"scale": 4.0}
