"""How time and memory grow with the number of videos. Not run by pytest at full size:

    python tests/scale.py FOLDER 6500 65000 650000

For each number it draws a tree of empty files like that of Kinetics-700, with the tables of its subsets, and a dataset
of tiny frames with as many videos; then it measures each step in a process of its own and prints a line for it.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NUM_CLASSES = 700
NUM_FRAMES = 2
SUBSETS = {"train": 0.84, "val": 0.05, "test": 0.11}
"""Shares as in Kinetics-700; `test` has no labels."""


def youtube_id(number: int) -> str:
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    mixed = number * 0x9E3779B97F4A7C15 % 2**64
    return "".join(digits[mixed >> 6 * place & 63] for place in range(10)) + digits[number % 64]


def videos_of(num_videos: int) -> list[tuple[str, str, str]]:
    """(subset, label, YouTube id) of each."""
    bounds = np.cumsum([round(share * num_videos) for share in SUBSETS.values()])
    names = list(SUBSETS)
    subset_V = np.searchsorted(bounds, np.arange(num_videos), side="right").clip(0, len(names) - 1)
    return [
        (names[subset_V[number]], f"doing thing {number % NUM_CLASSES:03d} (not that)", youtube_id(number))
        for number in range(num_videos)
    ]


def draw_tree(folder: Path, num_videos: int) -> None:
    """Empty files, and the tables that name them and one video in a hundred more."""
    (folder / "annotations").mkdir(parents=True)
    tables: dict[str, list[str]] = {name: ["label,youtube_id,time_start,time_end,split"] for name in SUBSETS}
    tables["test"] = ["youtube_id,time_start,time_end,split"]
    made: set[Path] = set()
    for number, (subset, label, youtube) in enumerate(videos_of(num_videos)):
        place = folder / "videos" / subset / ("" if subset == "test" else label)
        if place not in made:
            place.mkdir(parents=True, exist_ok=True)
            made.add(place)
        shown = "" if subset == "test" else f"{label},"
        tables[subset].append(f"{shown}{youtube},10,20,{subset}")
        if number % 100 == 0:
            tables[subset].append(f"{shown}{youtube[::-1]},10,20,{subset}")
        os.close(os.open(place / f"{youtube}_000010_000020.mp4", os.O_CREAT | os.O_WRONLY))
    for name, lines in tables.items():
        (folder / "annotations" / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="ascii")


def draw_run(folder: Path, sources: Path) -> None:
    """A run over `sources` of which every group is committed, as if all videos had been decoded into tiny frames."""
    from datasets_made import LIBRARIES, draw_jpegs

    from manifests.records import Outcome
    from manifests.sources import read_sources
    from prep import spool
    from prep.commit import commit_group, group_rows
    from prep.frame_table import FRAME_DTYPE, write_table
    from prep.journal import Entry, Journal
    from prep.recipe import ExtractRecipe, Limits, resolve
    from prep.run_folder import RunFolder, bind, bound_settings

    os.fsync = lambda descriptor: None  # what a power cut would do to it is no concern here
    run = RunFolder(folder)
    run.make()
    source_list = read_sources(sources)
    bind(run, bound_settings(resolve(ExtractRecipe()), LIBRARIES), Limits(), source_list)
    jpegs = draw_jpegs(0, NUM_FRAMES, 16, 16)
    table_N = np.array([(len(jpeg), 1, 40.0 * index) for index, jpeg in enumerate(jpegs)], FRAME_DTYPE)
    settled = {s: Outcome(status=s.status, failure=s.failure, detail=s.detail) for s in source_list.sources if s.status}
    with Journal(run.journal) as journal:
        for group, rows in enumerate(group_rows(len(source_list.sources), 64)):
            entries = []
            for row in rows:
                source = source_list.sources[row]
                if source in settled:
                    entries.append(Entry(row, settled[source], 0))
                    continue
                spool.frames_path(run.spool, row, "arrow").write_bytes(b"".join(jpegs))
                outcome = Outcome(
                    status="ok",
                    source_sha256=hashlib.sha256(str(row).encode()).hexdigest(),
                    container="mov,mp4,m4a,3gp,3g2,mj2",
                    codec="h264",
                    declared_num_frames=NUM_FRAMES,
                    num_frames=NUM_FRAMES,
                    fps=25.0,
                    duration_s=10.0,
                    source_width=340,
                    source_height=256,
                    sample_aspect_ratio="1:1",
                    width=16,
                    height=16,
                    num_bytes=sum(map(len, jpegs)),
                    content_crc32=row,
                    decoder="pyav 18.1.0",
                )
                entries.append(Entry(row, outcome, write_table(spool.table_path(run.spool, row), table_N)))
                journal.add(entries[-1])
            commit_group(run, "arrow", group, [source_list.sources[row] for row in rows], entries)


# --- What is measured, each in a process of its own ---


def tree_walk(folder: Path) -> str:
    from prep.datasets.walk import find_videos

    return f"{len(find_videos(folder / 'videos').videos):,} files"


def scan(folder: Path) -> str:
    from prep import datasets

    found = datasets.scan("kinetics", folder / "videos", [folder / "annotations"])
    return f"{len(found.sources):,} rows"


def write_list(folder: Path) -> str:
    from dataclasses import replace

    from manifests.sources import write_sources
    from prep import datasets

    found = datasets.scan("kinetics", folder / "videos", [folder / "annotations"])
    # As if the files were not empty.
    sources = tuple(replace(s, source_bytes=1) if s.source_bytes == 0 else s for s in found.sources)
    write_sources(folder / "sources.parquet", datasets.source_list(replace(found, sources=sources), folder / "videos"))
    return "with scan"


def read_list(folder: Path) -> str:
    from manifests.sources import read_sources

    return f"{len(read_sources(folder / 'sources.parquet').sources):,} rows"


def plan(folder: Path) -> str:
    from manifests.sources import read_sources
    from prep.commit import group_rows
    from prep.plan import plan_new

    planned = plan_new(read_sources(folder / "sources.parquet"))
    return f"{len(group_rows(len(planned.rows), 64)):,} groups of {len(planned.work.sources):,}"


def resume_check(folder: Path) -> str:
    from datasets_made import LIBRARIES

    from manifests.sources import read_sources
    from prep.commit import group_rows
    from prep.recipe import ExtractRecipe, Limits, resolve
    from prep.recover import recover
    from prep.run_folder import RunFolder, bind, bound_settings

    run = RunFolder(folder / "run")
    sources = read_sources(folder / "sources.parquet")
    earlier = bind(run, bound_settings(resolve(ExtractRecipe()), LIBRARIES), Limits(), sources)
    groups = group_rows(len(sources.sources), 64)
    found = recover(run, "arrow", sources.sources, groups, earlier)
    assert len(found.finished) == len(groups)
    return f"{len(found.finished):,} groups"


def manifest_write(folder: Path) -> str:
    from datasets_made import LIBRARIES

    from manifests.sources import read_sources
    from prep.commit import group_rows
    from prep.plan import plan_new
    from prep.recipe import ExtractRecipe, resolve
    from prep.run_folder import RunFolder
    from prep.seal import seal

    sources = read_sources(folder / "sources.parquet")
    num_groups = len(group_rows(len(sources.sources), 64))
    run, recipe = RunFolder(folder / "run"), resolve(ExtractRecipe())
    seal(run, plan=plan_new(sources), before=None, recipe=recipe, libraries=LIBRARIES, num_groups=num_groups)
    sizes = [(folder / "run" / name).stat().st_size / 2**20 for name in ("manifest.parquet", "frames.parquet")]
    return f"{sizes[0]:.1f} MiB and {sizes[1]:.1f} MiB"


def open_for_training(folder: Path) -> str:
    from manifests.dataset import open_dataset

    started = time.perf_counter()
    with open_dataset(folder / "run") as dataset:
        rows = dataset.rows("train")
        num_classes = len(np.unique(dataset.labels[rows]))
        opened_s = time.perf_counter() - started
        return (
            f"{len(rows):,} rows, {num_classes} classes; {opened_s:.2f} s without imports; {_in_workers(dataset, rows)}"
        )


def _in_workers(dataset: Any, rows: Any) -> str:
    """What a forked process that reads frames has for itself, in MiB, and how long a read and a whole row take."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        chance = np.random.default_rng(0)
        chosen = chance.choice(rows, min(2000, len(rows)), replace=False).tolist()
        before = _private_mib()
        started = time.perf_counter()
        for row in chosen:
            dataset.read_frames(row, [0, NUM_FRAMES - 1])
        read_us = (time.perf_counter() - started) / len(chosen) * 1e6
        private = _private_mib()
        started = time.perf_counter()
        for row in chosen[:50]:
            dataset.video(row)
        video_ms = (time.perf_counter() - started) / 50 * 1e3
        started = time.perf_counter()
        for _ in range(50):
            dataset.video(chosen[49])
        again_ms = (time.perf_counter() - started) / 50 * 1e3
        text = (
            f"a worker that read {len(chosen):,} clips has {private:.0f} MiB of its own ({before:.0f} before); "
            f"{read_us:.0f} us a clip of 2 frames, {video_ms:.1f} ms a whole row, {again_ms:.2f} ms one nearby"
        )
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.wait()
    return text


