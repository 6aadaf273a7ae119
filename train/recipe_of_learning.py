"""The sections of a recipe that make a model learn: which, by which steps, in which shapes and numbers."""

import math
from dataclasses import dataclass

from train.models import MODELS, family_of
from train.rates import SCHEDULES
from train.recipe_of_clips import require_name
from train.schedules import CYCLES, Factors


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
        require_name("optimizer.schedule", self.schedule, SCHEDULES)
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


def decay_epochs(text: str) -> list[float]:
    """The epochs of optimizer.decay_epochs, in order. Raises ValueError."""
    try:
        epochs = [float(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        epochs = [math.nan]
    if not all(0 < epoch < math.inf for epoch in epochs) or epochs != sorted(set(epochs)):
        raise ValueError(f"optimizer.decay_epochs is an ascending list such as '20, 40', not {text!r}")
    return epochs


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
        require_name("multigrid.cycles", self.cycles, CYCLES)
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
        require_name("amp.level", self.level, ("off", "O1", "O2"))
        require_name("amp.dtype", self.dtype, ("float16", "bfloat16"))

    @property
    def black_names(self) -> list[str]:
        return [name.strip() for name in self.black_list.split(",") if name.strip()]
