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
from train.loader import Batches
from train.metrics import Accuracy, measure_accuracy
from train.precision import Precision
from train.ranks import Ranks
from train.recipe import TrainRecipe
from train.sampler import evaluation_batches


def evaluate(
    model: paddle.nn.Layer,
    dataset: ClipDataset,
    recipe: TrainRecipe,
    loader: Batches,
    *,
    quiet: bool,
    ranks: Ranks = Ranks(),  # noqa: B008 - frozen
    precision: Precision = Precision(),  # noqa: B008 - frozen
) -> Accuracy:
    """Accuracy of the mean score over the views of each video. Raises what the loader raises."""
    scores_NK, labels_N = score(model, dataset, recipe, loader, quiet=quiet, ranks=ranks, precision=precision)
    return measure_accuracy(scores_NK, labels_N)


def score(
    model: paddle.nn.Layer,
    dataset: ClipDataset,
    recipe: TrainRecipe,
    loader: Batches,
    *,
    quiet: bool,
    ranks: Ranks = Ranks(),  # noqa: B008 - frozen
    precision: Precision = Precision(),  # noqa: B008 - frozen
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The mean over the views of each video, and its label; every rank has all of them."""
    num_views = dataset.num_views
    batch_size, num_frames, crop_px = recipe.view_shape
    batches = list(
        evaluation_batches(
            len(dataset),
            batch_size=batch_size,
            num_frames=num_frames,
            crop_px=crop_px,
            num_views=num_views,
            rank=ranks.rank,
            num_ranks=ranks.count,
        )
    )
    scores_NK = np.zeros((len(dataset), len(dataset.classes)), np.float32)
    labels_N = np.zeros(len(dataset), np.int64)
    model.eval()
    num_own = sum(map(len, batches))
    with paddle.no_grad(), tqdm(total=num_own, unit="clip", disable=True if quiet else None) as bar:
        for batch in loader.batches(dataset, batches):
            logits_NK = precision.forward(model, normalise(batch.clips_NTHWC, recipe.normalisation))
            views_NK = functional.softmax(logits_NK, axis=1).numpy() / np.float32(num_views)
            np.add.at(scores_NK, batch.indices_N, views_NK)  # several views of a video may be in one batch
            labels_N[batch.indices_N] = batch.labels_N
            bar.update(len(batch.labels_N))
    return ranks.total(scores_NK), ranks.total(labels_N)
