"""What each command of `prep` does: read what the user gave, do the work elsewhere, print the result."""

import argparse
import dataclasses
import os
import shlex
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from manifests.atomic import disk_errors
from manifests.command import print_result, resume_hint, say
from manifests.errors import DamagedError, Interrupted, UsageError
from manifests.machine import describe_space, format_bytes, usable_processors
from manifests.recipe import load_recipe
from manifests.sources import SourceList, read_sources, write_sources
from manifests.wording import count
from prep import datasets
from prep.decoders import require_decoder
from prep.recipe import ExtractRecipe, resolve

_MAX_PROBLEMS_SHOWN = 50


def scan(arguments: argparse.Namespace) -> int:
    _require_no_other_file(arguments.out)
    found = datasets.scan(arguments.dataset, arguments.dir, arguments.annotations)
    with disk_errors(arguments.out):
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_sources(arguments.out, _source_list(found, arguments.dir))
    by_subset = Counter(subset for source in found.sources for subset in source.subsets)
    subsets = {"all": len(found.sources), **dict(sorted(by_subset.items()))}
    settled = Counter(source.failure or source.status for source in found.sources if source.status)
    num_bytes = sum(source.source_bytes or 0 for source in found.sources)
    table = {
        "out": str(arguments.out),
        "dataset": found.dataset,
        "num_videos": len(found.sources),
        "num_bytes": num_bytes,
        "classes": list(found.classes),
        "subsets": subsets,
        "not_to_be_decoded": dict(sorted(settled.items())),
        "notes": list(found.notes),
    }
    videos, classes = count(len(found.sources), "video"), count(len(found.classes), "class", "classes")
    lines = [
        f"{videos} in {classes}, {format_bytes(num_bytes)}",
        f"subsets: {', '.join(f'{name} {number:,}' for name, number in subsets.items())}",
        *(f"note: {note}" for note in found.notes),
        f"wrote {arguments.out}",
    ]
    print_result(arguments, table, lines)
    return 0


def _require_no_other_file(path: Path) -> None:
    """Raises UsageError where `path` is something that a source list must not replace."""
    if os.path.lexists(path):
        try:
            if path.is_symlink() or not path.is_file():
                raise UsageError(f"{path} is no regular file")
            read_sources(path)
        except DamagedError:
            pass  # a source list, if an old or broken one
        except UsageError as error:
            raise UsageError(f"--out would replace {path}, which is no source list; choose another name") from error


def extract(arguments: argparse.Namespace) -> int:
    from prep.extract import Extraction, extract
    from prep.run_folder import state_of

    recipe = _recipe(arguments)
    require_decoder(recipe.decoder)
    num_jobs, reason = _num_jobs(arguments.jobs)
    state_of(arguments.out)  # refuses what is not ours before a scan that may take long
    sources = _read_or_scan(arguments)
    if arguments.root is not None:
        sources = dataclasses.replace(sources, root=Path(os.path.abspath(arguments.root)))
    say(arguments, f"{count(len(sources.sources), 'video')} from {sources.root}, {num_jobs} at a time ({reason})")
    say(arguments, describe_space(arguments.out.absolute()))
    try:
        done: Extraction = extract(sources, recipe, arguments.out, num_jobs=num_jobs, quiet=arguments.quiet)
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(f"{str(error) or 'interrupted'}; {resume_hint()}") from None
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
    failures = ", ".join(f"{kind} {number:,}" for kind, number in description.failures.items())
    counts = ", ".join(f"{number:,} {status}" for status, number in description.counts.items())
    contents = f"{count(description.num_frames, 'frame')}, {format_bytes(description.num_bytes)}"
    lines = [f"{arguments.out}: {counts}{f' ({failures})' if failures else ''}; {contents}"]
    if done.num_attempted:
        rate = f"{done.num_frames / done.wall_s:,.0f} frames/s"
        lines.append(f"this run: {count(done.num_attempted, 'video')} in {done.wall_s:.1f} s, {rate}")
    elif done.was_sealed:
        lines.append("nothing to do: it is complete, of the same videos and settings (prep verify checks its files)")
    if description.counts["failed"]:
        lines.append(f"prep report {shlex.quote(str(arguments.out))} names what failed")
    print_result(arguments, table, lines)
    # Videos that only an annotation knows are no failure of the run.
    return 3 if description.counts["failed"] > description.failures.get("missing", 0) else 0


