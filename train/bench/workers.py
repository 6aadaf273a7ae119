"""Clips a second by the number of data workers, in a process that also moves them to the device and normalises them.

PaddleVideo's tutorial on acceleration: 4 workers instead of none make the reader 3.04 times as fast.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from manifests.command import print_result, say
from manifests.errors import UsageError
from manifests.machine import usable_processors
from manifests.table import table_lines
from manifests.wording import count
from train.bench.clips import BATCH_SIZE, Clips, Stream
from train.bench.data import measured_data
from train.bench.machine import machine_line, recipe_of, require_seconds
from train.bench.step import to_device
from train.device import set_cpu_threads
from train.loader import Loader
from train.memory import keep_freed_memory
from train.recipe import TrainRecipe
from train.slots import BATCHES_PER_WORKER

_LONGEST_TURN_S = 1.0
"""About so long at most is each number of workers measured before the next one's turn."""

_MIN_ROUNDS = 3


def run(arguments: argparse.Namespace) -> int:
    require_seconds(arguments.seconds)
    recipe = recipe_of(arguments)
    numbers = _numbers(arguments.workers)
    set_cpu_threads(1)
    keep_freed_memory()  # as train fit does
    with measured_data(arguments.data, ("arrow",)) as data:
        (store,) = data.folders
        say(arguments, f"measuring on {data.note}, for about {arguments.seconds:g} s")
        rates = measure_workers(data.folders[store], recipe, numbers, arguments.seconds)
    medians = {number: statistics.median(rates[number]) for number in numbers}
    baseline = medians[numbers[0]]
    rows = [
        {
            "num_workers": number,
            "clips_per_s": medians[number],
            "x_first": medians[number] / baseline,
            "num_rounds": len(rates[number]),
        }
        for number in numbers
    ]
    table = {
        "machine": machine_line(),
        "data": data.note,
        "store": store,
        "batch": BATCH_SIZE,
        "num_frames": recipe.clip.num_frames,
        "crop_px": recipe.clip.crop_px,
        "rows": rows,
    }
    cells = [[str(row["num_workers"]), f"{row['clips_per_s']:.0f}", f"{row['x_first']:.2f}"] for row in rows]
    lines = [
        table["machine"],
        f"{data.note}; {store}; batches of {count(BATCH_SIZE, 'clip')} of {recipe.clip.num_frames} frames, "
        f"{recipe.clip.crop_px} px, normalised in the training process; medians of rounds in turn",
        "",
        *table_lines(["workers", "clips/s", f"x {numbers[0]} workers"], cells),
    ]
    print_result(arguments, table, lines)
    return 0


def _numbers(text: str | None) -> list[int]:
    """Of --workers; by default 0, 1, 2, 4, ... up to twice the processors, but 2 at least. Raises UsageError."""
    if text is None:
        most = 2 * usable_processors().count
        return [0, *(2**power for power in range(most.bit_length()) if 2**power <= most)]
    try:
        numbers = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise UsageError(f"--workers is a number or some with commas between, such as 0,1,2, not {text!r}") from None
    if not 0 <= numbers[0] <= numbers[-1] <= 1024:
        raise UsageError(f"--workers are in [0, 1024], not {text}")
    return numbers


def measure_workers(folder: Path, recipe: TrainRecipe, numbers: list[int], budget_s: float) -> dict[int, list[float]]:
    """Clips a second of each round by number of workers, which stay from round to round, asleep while others are
    measured. What is read ahead before the clock runs is read ahead when it stops."""
    dataset = Clips(folder, recipe)
    use = to_device(recipe)
    rates: dict[int, list[float]] = {number: [] for number in numbers}
    with ExitStack() as stack:
        loaders = {
            number: stack.enter_context(Loader([dataset], num_workers=number, timeout_s=recipe.loader.timeout_s))
            for number in numbers
        }
        streams = {number: Stream(dataset, recipe) for number in numbers}
        lengths = dict.fromkeys(numbers, 4)  # of a turn, in batches
        turn_s = min(_LONGEST_TURN_S, budget_s / (len(numbers) * (_MIN_ROUNDS + 1)))
        started_s = time.monotonic()
        while time.monotonic() - started_s < budget_s or len(rates[numbers[-1]]) < _MIN_ROUNDS + 1:
            for number in _turned(numbers, len(rates[numbers[0]])):
                num_ahead = BATCHES_PER_WORKER * number
                batches = streams[number].next_batches(2 * num_ahead + lengths[number], BATCH_SIZE)
                arrivals_s = list(_arrivals(loaders[number].batches(dataset, batches), use))
                # From when the pipe has filled until the last batch is asked for: it is full at both ends.
                first, last = num_ahead, len(batches) - num_ahead - 1
                seconds = arrivals_s[last] - arrivals_s[first]
                rates[number].append((last - first) * BATCH_SIZE / seconds)
                lengths[number] = max(4, min(200, round(turn_s / seconds * (last - first)) + 1))
    return {number: found[1:] for number, found in rates.items()}  # the first is to warm up


def _arrivals(batches: Iterator[Any], use: Any) -> Iterator[float]:
    """When each batch had been used."""
    for batch in batches:
        use(batch.clips_NTHWC)
        yield time.perf_counter()


def _turned(numbers: list[int], by: int) -> list[int]:
    return [numbers[(place + by) % len(numbers)] for place in range(len(numbers))]
