"""The command line of `prep`: arguments in, one command called, errors turned into a sentence and an exit code."""

import argparse
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manifests.description import Description
from manifests.errors import EXIT_CODES, DamagedError, Error, Interrupted, StoreError, UsageError
from manifests.manifest import FORMAT_VERSION
from manifests.recipe import load_recipe
from manifests.sources import SourceList, read_sources, write_sources
from manifests.stores import STORES
from prep import __version__
from prep.datasets import DATASETS, Scan, scan
from prep.datasets.walk import count
from prep.decoders import DECODERS
from prep.machine import describe_space, format_bytes, usable_processors
from prep.recipe import ExtractRecipe, resolve

_DEBUG_VARIABLE = "DECODE_ONCE_DEBUG"
_MAX_PROBLEMS_SHOWN = 50


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        exit_code: int = arguments.run(arguments)
        sys.stdout.flush()
        return exit_code
    except BrokenPipeError:
        # The reader of our output went away (`| head`); nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _fail(arguments, Interrupted("interrupted; the same command resumes"))
    except Error as error:
        return _fail(arguments, error)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _fail(arguments, StoreError(f"{error.strerror or error}{where}"))
    except Exception as error:
        if os.environ.get(_DEBUG_VARIABLE):
            raise
        message = f"unexpected {type(error).__name__}: {error}; set {_DEBUG_VARIABLE}=1 to see where, and report it"
        return _fail(arguments, Error(message))


