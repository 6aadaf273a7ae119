"""The command line of `train`."""

import argparse
import dataclasses
import importlib
import logging
import os
import signal
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifests.command import (
    add_command,
    handle_signals,
    make_parser,
    path_argument,
    print_result,
    resume_hint,
    run_command,
    say,
)
from manifests.description import read_description
from manifests.errors import Interrupted, TooManyFailedError, UsageError
from manifests.machine import available_memory, format_bytes, usable_processors
from manifests.recipe import load_recipe
from manifests.sources import SourceList, read_sources
from manifests.wording import count
from train import __version__
from train.bench import TABLES
from train.launch import is_rank, layout_of, run_ranks, settle_in
from train.memory import keep_freed_memory
from train.metrics import Accuracy, measure_accuracy
from train.recipe import RECIPES, TrainRecipe, recipe_file, require_whole_parts
from train.slots import num_slots
from train.transforms.crops import VIEW_CROPS
from train.videos import DECODERS, Videos, open_videos, subset_names

if TYPE_CHECKING:
    from train.dali import DaliLoader
    from train.dataset import ClipDataset
    from train.loader import Loader

_TRAINING_SUBSETS = ("train", "train01")
_VALIDATION_SUBSETS = ("val", "validation", "valid", "test01", "test")


def main() -> int:
    """Run one command and return its exit code."""
    return run_command(build_parser())


def build_parser() -> argparse.ArgumentParser:
    """All commands and flags."""
    parser = make_parser("train", "Train video models from a prepared dataset.", f"train {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    fitting = add_command(commands, "fit", _fit, "train a model, or go on with a run that was stopped")
    _add_data(fitting)
    _add_recipe(fitting)
    fitting.add_argument("--out", type=path_argument, required=True, metavar="RUN", help="the folder of the run")
    fitting.add_argument(
        "--train-subset", metavar="S", help=f"(default: the first there is of {', '.join(_TRAINING_SUBSETS)})"
    )
    fitting.add_argument(
        "--val-subset", metavar="S", help=f"(default: the first there is of {', '.join(_VALIDATION_SUBSETS)})"
    )
    fitting.add_argument(
        "--init",
        type=path_argument,
        metavar="WEIGHTS",
        help="begin with a .pdparams of PaddleVideo, of a Paddle ResNet, or a checkpoint or run; only with files that "
        "you trust: reading them can run code (the same as --set model.init=WEIGHTS)",
    )
    fitting.add_argument(
        "--resume", choices=("auto", "never"), default="auto", help="go on with what RUN holds (default: auto)"
    )
    fitting.add_argument(
        "--nproc", type=int, default=1, metavar="N", help="processes on this machine, one for each GPU (default: 1)"
    )
    fitting.add_argument("--nnodes", type=int, default=1, metavar="K", help="machines, with N each (default: 1)")
    fitting.add_argument("--master", metavar="HOST:PORT", help="with --nnodes: where the first machine is reached")
    fitting.add_argument("--rank", type=int, metavar="R", help="with --nnodes: which of the machines this is, from 0")

    evaluating = add_command(commands, "eval", _eval, "score every video of a subset once")
    _add_trained(evaluating)
    _add_data(evaluating)
    evaluating.add_argument("--subset", required=True, metavar="S", help="the subset to score")
    evaluating.add_argument(
        "--scores", type=path_argument, metavar="FILE", help="write the scores of every video there, as Parquet"
    )
    evaluating.add_argument(
        "--confusion", type=path_argument, metavar="FILE", help="write which class was taken for which there, as CSV"
    )
    _add_views(evaluating)

    predicting = add_command(commands, "predict", _predict, "the best classes of videos outside of any dataset")
    _add_trained(predicting)
    predicting.add_argument("video", type=path_argument, nargs="+", metavar="VIDEO", help="a video file")
    predicting.add_argument("--top", type=int, default=5, metavar="N", help="classes to print (default: 5)")
    _add_views(predicting)

    exporting = add_command(commands, "export", _export, "write a model for inference by Paddle, without this program")
    _add_trained(exporting)
    exporting.add_argument("--out", type=path_argument, required=True, metavar="DIR", help="a new folder")
    _add_views(exporting)

    planning = add_command(commands, "plan", _plan, "what a recipe will do and take, before anything runs")
    _add_recipe(planning)
    planning.add_argument("--data", type=path_argument, metavar="OUT", help="a prepared dataset: then steps are known")
    planning.add_argument("--train-subset", metavar="S", help="as for train fit")

    bench = add_command(commands, "bench", _bench, "measure on this machine: " + ", ".join(TABLES))
    bench.add_argument(
        "table",
        choices=TABLES,
        metavar="TABLE",
        help="formats: video, frame folders, shards; decoders: a clip straight from a video; workers: clips/s by data "
        "workers; loader: each stage, the bottleneck, how many workers; ops: the versions of the temporal shift; "
        "multigrid: whole runs without cycles and with them, of prep synth's set if there is no --data",
    )
    bench.add_argument(
        "--data",
        type=path_argument,
        metavar="OUT|sources.parquet|DIR",
        help="a prepared dataset, or a source list or folder of videos, some of which are prepared for the purpose",
    )
    bench.add_argument(
        "--recipe", metavar="NAME|FILE", help="whose clips and model (default: none; multigrid: demo_multigrid)"
    )
    bench.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a recipe key; may be repeated"
    )
    bench.add_argument("--workers", metavar="N,N", help="workers: numbers of them (default: 0, 1, 2, 4, ...)")
    bench.add_argument(
        "--seconds",
        type=float,
        default=120,
        metavar="S",
        help="about so long, and as long as some rounds take; all but multigrid (default: 120)",
    )
    return parser


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe", required=True, metavar="NAME|FILE", help=f"one of {', '.join(RECIPES)}, or a TOML file"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a recipe key; may be repeated"
    )


