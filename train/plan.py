"""What a recipe will do and take, before anything runs.

Arrays: shapes are those of clips_NTHWC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import paddle
from paddle import nn

from manifests.machine import format_bytes
from manifests.table import table_lines
from manifests.wording import count
from train.dataset import ClipDataset
from train.models import build_model
from train.optimising import rate_at
from train.reading_cost import drawn_costs, measured_costs
from train.recipe import TrainRecipe
from train.schedules import Stage
from train.slots import num_slots

_STEPS_PER_EPOCH = 1000
"""For the rates where the number of videos is not known."""


@dataclass(frozen=True)
class StagePlan:
    """Epochs [first_epoch, end_epoch), of which there are some.

    shapes: (clips of a step, their frames, their side) of its steps in turn. rates: learning rates that hold in it, in
    order, the warm-up aside. norm_groups: in which batch norms see the clips of a part, for each of the shapes.
    num_steps, num_clips: None where the number of videos is not known. plain_epochs: the epochs of the schedule without
    cycles that have as many steps, the ends of epochs aside. work: multiply-adds of a step in terms of those of a step
    of the largest clips, on the average; reading: the same of what reading for it takes.
    """

    first_epoch: int
    end_epoch: int
    shapes: tuple[tuple[int, int, int], ...]
    rates: tuple[float, ...]
    norm_groups: tuple[int, ...]
    num_evaluations: int
    num_steps: int | None
    num_clips: int | None
    plain_epochs: float
    work: float
    reading: float


@dataclass(frozen=True)
class Plan:
    """Steps are optimiser steps; None where the number of videos is not known. Bytes are estimates but for weights.

    steps_per_epoch: None too where it is not the same for all epochs. plain_num_epochs, plain_num_steps: of the same
    recipe without cycles. parts_per_step parts of batch_shape are a step with the largest clips. rates: (epoch,
    learning rate) at the beginning, where it changes its course, and at the end. activation_bytes: what the forward
    pass of one part keeps for the backward pass, at most. multiply_adds: of convolutions and the classifier, in the
    forward pass of one of the largest clips. batch_bytes: of the clips of a part, at most. is_reading_measured: whether
    the stages' `reading` was measured on the dataset.
    """

    model: str
    num_weights: int
    multiply_adds: int
    cycles: str
    num_epochs: int
    steps_per_epoch: int | None
    num_steps: int | None
    plain_num_epochs: int
    plain_num_steps: int | None
    stages: tuple[StagePlan, ...]
    is_reading_measured: bool
    batch_shape: tuple[int, ...]
    parts_per_step: int
    view_shape: tuple[int, ...]
    views_per_video: int
    rates: tuple[tuple[float, float], ...]
    weight_bytes: int
    checkpoint_bytes: int
    activation_bytes: int
    batch_bytes: int
    loader_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Of the device: weights, gradients, velocities, the average, activations, and a part in float32."""
        return self.checkpoint_bytes + self.weight_bytes + self.activation_bytes + 4 * self.batch_bytes

    @property
    def fewer_steps(self) -> float:
        """The steps of the schedule without cycles over those of this one."""
        if self.num_steps and self.plain_num_steps is not None:
            return self.plain_num_steps / self.num_steps
        return self.plain_num_epochs / sum(stage.plain_epochs for stage in self.stages)

    @property
    def less_work(self) -> float:
        """Multiply-adds of the schedule without cycles over those of this one."""
        return self.plain_num_epochs / sum(stage.plain_epochs * stage.work for stage in self.stages)


