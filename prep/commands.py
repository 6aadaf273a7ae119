"""What each command of `prep` but extract does: read what the user gave, do the work elsewhere, print the result."""

import argparse
import dataclasses
import os
from pathlib import Path

from tqdm import tqdm

from manifests.atomic import disk_errors
from manifests.command import print_result
from manifests.errors import DamagedError, Interrupted, UsageError
from manifests.machine import usable_processors
from manifests.sources import read_sources, write_sources
from manifests.wording import count
from prep import datasets

_MAX_PROBLEMS_SHOWN = 50


def scan(arguments: argparse.Namespace) -> int:
    from prep.scan import look_into, scan_folder, scan_lines, scan_table

    root: Path = arguments.dir
    _require_no_other_file(arguments.out)
    found = scan_folder(arguments, root)
    with disk_errors(arguments.out):
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_sources(arguments.out, datasets.source_list(found, root))
    reconciliation, leaks = look_into(found, root)
    table = {"out": str(arguments.out), **scan_table(found, reconciliation, leaks)}
    print_result(arguments, table, [*scan_lines(found, reconciliation, leaks), f"wrote {arguments.out}"])
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


def verify(arguments: argparse.Namespace) -> int:
    from prep.verify import problem_lines, verify

    found = verify(arguments.out, deep=arguments.deep, num_jobs=usable_processors().count)
    table = {**dataclasses.asdict(found), "out": str(arguments.out), "deep": arguments.deep, "ok": not found.problems}
    verdict = count(len(found.problems), "problem") if found.problems else "everything is as the manifest says"
    lines = [
        *problem_lines(found.problems, _MAX_PROBLEMS_SHOWN),
        *(f"remark: {remark}" for remark in found.remarks),
        f"{arguments.out}: {count(found.num_videos, 'ok video')}, {found.looked_at}: {verdict}",
    ]
    print_result(arguments, table, lines)
    return DamagedError.exit_code if found.problems else 0


def report(arguments: argparse.Namespace) -> int:
    from prep.report import make_report, report_lines

    made = make_report(arguments.out)
    print_result(arguments, dataclasses.asdict(made), report_lines(made))
    return 0


def bench(arguments: argparse.Namespace) -> int:
    from prep import bench_command  # imports every decoder

    return bench_command.run(arguments)


def sheet(arguments: argparse.Namespace) -> int:
    from prep.sheet import make_sheet

    num_frames = make_sheet(arguments.out_folder, arguments.video_id, arguments.out)
    table = {"out": str(arguments.out), "video_id": arguments.video_id, "num_frames_shown": num_frames}
    print_result(arguments, table, [f"wrote {arguments.out}: {count(num_frames, 'frame')} of {arguments.video_id}"])
    return 0


def export(arguments: argparse.Namespace) -> int:
    from prep.export import export, export_lines

    made = export(
        arguments.dataset,
        arguments.out,
        format_name=arguments.format,
        subset=arguments.subset,
        videos=arguments.videos,
        link=arguments.link,
    )
    link = None if arguments.link is None else str(arguments.link)
    table = {"out": str(arguments.out), "link": link, **dataclasses.asdict(made)}
    print_result(arguments, table, export_lines(made, arguments.out, arguments.link))
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
