"""The sections of a recipe that make clips: frames and crops, views, augmentation, mixing."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from train.clips import SAMPLERS
from train.normalisation import NORMALISATIONS
from train.transforms.crops import CROPS, VIEW_CROPS


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
        require_name("clip.sampler", self.sampler, SAMPLERS)
        if self.interval < 1:
            raise ValueError(f"clip.interval is at least 1, not {self.interval}")
        if not 0 <= self.target_fps < math.inf:
            raise ValueError(f"clip.target_fps is at least 0, not {self.target_fps}")
        require_name("clip.crop", self.crop, CROPS)
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
        require_name("clip.normalise", self.normalise, ("auto", *NORMALISATIONS))
        if flip_pairs(self.flip_classes) and not self.flips:
            raise ValueError("clip.flip_classes goes with clip.flips=true: without it nothing is mirrored")


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
        require_name("views.crops", self.crops, VIEW_CROPS)

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


def require_name(key: str, value: str, names: Iterable[str]) -> None:
    if value not in names:
        raise ValueError(f"{key} is one of {', '.join(names)}, not {value!r}")
