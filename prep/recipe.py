"""The recipe of an extraction. `frames.*`, `store.*` and `decoder` decide the bytes; `limits.*` do not."""

from dataclasses import dataclass, field, replace
from typing import Any

from manifests.recipe import recipe_from_table
from manifests.stores import STORES
from prep.decoders import DECODERS


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Which frames are kept, in which size and quality.

    short_side_px: the shorter side of a stored frame; 0 keeps the native size.
    enlarge: also enlarge videos that are smaller.
    square_pixels: stretch by the sample aspect ratio, so that stored pixels are square.
    quality: JPEG quality [1, 100] as libjpeg counts it.
    every: keep frames 0, every, 2 * every, ...
    fps: keep the frames nearest to so many times a second, none twice; 0 keeps all. Not together with `every`.
    """

    short_side_px: int = 256
    enlarge: bool = False
    square_pixels: bool = False
    quality: int = 90
    every: int = 1
    fps: float = 0.0

    def __post_init__(self) -> None:
        if self.short_side_px != 0 and not 8 <= self.short_side_px <= 8192:
            raise ValueError(f"frames.short_side_px is 0 (native size) or in [8, 8192], not {self.short_side_px}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"frames.quality is in [1, 100], not {self.quality}")
        if self.every < 1:
            raise ValueError(f"frames.every is at least 1, not {self.every}")
        if self.fps != 0 and not 0.001 <= self.fps <= 1000:
            raise ValueError(f"frames.fps is 0 (every frame) or in [0.001, 1000], not {self.fps:g}")
        if self.fps and self.every != 1:
            raise ValueError(
                f"frames.fps={self.fps:g} and frames.every={self.every} exclude each other; set one of them"
            )


@dataclass(frozen=True, kw_only=True)
class Store:
    """format: `arrow` shards or `frames` folders. videos_per_shard: consecutive source rows that make a shard."""

    format: str = "arrow"
    videos_per_shard: int = 64

    def __post_init__(self) -> None:
        if self.format not in STORES:
            raise ValueError(f"store.format is one of {', '.join(STORES)}, not {self.format!r}")
        if self.videos_per_shard < 1:
            raise ValueError(f"store.videos_per_shard is at least 1, not {self.videos_per_shard}")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a video counts as failed. These may change from run to run.

    timeout_s: seconds without a new frame after which decoding is killed.
    memory_mib: the data segment that decoding one video may use.
    min_frames: a video with fewer frames is excluded as too_short.
    max_missing: the share [0, 1] of packets that may give no frame (2 packets always may).
    keep_damaged: keep videos of which some frames cannot be decoded or are marked as damaged.
    """

    timeout_s: float = 60.0
    memory_mib: int = 2048
    min_frames: int = 1
    max_missing: float = 0.05
    keep_damaged: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= 86400:
            raise ValueError(f"limits.timeout_s is above 0 and at most 86400, not {self.timeout_s}")
        if not 256 <= self.memory_mib <= 2**20:
            raise ValueError(f"limits.memory_mib is in [256, {2**20}], not {self.memory_mib}")
        if self.min_frames < 1:
            raise ValueError(f"limits.min_frames is at least 1, not {self.min_frames}")
        if not 0 <= self.max_missing <= 1:
            raise ValueError(f"limits.max_missing is in [0, 1], not {self.max_missing}")


@dataclass(frozen=True, kw_only=True)
class ExtractRecipe:
    """decoder: the reader of the source videos; `auto` is the first of prep.decoders.DECODERS."""

    decoder: str = "auto"
    frames: Frames = field(default_factory=Frames)
    store: Store = field(default_factory=Store)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.decoder not in ("auto", *DECODERS):
            raise ValueError(f"decoder is one of auto, {', '.join(DECODERS)}, not {self.decoder!r}")


@dataclass(frozen=True, kw_only=True)
class AdoptRecipe:
    """That of frames which others made (`prep adopt`): how is not known."""

    adopted: bool = True
    store: Store = field(default_factory=lambda: Store(format="frames"))


Recipe = ExtractRecipe | AdoptRecipe


def recipe_of(table: dict[str, Any]) -> Recipe:
    """The recipe in a dataset.json. Raises UsageError."""
    if "adopted" in table:
        return recipe_from_table(AdoptRecipe, table)
    return recipe_from_table(ExtractRecipe, table)


def resolve(recipe: ExtractRecipe) -> ExtractRecipe:
    """The recipe with nothing left to choose: `auto` becomes the decoder that it stands for."""
    return replace(recipe, decoder=DECODERS[0]) if recipe.decoder == "auto" else recipe
