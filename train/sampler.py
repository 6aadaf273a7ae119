"""The order of samples as a pure function of (seed, epoch), cut into batches, shared among ranks: which shape a batch
has is the schedule's (train.schedules), and all ranks have the same one at the same step.

Arrays: order_N int64, sample indices.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from train.schedules import Shape, num_steps


class Item(NamedTuple):
    """What the loader asks the dataset for: which sample, in how many frames and which crop, in which epoch, and of an
    evaluation which view: clip * number of crops + crop.

    The epoch is part of the item since worker processes outlive it, and augmentation is drawn by
    (seed, epoch, index).
    """

    index: int
    num_frames: int
    crop_px: int
    epoch: int
    view: int = 0


def epoch_order(num_samples: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """A permutation of [0, num_samples)."""
    return np.random.default_rng([seed, epoch, 0]).permutation(num_samples)


def training_batches(
    num_samples: int,
    *,
    batch_size: int,
    shapes: Sequence[Shape],
    seed: int,
    epoch: int,
    first_step: int = 0,
    rank: int = 0,
    num_ranks: int = 1,
) -> list[list[Item]]:
    """The batches of one rank in one epoch, from step `first_step` on.

    Step n has shapes[n % len(shapes)], which is that many times `batch_size`, that of all ranks together, for a
    multiple of 1. The order is cut at the end of the last batch that is whole; then rank r takes positions
    r, r + num_ranks, ... of each batch.
    """
    order_N = epoch_order(num_samples, seed, epoch)
    sizes = [batch_size * shape.multiple for shape in shapes]
    batches, begin = [], 0
    for step in range(num_steps(num_samples, sizes)):
        shape, end = shapes[step % len(shapes)], begin + sizes[step % len(sizes)]
        if step >= first_step:
            own = order_N[begin + rank : end : num_ranks].tolist()
            batches.append([Item(index, shape.num_frames, shape.crop_px, epoch) for index in own])
        begin = end
    return batches


def evaluation_batches(
    num_samples: int,
    *,
    batch_size: int,
    num_frames: int,
    crop_px: int,
    num_views: int = 1,
    rank: int = 0,
    num_ranks: int = 1,
) -> Iterator[list[Item]]:
    """Every view of every sample once, in order; rank r takes samples r, r + num_ranks, ...; the last batch may be
    short."""
    own = [(index, view) for index in range(rank, num_samples, num_ranks) for view in range(num_views)]
    for start in range(0, len(own), batch_size):
        yield [Item(index, num_frames, crop_px, 0, view) for index, view in own[start : start + batch_size]]
