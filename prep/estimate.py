"""What an extraction will take of the disk, estimated from a measured sample of its videos; and whether that is there.

The sample is drawn with probability proportional to source bytes, so frames and bytes are the mean of what its videos
gave per byte of their source, times all source bytes. Estimate and standard error: Hansen and Hurwitz, On the theory of
sampling from finite populations (1943); with a correction for what of the bytes is in the sample.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from manifests.atomic import disk_errors
from manifests.errors import StoreError
from manifests.machine import Space, format_bytes, free_space
from manifests.sources import SourceList
from manifests.wording import count
from prep.commit import group_rows, manifest_part, read_part
from prep.journal import read_journal
from prep.recipe import ExtractRecipe
from prep.run_folder import Earlier, RunFolder, bind, bound_settings, state_of
from prep.sample import Measured, Sample, choose_rows, measure_sample
from prep.spool import table_path
from prep.versions import pixel_libraries

NUM_SAMPLED = 16
_LIMIT_S = 60.0
"""For the sample of a dry run."""

_LIMIT_BEFORE_A_RUN_S = 20.0
_MIN_VIDEOS_BEFORE_A_RUN = 24
"""Of fewer the sample would be much of the work. What does not fit then stops the run, which resumes, when the disk is
full."""

_MAX_BYTES_PER_SOURCE_BYTE = 256
_SOURCE_BYTES_PER_FRAME = 128
"""Beyond what real videos need, so that there is nothing to measure where so much is free. Of 35 real clips, as JPEG of
quality 100 in native size, AV1 at 4 KiB a second took 229 and 1080p slides took 227 bytes per source byte, all others
at most 76; the former had a frame per 131 source bytes, all others one per 900 or more."""

# Besides the frames, as measured: 9 to 11 bytes a frame in frames.parquet and as much in its parts; 16 bytes a frame in
# the tables of the spool; and of a video 500 bytes in a shard, 200 to 400 in the manifest and in its parts, and 700 in
# the journal.
_BYTES_PER_FRAME = 24
_SHARD_BYTES_PER_FRAME = 4
_SPOOLED_BYTES_PER_FRAME = 16
_BYTES_PER_VIDEO = 2048
_FOLDER_BYTES_PER_FRAME = 40
_NUM_OTHER_FILES = 16
"""The tables, dataset.json, .work and what is in it, and what is being written of them."""


@dataclass(frozen=True)
class Estimate:
    """What is expected of `num_videos`.

    `num_sampled` of them were decoded for it, of which some failed (`failures` counts them by kind); the others are
    taken to be like them. `num_bytes` are those of `num_frames` JPEG frames, and `relative_error` is their standard
    error (0.1 for 10 %; None for fewer than two videos, or no frames). `needed_bytes` and `needed_inodes` are the most
    that is in OUT at a time: all frames, in whole blocks, and of shards the one that is being put together twice.
    `free_inodes` is None where there is no limit. `wall_s` is the time to decode, None where the sample does not tell.
    """

    num_videos: int
    num_sampled: int
    failures: dict[str, int]
    num_frames: int
    num_bytes: int
    relative_error: float | None
    needed_bytes: int
    needed_inodes: int
    free_bytes: int
    free_inodes: int | None
    wall_s: float | None

    @property
    def is_measured(self) -> bool:
        """False where no video of the sample was done in time, so that nothing is known of the frames."""
        return self.num_sampled > 0 or self.num_videos == 0

    @property
    def lacks_bytes(self) -> bool:
        return self.needed_bytes > self.free_bytes

    @property
    def lacks_inodes(self) -> bool:
        return self.free_inodes is not None and self.needed_inodes > self.free_inodes

    @property
    def fits(self) -> bool:
        return not self.lacks_bytes and not self.lacks_inodes


def rows_to_come(sources: SourceList, recipe: ExtractRecipe, out: Path) -> list[int]:
    """The rows that a run into `out` has still to decode; none where `out` is sealed. Changes nothing.

    Raises UsageError where `out` holds something else or was begun with other settings or sources, DamagedError where
    its state cannot be read, StoreError.
    """
    run, state = RunFolder(out), state_of(out)
    if state == "sealed":
        return []
    earlier = Earlier()
    if run.settings.exists():
        earlier = bind(run, bound_settings(recipe, pixel_libraries(recipe.decoder)), recipe.limits, sources)
    return rows_left(run, sources, recipe.store.videos_per_shard, earlier)


def rows_left(run: RunFolder, sources: SourceList, videos_per_shard: int, earlier: Earlier) -> list[int]:
    """The rows of `sources` that are neither settled by the scan nor done by an `earlier` run, if what that one did not
    sync is whole. Raises DamagedError, StoreError."""
    stands: dict[int, bool] = {}
    for group, rows in enumerate(group_rows(len(sources.sources), videos_per_shard)):
        part = manifest_part(run, group)
        if part.exists():
            statuses = read_part(part).column("status").to_pylist()
            stands.update((row, status == "ok") for row, status in zip(rows, statuses, strict=True))
    for row, entry in read_journal(run.journal).items():
        if entry.outcome.status != "ok":
            stands.setdefault(row, False)
        elif table_path(run.spool, row).exists():
            stands[row] = True
    done = {
        row for row, is_ok in stands.items() if row not in earlier.changed_rows and (is_ok or not earlier.other_limits)
    }
    return [row for row, source in enumerate(sources.sources) if source.status is None and row not in done]


def estimate(
    sources: SourceList,
    rows: Sequence[int],
    recipe: ExtractRecipe,
    out: Path,
    *,
    num_jobs: int,
    num_sampled: int = NUM_SAMPLED,
    limit_s: float = _LIMIT_S,
) -> Estimate:
    """Decode a sample of at most `num_sampled` of `rows`, for at most `limit_s` seconds, and say what all of `rows`
    will take in `out`, which is not written to.

    Whole videos are decoded. Those above 16 MiB, which might take minutes, and what is not done in time are left out:
    they are then taken to be like the others, byte for byte. Where all are that large the smallest are tried, and the
    estimate may be left without any (see `Estimate.is_measured`).

    Raises StoreError where the sample cannot be written to a temporary folder, Interrupted after a signal.
    """
    with disk_errors(out):
        space = free_space(out)
    chosen = choose_rows(sources, rows, num_sampled)
    sample = measure_sample(sources, chosen, recipe, num_jobs=num_jobs, block_bytes=space.block_bytes, limit_s=limit_s)
    return extrapolate(sample, sources, rows, recipe, space, num_jobs=num_jobs)


def require_room(
    sources: SourceList, rows: Sequence[int], recipe: ExtractRecipe, out: Path, *, num_jobs: int
) -> Estimate | None:
    """Refuse an extraction of `rows` into `out` that cannot fit.

    A sample is measured only where that is in doubt: where less is free than any video needs (`is_in_doubt`), and of 24
    videos or more. Returns the estimate, if there was one. Raises StoreError with what is needed, what is free, and
    what to do; StoreError where a sample cannot be written to a temporary folder; Interrupted after a signal.
    """
    with disk_errors(out):
        space = free_space(out)
    if len(rows) < _MIN_VIDEOS_BEFORE_A_RUN or not is_in_doubt(sources, rows, recipe, space):
        return None
    num_sampled = min(NUM_SAMPLED, len(rows) // 3)
    found = estimate(
        sources, rows, recipe, out, num_jobs=num_jobs, num_sampled=num_sampled, limit_s=_LIMIT_BEFORE_A_RUN_S
    )
    if not found.fits:
        raise StoreError(f"{_shortage(found, out)}: {_advice(found, recipe, state_of(out))}")
    return found


def is_in_doubt(sources: SourceList, rows: Sequence[int], recipe: ExtractRecipe, space: Space) -> bool:
    """Whether `rows` might not fit, by the bytes of their sources alone."""
    source_bytes = sum(sources.sources[row].source_bytes or 0 for row in rows)
    if recipe.frames.enlarge or _MAX_BYTES_PER_SOURCE_BYTE * source_bytes > space.num_bytes:
        return True
    max_frames = source_bytes // _SOURCE_BYTES_PER_FRAME if recipe.store.format == "frames" else 0
    return space.num_inodes is not None and max_frames + 4 * len(rows) > space.num_inodes


def extrapolate(
    sample: Sample, sources: SourceList, rows: Sequence[int], recipe: ExtractRecipe, space: Space, *, num_jobs: int
) -> Estimate:
    """What `rows` will take if they are like the sample."""
    source_bytes = sum(sources.sources[row].source_bytes or 0 for row in rows)
    group_bytes = _largest_group(sources, rows, recipe.store.videos_per_shard)
    frames_ratio = _mean_ratio(sample.videos, [video.num_frames for video in sample.videos])
    bytes_ratio = _mean_ratio(sample.videos, [video.num_bytes for video in sample.videos])
    block_ratio = _mean_ratio(sample.videos, [video.num_block_bytes for video in sample.videos])
    num_frames, num_bytes = round(frames_ratio * source_bytes), round(bytes_ratio * source_bytes)
    num_group_frames = round(frames_ratio * group_bytes)

    num_groups = len({row // recipe.store.videos_per_shard for row in rows})
    num_waiting = min(len(rows), 2 * (recipe.store.videos_per_shard + num_jobs))
    needed_inodes = (_NUM_OTHER_FILES if rows else 0) + 2 * num_groups + num_waiting  # groups/, and tables in the spool
    needed_bytes = _BYTES_PER_FRAME * num_frames + _SPOOLED_BYTES_PER_FRAME * num_group_frames
    needed_bytes += _BYTES_PER_VIDEO * len(rows)
    if recipe.store.format == "arrow":
        needed_inodes += num_groups + num_waiting  # shards, and frames in the spool
        needed_bytes += num_bytes + _SHARD_BYTES_PER_FRAME * num_frames
        needed_bytes += round(bytes_ratio * group_bytes)  # a shard that is written from the spool
        needed_bytes += needed_inodes * space.block_bytes
    else:
        num_folders = len(rows) + _num_folders_above(sources, rows)
        needed_bytes += (needed_inodes + num_folders) * space.block_bytes + _FOLDER_BYTES_PER_FRAME * num_frames
        needed_bytes += round(block_ratio * source_bytes)
        needed_inodes += num_folders + num_frames
    rate = sample.frames_per_s
    return Estimate(
        num_videos=len(rows),
        num_sampled=len(sample.videos),
        failures=dict(sorted(Counter(video.failure for video in sample.videos if video.failure).items())),
        num_frames=num_frames,
        num_bytes=num_bytes,
        relative_error=_relative_error(sample.videos, source_bytes),
        needed_bytes=needed_bytes,
        needed_inodes=needed_inodes,
        free_bytes=space.num_bytes,
        free_inodes=space.num_inodes,
        wall_s=num_frames / (rate * num_jobs) if rate else None,
    )


def _largest_group(sources: SourceList, rows: Sequence[int], videos_per_shard: int) -> int:
    """The source bytes of the largest group that is still to be put together, decoded videos of it included."""
    open_groups = {row // videos_per_shard for row in rows}
    totals: Counter[int] = Counter()
    for row, source in enumerate(sources.sources):
        if source.status is None and row // videos_per_shard in open_groups:
            totals[row // videos_per_shard] += source.source_bytes or 0
    return max(totals.values(), default=0)


def _num_folders_above(sources: SourceList, rows: Sequence[int]) -> int:
    """The folders that the frame folders lie in."""
    return len({parent for row in rows for parent in PurePosixPath(sources.sources[row].video_id).parents})


def _mean_ratio(videos: Sequence[Measured], amounts: Sequence[int]) -> float:
    """The weighted mean of amount per source byte; 0 without videos. A source without bytes gives nothing."""
    total = sum(
        video.weight * amount / video.source_bytes
        for video, amount in zip(videos, amounts, strict=True)
        if video.source_bytes
    )
    return total / (sum(video.weight for video in videos) or 1)


def _relative_error(videos: Sequence[Measured], source_bytes: int) -> float | None:
    """The standard error of the mean ratio of JPEG bytes to source bytes, relative to it."""
    num_shares = sum(video.weight for video in videos)
    mean = _mean_ratio(videos, [video.num_bytes for video in videos])
    if num_shares < 2 or not mean:
        return None
    squares = sum(v.weight * (v.num_bytes / v.source_bytes - mean) ** 2 for v in videos if v.source_bytes)
    not_sampled = max(0.0, 1 - sum(video.source_bytes for video in videos) / source_bytes)
    return math.sqrt(not_sampled * squares / (num_shares - 1) / num_shares) / mean


def estimate_table(found: Estimate) -> dict[str, Any]:
    """An estimate as plain values, with what follows from it."""
    return {**asdict(found), "is_measured": found.is_measured, "fits": found.fits}


def estimate_lines(found: Estimate, out: Path) -> list[str]:
    """An estimate in words; the last line is the verdict."""
    if not found.num_videos:
        return ["nothing is left to decode"]
    failures = ", ".join(f"{kind} {number:,}" for kind, number in found.failures.items())
    failed = f", of which failed: {failures}" if failures else ""
    error = "" if found.relative_error is None else f", give or take {100 * found.relative_error:.0f} %"
    lines = [f"measured: {count(found.num_sampled, 'video')}{failed}"]
    if not found.is_measured:
        return [*lines, "cannot tell whether it fits: no video of the sample was decoded in time"]
    time = "" if found.wall_s is None else f"; about {_duration(found.wall_s)} to decode"
    lines.append(f"expected: {count(found.num_frames, 'frame')}, {format_bytes(found.num_bytes)}{error}{time}")
    lines.append(f"needed: {format_bytes(found.needed_bytes)} and {count(found.needed_inodes, 'inode')}")
    lines.append(f"free: {_free(found)}")
    lines.append(f"it fits into {out}" if found.fits else f"it does not fit: {_shortage(found, out)}")
    return lines


def _free(found: Estimate) -> str:
    inodes = "no inode limit" if found.free_inodes is None else count(found.free_inodes, "inode")
    return f"{format_bytes(found.free_bytes)} and {inodes}"


def _shortage(found: Estimate, out: Path) -> str:
    lacking = []
    if found.lacks_bytes:
        lacking.append(f"about {format_bytes(found.needed_bytes)}, of which {format_bytes(found.free_bytes)} are free")
    if found.lacks_inodes:
        lacking.append(f"about {count(found.needed_inodes, 'inode')}, of which {found.free_inodes:,} are free")
    return f"{out} needs {', and '.join(lacking)}"


def _advice(found: Estimate, recipe: ExtractRecipe, state: str) -> str:
    """What to do; the settings of a run that has begun cannot change."""
    ways = ["free space there", "choose another --out"]
    if state == "new" and found.lacks_bytes:
        ways.append("lower frames.short_side_px or frames.quality")
    if state == "new" and recipe.store.format == "frames":
        ways.append("use --store arrow")
    return f"{', '.join(ways)}, or begin all the same with --force"


def _duration(seconds: float) -> str:
    """75 -> "1 min 15 s"."""
    minutes, rest_s = divmod(max(1, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest_s} s" if minutes else f"{rest_s} s"
