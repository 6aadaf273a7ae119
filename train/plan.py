"""What a recipe will do and take, before anything runs.

Arrays: shapes are those of clips_NTHWC.
"""

from dataclasses import dataclass
from typing import Any

import paddle
from paddle import nn

from manifests.machine import format_bytes
from manifests.table import table_lines
from manifests.wording import count
from train.models import build_model
from train.optimising import rate_at
from train.recipe import TrainRecipe, decay_epochs
from train.slots import num_slots

_STEPS_PER_EPOCH = 1000
"""For the rates where the number of videos is not known."""


@dataclass(frozen=True)
class Plan:
    """Steps are optimiser steps; None where the number of videos is not known. Bytes are estimates but for weights.

    rates: (epoch, learning rate) at the beginning, where it changes its course, and at the end.
    activation_bytes: what the forward pass of one part keeps for the backward pass. multiply_adds: of convolutions and
    the classifier, in the forward pass of one clip.
    """

    model: str
    num_weights: int
    multiply_adds: int
    num_epochs: int
    steps_per_epoch: int | None
    num_steps: int | None
    batch_shape: tuple[int, ...]
    parts_per_step: int
    view_shape: tuple[int, ...]
    views_per_video: int
    rates: tuple[tuple[float, float], ...]
    weight_bytes: int
    checkpoint_bytes: int
    activation_bytes: int
    loader_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Of the device: weights, gradients, velocities, the average, activations, and a part in float32."""
        clips = 1
        for size in self.batch_shape:
            clips *= size
        return self.checkpoint_bytes + self.weight_bytes + self.activation_bytes + 4 * clips


def make_plan(recipe: TrainRecipe, *, num_classes: int, num_training: int | None, num_workers: int) -> Plan:
    """Builds the model and runs it on one clip of noise."""
    clip, settings = recipe.clip, recipe.optimizer
    model = build_model(recipe.model, num_classes)
    weights = [parameter for parameter in model.parameters() if not parameter.stop_gradient]
    num_weights = sum(int(parameter.size) for parameter in weights)
    clip_bytes, multiply_adds = cost_of_a_clip(model, clip.num_frames, clip.crop_px)
    copies = 3 if recipe.average.ema_decay else 2
    steps = None if num_training is None else num_training // settings.batch_size
    part = recipe.part_size
    number, num_frames, crop_px = recipe.view_shape
    batch_bytes = part * clip.num_frames * clip.crop_px**2 * 3
    view_bytes = number * num_frames * crop_px**2 * 3
    return Plan(
        model=recipe.model.name,
        num_weights=num_weights,
        multiply_adds=multiply_adds,
        num_epochs=settings.num_epochs,
        steps_per_epoch=steps,
        num_steps=None if steps is None else steps * settings.num_epochs,
        batch_shape=(part, clip.num_frames, clip.crop_px, clip.crop_px, 3),
        parts_per_step=settings.num_parts,
        view_shape=(number, num_frames, crop_px, crop_px, 3),
        views_per_video=recipe.views.count,
        rates=_rates(recipe, steps or _STEPS_PER_EPOCH),
        weight_bytes=4 * num_weights,
        checkpoint_bytes=4 * num_weights * copies,
        activation_bytes=part * clip_bytes,
        loader_bytes=num_slots(num_workers) * max(batch_bytes, view_bytes),
    )


def _rates(recipe: TrainRecipe, steps_per_epoch: int) -> tuple[tuple[float, float], ...]:
    settings = recipe.optimizer
    last = settings.num_epochs - 1 / steps_per_epoch
    epochs = {0.0, settings.num_warmup_epochs, *decay_epochs(settings.decay_epochs), last}
    if settings.schedule == "cosine":
        epochs.add((settings.num_warmup_epochs + settings.num_epochs) / 2)
    return tuple(
        (round(epoch, 2), rate_at(settings, round(epoch * steps_per_epoch), steps_per_epoch))
        for epoch in sorted(epochs)
        if epoch <= last
    )


def cost_of_a_clip(model: nn.Layer, num_frames: int, crop_px: int) -> tuple[int, int]:
    """Bytes of the outputs of all layers without layers inside, and multiply-adds."""
    sizes: list[int] = []
    multiply_adds: list[int] = []

    def note(layer: nn.Layer, inputs: Any, output: paddle.Tensor) -> None:
        sizes.append(4 * int(output.size))
        if isinstance(layer, nn.Conv2D | nn.Conv3D | nn.Linear):
            num_channels = output.shape[-1 if isinstance(layer, nn.Linear) else 1]
            multiply_adds.append(int(output.size) // num_channels * int(layer.weight.size))

    hooks = [layer.register_forward_post_hook(note) for layer in model.sublayers() if not layer.sublayers()]
    model.eval()
    with paddle.no_grad():
        model(paddle.zeros([1, num_frames, 3, crop_px, crop_px]))
    for hook in hooks:
        hook.remove()
    return sum(sizes), sum(multiply_adds)


def plan_lines(plan: Plan) -> list[str]:
    """The plan as text."""
    steps = ""
    if plan.num_steps is not None and plan.steps_per_epoch is not None:
        steps = f", {count(plan.steps_per_epoch, 'step')} each, {plan.num_steps:,} in all"
    parts = "" if plan.parts_per_step == 1 else f", {plan.parts_per_step} of them a step"
    rows = [[f"{epoch:g}", f"{rate:.3g}"] for epoch, rate in plan.rates]
    return [
        f"{plan.model}: {plan.num_weights:,} weights, {count(plan.num_epochs, 'epoch')}{steps}",
        f"forward pass of one clip: {plan.multiply_adds / 1e9:.3g} G multiply-adds",
        f"training: clips of shape {_shape(plan.batch_shape)}{parts}",
        f"evaluation: {count(plan.views_per_video, 'view')} a video, {_shape(plan.view_shape)} at a time",
        *table_lines(["epoch", "learning rate"], rows),
        f"memory of the device: about {format_bytes(plan.memory_bytes)}, {format_bytes(plan.activation_bytes)} of it "
        "activations",
        f"shared memory of the data workers: {format_bytes(plan.loader_bytes)}",
        f"a checkpoint: {format_bytes(plan.checkpoint_bytes)}",
    ]


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
