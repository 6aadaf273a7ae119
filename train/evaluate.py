"""Scores of every video of a subset, each once.

Arrays: scores_NK float32 (softmax), labels_N int64.
"""

import numpy as np
import numpy.typing as npt
import paddle
from paddle.nn import functional
from tqdm import tqdm

from train.dataset import ClipDataset
from train.device import normalise
from train.loader import load
from train.metrics import Accuracy, measure_accuracy
from train.models import pixels_of
from train.recipe import TrainRecipe
from train.sampler import evaluation_batches


def evaluate(
    model: paddle.nn.Layer, dataset: ClipDataset, recipe: TrainRecipe, *, num_workers: int, quiet: bool
) -> Accuracy:
    """Accuracy over the middle frames of the segments and a centre crop. Raises what `load` raises."""
    scores_NK, labels_N = score(model, dataset, recipe, num_workers=num_workers, quiet=quiet)
    return measure_accuracy(scores_NK, labels_N)


def score(
    model: paddle.nn.Layer, dataset: ClipDataset, recipe: TrainRecipe, *, num_workers: int, quiet: bool
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    batches = list(
        evaluation_batches(
            len(dataset),
            batch_size=recipe.optimizer.batch_size,
            num_frames=recipe.clip.num_frames,
            crop_px=recipe.clip.crop_px,
        )
    )
    scores_NK = np.full((len(dataset), len(dataset.classes)), np.nan, np.float32)
    labels_N = np.full(len(dataset), -1, np.int64)
    model.eval()
    with paddle.no_grad(), tqdm(total=len(dataset), unit="clip", disable=True if quiet else None) as bar:
        for batch in load(dataset, batches, num_workers=num_workers, timeout_s=recipe.loader.timeout_s):
            logits_NK = model(normalise(batch.clips_NTHWC, pixels_of(recipe.model.name)))
            scores_NK[batch.indices_N] = functional.softmax(logits_NK, axis=1).numpy()
            labels_N[batch.indices_N] = batch.labels_N
            bar.update(len(batch.labels_N))
    return scores_NK, labels_N
