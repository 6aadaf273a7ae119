"""A sample of the videos of an extraction, decoded as the extraction would decode them, to measure what they take.

Arrays: num_bytes_N int64, sizes of the frames.
"""

import os
import shutil
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import FrameType

import numpy as np

from manifests.atomic import disk_errors
from manifests.command import signals_to
from manifests.errors import Interrupted, StoreError
from manifests.sources import SourceList
from manifests.windows import split_source
from prep import spool
from prep.child import Job, Reply
from prep.frame_table import read_table
from prep.recipe import ExtractRecipe
from prep.workers import Workers

_MAX_SOURCE_BYTES = 16 * 2**20
"""Larger videos are sampled only where all are larger: a whole one may take minutes."""

_MAX_TIMEOUT_S = 10.0
"""The longest that a video of the sample may go without a new frame, whatever limits.timeout_s says."""

_VIDEOS_PER_WORKER = 4
"""With fewer, too much of the time would be that of a worker waiting for the last one."""


@dataclass(frozen=True)
class Measured:
    """What one video of the sample became: frames, their bytes, and the bytes that they take as files of whole blocks.
    All three are 0 where it failed, for the reason `failure`. It stands for `weight` equal shares of the source bytes
    of all videos."""

    weight: int
    source_bytes: int
    num_frames: int = 0
    num_bytes: int = 0
    num_block_bytes: int = 0
    failure: str | None = None


@dataclass(frozen=True)
class Sample:
    """`videos` are those that were done in time. `frames_per_s` is what one worker makes, None where that cannot be
    told from so few."""

    videos: tuple[Measured, ...] = ()
    frames_per_s: float | None = None
    wall_s: float = 0.0


def choose_rows(sources: SourceList, rows: Sequence[int], num_wanted: int) -> dict[int, int]:
    """At most `num_wanted` of `rows` with their weights, from the smallest source to the largest.

    The sources are laid end to end in the order of their size, and those are taken that lie at the middles of
    `num_wanted` equal shares of the bytes. So small and large are in, and one that is several shares long is in for
    certain, with that weight. Sources above 16 MiB are left out unless all are; then the smallest are taken, with
    equal weights.
    """
    num_bytes = {row: sources.sources[row].source_bytes or 0 for row in rows}
    by_size = sorted(rows, key=lambda row: (num_bytes[row], row))
    small = [row for row in by_size if num_bytes[row] <= _MAX_SOURCE_BYTES]
    total = sum(num_bytes[row] for row in small)
    if not total:
        return dict.fromkeys(by_size[:num_wanted], 1)
    ends = list(accumulate(num_bytes[row] for row in small))
    middles = ((2 * share + 1) * total // (2 * num_wanted) for share in range(num_wanted))
    return dict(Counter(small[bisect_right(ends, middle)] for middle in middles))


def measure_sample(
    sources: SourceList,
    rows: Mapping[int, int],
    recipe: ExtractRecipe,
    *,
    num_jobs: int,
    block_bytes: int,
    limit_s: float,
) -> Sample:
    """Decode the videos of `rows` (row: weight), in that order, into a temporary folder that is gone afterwards.

    What is not done after `limit_s` seconds is left out. Whole videos are decoded, since only at its end a video tells
    which share of its bytes a frame costs. One that fails, crashes or hangs (for the shorter of limits.timeout_s and
    10 s) counts as failed, without a second try.

    Raises StoreError where the temporary folder cannot be written, Interrupted after a signal.
    """
    if not rows:
        return Sample()
    num_workers = max(1, min(num_jobs, len(rows) // _VIDEOS_PER_WORKER))
    timeout_s = min(recipe.limits.timeout_s, _MAX_TIMEOUT_S)
    videos: list[Measured] = []
    done_s: list[float] = []
    started_s = time.monotonic()
    with (
        _temporary_folder() as folder,
        Workers(num_workers, timeout_s) as workers,
        _stop_on_signals(workers, folder) as signals,
        _stop_after(limit_s, workers),
    ):
        jobs = ((row, _job(folder, sources, recipe, row)) for row in rows)
        try:
            for row, reply in workers.extract(jobs):
                done_s.append(time.monotonic())
                job = _job(folder, sources, recipe, row)
                videos.append(_measured(rows[row], job, reply, block_bytes))
                with disk_errors(folder):
                    spool.remove(job.frames)
        except StoreError as error:
            raise StoreError(f"a sample cannot be measured: {error}; or set TMPDIR to a folder with room") from error
        if signals:
            raise Interrupted("interrupted while a sample was measured")
    frames_per_s = _rate(videos, done_s, num_workers)
    return Sample(tuple(videos), frames_per_s, time.monotonic() - started_s)


def _job(folder: Path, sources: SourceList, recipe: ExtractRecipe, row: int) -> Job:
    source = sources.sources[row]
    return Job(
        out=folder,
        source=sources.path_of(source),
        source_bytes=source.source_bytes,
        frames=spool.frames_path(folder, row, recipe.store.format),
        table=spool.table_path(folder, row),
        recipe=recipe,
        window=split_source(source.source)[1],
    )


def _measured(weight: int, job: Job, reply: Reply, block_bytes: int) -> Measured:
    outcome, source_bytes = reply.outcome, job.source_bytes or 0
    if outcome.status != "ok":
        return Measured(weight, source_bytes, failure=outcome.failure)
    with disk_errors(job.table):
        num_bytes_N = read_table(job.table)[0]["num_bytes"].astype(np.int64)
    num_block_bytes = int((-(-num_bytes_N // block_bytes)).sum()) * block_bytes
    return Measured(weight, source_bytes, outcome.num_frames, outcome.num_bytes, num_block_bytes)


def _rate(videos: Sequence[Measured], done_s: Sequence[float], num_workers: int) -> float | None:
    """Frames a second of one worker, counted from the end of the first video, before which the processes started."""
    if len(videos) < max(2, _VIDEOS_PER_WORKER * num_workers // 2):
        return None
    num_frames = sum(video.num_frames for video in videos[1:])
    span_s = done_s[-1] - done_s[0]
    return num_frames / span_s / num_workers if num_frames and span_s > 0 else None


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """As tempfile chooses it, never in an OUT: of a dry run nothing is left, and OUT may not be there."""
    try:
        temporary = tempfile.TemporaryDirectory(prefix="decode-once-", ignore_cleanup_errors=True)
    except OSError as error:
        raise StoreError(
            f"a sample cannot be measured: no temporary folder: {error.strerror}; set TMPDIR to a folder with room"
        ) from error
    with temporary as name:
        folder = Path(name).absolute()
        yield folder


@contextmanager
def _stop_after(limit_s: float, workers: Workers) -> Iterator[None]:
    timer = threading.Timer(limit_s, workers.stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def _stop_on_signals(workers: Workers, folder: Path) -> Iterator[list[int]]:
    """The first Ctrl-C, SIGTERM or SIGHUP stops the workers; the second ends the program where it stands, without the
    folder. Yields the signals that came."""
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        workers.stop()
        if signals:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(Interrupted.exit_code)
        signals.append(number)

    with signals_to(stop):
        yield signals
