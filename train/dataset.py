"""Clips of a prepared dataset: sample indices, read only those frames, plan the crop, decode no more than it needs.
Or straight from videos (train.videos), with the same draws.

Arrays: clip_THWC uint8 RGB in [0, 255]; mirrored_K int64 labels.
"""

import hashlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from manifests.command import is_debugging
from manifests.dataset import open_dataset
from manifests.description import hash_classes
from manifests.errors import DamagedError, Error, UsageError
from train.clips import training_clip, view_clips
from train.recipe import TrainRecipe
from train.recipe_of_clips import Clip, flip_pairs
from train.sampler import Item
from train.schedules import jitter_ends, longest_interval
from train.transforms.colour import ColourJitter, jitter_colours
from train.transforms.crops import (
    VIEW_CROPS,
    Box,
    Plan,
    centre_box,
    jitter_box,
    multi_scale_box,
    random_resized_box,
    view_plans,
)
from train.transforms.decode import (
    BadJpeg,
    Pixels,
    decode_scale,
    frame_size,
    render,
    render_pictures,
    require_one_size,
    snapped,
)
from train.transforms.rand_augment import rand_augment
from train.videos import Videos

if TYPE_CHECKING:
    from train.predict import ExtractedVideos

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """One clip with its label, and the index that asked for it."""

    clip_THWC: Pixels
    label: int
    index: int


@dataclass(frozen=True)
class Drawn:
    """A clip that another decoder is to make: `numbers` of its frames in their order, the JPEG of each (none of a
    video), or else the video, and what to do with all of them."""

    numbers: list[int]
    jpegs: list[bytes]
    video: Path | None
    plan: Plan
    label: int
    index: int


@dataclass(frozen=True)
class BadSample:
    """A sample that could not be read, on its way to the loop, which raises it: loaders hang on exceptions."""

    message: str
    exit_code: int

    def as_error(self) -> Error:
        """What the loop raises."""
        return (DamagedError if self.exit_code == DamagedError.exit_code else Error)(self.message)


