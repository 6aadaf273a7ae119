"""Clips as a training run asks for them: the next ones of an endless run over a dataset, and recorded ones.

Arrays: frame_HWC, clip_THWC uint8 RGB.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from train.dataset import BadSample, ClipDataset, Sample
from train.recipe import TrainRecipe
from train.sampler import Item, epoch_order
from train.transforms.crops import Plan
from train.transforms.decode import Pixels
from train.videos import Videos

BATCH_SIZE = 8
"""Clips of a batch, in all tables."""


class Stream:
    """Sample after sample of the training clips of a dataset, epoch after epoch. One for each row of a table: all then
    see the same videos, frames and crops in the same order."""

    def __init__(self, dataset: ClipDataset, recipe: TrainRecipe, crop_px: int | None = None) -> None:
        self.dataset = dataset
        self._recipe = recipe
        self._crop_px = crop_px or recipe.clip.crop_px
        self._items = self._endless()

    def next_items(self, number: int) -> list[Item]:
        return list(islice(self._items, number))

    def _endless(self) -> Iterator[Item]:
        for epoch in count():
            for index in epoch_order(len(self.dataset), self._recipe.run.seed, epoch).tolist():
                yield Item(index, self._recipe.clip.num_frames, self._crop_px, epoch)

    def next_batches(self, num_batches: int, size: int) -> list[list[Item]]:
        return [self.next_items(size) for _ in range(num_batches)]

    def read(self, number: int) -> list[Pixels]:
        """clip_THWC of the next samples. Raises DamagedError where one cannot be read."""
        return [read_clip(self.dataset, item) for item in self.next_items(number)]


def read_clip(dataset: ClipDataset, item: Item) -> Pixels:
    """clip_THWC. Raises DamagedError where it cannot be read."""
    sample = dataset[item]
    if isinstance(sample, BadSample):
        raise sample.as_error()
    return sample.clip_THWC


@dataclass(frozen=True)
class Recorded:
    """What was read for a clip: `row` of the manifest, `numbers` of frames, their JPEGs, and what was made of them."""

    row: int
    numbers: tuple[int, ...]
    jpegs: tuple[bytes, ...]
    plan: Plan
    scale: int
    sample: Sample


class Clips(ClipDataset):
    """Training clips of the ok videos, or of those that `video_ids` names."""

    def __init__(self, data: Path | Videos, recipe: TrainRecipe, video_ids: Collection[str] | None = None) -> None:
        super().__init__(data, "all", recipe, training=True)
        if video_ids is not None:
            self._rows = self._rows[[video_id in video_ids for video_id in self.video_ids()]]


class Recorder(Clips):
    """Clips, and how they are made."""

    def __init__(self, folder: Path, recipe: TrainRecipe, video_ids: Collection[str] | None = None) -> None:
        super().__init__(folder, recipe, video_ids)
        self._plans: list[tuple[Plan, int]] = []

    def record(self, item: Item) -> Recorded:
        """Raises DamagedError where the clip cannot be read."""
        self._plans.clear()
        sample = self[item]
        if isinstance(sample, BadSample):
            raise sample.as_error()
        (plan, scale), (row, numbers) = self._plans.pop(), self.frames_of(item)
        return Recorded(row, tuple(numbers), tuple(self._dataset.read_frames(row, numbers)), plan, scale, sample)

    def _draw_jpeg_plan(
        self, row: int, number: int, first: bytes, item: Item, rng: np.random.Generator
    ) -> tuple[Plan, int]:
        self._plans.append(super()._draw_jpeg_plan(row, number, first, item, rng))
        return self._plans[-1]