def _fail(arguments: argparse.Namespace, error: Error) -> int:
    print(f"prep {arguments.command}: {error}", file=sys.stderr)
    if isinstance(error, Interrupted):
        print(f"  {shlex.join(['prep', *sys.argv[1:]])}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"error": str(error), "exit_code": error.exit_code}))
    return error.exit_code


def build_parser() -> argparse.ArgumentParser:
    """All commands and flags."""
    codes = "\n".join(f"  {code:3d}  {meaning}" for code, meaning in EXIT_CODES.items())
    parser = argparse.ArgumentParser(
        prog="prep",
        description="Turn a folder of videos into a verified, training-ready dataset of JPEG frames.",
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"prep {__version__}, format version {FORMAT_VERSION}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    common.add_argument("--quiet", action="store_true", help="no progress and no notes on stderr")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Any, help_text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            parents=[common],
            help=help_text,
            description=help_text[0].upper() + help_text[1:] + ".",
            epilog=f"exit codes:\n{codes}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(run=run)
        return added

    scanning = command("scan", _scan, "list the videos of a folder with classes and subsets, without decoding any")
    scanning.add_argument("dir", type=Path, metavar="DIR", help="the folder of videos")
    scanning.add_argument("--dataset", choices=DATASETS, default="folder", help="how DIR is laid out (default: folder)")
    _add_annotations(scanning)
    scanning.add_argument("--out", type=Path, required=True, metavar="FILE", help="the sources.parquet to write")

    extracting = command("extract", _extract, "decode videos into a prepared dataset, or resume that")
    extracting.add_argument("source", type=Path, metavar="DIR|sources.parquet", help="a folder, or what scan wrote")
    extracting.add_argument("--out", type=Path, required=True, metavar="OUT", help="the folder of the dataset")
    extracting.add_argument("--dataset", choices=DATASETS, help="how DIR is laid out (default: folder)")
    _add_annotations(extracting)
    extracting.add_argument("--store", choices=STORES, help="short for --set store.format=... (default: arrow)")
    extracting.add_argument(
        "--decoder", choices=("auto", *DECODERS), help="short for --set decoder=... (default: auto, which is pyav)"
    )
    extracting.add_argument("--recipe", type=Path, metavar="FILE", help="a TOML file with recipe keys")
    extracting.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a recipe key; may be repeated"
    )
    extracting.add_argument(
        "--jobs", type=int, metavar="N", help="videos decoded at a time (default: the processors this process may use)"
    )

    verifying = command("verify", _verify, "check that the frames of a dataset are what its manifest says")
    verifying.add_argument("out", type=Path, metavar="OUT", help="the folder of the dataset")
    verifying.add_argument("--deep", action="store_true", help="read, compare and decode every frame")

    reporting = command("report", _report, "say what a dataset holds and which videos failed")
    reporting.add_argument("out", type=Path, metavar="OUT", help="the folder of the dataset")

    drawing = command("synth", _synth, "draw a UCF-101-shaped set of small videos whose classes differ in motion")
    drawing.add_argument("dir", type=Path, metavar="DIR", help="a folder that is new or empty")
    drawing.add_argument("--classes", type=int, default=8, metavar="N", help="an even number (default: 8)")
    drawing.add_argument("--videos-per-class", type=int, default=24, metavar="N", help="(default: 24)")
    drawing.add_argument("--seed", type=int, default=0, metavar="S", help="same seed, same videos (default: 0)")
    return parser


def _add_annotations(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--annotations",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="the dataset's list files or their folder; may be repeated (default: looked for beside the videos)",
    )


def _say(arguments: argparse.Namespace, line: str) -> None:
    if not arguments.quiet:
        print(line, file=sys.stderr)


def _print(arguments: argparse.Namespace, table: dict[str, Any], lines: Sequence[str]) -> None:
    """The result of a command: one JSON object, or text."""
    if arguments.json:
        print(json.dumps(table))
    else:
        print("\n".join(lines))


def _scan(arguments: argparse.Namespace) -> int:
    found = scan(arguments.dataset, arguments.dir, arguments.annotations)
    write_sources(arguments.out, _source_list(found, arguments.dir))
    subsets: dict[str, int] = {"all": len(found.sources)}
    for source in found.sources:
        for subset in source.subsets:
            subsets[subset] = subsets.get(subset, 0) + 1
    settled = [source.failure or source.status for source in found.sources if source.status]
    counts = {kind: settled.count(kind) for kind in sorted({str(kind) for kind in settled})}
    num_bytes = sum(source.source_bytes or 0 for source in found.sources)
    table = {
        "out": str(arguments.out),
        "dataset": found.dataset,
        "num_videos": len(found.sources),
        "num_bytes": num_bytes,
        "classes": list(found.classes),
        "subsets": subsets,
        "not_to_be_decoded": counts,
        "notes": list(found.notes),
    }
    lines = [
        f"{count(len(found.sources), 'video')} in {count(len(found.classes), 'class', 'classes')}, "
        f"{format_bytes(num_bytes)}",
        f"subsets: {', '.join(f'{name} {count:,}' for name, count in sorted(subsets.items()))}",
        *(f"note: {note}" for note in found.notes),
        f"wrote {arguments.out}",
    ]
    _print(arguments, table, lines)
    return 0


def _source_list(found: Scan, root: Path) -> SourceList:
    return SourceList(dataset=found.dataset, root=root.absolute(), classes=found.classes, sources=found.sources)


def _extract(arguments: argparse.Namespace) -> int:
    from prep.extract import extract
    from prep.run_folder import state_of

    shorthands = {"store.format": arguments.store, "decoder": arguments.decoder}
    overrides = [f"{key}={value}" for key, value in shorthands.items() if value is not None]
    recipe = resolve(load_recipe(ExtractRecipe, arguments.recipe, [*overrides, *arguments.set]))
    processors = usable_processors()
    num_jobs = processors.count if arguments.jobs is None else arguments.jobs
    if num_jobs < 1:
        raise UsageError(f"--jobs is at least 1, not {num_jobs}")
    state_of(arguments.out)  # refuses what is not ours before a scan that may take long
    sources = _read_or_scan(arguments)
    reason = processors.reason if arguments.jobs is None else f"--jobs; {processors.count} processors are usable"
    _say(arguments, f"{count(len(sources.sources), 'video')} from {sources.root}, {num_jobs} at a time ({reason})")
    _say(arguments, describe_space(arguments.out.absolute()))
    done = extract(sources, recipe, arguments.out, num_jobs=num_jobs, quiet=arguments.quiet)
    description = done.description
    table = {
        "out": str(arguments.out),
        "num_attempted": done.num_attempted,
        "wall_s": round(done.wall_s, 3),
        "frames_per_s": round(done.num_frames / done.wall_s, 1) if done.num_attempted else None,
        "counts": description.counts,
        "failures": description.failures,
        "num_frames": description.num_frames,
        "num_bytes": description.num_bytes,
    }
    lines = [_summary(arguments.out, description)]
    if done.num_attempted == 0:
        lines.append("nothing to do: it is complete, and made from these videos with these settings")
    else:
        rate = f"{done.num_frames / done.wall_s:,.0f} frames/s"
        lines.append(f"this run: {count(done.num_attempted, 'video')} in {done.wall_s:.1f} s, {rate}")
    if description.counts["failed"]:
        lines.append(f"prep report {shlex.quote(str(arguments.out))} names what failed")
    _print(arguments, table, lines)
    # Videos that only an annotation knows are no failure of the run.
    return 3 if description.counts["failed"] > description.failures.get("missing", 0) else 0


def _read_or_scan(arguments: argparse.Namespace) -> SourceList:
    source = arguments.source
    if not source.is_file():
        found = scan(arguments.dataset or "folder", source, arguments.annotations)
        for note in found.notes:
            _say(arguments, f"note: {note}")
        return _source_list(found, source)
    if arguments.dataset or arguments.annotations:
        raise UsageError(f"--dataset and --annotations go with a folder; {source} holds what they told prep scan")
    return read_sources(source)


def _summary(out: Path, description: Description) -> str:
    failures = ", ".join(f"{kind} {count:,}" for kind, count in description.failures.items())
    counts = ", ".join(f"{count:,} {status}" for status, count in description.counts.items())
    return (
        f"{out}: {counts}{f' ({failures})' if failures else ''}; "
        f"{description.num_frames:,} frames, {format_bytes(description.num_bytes)}"
    )


def _verify(arguments: argparse.Namespace) -> int:
    from prep.verify import verify

    found = verify(arguments.out, deep=arguments.deep, num_jobs=usable_processors().count)
    level = f"read and decoded {found.num_frames:,} frames" if arguments.deep else "frame contents not read (--deep)"
    table = {**dataclasses.asdict(found), "out": str(arguments.out), "deep": arguments.deep, "ok": not found.problems}
    lines = []
    for problem in found.problems[:_MAX_PROBLEMS_SHOWN]:
        video = f" video {problem.video_id}" if problem.video_id is not None else ""
        frame = f" frame {problem.frame}" if problem.frame is not None else ""
        lines.append(f"{problem.file}:{video}{frame}{':' if video else ''} {problem.problem}")
    if len(found.problems) > _MAX_PROBLEMS_SHOWN:
        lines.append(f"and {len(found.problems) - _MAX_PROBLEMS_SHOWN:,} more; --json names all")
    verdict = f"{len(found.problems):,} problems" if found.problems else "everything is as the manifest says"
    lines.append(f"{arguments.out}: {found.num_videos:,} ok videos, {level}: {verdict}")
    _print(arguments, table, lines)
    return DamagedError.exit_code if found.problems else 0


def _report(arguments: argparse.Namespace) -> int:
    from prep.report import make_report, report_lines

    report = make_report(arguments.out)
    _print(arguments, dataclasses.asdict(report), report_lines(report))
    return 0


def _synth(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from prep.synth import synthetic_videos

    videos = synthetic_videos(
        arguments.dir,
        num_classes=arguments.classes,
        videos_per_class=arguments.videos_per_class,
        seed=arguments.seed,
    )
    total = arguments.classes * arguments.videos_per_class
    paths = list(tqdm(videos, total=total, unit="video", disable=True if arguments.quiet else None))
    table = {"out": str(arguments.dir), "num_videos": len(paths), "num_classes": arguments.classes}
    _print(arguments, table, [f"drew {len(paths):,} videos in {arguments.classes} classes into {arguments.dir}"])
    return 0
