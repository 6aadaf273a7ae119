"""All rows in turn, round after round, so that whatever else the machine does falls on all alike.

In a round each video goes through all steps before the next one does, in another order each time; then come the whole
extractions, of all videos several times over. The start of an extraction (processes, imports, the dataset's own files)
is measured beside it, on a clip of two tiny pictures a process, and left out.
"""

import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from manifests.errors import Interrupted, TooManyFailedError, UsageError
from manifests.records import Source
from manifests.sources import SourceList
from manifests.wording import count, quote
from prep.bench.clips import draw_tiny, repeated, temporary_folder
from prep.bench.process import Meters
from prep.bench.rows import Row
from prep.bench.steps import Clock, Sample, Task
from prep.budget import parse_budget
from prep.extract import Request, extract
from prep.recipe import ExtractRecipe, Store
from prep.sample import choose_rows as choose_videos

NUM_ROUNDS = 3
"""So many are planned for; where time runs out there are fewer, but one."""

_MAX_VIDEOS = 12
_NUM_COPIES = 4
"""Whole extractions take the videos so many times over, so that the last one, for which a process may wait alone, is a
small part."""

_START_S = 1.0
"""About what the start of an extraction takes, for the plan only."""

_LEAST_S = 0.1
"""So much of extracting is measured, however short the time."""

_LEAST_SHARE = 0.1
"""An extraction that takes less than this share of its start more than that is lost in its noise."""

_STEP_SHARE = 0.7
"""The time of such a row in a round, in those of one extraction: most steps are shorter."""

WHOLE = "-"
"""The samples of an extraction are of all videos together."""