class ClipDataset:
    """The ok videos of a subset as clips. `training` draws frames and crops; else they are those of the item's view.
    `data` is the folder of a prepared dataset, or videos.

    Picklable and safe to share with forked workers. Raises what `open_dataset` raises, and UsageError for a subset
    that is not there or has no ok video, a label that is unknown, or a class of clip.flip_classes that is not there.
    """

    def __init__(
        self, data: "Path | Videos | ExtractedVideos", subset: str, recipe: TrainRecipe, *, training: bool
    ) -> None:
        cv2.setNumThreads(1)  # processes are the parallelism, and threads do not survive a fork
        self._dataset = open_dataset(data) if isinstance(data, Path) else data
        folder = self._dataset.folder
        self._rows = self._dataset.rows(subset)
        self._training = training
        self._recipe = recipe
        augment = recipe.augment
        self._jitter = ColourJitter(augment.brightness, augment.contrast, augment.saturation, augment.hue)
        self._mirrored_K = _mirrored_labels(recipe.clip.flip_classes, self._dataset.classes)
        if recipe.clip.target_fps and not isinstance(self._dataset, Videos):  # here, so that forked workers share it
            self._durations_s = self._dataset.columns(["duration_s"]).column(0).fill_null(0).to_numpy()
        self.is_on_the_fly = isinstance(self._dataset, Videos)
        self.num_views = 1 if training else recipe.views.count
        self.folder = folder
        self.subset = subset
        self.classes = self._dataset.classes
        self.classes_sha256 = hash_classes(self.classes)
        if len(self._rows) == 0:
            raise UsageError(f"subset {subset!r} of {folder} has no ok video")
        unlabelled = self._dataset.labels[self._rows] < 0
        if unlabelled.any():
            first = self.video_id(int(np.flatnonzero(unlabelled)[0]))
            raise UsageError(
                f"{unlabelled.sum()} videos of subset {subset!r} of {folder} have no label, such as {first}"
            )

    def __len__(self) -> int:
        return len(self._rows)

    def num_turned(self) -> int:
        """How many videos are not shown as they are coded."""
        return int((~self._dataset.is_upright[self._rows]).sum()) if isinstance(self._dataset, Videos) else 0

    def content_sha256(self) -> str:
        """SHA-256 over videos, labels and frames, in order: equal for both stores of the same frames. Of videos, over
        the decoder, sizes of files and numbers of frames."""
        digest = hashlib.sha256()
        for number, line in enumerate(self._content_lines()):
            digest.update((("\n" if number else "") + line).encode())
        return digest.hexdigest()

    def _content_lines(self) -> Iterator[str]:
        if isinstance(self._dataset, Videos):
            yield self._dataset.decoder
            for row in self._rows.tolist():
                video = self._dataset.video(row)
                yield f"{video['video_id']} {video['label']} {video['num_frames']} {video['source_bytes']}"
            return
        table = self._dataset.columns(["video_id", "label", "content_crc32"]).take(self._rows)
        for batch in table.to_batches(max_chunksize=4096):
            yield from (f"{row['video_id']} {row['label']} {row['content_crc32']}" for row in batch.to_pylist())

    @property
    def has_augmentation(self) -> bool:
        """Whether the pixels of training clips are changed after they are cut and scaled."""
        return self._training and bool(self._jitter or self._recipe.augment.rand_operations)

    def num_forward(self, indices_N: npt.NDArray[np.int64]) -> int:
        """How many of these samples come of videos that are decoded from their beginning, for want of a trusted index
        access."""
        if not isinstance(self._dataset, Videos):
            return 0
        return int(self._dataset.is_forward[self._rows[indices_N]].sum())

    def video_ids(self) -> list[str]:
        """Of all samples, in order."""
        if isinstance(self._dataset, Videos):
            return [self.video_id(index) for index in range(len(self))]
        names: list[str] = self._dataset.columns(["video_id"]).column(0).take(self._rows).to_pylist()
        return names

    def video_id(self, index: int) -> str:
        name: str = self._dataset.video(int(self._rows[index]))["video_id"]
        return name

    def __getitem__(self, item: Item) -> Sample | BadSample:
        """Never raises: a BadSample tells what went wrong."""
        return self._guarded(self._sample, item)

    def draw(self, item: Item) -> Drawn | BadSample:
        """The clip of `item` by the same draws, not decoded, and without changes of colour. Never raises."""
        return self._guarded(self._drawn, item)

    def _guarded(self, get: Callable[[Item], T], item: Item) -> T | BadSample:
        try:
            return get(item)
        except Error as error:
            return BadSample(str(error), error.exit_code)
        except Exception as error:
            if is_debugging():
                traceback.print_exc()
            what = f"unexpected {type(error).__name__} while reading {self._describe(item.index)} of {self.folder}"
            return BadSample(f"{what}: {error}", Error.exit_code)

    def _describe(self, index: int) -> str:
        """A sample in words, also where what went wrong with it keeps its video_id from being read."""
        try:
            return f"video {self.video_id(index)}"
        except Exception:
            return f"sample {index} of subset {self.subset!r}"

    def _sample(self, item: Item) -> Sample:
        row, rng, indices = self._begin(item)
        distinct = sorted(set(indices))
        if isinstance(self._dataset, Videos):
            plan = self._draw_plan(*self._dataset.size(row), item, rng)
            clip_THWC = render_pictures(self._dataset.read_frames(row, distinct), plan)
        else:
            jpegs = self._dataset.read_frames(row, distinct)
            plan, scale = self._draw_jpeg_plan(row, distinct[0], jpegs[0], item, rng)
            try:
                (clip_THWC,) = render(jpegs, [plan], scale)
            except BadJpeg as error:
                raise self._bad_jpeg(row, distinct, error) from error
        if len(distinct) < len(indices):
            clip_THWC = clip_THWC[np.searchsorted(distinct, indices)]
        if self._training:
            clip_THWC = self._augmented(clip_THWC, rng)
        return Sample(clip_THWC, self._label(row, plan), item.index)

    def _drawn(self, item: Item) -> Drawn:
        row, rng, indices = self._begin(item)
        if isinstance(self._dataset, Videos):
            plan = self._draw_plan(*self._dataset.size(row), item, rng)
            return Drawn(indices, [], self._dataset.path(row), plan, self._label(row, plan), item.index)
        jpegs = self._dataset.read_frames(row, indices)
        plan, _ = self._draw_jpeg_plan(row, indices[0], jpegs[0], item, rng)
        try:
            require_one_size(jpegs)
        except BadJpeg as error:
            raise self._bad_jpeg(row, indices, error) from error
        return Drawn(indices, jpegs, None, plan, self._label(row, plan), item.index)

    def frames_of(self, item: Item) -> tuple[int, list[int]]:
        """The row of a sample, and the numbers of the frames that are read for it, ascending."""
        row, _, indices = self._begin(item)
        return row, sorted(set(indices))

    def _begin(self, item: Item) -> tuple[int, np.random.Generator, list[int]]:
        """The row, what its chance comes from, and the frames of the clip, drawn first."""
        row = int(self._rows[item.index])
        rng = np.random.default_rng([self._recipe.run.seed, item.epoch, 1 + item.index])  # 0 is the order of the epoch
        return row, rng, self._draw_indices(row, item, rng)

    def _draw_jpeg_plan(
        self, row: int, number: int, first: bytes, item: Item, rng: np.random.Generator
    ) -> tuple[Plan, int]:
        """The plan, drawn by the size of the first JPEG, and the scale to decode at, to which it is snapped."""
        try:
            width, height = frame_size(first)
        except ValueError as error:
            raise self._bad_frame(row, number, f"is no valid JPEG: {error}") from error
        plan = self._draw_plan(width, height, item, rng)
        scale = decode_scale(plan, self._recipe.clip.max_enlargement)
        return snapped(plan, scale, width, height), scale

    def _label(self, row: int, plan: Plan) -> int:
        label = int(self._dataset.labels[row])
        return int(self._mirrored_K[label]) if self._training and plan.flip else label

    def _draw_indices(self, row: int, item: Item, rng: np.random.Generator) -> list[int]:
        clip, views = self._recipe.clip, self._recipe.views
        num_frames = int(self._dataset.num_frames[row])
        interval = clip.interval
        if self._training and clip.sampler in ("strided", "slowfast"):
            longest = longest_interval(interval, item.num_frames, clip.num_frames)
            if longest > interval:  # else nothing is drawn
                interval = int(rng.integers(interval, longest + 1))
        span = float(interval)
        if clip.sampler == "slowfast" and clip.target_fps:
            span *= self._stored_fps(row, clip.target_fps) / clip.target_fps
        if self._training:
            indices_T = training_clip(clip.sampler, num_frames, item.num_frames, rng, span=span)
        else:
            number = item.view // VIEW_CROPS[views.crops]
            indices_T = view_clips(clip.sampler, num_frames, item.num_frames, views.num_clips, span=span)[number]
        indices: list[int] = indices_T.tolist()
        return indices

    def _stored_fps(self, row: int, unknown: float) -> float:
        """Stored frames a second; `unknown` for a video without times."""
        if isinstance(self._dataset, Videos):
            return self._dataset.video(row)["fps"] or unknown
        duration_s = self._durations_s[row]
        return float(self._dataset.num_frames[row]) / duration_s if duration_s > 0 else unknown

    def _draw_plan(self, width: int, height: int, item: Item, rng: np.random.Generator) -> Plan:
        clip, views = self._recipe.clip, self._recipe.views
        if not self._training:
            plans = view_plans(width, height, views.crops, item.crop_px)
            return plans[item.view % len(plans)]
        box = training_box(clip, width, height, item.crop_px, rng)
        return Plan(box, item.crop_px, item.crop_px, flip=clip.flips and rng.random() < 0.5)

    def _augmented(self, clip_THWC: Pixels, rng: np.random.Generator) -> Pixels:
        augment = self._recipe.augment
        if self._jitter:
            clip_THWC = jitter_colours(clip_THWC, self._jitter, rng)
        if augment.rand_operations:
            clip_THWC = rand_augment(clip_THWC, augment.rand_operations, augment.rand_magnitude, rng)
        return clip_THWC

    def _bad_jpeg(self, row: int, numbers: Sequence[int], error: BadJpeg) -> DamagedError:
        another = f" than frame {numbers[0]}" if error.is_size else ""
        return self._bad_frame(row, numbers[error.position], f"{error}{another}")

    def _bad_frame(self, row: int, index: int, problem: str) -> DamagedError:
        video = self._dataset.video(row)
        where = f"{video['location']} row {video['row']}" if video["row"] >= 0 else video["location"]
        message = f"frame {index} of video {video['video_id']} in {where} {problem}"
        return DamagedError(f"{message}; prep verify --deep finds all such frames")


def training_box(clip: Clip, width: int, height: int, crop_px: int, rng: np.random.Generator) -> Box:
    """What a training clip of this recipe shows of frames of this size, drawn."""
    if clip.crop == "multi_scale":
        return multi_scale_box(width, height, rng)
    if clip.crop == "random_resized":
        return random_resized_box(width, height, rng, area=(clip.min_area, 1.0))
    if clip.crop == "jitter":
        ends = jitter_ends(clip.jitter_min_px, clip.jitter_max_px, crop_px, clip.crop_px)
        return jitter_box(width, height, crop_px, ends, rng)
    return centre_box(width, height)


def _mirrored_labels(flip_classes: str, classes: Sequence[str]) -> npt.NDArray[np.int64]:
    """mirrored_K: the label of the mirror image of each label."""
    mirrored_K = np.arange(len(classes))
    for pair in flip_pairs(flip_classes):
        for name in pair:
            if name not in classes:
                raise UsageError(f"clip.flip_classes names {name!r}, which is no class of the dataset")
        first, second = (classes.index(name) for name in pair)
        mirrored_K[[first, second]] = second, first
    return mirrored_K
