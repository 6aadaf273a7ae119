"""The recipe of a training run."""

from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from manifests.errors import UsageError
from manifests.recipe import flat
from train.models import family_of, frame_multiple
from train.recipe_of_clips import Augment, Clip, Mix, Views
from train.recipe_of_learning import Amp, Average, Model, Multigrid, Optimizer, decay_epochs
from train.schedules import Schedule, Stage, multigrid_schedule, num_groups, num_steps, plain_schedule


@dataclass(frozen=True, kw_only=True)
class Loader:
    """Nothing here changes a result. num_workers: processes that read and decode; -1 is one fewer than the
    processors; 0 reads in the training process. timeout_s: reading one clip longer than this counts as hung."""

    num_workers: int = -1
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if self.num_workers < -1:
            raise ValueError(f"loader.num_workers is at least -1, not {self.num_workers}")
        if not self.timeout_s > 0:
            raise ValueError(f"loader.timeout_s is above 0, not {self.timeout_s}")


@dataclass(frozen=True, kw_only=True)
class Run:
    """seed decides order, augmentation and weights. checkpoint_every_s and log_every_steps change no result.
    cpu_threads: of the computation on a CPU; 0 is what the loader's workers leave over."""

    seed: int = 0
    checkpoint_every_s: float = 600.0
    log_every_steps: int = 10
    cpu_threads: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"run.seed is in [0, {2**31}), not {self.seed}")
        if not self.checkpoint_every_s > 0:
            raise ValueError(f"run.checkpoint_every_s is above 0, not {self.checkpoint_every_s}")
        if self.log_every_steps < 1:
            raise ValueError(f"run.log_every_steps is at least 1, not {self.log_every_steps}")
        if not 0 <= self.cpu_threads <= 1024:
            raise ValueError(f"run.cpu_threads is in [0, 1024], not {self.cpu_threads}")


@dataclass(frozen=True, kw_only=True)
class TrainRecipe:
    model: Model = field(default_factory=Model)
    clip: Clip = field(default_factory=Clip)
    views: Views = field(default_factory=Views)
    augment: Augment = field(default_factory=Augment)
    mix: Mix = field(default_factory=Mix)
    optimizer: Optimizer = field(default_factory=Optimizer)
    multigrid: Multigrid = field(default_factory=Multigrid)
    average: Average = field(default_factory=Average)
    amp: Amp = field(default_factory=Amp)
    loader: Loader = field(default_factory=Loader)
    run: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        multiple = frame_multiple(self.model.name)
        for name, num_frames in (("clip", self.clip.num_frames), ("views", self.views.num_frames)):
            if num_frames % multiple:
                raise ValueError(
                    f"{self.model.name} takes {name}.num_frames in multiples of {multiple}, not {num_frames}"
                )
        if self.amp.level == "O2" and self.average.ema_decay:
            raise ValueError("average.ema_decay does not go with amp.level=O2, whose weights have 16 bits: use O1")
        if self.clip.sampler == "uniform" and self.views.num_clips > 1:
            raise ValueError(
                "clip.sampler=uniform has one clip of a video, so views.num_clips is 1 (--views 1x3), not "
                f"{self.views.num_clips}"
            )
        if self.views.crops == "ten" and (self.clip.flip_classes or not self.clip.flips):
            raise ValueError("views.crops=ten mirrors clips: it needs clip.flips and no clip.flip_classes")
        self._require_schedule()
        if (self.mix.mixup_alpha or self.mix.cutmix_alpha) and max(self.part_shapes)[0] == 1:
            raise ValueError(
                "mix.* mixes the clips that are computed together, and here that is one: use larger batches"
            )

    def _require_schedule(self) -> None:
        settings, cycles = self.optimizer, self.multigrid.cycles
        if self.multigrid.has_long_cycle:
            decays = decay_epochs(settings.decay_epochs)
            if settings.schedule != "step" or not decays or decays[-1] >= settings.num_epochs:
                raise ValueError(
                    f"multigrid.cycles={cycles} goes through its shapes before each of optimizer.decay_epochs: it "
                    "needs optimizer.schedule=step and some of them, all before optimizer.num_epochs"
                )
        try:
            schedule = self.schedule
        except ValueError as error:
            raise ValueError(f"multigrid.cycles={cycles} {error}: use other factors, or larger clips") from error
        if schedule.num_epochs < 1:
            raise ValueError(f"multigrid.epoch_factor={self.multigrid.epoch_factor} leaves no epoch to train")
        multiple = frame_multiple(self.model.name)
        for _, num_frames, crop_px in self.part_shapes:
            if num_frames % multiple or crop_px < 16:
                raise ValueError(
                    f"multigrid.cycles={cycles} has clips of {num_frames} frames and {crop_px} px, and "
                    f"{self.model.name} takes frames in multiples of {multiple}, and at least 16 px: use other "
                    "factors, or larger clips"
                )

    @cached_property
    def schedule(self) -> Schedule:
        """Shapes and rates of all epochs."""
        clip, settings, multigrid = self.clip, self.optimizer, self.multigrid
        numbers = (clip.num_frames, clip.crop_px, settings.num_epochs, decay_epochs(settings.decay_epochs))
        if multigrid.cycles == "off":
            return plain_schedule(*numbers, settings.decay_factor)
        return multigrid_schedule(
            *numbers,
            settings.decay_factor,
            cycles=multigrid.cycles,
            epoch_factor=multigrid.epoch_factor,
            factors=multigrid.factors,
        )

    @property
    def evals_per_stage(self) -> int:
        """0 is after every epoch."""
        return self.multigrid.evals_per_stage if self.multigrid.has_long_cycle else 0

    @property
    def part_size(self) -> int:
        """Clips of the largest shape that are computed together in training."""
        return self.optimizer.batch_size // self.optimizer.num_parts

    @property
    def part_shapes(self) -> list[tuple[int, int, int]]:
        """(clips that are computed together in training, their frames, their side), each shape once."""
        shapes = [shape for stage in self.schedule.lasting_stages for shape in stage.shapes]
        return [(self.part_size * multiple, frames, side) for multiple, frames, side in dict.fromkeys(shapes)]

    def steps_per_epoch(self, stage: Stage, num_samples: int) -> int:
        """Optimiser steps of an epoch of this stage."""
        return num_steps(num_samples, [self.optimizer.batch_size * shape.multiple for shape in stage.shapes])

    def num_steps(self, num_samples: int) -> int:
        """Of the whole run."""
        return sum(stage.num_epochs * self.steps_per_epoch(stage, num_samples) for stage in self.schedule.stages)

    def norm_groups(self, multiple: int) -> int:
        """Groups in which batch norms see the clips that are computed together, of a batch of this multiple."""
        if self.multigrid.cycles == "off":
            return 1
        return num_groups(self.part_size * multiple, self.multigrid.norm_size)

    @property
    def view_shape(self) -> tuple[int, int, int]:
        """(views that are computed together, frames of each, side of their square)."""
        views, clip = self.views, self.clip
        return views.batch_size or self.part_size, views.num_frames or clip.num_frames, views.crop_px or clip.crop_px

    @property
    def window_px(self) -> int | None:
        """The crop of the training, where evaluations have a larger one."""
        return self.clip.crop_px if self.view_shape[2] > self.clip.crop_px else None

    @property
    def largest_batch_bytes(self) -> int:
        """Of the clips that are computed together in training or evaluation, as bytes of pixels."""
        return max(number * frames * side**2 * 3 for number, frames, side in [*self.part_shapes, self.view_shape])

    @property
    def normalisation(self) -> str:
        """The name of what the model's pixels are normalised with."""
        if self.clip.normalise != "auto":
            return self.clip.normalise
        return "kinetics" if family_of(self.model.name) == "slowfast" else "imagenet"