def make_plan(
    recipe: TrainRecipe,
    *,
    num_classes: int,
    num_workers: int,
    training: ClipDataset | None = None,
) -> Plan:
    """Builds the model and runs it on clips of noise; reads some clips of `training`, if it is there."""
    num_training = None if training is None else len(training)
    clip, settings, schedule = recipe.clip, recipe.optimizer, recipe.schedule
    model = build_model(recipe.model, num_classes)
    weights = [parameter for parameter in model.parameters() if not parameter.stop_gradient]
    num_weights = sum(int(parameter.size) for parameter in weights)
    sizes = list(dict.fromkeys([(clip.num_frames, clip.crop_px), *(shape[1:] for shape in recipe.part_shapes)]))
    costs = {size: cost_of_a_clip(model, *size) for size in sizes}
    if len(sizes) == 1:
        reading = {sizes[0]: 1.0}
    else:
        found = drawn_costs(recipe, sizes) if training is None else measured_costs(training, sizes)
        reading = dict(zip(sizes, found, strict=True))
    copies = 3 if recipe.average.ema_decay else 2
    stages = schedule.lasting_stages
    per_epoch = [None if num_training is None else recipe.steps_per_epoch(stage, num_training) for stage in stages]
    part = recipe.part_size
    number, num_frames, crop_px = recipe.view_shape
    return Plan(
        model=recipe.model.name,
        num_weights=num_weights,
        multiply_adds=costs[sizes[0]][1],
        cycles=recipe.multigrid.cycles,
        num_epochs=schedule.num_epochs,
        steps_per_epoch=per_epoch[0] if len(set(per_epoch)) == 1 else None,
        num_steps=None if num_training is None else recipe.num_steps(num_training),
        plain_num_epochs=settings.num_epochs,
        plain_num_steps=None if num_training is None else num_training // settings.batch_size * settings.num_epochs,
        stages=tuple(
            _stage_plan(recipe, stage, num_training, {size: cost for size, (_, cost) in costs.items()}, reading)
            for stage in stages
        ),
        is_reading_measured=training is not None,
        batch_shape=(part, clip.num_frames, clip.crop_px, clip.crop_px, 3),
        parts_per_step=settings.num_parts,
        view_shape=(number, num_frames, crop_px, crop_px, 3),
        views_per_video=recipe.views.count,
        rates=_rates(recipe, num_training),
        weight_bytes=4 * num_weights,
        checkpoint_bytes=4 * num_weights * copies,
        activation_bytes=max(clips * costs[frames, side][0] for clips, frames, side in recipe.part_shapes),
        batch_bytes=max(clips * frames * side**2 * 3 for clips, frames, side in recipe.part_shapes),
        loader_bytes=num_slots(num_workers) * recipe.largest_batch_bytes,
    )


def _stage_plan(
    recipe: TrainRecipe,
    stage: Stage,
    num_training: int | None,
    work: Mapping[tuple[int, int], float],
    reading: Mapping[tuple[int, int], float],
) -> StagePlan:
    settings = recipe.optimizer
    steps = clips = None
    if num_training is not None:
        per_epoch = recipe.steps_per_epoch(stage, num_training)
        steps = stage.num_epochs * per_epoch
        multiples = sum(stage.shape_of(step).multiple for step in range(per_epoch))
        clips = stage.num_epochs * multiples * settings.batch_size
    largest = recipe.clip.num_frames, recipe.clip.crop_px

    def relative(costs: Mapping[tuple[int, int], float]) -> float:
        """Of a step."""
        total = sum(shape.multiple * costs[shape.num_frames, shape.crop_px] for shape in stage.shapes)
        return total / len(stage.shapes) / costs[largest]

    epochs = range(stage.first_epoch, stage.end_epoch)
    return StagePlan(
        first_epoch=stage.first_epoch,
        end_epoch=stage.end_epoch,
        shapes=tuple((settings.batch_size * shape.multiple, shape.num_frames, shape.crop_px) for shape in stage.shapes),
        rates=tuple(settings.learning_rate * rate for rate in recipe.schedule.rates_of(stage)),
        norm_groups=tuple(recipe.norm_groups(shape.multiple) for shape in stage.shapes),
        num_evaluations=sum(recipe.schedule.is_evaluated(epoch, recipe.evals_per_stage) for epoch in epochs),
        num_steps=steps,
        num_clips=clips,
        plain_epochs=stage.num_epochs / stage.mean_multiple,
        work=relative(work),
        reading=relative(reading),
    )


