"""Multigrid schedules: which batch, frames and crop each step of a run has, as pure functions of a recipe's numbers.

Wu et al., A Multigrid Method for Efficiently Training Video Models, CVPR 2020, by the rules of PySlowFast
(slowfast/utils/multigrid.py, slowfast/datasets/multigrid_helper.py):

    long cycle     stages of whole epochs, from large batches of small clips to the base batch of full clips; one pass
                   through all shapes for each stretch of the base schedule that has one learning rate
    short cycle    within an epoch, step n has shape n mod 3: half the base crop, 0.7 of it, the crop of the stage

Batches are multiples of the base batch such that all steps compute about as many pixels. A run without cycles is one
stage with one shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

CYCLES = ("off", "short", "long", "both")


class Shape(NamedTuple):
    """Of a step: its batch as a multiple of the base batch, the frames of a clip, the side of their crop."""

    multiple: int
    num_frames: int
    crop_px: int


@dataclass(frozen=True)
class Stage:
    """Epochs [first_epoch, end_epoch), none if they are equal; their steps have `shapes` in turn, beginning anew with
    each epoch. `base`: the shape of the long cycle, which is the last of them."""

    first_epoch: int
    end_epoch: int
    shapes: tuple[Shape, ...]

    @property
    def base(self) -> Shape:
        return self.shapes[-1]

    @property
    def num_epochs(self) -> int:
        return self.end_epoch - self.first_epoch

    @property
    def mean_multiple(self) -> float:
        """Clips of a step, on the average, in base batches."""
        return sum(shape.multiple for shape in self.shapes) / len(self.shapes)

    def shape_of(self, step_in_epoch: int) -> Shape:
        return self.shapes[step_in_epoch % len(self.shapes)]


@dataclass(frozen=True)
class Schedule:
    """stages: in order, those that rounding has left without an epoch included. rates: (first epoch, learning rate as
    a multiple of the base rate), in order from epoch 0 on; of several at one epoch the last one holds."""

    stages: tuple[Stage, ...]
    rates: tuple[tuple[float, float], ...]

    @property
    def num_epochs(self) -> int:
        return self.stages[-1].end_epoch

    @property
    def lasting_stages(self) -> list[Stage]:
        """Those that have an epoch."""
        return [stage for stage in self.stages if stage.num_epochs]

    def stage_of(self, epoch: int) -> Stage:
        """Raises StopIteration for an epoch after the last."""
        return next(stage for stage in self.stages if stage.first_epoch <= epoch < stage.end_epoch)

    def rates_of(self, stage: Stage) -> list[float]:
        """The multiples that hold in its epochs, in order."""
        before = [rate for epoch, rate in self.rates if epoch <= stage.first_epoch][-1]
        return [before, *(rate for epoch, rate in self.rates if stage.first_epoch < epoch < stage.end_epoch)]

    def is_evaluated(self, epoch: int, evals_per_stage: int) -> bool:
        """Whether an evaluation follows `epoch`: after the last of each stage, and each length // evals_per_stage + 1
        epochs before it; 0 is after every epoch."""
        stage = self.stage_of(epoch)
        period = stage.num_epochs // evals_per_stage + 1 if evals_per_stage else 1
        return (stage.end_epoch - 1 - epoch) % period == 0


@dataclass(frozen=True)
class Factors:
    """Of frames and crop, as shares of the base shape. long: (time, space) of each stage; short: space."""

    long: tuple[tuple[float, float], ...]
    short: tuple[float, float]


def plain_schedule(
    num_frames: int, crop_px: int, num_epochs: int, decay_epochs: Sequence[float], decay_factor: float
) -> Schedule:
    """One stage with one shape."""
    stage = Stage(0, num_epochs, (Shape(1, num_frames, crop_px),))
    return Schedule((stage,), _decayed(decay_epochs, decay_factor))


def multigrid_schedule(
    num_frames: int,
    crop_px: int,
    num_epochs: int,
    decay_epochs: Sequence[float],
    decay_factor: float,
    *,
    cycles: str,
    epoch_factor: float,
    factors: Factors,
) -> Schedule:
    """cycles: short, long or both. The run is `epoch_factor` times as long as num_epochs.

    The long cycle wants decay_epochs, all before num_epochs. Raises ValueError where a shape would have no frame or no
    pixel.
    """
    has_short = cycles in ("short", "both")
    if cycles == "short":
        base = Shape(1, num_frames, crop_px)
        stage = Stage(0, int(num_epochs * epoch_factor), short_cycle(base, crop_px, factors.short))
        return Schedule((stage,), _decayed([int(epoch * epoch_factor) for epoch in decay_epochs], decay_factor))
    size = num_frames * crop_px**2
    bases = [_long_shape(num_frames, crop_px, *factor) for factor in factors.long]
    weights = [_mean_multiple(size, base, crop_px, factors.short if has_short else ()) for base in bases]
    lengths = _long_lengths(num_epochs, decay_epochs, weights)
    stretch = num_epochs * epoch_factor / sum(lengths)
    ends = [round(total) for total in accumulate(length * stretch for length in lengths)]
    places = [(number // len(bases), bases[number % len(bases)]) for number in range(len(ends) - 1)]
    places.append((len(decay_epochs), bases[-1]))
    stages = tuple(
        Stage(begin, end, short_cycle(base, crop_px, factors.short) if has_short else (base,))
        for begin, end, (_, base) in zip([0, *ends[:-1]], ends, places, strict=True)
    )
    rates = [decay_factor**decays * base.multiple for decays, base in places]
    changes = [(stage.first_epoch, rate) for stage, rate in zip(stages, rates, strict=True)]
    # The first half of the last stage keeps the rate before it.
    changes[-1:] = [(ends[-2], rates[-2]), ((ends[-2] + ends[-1]) // 2, rates[-1])]
    return Schedule(stages, tuple(changes))


def short_cycle(base: Shape, crop_px: int, factors: Sequence[float]) -> tuple[Shape, ...]:
    """The shapes of the steps of a stage, whose own is `base`; `crop_px` is that of the base schedule.

    Batches grow by the squared ratio of the stage's crop to the small one, rounded.
    """
    shapes = []
    for factor in factors:
        times = max(1, round((base.crop_px / (factor * crop_px)) ** 2))
        shapes.append(Shape(base.multiple * times, base.num_frames, round(factor * crop_px)))
    return (*shapes, base)


def jitter_ends(min_px: int, max_px: int, crop_px: int, base_crop_px: int) -> tuple[int, int]:
    """The short side that clips are scaled to: its smallest length goes down with the crop, its largest stays."""
    return round(min_px * crop_px / base_crop_px), max_px


def longest_interval(interval: int, num_frames: int, base_num_frames: int) -> int:
    """The largest interval from frame to frame of a clip of fewer frames than the base's: it then spans about as much
    time."""
    return interval * max(1, base_num_frames // num_frames)


def num_steps(num_samples: int, sizes: Sequence[int]) -> int:
    """Whole batches of `sizes` in turn in an epoch: it ends with the first one that is not whole."""
    rounds, left = divmod(num_samples, sum(sizes))
    steps = rounds * len(sizes)
    for size in sizes:
        if size > left:
            break
        left -= size
        steps += 1
    return steps


def num_groups(num_clips: int, norm_size: int) -> int:
    """In how many groups batch norms see the clips that are computed together: num_clips / norm_size, rounded down, or
    the next smaller number that divides num_clips."""
    most = max(1, num_clips // norm_size)
    return next(number for number in range(most, 0, -1) if num_clips % number == 0)


def _decayed(decay_epochs: Sequence[float], factor: float) -> tuple[tuple[float, float], ...]:
    return tuple((epoch, factor**number) for number, epoch in enumerate([0, *decay_epochs]))


def _long_shape(num_frames: int, crop_px: int, time_factor: float, space_factor: float) -> Shape:
    frames, side = round(num_frames * time_factor), round(crop_px * space_factor)
    if not frames or not side:
        raise ValueError(f"has no clips of {frames} frames and {side} px")
    return Shape(max(1, round(num_frames * crop_px**2 / (frames * side**2))), frames, side)


def _mean_multiple(size: int, base: Shape, crop_px: int, short_factors: Sequence[float]) -> float:
    """By which the epochs of a long cycle are shared: over the shapes of the short cycle with crops not yet rounded."""
    sides = [*(factor * crop_px for factor in short_factors), base.crop_px]
    multiples = [round(size / (base.num_frames * side**2)) for side in sides]
    return sum(multiples) / len(multiples)


def _long_lengths(num_epochs: int, decay_epochs: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Epochs of each stage before they are stretched and rounded: those of the base schedule up to each decay, shared
    by `weights`; then the rest, shortened by as many iterations as the stages before save."""
    begins = [0, *decay_epochs[:-1]]
    lengths = [
        (end - begin) * weight / sum(weights)
        for begin, end in zip(begins, decay_epochs, strict=True)
        for weight in weights
    ]
    iterations = sum(length / weights[number % len(weights)] for number, length in enumerate(lengths))
    saving = decay_epochs[-1] / iterations
    return [*lengths, (num_epochs - decay_epochs[-1]) / saving * weights[-1]]
