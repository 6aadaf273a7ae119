"""Mixed precision: what computes in 16 bits, and the scale of the loss that keeps small gradients from vanishing.

Micikevicius et al., Mixed Precision Training, ICLR 2018. On a CPU Paddle ignores all of it, so nothing of it is used.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import paddle
from paddle import nn

from train.optimising import clip_gradients
from train.recipe_of_learning import Amp

_FIRST_SCALE = 2.0**16


@dataclass(frozen=True)
class Precision:
    """How a step computes. `context` opens mixed precision; `scaler` is None where gradients need no scale."""

    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    scaler: Any = None

    def forward(self, model: nn.Layer, clips: paddle.Tensor) -> paddle.Tensor:
        """logits_NK in float32."""
        with self.context():
            logits_NK = model(clips)
        return logits_NK.astype("float32")

    def backward(self, loss: paddle.Tensor) -> None:
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def step(self, optimizer: Any, parameters: list[paddle.Tensor], max_norm: float) -> float:
        """Clip, step, clear; returns the norm that the gradients had. A step is left out, and the scale lowered, where
        scaled gradients are not finite."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        norm = clip_gradients(parameters, max_norm)
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
        optimizer.clear_grad()
        return norm

    def state(self) -> dict[str, Any]:
        return {} if self.scaler is None else dict(self.scaler.state_dict())

    def restore(self, state: dict[str, Any]) -> None:
        """Of a checkpoint; one from a CPU has none, and the scale begins anew."""
        if self.scaler is not None and state:
            self.scaler.load_state_dict(state)


def open_precision(
    settings: Amp, model: nn.Layer, optimizer: Any, *, has_gpu: bool, amp: Any = paddle.amp
) -> tuple[Precision, nn.Layer, Any]:
    """The precision of a recipe, with model and optimiser as it wants them. `amp` is paddle.amp."""
    if settings.level == "off" or not has_gpu:
        return Precision(), model, optimizer
    if settings.level == "O2":
        model, optimizer = amp.decorate(
            models=model, optimizers=optimizer, level="O2", dtype=settings.dtype, save_dtype="float32"
        )

    def context() -> AbstractContextManager[Any]:
        opened: AbstractContextManager[Any] = amp.auto_cast(
            custom_black_list=settings.black_names, level=settings.level, dtype=settings.dtype
        )
        return opened

    is_scaled = settings.dtype == "float16"
    return Precision(context, amp.GradScaler(init_loss_scaling=_FIRST_SCALE) if is_scaled else None), model, optimizer


def precision_text(settings: Amp, *, has_gpu: bool) -> str:
    """What a run says of it: nothing where it is off."""
    if settings.level == "off":
        return ""
    if not has_gpu:
        return f"amp.level={settings.level} does nothing on a CPU: computing in float32"
    return f"mixed precision {settings.level} in {settings.dtype}"
