"""Batches of a loader that is there for them alone."""

from collections.abc import Iterator, Sequence

import paddle_import  # noqa: F401 - before anything that imports paddle

from train.dataset import ClipDataset
from train.loader import Batch, Loader
from train.sampler import Item


def load(dataset: ClipDataset, batches: Sequence[list[Item]], *, num_workers: int, timeout_s: float) -> Iterator[Batch]:
    with Loader([dataset], num_workers=num_workers, timeout_s=timeout_s) as loader:
        yield from loader.batches(dataset, batches)
