"""Where clips come from: video, frame folder or Arrow shard, against the loader that everybody writes first.

PaddleVideo's tutorial on acceleration, on a machine with 8 V100: frames instead of video make the reader 4.79 times as
fast and a whole step 3.22 times.
"""

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import simplejpeg

from manifests.command import print_result, say
from manifests.dataset import Dataset, open_dataset
from manifests.errors import UsageError
from manifests.names import frame_file_name
from manifests.sources import read_sources
from manifests.stores import STORES
from manifests.table import table_lines
from manifests.wording import count
from train.bench import pil
from train.bench.clips import BATCH_SIZE, Clips, Recorded, Recorder, Stream
from train.bench.cold import measure_cold
from train.bench.data import MAX_VIDEOS, Data, measured_data
from train.bench.interleaved import Samples, measure
from train.bench.machine import machine_line, recipe_of, require_seconds
from train.bench.step import to_device, training_step
from train.device import set_cpu_threads
from train.memory import keep_freed_memory
from train.recipe import TrainRecipe
from train.videos import DECODERS, Videos, open_videos

_MIN_ROUNDS = 3
_COLD_SHARE = 0.2

_PIL, _LIMIT, _NORMALISE, _STEP = "Pillow and NumPy", "libjpeg-turbo alone", "normalise", "step"


def run(arguments: argparse.Namespace) -> int:
    require_seconds(arguments.seconds)
    recipe = recipe_of(arguments)
    set_cpu_threads(1)
    keep_freed_memory()
    with measured_data(arguments.data, STORES) as data:
        say(arguments, f"measuring on {data.note}, for about {arguments.seconds:g} s")
        steps, notes = _steps(data, recipe)
        samples = measure(steps, (1 - _COLD_SHARE) * arguments.seconds, _MIN_ROUNDS)
        rows = _rows(samples)
        cold = measure_cold(data.folders, recipe, _COLD_SHARE * arguments.seconds)
    table = {
        "machine": machine_line(),
        "data": data.note,
        "batch": BATCH_SIZE,
        "num_frames": recipe.clip.num_frames,
        "crop_px": recipe.clip.crop_px,
        "model": recipe.model.name,
        "normalise_s": samples[_NORMALISE].median_s,
        "step_s": samples[_STEP].median_s,
        "rows": rows,
        "cold": cold,
        "notes": notes,
    }
    print_result(arguments, table, [*_lines(table), *notes])
    return 0


# --- Warm ---


