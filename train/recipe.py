"""The recipe of a training run."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from manifests.errors import UsageError
from manifests.recipe import flat
from train.clips import SAMPLERS
from train.models import MODELS, family_of, frame_multiple
from train.normalisation import NORMALISATIONS
from train.rates import SCHEDULES
from train.schedules import (
    CYCLES,
    Factors,
    Schedule,
    Stage,
    multigrid_schedule,
    num_groups,
    num_steps,
    plain_schedule,
)
from train.transforms.crops import CROPS, VIEW_CROPS


@dataclass(frozen=True, kw_only=True)
class Model:
    """name: one of train.models.MODELS. dropout: before the classifier, in [0, 1). init: a file of weights to begin
    with, empty for random ones.

    shift_share: of the channels that a TSM or ppTSM shifts each way, in [0, 1/2]. shift_first: whether the first fold
    comes from the "previous" frame (Paddle, PaddleVideo) or from the "next" one (the TSM repository).
    """

    name: str = "tsm_tiny"
    dropout: float = 0.0
    shift_share: float = 0.125
    shift_first: str = "previous"
    init: str = ""

    def __post_init__(self) -> None:
        if self.name not in MODELS:
            raise ValueError(f"model.name is one of {', '.join(MODELS)}, not {self.name!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"model.dropout is in [0, 1), not {self.dropout}")
        if not 0 <= self.shift_share <= 0.5:
            raise ValueError(f"model.shift_share is in [0, 0.5], not {self.shift_share}")
        if self.shift_first not in ("previous", "next"):
            raise ValueError(f"model.shift_first is previous or next, not {self.shift_first!r}")

    @property
    def shifts(self) -> bool:
        """Whether the model shifts channels in time."""
        return family_of(self.name) in ("tsm", "pptsm")


@dataclass(frozen=True, kw_only=True)
class Clip:
    """Frames and their geometry. num_frames: of a clip. crop_px: side of the square that the model sees.

    sampler: one of train.clips.SAMPLERS; interval: video frames from one frame of a clip to the next, of `strided` and
    `slowfast`; target_fps: `slowfast` stretches its clips by the video's rate over this one, 0 does not.
    crop: of the training, one of train.transforms.crops.CROPS; jitter_min_px, jitter_max_px: ends of the short side
    of `jitter`, for crops of crop_px; min_area: of `random_resized`, as a share of the frame.
    max_enlargement: how far a crop may be enlarged if that lets the JPEG be decoded at 1/2, 1/4 or 1/8; 0 always
    decodes at full size.
    flips: mirror half of the training clips; wrong where left and right are classes, unless flip_classes names the
    pairs that a mirror exchanges ("turn left=turn right, ...").
    normalise: one of train.normalisation.NORMALISATIONS, or auto: that of the model.
    """

    num_frames: int = 8
    crop_px: int = 224
    sampler: str = "segments"
    interval: int = 1
    target_fps: float = 0.0
    crop: str = "multi_scale"
    jitter_min_px: int = 256
    jitter_max_px: int = 320
    min_area: float = 0.08
    max_enlargement: float = 1.34
    flips: bool = True
    flip_classes: str = ""
    normalise: str = "auto"

    def __post_init__(self) -> None:
        if self.num_frames < 1:
            raise ValueError(f"clip.num_frames is at least 1, not {self.num_frames}")
        if not 16 <= self.crop_px <= 4096:
            raise ValueError(f"clip.crop_px is in [16, 4096], not {self.crop_px}")
        _require_name("clip.sampler", self.sampler, SAMPLERS)
        if self.interval < 1:
            raise ValueError(f"clip.interval is at least 1, not {self.interval}")
        if not 0 <= self.target_fps < math.inf:
            raise ValueError(f"clip.target_fps is at least 0, not {self.target_fps}")
        _require_name("clip.crop", self.crop, CROPS)
        if self.crop == "jitter" and self.jitter_min_px < self.crop_px:
            raise ValueError(f"clip.jitter_min_px is at least clip.crop_px, {self.crop_px}, not {self.jitter_min_px}")
        if self.jitter_max_px < self.jitter_min_px:
            raise ValueError(
                f"clip.jitter_max_px is at least clip.jitter_min_px, {self.jitter_min_px}, not {self.jitter_max_px}"
            )
        if not 0 < self.min_area <= 1:
            raise ValueError(f"clip.min_area is in (0, 1], not {self.min_area}")
        if self.max_enlargement and not 1 <= self.max_enlargement <= 8:
            raise ValueError(f"clip.max_enlargement is 0 or in [1, 8], not {self.max_enlargement}")
        _require_name("clip.normalise", self.normalise, ("auto", *NORMALISATIONS))
        if flip_pairs(self.flip_classes) and not self.flips:
            raise ValueError("clip.flip_classes goes with clip.flips=true: without it nothing is mirrored")


def decay_epochs(text: str) -> list[float]:
    """The epochs of optimizer.decay_epochs, in order. Raises ValueError."""
    try:
        epochs = [float(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        epochs = [math.nan]
    if not all(0 < epoch < math.inf for epoch in epochs) or epochs != sorted(set(epochs)):
        raise ValueError(f"optimizer.decay_epochs is an ascending list such as '20, 40', not {text!r}")
    return epochs


def flip_pairs(text: str) -> list[tuple[str, str]]:
    """The pairs of class names of clip.flip_classes. Raises ValueError."""
    pairs = []
    for part in text.split(",") if text.strip() else []:
        first, equals, second = (word.strip() for word in part.partition("="))
        if not (first and equals and second) or first == second:
            raise ValueError(f"clip.flip_classes is a list such as 'turn left=turn right, ...', not {text!r}")
        pairs.append((first, second))
    names = [name for pair in pairs for name in pair]
    if len(set(names)) < len(names):
        raise ValueError(f"clip.flip_classes names a class twice: {text!r}")
    return pairs


def _require_name(key: str, value: str, names: Iterable[str]) -> None:
    if value not in names:
        raise ValueError(f"{key} is one of {', '.join(names)}, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Views:
    """The views that an evaluation averages for every video: num_clips times those of crops (one, three or ten).

    num_frames, crop_px: of a view, 0 is as in training. batch_size: views that are computed together, 0 is as many as
    in training; it changes no result beyond rounding.
    """

    num_clips: int = 1
    crops: str = "centre"
    num_frames: int = 0
    crop_px: int = 0
    batch_size: int = 0

    def __post_init__(self) -> None:
        if self.num_clips < 1:
            raise ValueError(f"views.num_clips is at least 1, not {self.num_clips}")
        for name in ("num_frames", "batch_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"views.{name} is at least 0, not {getattr(self, name)}")
        if self.crop_px and not 16 <= self.crop_px <= 4096:
            raise ValueError(f"views.crop_px is 0 or in [16, 4096], not {self.crop_px}")
        _require_name("views.crops", self.crops, VIEW_CROPS)

    @property
    def count(self) -> int:
        return self.num_clips * VIEW_CROPS[self.crops]


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Changes of the pixels of training clips, alike for all frames. brightness, contrast, saturation: how far a
    factor is drawn around 1; hue: how far it turns, as a share of a circle. rand_operations: of RandAugment, for each
    clip; rand_magnitude: in [0, 10]."""

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    rand_operations: int = 0
    rand_magnitude: float = 9.0

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"augment.{name} is at least 0, not {getattr(self, name)}")
        if not 0 <= self.hue <= 0.5:
            raise ValueError(f"augment.hue is in [0, 0.5], not {self.hue}")
        if self.rand_operations < 0:
            raise ValueError(f"augment.rand_operations is at least 0, not {self.rand_operations}")
        if not 0 <= self.rand_magnitude <= 10:
            raise ValueError(f"augment.rand_magnitude is in [0, 10], not {self.rand_magnitude}")


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Mixing the clips of a batch in pairs; an alpha of 0 leaves its kind out. cutmix_share: of the batches, where
    both are on."""

    mixup_alpha: float = 0.0
    cutmix_alpha: float = 0.0
    cutmix_share: float = 0.5

    def __post_init__(self) -> None:
        for name in ("mixup_alpha", "cutmix_alpha"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"mix.{name} is at least 0, not {getattr(self, name)}")
        if not 0 <= self.cutmix_share <= 1:
            raise ValueError(f"mix.cutmix_share is in [0, 1], not {self.cutmix_share}")


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """SGD with momentum. The rate rises linearly from warmup_from to learning_rate over the warm-up.

    batch_size: clips a step, computed in num_parts equal parts whose gradients are averaged, one after the other or
    by several processes; batch norm sees one part. schedule: one of train.rates.SCHEDULES: "cosine" falls
    by half a cosine to 0, "step" by decay_factor at each of decay_epochs ("20, 40"), if any. decay_norms: whether
    weight_decay is for batch norms and biases too. head_rate, head_bias_rate: rates of the classifier's weights and
    biases as multiples of the others'. clip_norm: gradients are scaled down to this norm over all of them; 0 leaves
    them.
    """

    batch_size: int = 16
    num_parts: int = 1
    num_epochs: int = 10
    schedule: str = "cosine"
    num_warmup_epochs: float = 1.0
    warmup_from: float = 0.0
    decay_epochs: str = ""
    decay_factor: float = 0.1
    learning_rate: float = 0.02
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 1e-4
    decay_norms: bool = True
    head_rate: float = 1.0
    head_bias_rate: float = 1.0
    clip_norm: float = 20.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        for name in ("batch_size", "num_parts", "num_epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"optimizer.{name} is at least 1, not {getattr(self, name)}")
        if self.batch_size % self.num_parts:
            raise ValueError(
                f"optimizer.batch_size is a multiple of optimizer.num_parts, {self.num_parts}, not {self.batch_size}"
            )
        _require_name("optimizer.schedule", self.schedule, SCHEDULES)
        decay_epochs(self.decay_epochs)
        if self.decay_epochs.strip() and self.schedule != "step":
            raise ValueError("optimizer.decay_epochs, such as '20, 40', goes with optimizer.schedule=step")
        for name in ("num_warmup_epochs", "warmup_from", "learning_rate", "weight_decay", "clip_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"optimizer.{name} is at least 0, not {getattr(self, name)}")
        for name in ("decay_factor", "head_rate", "head_bias_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"optimizer.{name} is above 0, not {getattr(self, name)}")
        for name in ("momentum", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"optimizer.{name} is in [0, 1), not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class Multigrid:
    """Batches of varying shape: clip.num_frames, clip.crop_px and optimizer.batch_size are those of the largest clips,
    optimizer.num_epochs and decay_epochs those of the schedule without cycles (train.schedules).

    cycles: one of train.schedules.CYCLES. epoch_factor: the run is so many times optimizer.num_epochs long.
    time_factors, space_factors: frames and crop of each stage of the long cycle as shares of the largest clips';
    short_factors: crops of the first two of three steps. norm_size: batch norms see the clips that are computed
    together in groups of about so many. evals_per_stage: evaluations in each stage of the long cycle, about; 0 is after
    every epoch.
    """

    cycles: str = "off"
    epoch_factor: float = 1.5
    time_factors: str = "0.25, 0.5, 0.5, 1"
    space_factors: str = "0.7071, 0.7071, 1, 1"
    short_factors: str = "0.5, 0.7071"
    norm_size: int = 8
    evals_per_stage: int = 3

    def __post_init__(self) -> None:
        _require_name("multigrid.cycles", self.cycles, CYCLES)
        if not 0 < self.epoch_factor <= 1000:
            raise ValueError(f"multigrid.epoch_factor is in (0, 1000], not {self.epoch_factor}")
        if self.norm_size < 1:
            raise ValueError(f"multigrid.norm_size is at least 1, not {self.norm_size}")
        if self.evals_per_stage < 0:
            raise ValueError(f"multigrid.evals_per_stage is at least 0, not {self.evals_per_stage}")
        times, spaces = (
            _shares(f"multigrid.{name}", getattr(self, name)) for name in ("time_factors", "space_factors")
        )
        if len(times) != len(spaces) or not times[-1] == spaces[-1] == 1:
            raise ValueError(
                "multigrid.time_factors and multigrid.space_factors are as many and end with 1, not "
                f"{self.time_factors!r} and {self.space_factors!r}"
            )
        if len(_shares("multigrid.short_factors", self.short_factors)) != 2:
            raise ValueError(
                f"multigrid.short_factors is a list of two, such as '0.5, 0.7071', not {self.short_factors!r}"
            )

    @property
    def has_long_cycle(self) -> bool:
        return self.cycles in ("long", "both")

    @property
    def factors(self) -> Factors:
        times, spaces, short = (
            _shares("", text) for text in (self.time_factors, self.space_factors, self.short_factors)
        )
        return Factors(tuple(zip(times, spaces, strict=True)), (short[0], short[1]))


def _shares(key: str, text: str) -> list[float]:
    """Raises ValueError."""
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = [math.nan]
    if not all(0 < share <= 1 for share in shares):
        raise ValueError(f"{key} is a list of shares in (0, 1], such as '0.5, 0.7071', not {text!r}")
    return shares


@dataclass(frozen=True, kw_only=True)
class Average:
    """What is evaluated besides the weights as they are. ema_decay: of a moving average of weights and statistics, 0
    for none. precise_bn_batches: before an evaluation, batch norms take their statistics from so many training
    batches with the weights as they are, after every precise_bn_every_epochs epochs and the last; 0 never does."""

    ema_decay: float = 0.0
    precise_bn_batches: int = 0
    precise_bn_every_epochs: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"average.ema_decay is in [0, 1), not {self.ema_decay}")
        if self.precise_bn_batches < 0:
            raise ValueError(f"average.precise_bn_batches is at least 0, not {self.precise_bn_batches}")
        if self.precise_bn_every_epochs < 1:
            raise ValueError(f"average.precise_bn_every_epochs is at least 1, not {self.precise_bn_every_epochs}")


@dataclass(frozen=True, kw_only=True)
class Amp:
    """Mixed precision on a GPU. level: "off", "O1" (operators that are safe compute in dtype) or "O2" (weights too,
    with a copy in float32). dtype: "float16", with loss scaling, or "bfloat16". black_list: further operators to be
    left in float32, by Paddle's names ("reduce_mean, conv3d")."""

    level: str = "off"
    dtype: str = "float16"
    black_list: str = "reduce_mean"

    def __post_init__(self) -> None:
        _require_name("amp.level", self.level, ("off", "O1", "O2"))
        _require_name("amp.dtype", self.dtype, ("float16", "bfloat16"))

    @property
    def black_names(self) -> list[str]:
        return [name.strip() for name in self.black_list.split(",") if name.strip()]


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
        shapes = [shape for stage in self.schedule.stages if stage.num_epochs for shape in stage.shapes]
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
