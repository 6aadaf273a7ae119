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
from train.loader import Loader
from train.metrics import Accuracy, measure_accuracy
from train.recipe import TrainRecipe
from train.sampler import evaluation_batches


def evaluate(
    model: paddle.nn.Layer, dataset: ClipDataset, recipe: TrainRecipe, loader: Loader, *, quiet: bool
) -> Accuracy:
    """Accuracy of the mean score over the views of each video. Raises what `Loader.batches` raises."""
    scores_NK, labels_N = score(model, dataset, recipe, loader, quiet=quiet)
    return measure_accuracy(scores_NK, labels_N)


def score(
    model: paddle.nn.Layer, dataset: ClipDataset, recipe: TrainRecipe, loader: Loader, *, quiet: bool
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    num_views = dataset.num_views
    batches = list(
        evaluation_batches(
            len(dataset),
            batch_size=recipe.optimizer.batch_size,
            num_frames=recipe.clip.num_frames,
            crop_px=recipe.clip.crop_px,
            num_views=num_views,
        )
    )
    scores_NK = np.zeros((len(dataset), len(dataset.classes)), np.float32)
    labels_N = np.full(len(dataset), -1, np.int64)
    model.eval()
    with paddle.no_grad(), tqdm(total=num_views * len(dataset), unit="clip", disable=True if quiet else None) as bar:
        for batch in loader.batches(dataset, batches):
            logits_NK = model(normalise(batch.clips_NTHWC, recipe.normalisation))
            views_NK = functional.softmax(logits_NK, axis=1).numpy() / np.float32(num_views)
            np.add.at(scores_NK, batch.indices_N, views_NK)  # several views of a video may be in one batch
            labels_N[batch.indices_N] = batch.labels_N
            bar.update(len(batch.labels_N))
    return scores_NK, labels_N
