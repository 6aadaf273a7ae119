"""A clip straight from a video: what each decoder takes for it, and whether the frames were the right ones.

PaddleVideo's tutorial on acceleration: decord 1.52 times as fast as OpenCV. Two rows do as the tutorial's readers do
(prep.bench.sampled): frames evenly spread, scaled to a short side of 256, cropped to 224; OpenCV reads on to the last
one, decord is asked for them by number, and both believe the header. The others are what `train fit` does with videos:
counted before, and reached by number only where some tries were right; their crop and size are those of the recipe.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from manifests.command import print_result, say
from manifests.errors import DamagedError, UsageError
from manifests.sources import SourceList, read_sources
from manifests.table import table_lines
from manifests.wording import count
from train.bench.clips import read_clip
from train.bench.data import measured_data
from train.bench.interleaved import Samples, measure
from train.bench.machine import machine_line, recipe_of, require_seconds
from train.dataset import ClipDataset
from train.recipe import TrainRecipe
from train.sampler import Item
from train.videos import DECODERS, Videos, num_wrong, open_videos, read_plainly

_MIN_ROUNDS = 2
_PLAIN = {"opencv, read on to the last": "opencv", "decord, by number": "decord"}
_BASELINE = next(iter(_PLAIN))


@dataclass(frozen=True)
class _Try:
    """A row on a video: how to do it again, and how many of the frames asked for were others."""

    again: Callable[[], object]
    num_asked: int
    num_wrong: int


def run(arguments: argparse.Namespace) -> int:
    require_seconds(arguments.seconds)
    recipe = recipe_of(arguments)
    with measured_data(arguments.data, ()) as data:
        if data.sources is None:
            raise UsageError(
                f"{data.note} is a prepared dataset, and this table is of videos: give a list or a folder of them"
            )
        say(arguments, f"measuring on {data.note}, for about {arguments.seconds:g} s")
        source_list = read_sources(data.sources)
        ours, notes = {}, []
        for decoder in DECODERS:
            try:
                videos = open_videos(data.sources, source_list, decoder, ["all"], num_threads=1, quiet=True)
                ours[f"{decoder}, as train fit"] = _try_on_the_fly(source_list, videos, recipe)
                notes.append(videos.summary())
                if num_turned := int((videos.is_ok & ~videos.is_upright).sum()):
                    notes.append(
                        f"{decoder}: without {count(num_turned, 'video')} that are to be turned or mirrored: what the "
                        "frames are compared with is not"
                    )
            except UsageError as error:
                notes.append(f"without {decoder}: {error}")
        # The others may say a lot of videos that nobody can read.
        readable = {video_id for row in ours.values() for video_id in row}
        tried = {**_try_plain(source_list, readable, recipe.clip.num_frames, notes), **ours}
        common = [
            source.video_id for source in source_list.sources if all(source.video_id in row for row in tried.values())
        ]
        if not common or not tried:
            raise UsageError(f"no video of {arguments.data} can be read by every decoder: {'; '.join(notes)}")
        steps = {f"{row}: {video}": tried[row][video].again for row in tried for video in common}
        samples = measure(steps, arguments.seconds, _MIN_ROUNDS)
    rows = [_row(name, tried, common, samples) for name in tried]
    table = {
        "machine": machine_line(),
        "data": data.note,
        "num_frames": recipe.clip.num_frames,
        "videos": common,
        "rows": rows,
        "notes": notes,
    }
    lines = [
        table["machine"],
        f"{recipe.clip.num_frames} frames for a clip; one thread; ms are medians of rounds in turn, over the "
        f"{count(len(common), 'video')} of {len(source_list.sources)} that every row has, frames of all",
        "",
        *table_lines(
            ["", "ms/clip", f"x {_BASELINE.partition(',')[0]}", "right frames", "videos"], list(map(_cells, rows))
        ),
        "",
        *notes,
    ]
    print_result(arguments, table, lines)
    return 0


def _try_plain(
    source_list: SourceList, readable: set[str], num_frames: int, notes: list[str]
) -> dict[str, dict[str, _Try]]:
    """The tutorial's readers on each video that they can read, by row and video_id; `notes` gets why not on others."""
    tried: dict[str, dict[str, _Try]] = {}
    for name, decoder in _PLAIN.items():
        for source in source_list.sources:
            if source.video_id not in readable:
                continue
            path = source_list.path_of(source)
            try:
                asked, pictures = read_plainly(decoder, path, num_frames)
                found = _Try(
                    partial(read_plainly, decoder, path, num_frames), len(asked), num_wrong(path, asked, pictures)
                )
                tried.setdefault(name, {})[source.video_id] = found
            except UsageError as error:
                notes.append(f"without {name}: {error}")
                break
            except DamagedError as error:
                notes.append(f"{name}: {error}")
    return tried


def _try_on_the_fly(source_list: SourceList, videos: Videos, recipe: TrainRecipe) -> dict[str, _Try]:
    """What `train fit` would do, on each video that lies upright: the reference is not turned."""
    dataset = ClipDataset(videos, "all", recipe, training=False)
    paths = {source.video_id: source_list.path_of(source) for source in source_list.sources}
    tried = {}
    for index in range(len(dataset)):
        item = Item(index, recipe.clip.num_frames, recipe.clip.crop_px, 0)
        row, numbers = dataset.frames_of(item)
        if not videos.is_upright[row]:
            continue
        video_id = dataset.video_id(index)
        wrong = num_wrong(paths[video_id], numbers, videos.read_frames(row, numbers))
        tried[video_id] = _Try(partial(read_clip, dataset, item), len(numbers), wrong)
    return tried


def _row(
    name: str, tried: dict[str, dict[str, _Try]], common: list[str], samples: dict[str, Samples]
) -> dict[str, Any]:
    def seconds(row: str) -> float:
        return sum(samples[f"{row}: {video}"].median_s for video in common) / len(common)

    return {
        "row": name,
        "clip_s": seconds(name),
        "x_opencv": seconds(_BASELINE) / seconds(name) if _BASELINE in tried else None,
        "num_videos": len(tried[name]),
        "num_asked": sum(found.num_asked for found in tried[name].values()),
        "num_wrong": sum(found.num_wrong for found in tried[name].values()),
        "wrong": {video: found.num_wrong for video, found in tried[name].items() if found.num_wrong},
        "num_rounds": min(len(samples[f"{name}: {video}"].seconds) for video in common),
    }


def _cells(row: dict[str, Any]) -> list[str]:
    times = "-" if row["x_opencv"] is None else f"{row['x_opencv']:.2f}"
    right = f"{row['num_asked'] - row['num_wrong']:,} of {row['num_asked']:,}"
    return [row["row"], f"{row['clip_s'] * 1000:.1f}", times, right, str(row["num_videos"])]
