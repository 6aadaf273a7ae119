"""What the commands have in common: PaddlePaddle, processors and memory, data and their loader, words."""

import argparse
import logging
import os
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manifests.command import say, signals_to
from manifests.errors import UsageError
from manifests.machine import available_memory, format_bytes, usable_processors
from manifests.sources import SourceList, read_sources
from manifests.wording import count
from train.memory import keep_freed_memory
from train.metrics import Accuracy
from train.recipe import TrainRecipe
from train.slots import num_slots
from train.videos import Videos, open_videos

if TYPE_CHECKING:
    from train.dali import DaliLoader
    from train.dataset import ClipDataset
    from train.loader import Loader


TRAINING_SUBSETS = ("train", "train01")
VALIDATION_SUBSETS = ("val", "validation", "valid", "test01", "test")


def first_of(names: tuple[str, ...], subsets: list[str], flag: str) -> str:
    """The first of `names` that is a subset. Raises UsageError, which names `flag`."""
    for name in names:
        if name in subsets:
            return name
    raise UsageError(
        f"the dataset has none of the subsets {', '.join(names)}: name one of {', '.join(subsets)} by {flag}"
    )


def prepare_loading(arguments: argparse.Namespace, recipe: TrainRecipe, num_ranks: int = 1) -> tuple[int, int]:
    """Data workers and computing threads of each of this machine's ranks, once there is memory for the batches of all.
    Raises UsageError."""
    num_workers, num_threads = share_processors(recipe, num_ranks)
    require_memory(recipe, num_ranks * (num_workers if getattr(arguments, "loader", "paddle") == "paddle" else 0))
    keep_freed_memory()
    return num_workers, num_threads


def share_processors(recipe: TrainRecipe, num_ranks: int) -> tuple[int, int]:
    """Data workers and computing threads; together no more than the processors, unless the recipe says so."""
    processors = max(1, usable_processors().count // num_ranks)
    workers = recipe.loader.num_workers if recipe.loader.num_workers >= 0 else processors - 1
    return workers, recipe.run.cpu_threads or max(1, processors - workers)


def require_memory(recipe: TrainRecipe, num_workers: int) -> None:
    """Raises UsageError where batches on their way from data workers would not fit into memory."""
    need, available = num_slots(num_workers) * recipe.largest_batch_bytes, available_memory()
    if available is not None and need > available:
        raise UsageError(
            f"batches on their way from {count(num_workers, 'data worker')} need {format_bytes(need)} of memory, and "
            f"{format_bytes(available)} is free: use fewer (--set loader.num_workers=0), or smaller batches"
        )


def require_paddle() -> None:
    """Raises UsageError where PaddlePaddle is not installed, or twice. What it warns about is not for users."""
    if all(map(_is_installed, ("paddlepaddle", "paddlepaddle-gpu"))):
        raise UsageError(
            "paddlepaddle and paddlepaddle-gpu are both installed, and each has overwritten files of the other: "
            "pip uninstall both, then install one"
        )
    warnings.filterwarnings("ignore", category=UserWarning, module="paddle")
    os.environ.setdefault("GLOG_minloglevel", "2")  # of errors it tells; without a GPU it would miss libraries for one
    logging.getLogger().addHandler(logging.NullHandler())  # of a dead worker the loader tells
    # Paddle turns a signal during its import into an ImportError, and puts a handler of its own in place of ours.
    numbers: list[int] = []
    try:
        with signals_to(lambda number, frame: numbers.append(number)):
            import paddle  # noqa: F401
    except Exception as error:
        if numbers:
            raise KeyboardInterrupt from None
        raise UsageError(f"PaddlePaddle cannot be imported ({error}): pip install 'decode-once[train]'") from error
    if numbers:
        raise KeyboardInterrupt


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def say_device(arguments: argparse.Namespace) -> None:
    """Where a PaddlePaddle for GPUs computes on the CPU."""
    import paddle

    from train.device import has_gpu

    if paddle.is_compiled_with_cuda() and not has_gpu():
        say(arguments, "PaddlePaddle for GPUs finds none here: computing on the CPU")


def source_list_of(arguments: argparse.Namespace) -> SourceList | None:
    """The source list of --data; None where that is no file. Raises UsageError, DamagedError."""
    if arguments.data.is_file():
        return read_sources(arguments.data)
    if arguments.decoder:
        raise UsageError(
            f"{arguments.data} is no source list: --decoder goes with --data sources.parquet, which prep scan writes"
        )
    return None


def open_data(arguments: argparse.Namespace, source_list: SourceList | None, wanted: list[str]) -> Path | Videos:
    """What ClipDataset reads."""
    if source_list is None:
        data: Path = arguments.data
        return data
    videos = open_videos(
        arguments.data,
        source_list,
        arguments.decoder or "auto",
        wanted,
        num_threads=usable_processors().count,
        quiet=arguments.quiet,
    )
    say(arguments, videos.summary())
    return videos


def require_loader(arguments: argparse.Namespace, *datasets: "ClipDataset") -> None:
    """Raises UsageError where --loader cannot make the batches."""
    if arguments.loader == "dali":
        from train.dali import require_dali

        for dataset in datasets:
            require_dali(dataset)


def open_loader(
    arguments: argparse.Namespace, recipe: TrainRecipe, num_workers: int, *datasets: "ClipDataset"
) -> "Loader | DaliLoader":
    """What makes the batches."""
    if arguments.loader == "dali":
        from train.dali import DaliLoader

        return DaliLoader(num_workers=num_workers)
    from train.loader import Loader

    return Loader(datasets, num_workers=num_workers, timeout_s=recipe.loader.timeout_s)


def decoded(videos: Videos, num_clips: int, num_forward: int) -> tuple[dict[str, Any], str]:
    """What a result tells of clips that were decoded on the fly."""
    told = {
        "decoder": videos.decoder,
        "clips_decoded": num_clips,
        "clips_decoded_forward": num_forward,
        "videos_failed": videos.failed(),
    }
    line = (
        f"{videos.decoder} gave {num_clips:,} clips, {num_forward:,} of them by decoding from the beginning of the "
        "video: no index access can be trusted there"
    )
    return told, line


def accuracy_text(accuracy: Accuracy) -> str:
    """An accuracy as results tell it."""
    return (
        f"top-1 {accuracy.top1:.1%}, top-5 {accuracy.top5:.1%}, mean class accuracy {accuracy.mean_class:.1%} "
        f"over {accuracy.num_videos:,} videos"
    )