@dataclass(frozen=True)
class Measured:
    """`samples` of each row by video_id, one a round (failed ones are left out); `failures` of each row by video_id.
    `num_frames` are those of each video. `seconds` is what all of it took."""

    num_frames: dict[str, int]
    samples: dict[Row, dict[str, list[Sample]]] = field(default_factory=dict)
    failures: dict[Row, dict[str, str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    num_rounds: int = 0
    seconds: float = 0.0

    def add(self, row: Row, video_id: str, sample: Sample) -> None:
        if sample.failure is not None:
            self.failures.setdefault(row, {})[video_id] = sample.failure
            self.samples.get(row, {}).pop(video_id, None)
        elif video_id not in self.failures.get(row, {}):
            self.samples.setdefault(row, {}).setdefault(video_id, []).append(sample)


@dataclass(frozen=True)
class _Bench:
    sources: SourceList
    recipe: ExtractRecipe
    folder: Path
    meters: Meters

    def step(self, row: Row, source: Source) -> Sample:
        recipe = replace(self.recipe, decoder=row.decoder or self.recipe.decoder)
        folder = self.folder / "steps"
        folder.mkdir(exist_ok=True)
        path = self.sources.path_of(source)
        task = Task(step=row.step, decoder=row.decoder, path=path, recipe=recipe, folder=folder)
        return self.meters.measure(task, row.num_jobs)

    def extraction(self, row: Row, sources: SourceList) -> Sample:
        """The whole extraction of `sources`, its processes included. Fails where no video is ok."""
        store = Store(format=row.store or "arrow", videos_per_shard=self.recipe.store.videos_per_shard)
        out = Path(tempfile.mkdtemp(dir=self.folder)) / "out"
        request = Request(
            sources=sources,
            recipe=replace(self.recipe, decoder=row.decoder, store=store),
            out=out,
            num_jobs=row.num_jobs,
            again=None,
            budget=parse_budget(None),
            quiet=True,
            force=False,
        )
        clock, before_s = Clock(), _children_s()
        try:
            with clock:
                description = extract(request).description
        except TooManyFailedError as error:
            return Sample(failure=str(error))
        finally:
            if row.store != "frames":  # see prep.bench.steps.Task
                shutil.rmtree(out, ignore_errors=True)
        return Sample(
            num_frames=description.num_frames,
            num_bytes=description.num_bytes,
            cpu_s=clock.cpu_s + _children_s() - before_s,
            wall_s=clock.wall_s,
        )


def measure(sources: SourceList, recipe: ExtractRecipe, rows: Sequence[Row], seconds: float) -> Measured:
    """Measure `rows` on so many of the videos that NUM_ROUNDS rounds take about `seconds`, and more rounds if they fit.

    Raises UsageError where no video can be extracted, StoreError where the temporary folder cannot be written,
    Interrupted after a signal.
    """
    started_s = time.monotonic()
    with temporary_folder() as folder, Meters() as meters, _interrupted():
        bench = _Bench(sources, recipe, folder, meters)
        chosen, measured = _choose(bench, rows, seconds)
        tiny = draw_tiny(folder / "tiny", max(row.num_jobs for row in rows))
        for row in rows:  # libraries are loaded and files read before anything counts
            if row.store is None:
                bench.step(row, chosen[0])
        num_rounds = 0
        round_s = 0.0
        while num_rounds == 0 or time.monotonic() - started_s + round_s < seconds:
            round_started_s = time.monotonic()
            _round(bench, measured, rows, chosen, tiny, num_rounds)
            num_rounds += 1
            round_s = time.monotonic() - round_started_s
    return replace(measured, num_rounds=num_rounds, seconds=time.monotonic() - started_s)


def _choose(bench: _Bench, rows: Sequence[Row], seconds: float) -> tuple[list[Source], Measured]:
    """The videos to measure: spread over their sizes, and no more than the time allows."""
    candidates = [row for row, source in enumerate(bench.sources.sources) if source.status is None]
    extraction = next(row for row in rows if row.step == "discard")
    factor = sum(row.num_jobs * (_NUM_COPIES / row.num_jobs if row.store else _STEP_SHARE) for row in rows)
    chosen: list[Source] = []
    measured = Measured({})
    num_starts = len([row for row in rows if row.store]) + len(_by_start(rows))
    left_s = max(_LEAST_S, (seconds / NUM_ROUNDS - num_starts * _START_S) / factor)
    indices = list(choose_videos(bench.sources, candidates, _MAX_VIDEOS))
    for number, index in enumerate([*indices[:1], *indices]):
        source = bench.sources.sources[index]
        sample = bench.step(Row("discard", extraction.decoder), source)
        if number == 0:
            continue  # that was to load the libraries
        if sample.failure is not None:
            measured.left_out[source.video_id] = sample.failure
        elif chosen and sample.wall_s > left_s:
            measured.left_out[source.video_id] = "there is no time for it: give more --seconds"
        else:
            left_s -= sample.wall_s
            measured.num_frames[source.video_id] = sample.num_frames
            chosen.append(source)
    if not chosen:
        reason = next(iter(measured.left_out.items()), None)
        words = f"; {quote(reason[0])}: {reason[1]}" if reason else ""
        videos = count(len(measured.left_out), "video")
        raise UsageError(f"none of {videos} tried in {bench.sources.root} can be extracted{words}")
    return chosen, measured


def _round(
    bench: _Bench, measured: Measured, rows: Sequence[Row], chosen: Sequence[Source], tiny: SourceList, number: int
) -> None:
    steps = [row for row in rows if row.store is None]
    extractions = [row for row in rows if row.store is not None]
    for position, source in enumerate(chosen):
        for row in _turned(steps, number + position):
            measured.add(row, source.video_id, bench.step(row, source))
    starts = {}
    for (decoder, num_jobs), row in _by_start(extractions).items():
        starts[decoder, num_jobs] = bench.extraction(row, replace(tiny, sources=tiny.sources[:num_jobs]))
    for row in _turned(extractions, number):
        failed = measured.failures.get(Row("discard", row.decoder, row.num_jobs), {})
        possible = [source for source in chosen if source.video_id not in failed]
        if possible:
            whole = bench.extraction(row, repeated(bench.sources, possible, _NUM_COPIES))
            measured.add(row, WHOLE, _without(whole, starts[row.decoder, row.num_jobs]))


def _by_start(rows: Sequence[Row]) -> dict[tuple[str, int], Row]:
    """One of the extractions for each way to start: the store makes no difference to that."""
    return {(row.decoder, row.num_jobs): row for row in rows if row.store is not None}


def _without(whole: Sample, start: Sample) -> Sample:
    if whole.failure is not None or start.failure is not None:
        return whole if whole.failure is not None else start
    left = replace(whole, cpu_s=whole.cpu_s - start.cpu_s, wall_s=whole.wall_s - start.wall_s)
    if left.cpu_s < _LEAST_SHARE * start.cpu_s or left.wall_s < _LEAST_SHARE * start.wall_s:
        return Sample(failure="too short to be told from the start of a process: give more or longer videos")
    return left


def _turned(rows: Sequence[Row], number: int) -> list[Row]:
    return [rows[(index + number * 7) % len(rows)] for index in range(len(rows))]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def _interrupted() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted("interrupted; nothing is left of it") from None
