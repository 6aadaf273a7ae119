"""What it takes a data worker to read clips of the shapes of a schedule, in terms of the largest clips.

Larger batches of smaller clips keep the work of a step, not that of reading for it: a small crop of a stored frame
costs nearly as much as a large one.
"""

import time
from collections.abc import Sequence

import numpy as np

from train.dataset import BadSample, ClipDataset, training_box
from train.recipe import TrainRecipe
from train.sampler import Item
from train.transforms.crops import Plan
from train.transforms.decode import decode_scale

FRAME_SIZE = (340, 256)
"""Of stored frames that are not known: Kinetics with a short side of 256."""
READ_COST = {1: 1.0, 2: 0.65, 4: 0.6, 8: 0.6}
"""To decode a frame at 1/n, cut and scale it, in terms of n = 1: frames of 340x256 at quality 90, an AMD EPYC."""
_DRAWS = 400
_ROUNDS, _CLIPS = 5, 4


def drawn_costs(recipe: TrainRecipe, shapes: Sequence[tuple[int, int]]) -> list[float]:
    """For clips of each (frames, crop), in frames read at full size: by draws of crops, and READ_COST."""
    clip, costs = recipe.clip, []
    for num_frames, crop_px in shapes:
        rng = np.random.default_rng(0)
        boxes = (training_box(clip, *FRAME_SIZE, crop_px, rng) for _ in range(_DRAWS))
        scales = [decode_scale(Plan(box, crop_px, crop_px), clip.max_enlargement) for box in boxes]
        costs.append(num_frames * sum(READ_COST[scale] for scale in scales) / _DRAWS)
    return costs


def measured_costs(dataset: ClipDataset, shapes: Sequence[tuple[int, int]]) -> list[float]:
    """Seconds for a clip of each (frames, crop): medians of rounds in turn over the same videos, which are in memory
    after the first. Raises DamagedError where one cannot be read."""
    number = min(_CLIPS, len(dataset))
    samples: list[list[float]] = [[] for _ in shapes]
    for place in range(_ROUNDS + 1):
        for (num_frames, crop_px), seconds in zip(shapes, samples, strict=True):
            started_s = time.perf_counter()
            for index in np.linspace(0, len(dataset) - 1, number).astype(int).tolist():
                sample = dataset[Item(index, num_frames, crop_px, place)]
                if isinstance(sample, BadSample):
                    raise sample.as_error()
            seconds.append((time.perf_counter() - started_s) / number)
    return [float(np.median(seconds[1:])) for seconds in samples]
