"""The recipe of a training run."""

import math
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from manifests.errors import UsageError
from manifests.recipe import flat
from train.models import MODELS, family_of, frame_multiple


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
    """num_frames: segments a clip, one frame each. crop_px: side of the square that the model sees.
    flips: mirror half of the training clips; wrong where left and right are classes."""

    num_frames: int = 8
    crop_px: int = 224
    flips: bool = True

    def __post_init__(self) -> None:
        if self.num_frames < 1:
            raise ValueError(f"clip.num_frames is at least 1, not {self.num_frames}")
        if not 16 <= self.crop_px <= 4096:
            raise ValueError(f"clip.crop_px is in [16, 4096], not {self.crop_px}")


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """SGD with Nesterov momentum; the rate rises linearly over the warm-up and falls by half a cosine to 0.

    clip_norm: gradients are scaled down to this global norm; 0 leaves them.
    """

    batch_size: int = 16
    num_epochs: int = 10
    num_warmup_epochs: float = 1.0
    learning_rate: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 1e-4
    clip_norm: float = 20.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        for name in ("batch_size", "num_epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"optimizer.{name} is at least 1, not {getattr(self, name)}")
        for name in ("num_warmup_epochs", "learning_rate", "weight_decay", "clip_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"optimizer.{name} is at least 0, not {getattr(self, name)}")
        for name in ("momentum", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"optimizer.{name} is in [0, 1), not {getattr(self, name)}")


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
    optimizer: Optimizer = field(default_factory=Optimizer)
    loader: Loader = field(default_factory=Loader)
    run: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        multiple = frame_multiple(self.model.name)
        if self.clip.num_frames % multiple:
            raise ValueError(
                f"{self.model.name} takes clip.num_frames in multiples of {multiple}, not {self.clip.num_frames}"
            )


RECIPES = ("demo_tsm", "demo_tsn")


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
