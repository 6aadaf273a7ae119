"""What an evaluation leaves in files: the scores of every video, and which classes were taken for which.

Arrays: scores_NK float32, labels_N int64.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from manifests.atomic import atomic_write
from train.metrics import count_confusions


def write_scores(
    path: Path,
    video_ids: Sequence[str],
    classes: Sequence[str],
    scores_NK: npt.NDArray[np.float32],
    labels_N: npt.NDArray[np.int64],
) -> None:
    """Parquet, a row a video: video_id, label, class_name, predicted, predicted_name, scores (in label order, adding
    up to 1). Raises StoreError."""
    predicted_N = scores_NK.argmax(axis=1)
    scores = pa.FixedSizeListArray.from_arrays(pa.array(scores_NK.ravel()), scores_NK.shape[1])
    table = pa.table(
        {
            "video_id": pa.array(video_ids, pa.string()),
            "label": pa.array(labels_N, pa.int32()),
            "class_name": pa.array([classes[label] for label in labels_N], pa.string()),
            "predicted": pa.array(predicted_N, pa.int32()),
            "predicted_name": pa.array([classes[label] for label in predicted_N], pa.string()),
            "scores": scores,
        }
    )
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        pq.write_table(table, file)


def write_confusion(
    path: Path, classes: Sequence[str], scores_NK: npt.NDArray[np.float32], labels_N: npt.NDArray[np.int64]
) -> None:
    """CSV: a row for each class, a column for each class that its videos were taken for. Raises StoreError."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["class", *classes])
    for name, counts_K in zip(classes, count_confusions(scores_NK, labels_N), strict=True):
        writer.writerow([name, *counts_K.tolist()])
    with atomic_write(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")