def _add_trained(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_or_checkpoint",
        type=path_argument,
        metavar="RUN|CHECKPOINT",
        help="a run folder (its best checkpoint) or a file",
    )


def _add_views(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--views",
        metavar="KxC",
        help="K clips of a video with C crops each, 1, 3 or 10 (10x3: the same as --set views.num_clips=10 --set "
        "views.crops=three)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override views.*, loader.* or run.* keys"
    )


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


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.data is None and arguments.table not in ("ops", "multigrid"):
        raise UsageError(f"train bench {arguments.table} needs --data OUT, or videos: a source list or a folder")
    _require_paddle()
    exit_code: int = importlib.import_module(f"train.bench.{arguments.table}").run(arguments)
    return exit_code


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=path_argument,
        required=True,
        metavar="OUT|sources.parquet",
        help="a prepared dataset, or a source list, whose videos are decoded on the fly",
    )
    parser.add_argument(
        "--decoder", choices=("auto", *DECODERS), help="of videos on the fly (default: auto, which is pyav)"
    )
    parser.add_argument(
        "--loader",
        choices=("paddle", "dali"),
        default="paddle",
        help="worker processes with libjpeg-turbo, or threads of NVIDIA DALI (default: paddle)",
    )


def _fit(arguments: argparse.Namespace) -> int:
    settle_in()
    first_weights = [] if arguments.init is None else [f"model.init={arguments.init}"]
    recipe = load_recipe(TrainRecipe, recipe_file(arguments.recipe), [*arguments.set, *first_weights])
    layout = layout_of(arguments.nproc, arguments.nnodes, arguments.rank, arguments.master)
    if layout.count > 1 and not is_rank():
        require_whole_parts(recipe, layout.count)
        return run_ranks(layout, ["-m", "train", *sys.argv[1:]])
    source_list = _source_list(arguments)
    subsets = subset_names(source_list) if source_list else list(read_description(arguments.data).subsets)
    train_subset = arguments.train_subset or _first_of(_TRAINING_SUBSETS, subsets, "--train-subset")
    val_subset = arguments.val_subset or _first_of(_VALIDATION_SUBSETS, subsets, "--val-subset")
    _require_paddle()

    from train.dataset import ClipDataset
    from train.device import has_gpu, set_cpu_threads
    from train.loop import fit
    from train.precision import precision_text
    from train.ranks import join_ranks

    ranks = join_ranks()
    if not ranks.is_first:
        arguments.quiet = True
    num_workers, num_threads = _prepare_loading(arguments, recipe, ranks.num_here)

    data = _open_data(arguments, source_list, [train_subset, val_subset])
    training = ClipDataset(data, train_subset, recipe, training=True)
    validation = ClipDataset(data, val_subset, recipe, training=False)
    _require_loader(arguments, training, validation)
    set_cpu_threads(num_threads)
    readers = count(num_workers, "DALI thread" if arguments.loader == "dali" else "data worker")
    say(
        arguments,
        f"{recipe.model.name}: {len(training):,} clips of {train_subset}, {len(validation):,} of {val_subset}; "
        f"{readers}, {count(num_threads, 'CPU thread')} ({usable_processors().reason})",
    )
    _say_device(arguments)
    if precision := precision_text(recipe.amp, has_gpu=has_gpu()):
        say(arguments, precision)
    try:
        with _loader(arguments, recipe, num_workers, training, validation) as loader:
            fitted = fit(
                recipe,
                training,
                validation,
                arguments.out,
                loader,
                resume=arguments.resume == "auto",
                quiet=arguments.quiet,
                data_recipe=_data_recipe(data),
                ranks=ranks,
            )
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(f"{str(error) or 'interrupted'}; {resume_hint()}") from None
    if not ranks.is_first:
        return 0
    table = {
        "out": str(arguments.out),
        "steps": fitted.state.step,
        "epochs": fitted.state.epoch,
        "best_top1": fitted.state.best_top1,
        "clips_per_s": round(fitted.clips_per_s, 1),
        **dataclasses.asdict(fitted.accuracy),
    }
    rate = f", {fitted.clips_per_s:.0f} clips/s" if fitted.clips_per_s else ", complete already"
    lines = [
        f"{arguments.out}: {fitted.state.step:,} steps in {count(fitted.state.epoch, 'epoch')}{rate}",
        f"{val_subset} after the last epoch: {_accuracy_text(fitted.accuracy)}",
    ]
    if isinstance(data, Videos):
        told, line = _decoded(data, fitted.num_clips, fitted.num_forward)
        table |= told
        lines.append(line)
    print_result(arguments, table, lines)
    return 0


