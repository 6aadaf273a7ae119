"""The command line of `train`."""

import argparse

from manifests.command import add_command, make_parser, path_argument, run_command
from train import __version__, commands, fit_command, trained_commands
from train.bench import TABLES
from train.recipe import RECIPES
from train.setting_up import TRAINING_SUBSETS, VALIDATION_SUBSETS
from train.videos import DECODERS


def main() -> int:
    """Run one command and return its exit code."""
    return run_command(build_parser())


def build_parser() -> argparse.ArgumentParser:
    """All commands and flags."""
    parser = make_parser("train", "Train video models from a prepared dataset.", f"train {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    fitting = add_command(subparsers, "fit", fit_command.run, "train a model, or go on with a run that was stopped")
    _add_data(fitting)
    _add_recipe(fitting)
    fitting.add_argument("--out", type=path_argument, required=True, metavar="RUN", help="the folder of the run")
    fitting.add_argument(
        "--train-subset", metavar="S", help=f"(default: the first there is of {', '.join(TRAINING_SUBSETS)})"
    )
    fitting.add_argument(
        "--val-subset", metavar="S", help=f"(default: the first there is of {', '.join(VALIDATION_SUBSETS)})"
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

    evaluating = add_command(subparsers, "eval", trained_commands.evaluate, "score every video of a subset once")
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

    predicting = add_command(
        subparsers, "predict", trained_commands.predict, "the best classes of videos outside of any dataset"
    )
    _add_trained(predicting)
    predicting.add_argument("video", type=path_argument, nargs="+", metavar="VIDEO", help="a video file")
    predicting.add_argument("--top", type=int, default=5, metavar="N", help="classes to print (default: 5)")
    _add_views(predicting)

    exporting = add_command(
        subparsers, "export", trained_commands.export, "write a model for inference by Paddle, without this program"
    )
    _add_trained(exporting)
    exporting.add_argument("--out", type=path_argument, required=True, metavar="DIR", help="a new folder")
    _add_views(exporting)

    planning = add_command(subparsers, "plan", commands.plan, "what a recipe will do and take, before anything runs")
    _add_recipe(planning)
    planning.add_argument("--data", type=path_argument, metavar="OUT", help="a prepared dataset: then steps are known")
    planning.add_argument("--train-subset", metavar="S", help="as for train fit")

    bench = add_command(subparsers, "bench", commands.bench, "measure on this machine: " + ", ".join(TABLES))
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