def _rates(recipe: TrainRecipe, num_training: int | None) -> tuple[tuple[float, float], ...]:
    settings, schedule = recipe.optimizer, recipe.schedule

    def width(epoch: float) -> float:
        if num_training is None:
            return 1 / _STEPS_PER_EPOCH
        return 1 / max(1, recipe.steps_per_epoch(schedule.stage_of(int(epoch)), num_training))

    last = schedule.num_epochs - width(schedule.num_epochs - 1)
    epochs = {0.0, settings.num_warmup_epochs, *(float(epoch) for epoch, _ in schedule.rates), last}
    if settings.schedule == "cosine":
        epochs.add((settings.num_warmup_epochs + schedule.num_epochs) / 2)
    return tuple(
        (round(epoch, 2), rate_at(settings, schedule, epoch, width(epoch))) for epoch in sorted(epochs) if epoch <= last
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
    steps = "" if plan.num_steps is None else f", {count(plan.num_steps, 'step')} in all"
    if plan.steps_per_epoch is not None:
        steps = f", {count(plan.steps_per_epoch, 'step')} each{steps}"
    parts = "" if plan.parts_per_step == 1 else f", {plan.parts_per_step} of them a step"
    rows = [[f"{epoch:g}", f"{rate:.3g}"] for epoch, rate in plan.rates]
    return [
        f"{plan.model}: {plan.num_weights:,} weights, {count(plan.num_epochs, 'epoch')}{steps}",
        f"forward pass of one clip: {plan.multiply_adds / 1e9:.3g} G multiply-adds",
        f"training: clips of shape {_shape(plan.batch_shape)}{parts}",
        f"evaluation: {count(plan.views_per_video, 'view')} a video, {_shape(plan.view_shape)} at a time",
        *([] if plan.cycles == "off" else _stage_lines(plan)),
        *table_lines(["epoch", "learning rate"], rows),
        f"memory of the device: about {format_bytes(plan.memory_bytes)}, {format_bytes(plan.activation_bytes)} of it "
        "activations",
        f"shared memory of the data workers: {format_bytes(plan.loader_bytes)}",
        f"a checkpoint: {format_bytes(plan.checkpoint_bytes)}",
    ]


def _stage_lines(plan: Plan) -> list[str]:
    rows = []
    for stage in plan.stages:
        rows.append(
            [
                f"{stage.first_epoch}-{stage.end_epoch - 1}",
                ", ".join(f"{clips} x {frames} x {side}" for clips, frames, side in stage.shapes),
                "/".join(map(str, stage.norm_groups)),
                ", ".join(f"{rate:.3g}" for rate in stage.rates),
                f"{stage.plain_epochs:.2f}" if stage.num_steps is None else f"{stage.num_steps:,}",
                "-" if stage.num_clips is None else f"{stage.num_clips:,}",
                str(stage.num_evaluations),
                f"{stage.work:.2f}",
                f"{stage.reading:.2f}",
            ]
        )
    unit = "epochs' steps" if plan.num_steps is None else "steps"
    head = ["epochs", "clips x frames x px of a step", "norm groups", "rate", unit, "clips", "evals", "work", "reading"]
    found = "measured on this dataset" if plan.is_reading_measured else "estimated for frames of 340x256"
    most = max(stage.reading / stage.work for stage in plan.stages)
    return [
        f"multigrid, {plan.cycles} cycle{'s' if plan.cycles == 'both' else ''}:",
        *table_lines(head, rows),
        f"{plan.fewer_steps:.2f} times fewer steps and {plan.less_work:.2f} times less work than "
        f"{plan.plain_num_epochs} epochs of the largest clips",
        f"work and reading are those of a step, in steps of the largest clips (reading: {found}); data workers that "
        f"cannot read {most:.1f} times as fast as the largest clips want it set the pace in some stage",
    ]


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