def _decoded(videos: Videos, num_clips: int, num_forward: int) -> tuple[dict[str, Any], str]:
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


def _data_recipe(data: Path | Videos) -> dict[str, Any]:
    """How frames were made, whatever their store; or the decoder that makes them."""
    if isinstance(data, Videos):
        return {"on_the_fly": {"decoder": data.decoder}}
    return {key: value for key, value in read_description(data).recipe.items() if key != "store"}


def _source_list(arguments: argparse.Namespace) -> SourceList | None:
    """The source list of --data; None where that is no file. Raises UsageError, DamagedError."""
    if arguments.data.is_file():
        return read_sources(arguments.data)
    if arguments.decoder:
        raise UsageError(
            f"{arguments.data} is no source list: --decoder goes with --data sources.parquet, which prep scan writes"
        )
    return None


def _open_data(arguments: argparse.Namespace, source_list: SourceList | None, wanted: list[str]) -> Path | Videos:
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


def _require_loader(arguments: argparse.Namespace, *datasets: "ClipDataset") -> None:
    """Raises UsageError where --loader cannot make the batches."""
    if arguments.loader == "dali":
        from train.dali import require_dali

        for dataset in datasets:
            require_dali(dataset)


def _loader(
    arguments: argparse.Namespace, recipe: TrainRecipe, num_workers: int, *datasets: "ClipDataset"
) -> "Loader | DaliLoader":
    """What makes the batches."""
    if arguments.loader == "dali":
        from train.dali import DaliLoader

        return DaliLoader(num_workers=num_workers)
    from train.loader import Loader

    return Loader(datasets, num_workers=num_workers, timeout_s=recipe.loader.timeout_s)


def _first_of(names: tuple[str, ...], subsets: list[str], flag: str) -> str:
    for name in names:
        if name in subsets:
            return name
    raise UsageError(
        f"the dataset has none of the subsets {', '.join(names)}: name one of {', '.join(subsets)} by {flag}"
    )


def _prepare_loading(arguments: argparse.Namespace, recipe: TrainRecipe, num_ranks: int = 1) -> tuple[int, int]:
    """Data workers and computing threads of each of this machine's ranks, once there is memory for the batches of all.
    Raises UsageError."""
    num_workers, num_threads = _share_processors(recipe, num_ranks)
    require_memory(recipe, num_ranks * (num_workers if getattr(arguments, "loader", "paddle") == "paddle" else 0))
    keep_freed_memory()
    return num_workers, num_threads


def _share_processors(recipe: TrainRecipe, num_ranks: int) -> tuple[int, int]:
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


def _require_paddle() -> None:
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
    handlers = handle_signals(lambda number, frame: numbers.append(number))
    try:
        import paddle  # noqa: F401
    except Exception as error:
        if numbers:
            raise KeyboardInterrupt from None
        raise UsageError(f"PaddlePaddle cannot be imported ({error}): pip install 'decode-once[train]'") from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if numbers:
        raise KeyboardInterrupt


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _say_device(arguments: argparse.Namespace) -> None:
    """Where a PaddlePaddle for GPUs computes on the CPU."""
    import paddle

    from train.device import has_gpu

    if paddle.is_compiled_with_cuda() and not has_gpu():
        say(arguments, "PaddlePaddle for GPUs finds none here: computing on the CPU")


