"""What is done with a trained model: train eval, train predict, train export."""

import argparse
import dataclasses
from typing import Any

import numpy as np

from manifests.command import print_result
from manifests.description import read_description
from manifests.errors import TooManyFailedError, UsageError
from train.metrics import measure_accuracy
from train.setting_up import (
    accuracy_text,
    decoded,
    open_data,
    open_loader,
    prepare_loading,
    require_loader,
    require_paddle,
    say_device,
    source_list_of,
)
from train.transforms.crops import VIEW_CROPS
from train.videos import Videos


def evaluate(arguments: argparse.Namespace) -> int:
    """Score every video of a subset once."""
    overrides = _view_overrides(arguments)
    require_paddle()
    from train.checkpoint import require_same_classes
    from train.dataset import ClipDataset
    from train.device import set_cpu_threads
    from train.evaluate import score
    from train.scores_file import write_confusion, write_scores
    from train.trained import load_trained

    if arguments.scores is not None and arguments.scores == arguments.confusion:
        raise UsageError(f"--scores and --confusion both name {arguments.scores}: give each a file of its own")
    for flag, path in (("--scores", arguments.scores), ("--confusion", arguments.confusion)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):  # else it shows when all is scored
            raise UsageError(f"{flag} {path} is a folder, or in none: name a file in a folder that there is")
    source_list = source_list_of(arguments)
    if source_list is None:
        read_description(arguments.data)  # before a checkpoint is unpickled
    trained = load_trained(arguments.run_or_checkpoint, overrides)
    recipe = trained.recipe
    num_workers, num_threads = prepare_loading(arguments, recipe)
    data = open_data(arguments, source_list, [arguments.subset])
    dataset = ClipDataset(data, arguments.subset, recipe, training=False)
    require_loader(arguments, dataset)
    require_same_classes(trained.state, dataset.classes_sha256, trained.path, arguments.data)
    set_cpu_threads(num_threads)
    say_device(arguments)
    with open_loader(arguments, recipe, num_workers, dataset) as loader:
        scores_NK, labels_N = score(trained.model, dataset, recipe, loader, quiet=arguments.quiet)
    accuracy = measure_accuracy(scores_NK, labels_N)
    table: dict[str, Any] = {
        "checkpoint": str(trained.path),
        "subset": arguments.subset,
        "epoch": trained.state.epoch,
        "num_views": dataset.num_views,
        **dataclasses.asdict(accuracy),
    }
    lines = [f"{trained.path} on {arguments.subset}: {accuracy_text(accuracy)}"]
    if isinstance(data, Videos):
        num_forward = dataset.num_views * dataset.num_forward(np.arange(len(dataset)))
        told, line = decoded(data, dataset.num_views * len(dataset), num_forward)
        table |= told
        lines.append(line)
    print_result(arguments, table, lines)
    if arguments.scores is not None:
        write_scores(arguments.scores, dataset.video_ids(), dataset.classes, scores_NK, labels_N)
    if arguments.confusion is not None:
        write_confusion(arguments.confusion, dataset.classes, scores_NK, labels_N)
    return 0


def predict(arguments: argparse.Namespace) -> int:
    """The best classes of videos outside of any dataset."""
    if arguments.top < 1:
        raise UsageError(f"--top is at least 1, not {arguments.top}")
    overrides = _view_overrides(arguments)
    require_paddle()
    from train.device import set_cpu_threads
    from train.predict import predict
    from train.trained import load_trained

    trained = load_trained(arguments.run_or_checkpoint, overrides)
    num_workers, num_threads = prepare_loading(arguments, trained.recipe)
    set_cpu_threads(num_threads)
    say_device(arguments)
    predictions = predict(trained, arguments.video, num_workers=num_workers, quiet=arguments.quiet)
    classes = trained.state.classes
    videos, lines = [], []
    for prediction in predictions:
        best = [
            {"class": classes[label], "label": label, "score": float(prediction.scores_K[label])}
            for label in prediction.best(arguments.top)
            if prediction.scores_K is not None
        ]
        videos.append({"video": str(prediction.video), "failure": prediction.failure or None, "best": best})
        lines.append(f"{prediction.video}{f': {prediction.failure}' if prediction.failure else ''}")
        lines += [f"  {row['score']:6.1%}  {row['class']}" for row in best]
    print_result(arguments, {"checkpoint": str(trained.path), "videos": videos}, lines)
    num_failed = sum(bool(prediction.failure) for prediction in predictions)
    if num_failed == len(predictions):
        raise TooManyFailedError("none of the videos could be prepared")
    return 3 if num_failed else 0


def export(arguments: argparse.Namespace) -> int:
    """Write a model for inference by Paddle."""
    require_paddle()
    from train.export import export
    from train.trained import load_trained

    trained = load_trained(arguments.run_or_checkpoint, _view_overrides(arguments))
    description = export(trained, arguments.out)
    shape = " x ".join("any" if size is None else str(size) for size in description["input"]["shape"])
    print_result(
        arguments,
        {"out": str(arguments.out), **description},
        [f"{arguments.out}: {description['model']} of {trained.path}; takes uint8 clips of {shape}, gives scores"],
    )
    return 0


def _view_overrides(arguments: argparse.Namespace) -> list[str]:
    """--views and --set. Raises UsageError."""
    if arguments.views is None:
        return list(arguments.set)
    names = {str(number): name for name, number in VIEW_CROPS.items()}
    clips, _, crops = arguments.views.partition("x")
    if not clips.isdecimal() or int(clips) < 1 or crops not in names:
        raise UsageError(
            f"--views takes clips x crops, the crops being one of {', '.join(names)}, such as 10x3, not "
            f"{arguments.views!r}"
        )
    return [f"views.num_clips={int(clips)}", f"views.crops={names[crops]}", *arguments.set]