def _private_mib() -> float:
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        sizes = dict(line.split(":") for line in file if line.count(":") == 1)
    return sum(int(sizes[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) / 1024


def plan_retry(folder: Path) -> str:
    """What `--retry failed` finds out before it decodes anything."""
    from manifests.sources import read_sources
    from prep.before import Before
    from prep.changes import Again, rows_to_redo
    from prep.plan import plan_again

    sources = read_sources(folder / "sources.parquet")
    with Before(folder / "run") as before:
        redo, _ = rows_to_redo(Again("failed"), folder, before.rows, sources, num_jobs=1, quiet=True)
        planned = plan_again(sources, before.rows, redo, "arrow")
        return f"{len(planned.kept):,} kept, {len(redo):,} again"


def quick_verify(folder: Path) -> str:
    from prep.verify import verify

    found = verify(folder / "run", deep=False, num_jobs=1)
    return f"{found.num_videos:,} videos, {len(found.problems)} problems"


def report(folder: Path) -> str:
    from prep.report import make_report

    return f"{make_report(folder / 'run').subsets['train'].num_videos:,} in train"


STEPS: dict[str, Callable[[Path], str]] = {
    "walk of the tree": tree_walk,
    "scan: tree and tables": scan,
    "scan, source list written": write_list,
    "source list read": read_list,
    "plan": plan,
    "resume check": resume_check,
    "manifest written": manifest_write,
    "opened for training": open_for_training,
    "plan of a retry": plan_retry,
    "verify, quick": quick_verify,
    "report": report,
}
AFTER_RUN = list(STEPS).index("resume check")


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Time, peak memory in MiB and what it found, of one step in a new process."""
    command = [sys.executable, __file__, "--step", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run_step(name: str, folder: Path) -> None:
    import pyarrow.parquet  # noqa: F401 - what every command has imported

    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    found = STEPS[name](folder)
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    print(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "peak_mib": _peak_mib(), "found": found}))


def _peak_mib() -> float:
    """Of this process; ru_maxrss would count that of its parent, from before the exec."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("num_videos", type=int, nargs="*")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--only", action="append", choices=STEPS, help="measure these steps only, on what is there")
    arguments = parser.parse_args()
    if arguments.step:
        run_step(arguments.step, arguments.folder)
        return
    for num_videos in arguments.num_videos:
        folder = arguments.folder / str(num_videos)
        if not folder.exists():
            draw_tree(folder, num_videos)
        for index, name in enumerate(STEPS):
            if arguments.only and name not in arguments.only:
                continue
            if index == AFTER_RUN and not (folder / "run").exists():
                draw_run(folder / "run", folder / "sources.parquet")
            got = measure(name, folder)
            took = f"{got['wall_s']:8.2f} s {got['cpu_s']:8.2f} s CPU {got['peak_mib']:6.0f} MiB"
            print(f"{num_videos:>8,}  {name:<26} {took}  {got['found']}", flush=True)


if __name__ == "__main__":
    main()