RECIPES = (
    "demo_tsm",
    "demo_tsn",
    "demo_multigrid",
    "tsn_ucf101",
    "tsm_ucf101",
    "tsm_k400",
    "pptsm_k400",
    "slowfast_k400",
    "slowfast_multigrid_k400",
    "tsm_multigrid",
)


def recipe_file(name_or_file: str) -> Path:
    """The TOML file of a recipe that comes with the program, or the file itself. Raises UsageError."""
    if name_or_file in RECIPES:
        return Path(str(files("train") / "recipes" / f"{name_or_file}.toml"))
    path = Path(name_or_file)
    if not path.is_file():
        raise UsageError(f"no recipe {name_or_file!r}: give a TOML file or one of {', '.join(RECIPES)}")
    return path


def bound_settings(recipe: TrainRecipe) -> dict[str, object]:
    """What a run may not change when it resumes, as flat keys."""
    return {
        key: value
        for key, value in flat(recipe).items()
        if key == "run.seed" or key.partition(".")[0] not in ("loader", "run")
    }


def require_whole_parts(recipe: TrainRecipe, num_processes: int) -> None:
    """Raises UsageError where the parts of a step cannot be shared out evenly."""
    num_parts = recipe.optimizer.num_parts
    if num_parts % num_processes:
        raise UsageError(
            f"optimizer.num_parts is a multiple of the number of processes, {num_processes}, not {num_parts}: "
            f"--set optimizer.num_parts={num_processes} makes each compute a part of every batch"
        )


def require_a_batch(recipe: TrainRecipe, num_samples: int, subset: str) -> None:
    """Raises UsageError where a subset of so many videos does not fill the largest batch of a run."""
    settings = recipe.optimizer
    largest = max(shape.multiple for stage in recipe.schedule.lasting_stages for shape in stage.shapes)
    if num_samples < settings.batch_size * largest:
        times = f" times {largest} (multigrid.cycles={recipe.multigrid.cycles})" if largest > 1 else ""
        raise UsageError(
            f"subset {subset!r} has {num_samples} videos, fewer than optimizer.batch_size={settings.batch_size}{times}"
        )
