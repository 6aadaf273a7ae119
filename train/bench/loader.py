"""What each stage of the data path can give alone, which one is the bottleneck, and how many data workers to take.

Stages run in one process on the same recorded clips, in turn. A data worker does those of reading one after the other,
the training process those of training.

Arrays: frame_HWC, clip_THWC, batch_NTHWC uint8.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import paddle
from paddle.utils import dlpack

from manifests.command import print_result, say
from manifests.dataset import Dataset, open_dataset
from manifests.machine import format_bytes, usable_processors
from manifests.table import table_lines
from manifests.wording import count
from train.bench.clips import BATCH_SIZE, Clips, Recorded, Recorder, Stream, read_clip
from train.bench.cold import measure_cold
from train.bench.data import measured_data
from train.bench.interleaved import Samples, is_on_gpu, measure
from train.bench.machine import machine_line, recipe_of, require_seconds
from train.bench.step import to_device, training_step
from train.bench.workers import measure_workers
from train.device import set_cpu_threads
from train.memory import keep_freed_memory
from train.recipe import TrainRecipe
from train.slots import Slots, num_slots
from train.transforms.decode import Pixels, decode, frame_size, take

_MIN_ROUNDS = 3
_COLD_SHARE, _WORKERS_SHARE = 0.1, 0.3

READING = {
    "read": "read the JPEGs (from memory)",
    "decode": "decode them",
    "transform": "cut, scale, mirror",
    "share": "copy into shared memory",
}
TRAINING = {
    "collate": "make a tensor of the batch",
    "device": "to the device, normalise",
    "step": "forward, backward, update",
}
WHOLE = "clip"
"""All of the reading at once, as a worker does it, with drawing and augmentation."""


def run(arguments: argparse.Namespace) -> int:
    require_seconds(arguments.seconds)
    recipe = recipe_of(arguments)
    set_cpu_threads(1)
    with measured_data(arguments.data, ("arrow",)) as data:
        ((store, folder),) = data.folders.items()
        say(arguments, f"measuring on {data.note}, for about {arguments.seconds:g} s")
        with open_dataset(folder) as dataset, Slots(1) as slots:
            steps = stages(dataset, Recorder(folder, recipe), recipe, slots)
            samples = measure(steps, (1 - _COLD_SHARE - _WORKERS_SHARE) * arguments.seconds, _MIN_ROUNDS)
        clip_s = clip_seconds(samples)
        advice = recommend(clip_s, usable_processors().count, is_gpu=is_on_gpu())
        (cold,) = measure_cold(data.folders, recipe, _COLD_SHARE * arguments.seconds)
        number = advice["num_workers"]
        (rates,) = measure_workers(folder, recipe, [number], _WORKERS_SHARE * arguments.seconds).values()
    table = {
        "machine": machine_line(),
        "data": data.note,
        "store": store,
        "batch": BATCH_SIZE,
        "model": recipe.model.name,
        "clip_s": clip_s,
        "cold": cold,
        **advice,
        "loader_clips_per_s": float(np.median(rates)),
        "shared_memory_bytes": num_slots(number) * recipe.largest_batch_bytes,
    }
    print_result(arguments, table, _lines(table, recipe))
    return 0


def stages(dataset: Dataset, recorder: Recorder, recipe: TrainRecipe, slots: Slots) -> dict[str, Callable[[], None]]:
    """Each stage on the same BATCH_SIZE clips, by name."""
    keep_freed_memory()
    plain = Clips(recorder.folder, recipe)
    stream = Stream(recorder, recipe)
    items = stream.next_items(BATCH_SIZE)
    clips = [recorder.record(item) for item in items]
    frames = [[frame_HWC.copy() for frame_HWC in _decoded(clip)] for clip in clips]
    shape = (BATCH_SIZE, *clips[0].sample.clip_THWC.shape)
    slots.make_room(0, int(np.prod(shape)))
    batch_NTHWC = slots.array(0, shape)  # type: ignore[arg-type]
    before, whole = to_device(recipe), training_step(recipe)
    tensor = paddle.to_tensor(np.stack([clip.sample.clip_THWC for clip in clips]), place=paddle.CPUPlace())

    def read() -> None:
        for clip in clips:
            dataset.read_frames(clip.row, clip.numbers)

    def decode_all() -> None:
        for clip in clips:
            for _ in _decoded(clip):
                pass

    def transform() -> None:
        for clip, frames_of_clip in zip(clips, frames, strict=True):
            clip_THWC = np.empty((len(frames_of_clip), clip.plan.height, clip.plan.width, 3), np.uint8)
            for frame_HWC, out_HWC in zip(frames_of_clip, clip_THWC, strict=True):
                take(frame_HWC, clip.scale, clip.plan, out_HWC)

    def share() -> None:
        for place, clip in enumerate(clips):
            batch_NTHWC[place] = clip.sample.clip_THWC

    def read_whole() -> None:
        for item in items:
            read_clip(plain, item)

    def collate() -> None:
        dlpack.from_dlpack(batch_NTHWC.__dlpack__())

    return {
        "read": read,
        "decode": decode_all,
        "transform": transform,
        "share": share,
        WHOLE: read_whole,
        "collate": collate,
        "device": lambda: before(tensor),
        "step": lambda: whole(tensor),
    }


def _decoded(clip: Recorded) -> Iterator[Pixels]:
    """frame_HWC of each JPEG, each in the place of the one before, as the transforms have it."""
    size = frame_size(clip.jpegs[0])
    buffer = np.empty(3 * size[0] * size[1], np.uint8)
    for jpeg in clip.jpegs:
        yield decode(jpeg, size, clip.scale, buffer)


def clip_seconds(samples: dict[str, Samples]) -> dict[str, float]:
    """Of each stage, and of WHOLE, for one clip. `draw`, for drawing and augmentation, is what the stages leave."""
    seconds = {name: found.median_s / BATCH_SIZE for name, found in samples.items()}
    seconds["step"] = max(0.0, seconds["step"] - seconds["device"])  # which is part of it
    seconds["draw"] = max(0.0, seconds[WHOLE] - sum(seconds[name] for name in ("read", "decode", "transform")))
    return seconds


def recommend(clip_s: dict[str, float], num_processors: int, *, is_gpu: bool) -> dict[str, Any]:
    """How many data workers to take, and what the bottleneck is then.

    The training process takes a processor (on a CPU, one of its own for each clip that it computes); workers are of use
    until the reader keeps up with it, and as long as there are processors.
    """
    reader_s = clip_s[WHOLE] + clip_s["share"]
    training_s = sum(clip_s[name] for name in TRAINING)
    num_wanted = max(1, math.ceil(reader_s / training_s))
    num_workers = min(num_wanted, max(1, num_processors - (0 if is_gpu else 1)))
    rates = {"reader": num_workers / reader_s, "training": 1 / training_s}
    stages = READING if rates["reader"] < rates["training"] else TRAINING
    bottleneck = max(stages, key=lambda name: clip_s[name])
    return {
        "num_workers": num_workers,
        "num_wanted": num_wanted,
        "expected_clips_per_s": min(rates.values()),
        "bottleneck": bottleneck,
        "bottleneck_is_in": "reader" if stages is READING else "training",
    }


def _lines(table: dict[str, Any], recipe: TrainRecipe) -> list[str]:
    clip_s, cold = table["clip_s"], table["cold"]
    reader_s = clip_s[WHOLE] + clip_s["share"]
    rows = [_cells(READING[name], clip_s[name]) for name in READING]
    rows.insert(1, ["read the JPEGs (from disk)", "-", "-"])
    if cold["cold_clips_per_s"] is not None:
        rows[1] = _cells("read the JPEGs (from disk)", 1 / cold["cold_clips_per_s"])
    rows.append(_cells("draw, augment, and what is between", clip_s["draw"]))
    rows.append(_cells("a data worker, all of this from memory", reader_s))
    rows += [_cells(TRAINING[name], clip_s[name]) for name in TRAINING]
    training_s = sum(clip_s[name] for name in TRAINING)
    rows.append(_cells("the training process, all of this", training_s))
    stage = {**READING, **TRAINING}[table["bottleneck"]]
    where = "the data workers" if table["bottleneck_is_in"] == "reader" else "the training process"
    more = f" ({table['num_wanted']} would be used, if there were processors)"
    return [
        table["machine"],
        f"{table['data']}; {table['store']}; clips of {recipe.clip.num_frames} frames, {recipe.clip.crop_px} px; "
        f"{table['model']}; one thread; medians of rounds in turn",
        "",
        *table_lines(["stage alone", "ms/clip", "clips/s"], rows),
        "",
        f"bottleneck: {where}, above all: {stage}",
        f"take {count(table['num_workers'], 'data worker')}"
        + (more if table["num_wanted"] > table["num_workers"] else "")
        + f": loader.num_workers={table['num_workers']}; at most {table['expected_clips_per_s']:.0f} clips/s",
        f"the loader with so many, without the step: {table['loader_clips_per_s']:.0f} clips/s; shared memory for its "
        f"batches: {format_bytes(table['shared_memory_bytes'])}",
    ]


def _cells(stage: str, seconds: float) -> list[str]:
    return [stage, f"{seconds * 1000:.2f}", f"{1 / max(seconds, 1e-9):,.0f}"]