def _eval(arguments: argparse.Namespace) -> int:
    overrides = _view_overrides(arguments)
    _require_paddle()
    from train.checkpoint import require_same_classes
    from train.dataset import ClipDataset
    from train.device import set_cpu_threads
    from train.evaluate import score
    from train.scores_file import write_confusion, write_scores
    from train.trained import load_trained

    for flag, path in (("--scores", arguments.scores), ("--confusion", arguments.confusion)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):  # else it shows when all is scored
            raise UsageError(f"{flag} {path} is a folder, or in none: name a file in a folder that there is")
    source_list = _source_list(arguments)
    if source_list is None:
        read_description(arguments.data)  # before a checkpoint is unpickled
    trained = load_trained(arguments.run_or_checkpoint, overrides)
    recipe = trained.recipe
    num_workers, num_threads = _prepare_loading(arguments, recipe)
    data = _open_data(arguments, source_list, [arguments.subset])
    dataset = ClipDataset(data, arguments.subset, recipe, training=False)
    _require_loader(arguments, dataset)
    require_same_classes(trained.state, dataset.classes_sha256, trained.path, arguments.data)
    set_cpu_threads(num_threads)
    _say_device(arguments)
    with _loader(arguments, recipe, num_workers, dataset) as loader:
        scores_NK, labels_N = score(trained.model, dataset, recipe, loader, quiet=arguments.quiet)
    accuracy = measure_accuracy(scores_NK, labels_N)
    table: dict[str, Any] = {
        "checkpoint": str(trained.path),
        "subset": arguments.subset,
        "epoch": trained.state.epoch,
        "num_views": dataset.num_views,
        **dataclasses.asdict(accuracy),
    }
    lines = [f"{trained.path} on {arguments.subset}: {_accuracy_text(accuracy)}"]
    if isinstance(data, Videos):
        num_forward = dataset.num_views * dataset.num_forward(np.arange(len(dataset)))
        told, line = _decoded(data, dataset.num_views * len(dataset), num_forward)
        table |= told
        lines.append(line)
    print_result(arguments, table, lines)
    if arguments.scores is not None:
        write_scores(arguments.scores, dataset.video_ids(), dataset.classes, scores_NK, labels_N)
    if arguments.confusion is not None:
        write_confusion(arguments.confusion, dataset.classes, scores_NK, labels_N)
    return 0


def _predict(arguments: argparse.Namespace) -> int:
    if arguments.top < 1:
        raise UsageError(f"--top is at least 1, not {arguments.top}")
    overrides = _view_overrides(arguments)
    _require_paddle()
    from train.device import set_cpu_threads
    from train.predict import predict
    from train.trained import load_trained

    trained = load_trained(arguments.run_or_checkpoint, overrides)
    num_workers, num_threads = _prepare_loading(arguments, trained.recipe)
    set_cpu_threads(num_threads)
    _say_device(arguments)
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


def _export(arguments: argparse.Namespace) -> int:
    _require_paddle()
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


def _plan(arguments: argparse.Namespace) -> int:
    recipe = load_recipe(TrainRecipe, recipe_file(arguments.recipe), arguments.set)
    training = None
    if arguments.data is not None:
        from train.dataset import ClipDataset

        subsets = list(read_description(arguments.data).subsets)
        subset = arguments.train_subset or _first_of(_TRAINING_SUBSETS, subsets, "--train-subset")
        training = ClipDataset(arguments.data, subset, recipe, training=True)
    _require_paddle()
    from train.device import set_cpu_threads
    from train.plan import make_plan, plan_lines

    num_workers, num_threads = _share_processors(recipe, 1)
    set_cpu_threads(num_threads)
    plan = make_plan(
        recipe,
        num_classes=400 if training is None else len(training.classes),
        num_workers=num_workers,
        training=training,
    )
    table = {
        **dataclasses.asdict(plan),
        **{name: getattr(plan, name) for name in ("memory_bytes", "fewer_steps", "less_work")},
    }
    print_result(arguments, table, plan_lines(plan))
    return 0


def _accuracy_text(accuracy: Accuracy) -> str:
    return (
        f"top-1 {accuracy.top1:.1%}, top-5 {accuracy.top5:.1%}, mean class accuracy {accuracy.mean_class:.1%} "
        f"over {accuracy.num_videos:,} videos"
    )
