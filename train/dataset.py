"""Clips of a prepared dataset: sample indices, read only those frames, decode, crop, resize, flip.

Arrays: clip_THWC uint8 RGB in [0, 255].
"""

import hashlib
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import simplejpeg

from manifests.command import is_debugging
from manifests.dataset import open_dataset
from manifests.errors import DamagedError, Error, UsageError
from train.clips import random_segments, segment_centres
from train.sampler import Item
from train.transforms import Clip, centre_box, crop_and_resize, flip, multi_scale_box


@dataclass(frozen=True)
class Sample:
    """One clip with its label, and the index that asked for it."""

    clip_THWC: Clip
    label: int
    index: int


@dataclass(frozen=True)
class BadSample:
    """A sample that could not be read, on its way to the loop, which raises it: loaders hang on exceptions."""

    message: str
    exit_code: int


class ClipDataset:
    """The ok videos of a subset as clips. `training` draws frames and crops; else they are the middle ones.

    Picklable and safe to share with forked workers. Raises what `open_dataset` raises, and UsageError for a subset
    that is not there or has no ok video, or a label that is unknown.
    """

    def __init__(self, folder: Path, subset: str, *, training: bool, seed: int, flips: bool) -> None:
        self._dataset = open_dataset(folder)
        self._rows = self._dataset.rows(subset)
        self._training = training
        self._seed = seed
        self._flips = flips
        self.folder = folder
        self.subset = subset
        self.classes = self._dataset.classes
        self.classes_sha256 = self._dataset.description.classes_sha256
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

    def content_sha256(self) -> str:
        """SHA-256 over videos, labels and frames, in order: equal for both stores of the same frames."""
        table = self._dataset.columns(["video_id", "label", "content_crc32"]).take(self._rows)
        digest = hashlib.sha256()
        for number, batch in enumerate(table.to_batches(max_chunksize=4096)):
            lines = (f"{row['video_id']} {row['label']} {row['content_crc32']}" for row in batch.to_pylist())
            digest.update((("\n" if number else "") + "\n".join(lines)).encode())
        return digest.hexdigest()

    def video_id(self, index: int) -> str:
        name: str = self._dataset.video(int(self._rows[index]))["video_id"]
        return name

    def __getitem__(self, item: Item) -> Sample | BadSample:
        """Never raises: a BadSample tells what went wrong."""
        try:
            return self._sample(item)
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
        row = int(self._rows[item.index])
        num_frames = int(self._dataset.num_frames[row])
        rng = np.random.default_rng([self._seed, item.epoch, 1 + item.index])  # 0 is the order of the epoch
        if self._training:
            indices_T = random_segments(num_frames, item.num_frames, rng)
        else:
            indices_T = segment_centres(num_frames, item.num_frames)
        frames = self._decode(row, indices_T.tolist())
        height, width, _ = frames[0].shape
        box = multi_scale_box(width, height, rng) if self._training else centre_box(width, height)
        clip_THWC = crop_and_resize(frames, box, item.crop_px)
        if self._training and self._flips and rng.random() < 0.5:
            clip_THWC = flip(clip_THWC)
        return Sample(clip_THWC, int(self._dataset.labels[row]), item.index)

    def _decode(self, row: int, indices: list[int]) -> list[Clip]:
        """frame_HWC for each index; a frame that is asked for twice is read once."""
        distinct = sorted(set(indices))
        decoded: dict[int, Clip] = {}
        for index, jpeg in zip(distinct, self._dataset.read_frames(row, distinct), strict=True):
            try:
                decoded[index] = simplejpeg.decode_jpeg(jpeg)
            except ValueError as error:
                raise self._bad_frame(row, index, f"is no valid JPEG: {error}") from error
            if decoded[index].shape != decoded[distinct[0]].shape:
                raise self._bad_frame(row, index, f"has another size than frame {distinct[0]}")
        return [decoded[index] for index in indices]

    def _bad_frame(self, row: int, index: int, problem: str) -> DamagedError:
        video = self._dataset.video(row)
        where = f"{video['location']} row {video['row']}" if video["row"] >= 0 else video["location"]
        message = f"frame {index} of video {video['video_id']} in {where} {problem}"
        return DamagedError(f"{message}; prep verify --deep finds all such frames")