def _recipe(arguments: argparse.Namespace) -> ExtractRecipe:
    shorthands = {"store.format": arguments.store, "decoder": arguments.decoder}
    overrides = [f"{key}={value}" for key, value in shorthands.items() if value is not None]
    return resolve(load_recipe(ExtractRecipe, arguments.recipe, [*overrides, *arguments.set]))


def _num_jobs(wanted: int | None) -> tuple[int, str]:
    """How many videos to decode at a time, and why so many."""
    processors = usable_processors()
    if wanted is None:
        return processors.count, processors.reason
    if wanted < 1:
        raise UsageError(f"--jobs is at least 1, not {wanted}")
    return wanted, f"--jobs; {count(processors.count, 'processor')} usable"


def _read_or_scan(arguments: argparse.Namespace) -> SourceList:
    source: Path = arguments.source
    if source.is_file():
        if arguments.dataset or arguments.annotations:
            raise UsageError(f"--dataset and --annotations go with a folder; {source} holds what they told prep scan")
        return read_sources(source)
    if source.suffix == ".parquet" and not source.exists():
        raise UsageError(f"no such source list: {source}; write it with 'prep scan'")
    found = datasets.scan(arguments.dataset or "folder", source, arguments.annotations)
    for note in found.notes:
        say(arguments, f"note: {note}")
    return _source_list(found, source)


def _source_list(found: datasets.Scan, root: Path) -> SourceList:
    # abspath also drops "..", which would name another folder once the list is read elsewhere.
    absolute = Path(os.path.abspath(root))
    return SourceList(dataset=found.dataset, root=absolute, classes=found.classes, sources=found.sources)


def verify(arguments: argparse.Namespace) -> int:
    from prep.verify import verify

    found = verify(arguments.out, deep=arguments.deep, num_jobs=usable_processors().count)
    frames = count(found.num_frames, "frame")
    level = f"read and decoded {frames}" if arguments.deep else "frame contents not read (--deep does)"
    table = {**dataclasses.asdict(found), "out": str(arguments.out), "deep": arguments.deep, "ok": not found.problems}
    lines = []
    for problem in found.problems[:_MAX_PROBLEMS_SHOWN]:
        video = f" video {problem.video_id}" if problem.video_id is not None else ""
        frame = f" frame {problem.frame}" if problem.frame is not None else ""
        lines.append(f"{problem.file}:{video}{frame}{':' if video else ''} {problem.problem}")
    if len(found.problems) > _MAX_PROBLEMS_SHOWN:
        lines.append(f"and {len(found.problems) - _MAX_PROBLEMS_SHOWN:,} more; --json names all")
    verdict = count(len(found.problems), "problem") if found.problems else "everything is as the manifest says"
    lines.append(f"{arguments.out}: {count(found.num_videos, 'ok video')}, {level}: {verdict}")
    print_result(arguments, table, lines)
    return DamagedError.exit_code if found.problems else 0


def report(arguments: argparse.Namespace) -> int:
    from prep.report import make_report, report_lines

    made = make_report(arguments.out)
    print_result(arguments, dataclasses.asdict(made), report_lines(made))
    return 0


def synth(arguments: argparse.Namespace) -> int:
    from prep.synth import synthetic_videos

    folder: Path = arguments.dir
    try:
        with disk_errors(folder):
            videos = synthetic_videos(
                folder,
                num_classes=arguments.classes,
                videos_per_class=arguments.videos_per_class,
                seed=arguments.seed,
            )
            total = arguments.classes * arguments.videos_per_class
            paths = list(tqdm(videos, total=total, unit="video", disable=True if arguments.quiet else None))
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; remove {folder} to begin again") from None
    table = {"out": str(folder), "num_videos": len(paths), "num_classes": arguments.classes}
    print_result(arguments, table, [f"drew {count(len(paths), 'video')} in {arguments.classes} classes into {folder}"])
    return 0