def _steps(data: Data, recipe: TrainRecipe) -> tuple[dict[str, Callable[[], None]], list[str]]:
    """What is measured, by name: each reads the next batch of its own, of the videos that all can read. And what is
    left out, and why. Raises UsageError where there is no such video."""
    videos, notes = _videos(data)
    common, left_out = common_videos(data, videos, recipe)
    if left_out:
        notes.append(f"without {count(len(left_out), 'video')} that not all rows can read: {', '.join(left_out)}")
    steps: dict[str, Callable[[], None]] = {}
    for store, folder in data.folders.items():
        steps[store] = _reading(Stream(Clips(folder, recipe, common), recipe))
        steps[f"{store}, half the crop"] = _reading(
            Stream(Clips(folder, recipe, common), recipe, max(16, recipe.clip.crop_px // 2))
        )
    store, folder = next(reversed(data.folders.items()))  # frame folders, where there are both
    steps[_PIL] = _plain(folder, recipe, common)
    steps[_LIMIT] = _limit(folder, recipe, common)
    for decoder, opened in videos.items():
        steps[f"video, {decoder}"] = _reading(Stream(Clips(opened, recipe, common), recipe))
    clips = np.stack(Stream(Clips(folder, recipe, common), recipe).read(BATCH_SIZE))
    tensor = paddle.to_tensor(clips, place=paddle.CPUPlace())
    before, whole = to_device(recipe), training_step(recipe)
    steps[_NORMALISE] = lambda: before(tensor)
    steps[_STEP] = lambda: whole(tensor)
    return steps, notes


def _videos(data: Data) -> tuple[dict[str, Videos], list[str]]:
    """The videos by each decoder that is there, and what is to be said of them."""
    if data.sources is None:
        return {}, ["no videos: give a source list or a folder of videos for the rows of videos, and of both stores"]
    source_list = read_sources(data.sources)
    videos, notes = {}, []
    for decoder in DECODERS:
        try:
            videos[decoder] = open_videos(data.sources, source_list, decoder, ["all"], num_threads=1, quiet=True)
            notes.append(videos[decoder].summary())
        except UsageError as error:
            notes.append(f"without video, {decoder}: {error}")
    return videos, notes


def common_videos(data: Data, videos: Mapping[str, Videos], recipe: TrainRecipe) -> tuple[set[str], list[str]]:
    """The video_ids that all can read, and those that some can. A decoder that can read none is an error."""
    ids = [set(Clips(opened, recipe).video_ids()) for opened in (*data.folders.values(), *videos.values())]
    common = set.intersection(*ids)
    if not common:
        raise UsageError(f"no video of {data.note} can be read by every decoder")
    return common, sorted(set.union(*ids) - common)


def _reading(stream: Stream) -> Callable[[], None]:
    def read() -> None:
        stream.read(BATCH_SIZE)

    return read


def _plain(folder: Path, recipe: TrainRecipe, video_ids: Collection[str]) -> Callable[[], None]:
    """The same frames by `pil.read_clip`: from the files of frame folders, or from the bytes of shards."""
    dataset, recorder = open_dataset(folder), Recorder(folder, recipe, video_ids)
    stream, rng = Stream(recorder, recipe), np.random.default_rng(recipe.run.seed)

    def read() -> None:
        for item in stream.next_items(BATCH_SIZE):
            row, numbers = recorder.frames_of(item)
            frames: Sequence[Path | bytes] = _files(dataset, row, numbers) or dataset.read_frames(row, numbers)
            pil.read_clip(frames, item.crop_px, rng, flips=recipe.clip.flips, normalise=recipe.normalisation)

    return read


def _files(dataset: Dataset, row: int, numbers: Sequence[int]) -> list[Path]:
    video = dataset.video(row)
    if video["row"] >= 0:
        return []
    return [dataset.folder / video["location"] / frame_file_name(number) for number in numbers]


def _limit(folder: Path, recipe: TrainRecipe, video_ids: Collection[str]) -> Callable[[], None]:
    """All that a loader of JPEG cannot do without: the pixels of the same frames, or of those of MAX_VIDEOS clips, in
    full size, from memory."""
    recorder = Recorder(folder, recipe, video_ids)
    stream = Stream(recorder, recipe)
    num_clips = max(BATCH_SIZE, min(len(recorder), MAX_VIDEOS))
    recorded: list[Recorded] = [recorder.record(item) for item in stream.next_items(num_clips)]
    jpegs = [jpeg for clip in recorded for jpeg in clip.jpegs]
    num_frames = sum(len(clip.jpegs) for clip in recorded) * BATCH_SIZE // len(recorded)
    place = 0

    def decode() -> None:
        nonlocal place
        for _ in range(num_frames):
            simplejpeg.decode_jpeg(jpegs[place % len(jpegs)])
            place += 1

    return decode


def _rows(samples: dict[str, Samples]) -> list[dict[str, Any]]:
    normalise_s, step_s = samples[_NORMALISE].median_s, samples[_STEP].median_s
    videos = [name for name in samples if name.startswith("video")]
    best = min(videos, key=lambda name: samples[name].median_s, default=None)
    rows = []
    for name in [_LIMIT, _PIL, *videos, *(name for name in samples if name.startswith(STORES))]:
        reader_s = samples[name].median_s
        after_s = {_LIMIT: 0.0, _PIL: step_s - normalise_s}.get(name, step_s)
        ready_s = reader_s + (0.0 if name in (_PIL, _LIMIT) else normalise_s)
        row = {
            "row": name,
            "reader_s": reader_s,
            "ready_s": ready_s,
            "batch_s": None if name == _LIMIT else reader_s + after_s,
            "clips_per_s": BATCH_SIZE / ready_s,
            "of_the_limit": samples[_LIMIT].median_s / reader_s,
        }
        rows.append({**row, "num_rounds": len(samples[name].seconds)})
    by_name = {row["row"]: row for row in rows}
    for row in rows:
        row["x_pil_reader"] = by_name[_PIL]["reader_s"] / row["reader_s"]
        row["x_pil"] = by_name[_PIL]["ready_s"] / row["ready_s"]
        row["x_video_reader"] = by_name[best]["reader_s"] / row["reader_s"] if best else None
        row["x_video_batch"] = by_name[best]["batch_s"] / row["batch_s"] if best and row["batch_s"] else None
    return rows


# --- Text ---


def _lines(table: dict[str, Any]) -> list[str]:
    head = ["one process", "reader", "of the limit", "x Pillow", "normalised", "clips/s", "x Pillow", "with a step"]
    head += ["x video: reader", "with a step"]
    rows = []
    for row in table["rows"]:
        is_limit = row["row"] == _LIMIT
        rows.append(
            [
                row["row"],
                f"{row['reader_s'] * 1000:.1f} ms",
                f"{row['of_the_limit']:.0%}",
                "-" if is_limit else f"{row['x_pil_reader']:.2f}",
                "-" if is_limit else f"{row['ready_s'] * 1000:.1f} ms",
                f"{row['clips_per_s']:.0f}",
                "-" if is_limit else f"{row['x_pil']:.2f}",
                "-" if row["batch_s"] is None else f"{row['batch_s'] * 1000:.0f} ms",
                "-" if row["x_video_reader"] is None or is_limit else f"{row['x_video_reader']:.2f}",
                "-" if row["x_video_batch"] is None else f"{row['x_video_batch']:.2f}",
            ]
        )
    cold_head = ["reading alone", "warm clips/s", "cold clips/s", "from disk / wanted", "files"]
    cold = [
        [
            row["store"],
            f"{row['warm_clips_per_s']:,.0f}",
            "-" if row["cold_clips_per_s"] is None else f"{row['cold_clips_per_s']:,.0f}",
            "-" if row["read_amplification"] is None else f"{row['read_amplification']:.2f}",
            f"{row['num_files']:,}",
        ]
        for row in table["cold"]
    ]
    unable = [
        f"{row['store']}: no cold reading: the page cache could not be dropped "
        f"({row['share_kept_in_memory']:.0%} of the files stay in memory)"
        for row in table["cold"]
        if not row["is_cold"]
    ]
    return [
        table["machine"],
        f"{table['data']}; batches of {count(table['batch'], 'clip')} of {table['num_frames']} frames, "
        f"{table['crop_px']} px; medians of rounds in turn",
        f"a step is one of {table['model']}: {table['step_s'] * 1000:.0f} ms, of which normalisation "
        f"{table['normalise_s'] * 1000:.1f} ms",
        "",
        *table_lines(head, rows),
        "",
        *table_lines(cold_head, cold),
        *unable,
        "",
    ]
