"""From samples to figures, and figures to text.

A figure of several videos is the sum over videos of the median over rounds, so that long videos count for more, and one
disturbed sample for nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from manifests.table import table_lines
from manifests.wording import count, quote
from prep.bench.measure import WHOLE, Measured
from prep.bench.rows import ENCODE_ONLY, OPENCV_LOOP, Row
from prep.bench.steps import Sample


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a row comes to, over the videos that it can do; None where that cannot be told.

    `share_of_limit` (of rows that encode) and `times_loop` compare processor times over the same videos.
    `times_opencv` and `num_right` of `num_asked` frames are for the sampled rows alone.
    """

    row: str
    decoder: str
    num_jobs: int
    num_videos: int
    num_frames: int
    cpu_us_per_frame: float | None = None
    frames_per_cpu_s: float | None = None
    frames_per_s: float | None = None
    share_of_limit: float | None = None
    times_loop: float | None = None
    bytes_per_frame: float | None = None
    times_opencv: float | None = None
    num_right: int | None = None
    num_asked: int | None = None
    notes: tuple[str, ...] = ()


def figures(measured: Measured, rows: Sequence[Row]) -> list[Figures]:
    """Those of each row."""
    return [_sampled(measured, row) if row.step.startswith("sampled ") else _plain(measured, row) for row in rows]


def _plain(measured: Measured, row: Row) -> Figures:
    videos = _videos(measured, row)
    samples = measured.samples.get(row, {})
    notes = _failures(measured, row)
    if not samples or not videos:
        return _figures(row, 0, 0, notes=notes)
    whole = WHOLE in samples
    used = [WHOLE] if whole else videos
    num_frames = sum(samples[video][0].num_frames for video in used)
    cpu_s = sum(median(sample.cpu_s for sample in samples[video]) for video in used)
    wall_s = sum(median(sample.wall_s for sample in samples[video]) for video in used)
    num_bytes = sum(samples[video][0].num_bytes for video in used)
    others = [
        video
        for video in used
        if not whole and samples[video][0].num_frames != measured.num_frames[video] * row.num_jobs
    ]
    notes += [f"{quote(v)}: {samples[v][0].num_frames} frames, not {measured.num_frames[v]}" for v in others]
    us, limit_us, loop_us = cpu_s / num_frames * 1e6, _limit_us(measured, videos), _us(measured, OPENCV_LOOP, videos)
    return _figures(
        row,
        len(videos),
        num_frames,
        cpu_us_per_frame=us,
        frames_per_cpu_s=1e6 / us,
        frames_per_s=num_frames / wall_s,
        share_of_limit=limit_us / us if limit_us and num_bytes and row != ENCODE_ONLY else None,
        times_loop=loop_us / us if loop_us else None,
        bytes_per_frame=num_bytes / num_frames if num_bytes else None,
        notes=notes,
    )


def _sampled(measured: Measured, row: Row) -> Figures:
    samples = measured.samples.get(row, {})
    opencv = measured.samples.get(Row(row.step, "opencv"), {})
    both = [video for video in samples if video in opencv]
    notes = _failures(measured, row)
    if not samples:
        return _figures(row, 0, 0, notes=notes)
    cpu_s = _sum_cpu_s(samples, samples)
    num_frames = sum(some[0].num_frames for some in samples.values())
    num_wrong = sum(some[0].num_wrong or 0 for some in samples.values())
    return _figures(
        row,
        len(samples),
        num_frames,
        cpu_us_per_frame=cpu_s / num_frames * 1e6,
        frames_per_cpu_s=num_frames / cpu_s,
        frames_per_s=num_frames / sum(median(sample.wall_s for sample in some) for some in samples.values()),
        times_opencv=_sum_cpu_s(opencv, both) / _sum_cpu_s(samples, both) if both else None,
        num_right=num_frames - num_wrong,
        num_asked=num_frames,
        notes=notes,
    )


def _figures(row: Row, num_videos: int, num_frames: int, *, notes: Iterable[str], **values: Any) -> Figures:
    return Figures(
        row=row.step,
        decoder=row.decoder,
        num_jobs=row.num_jobs,
        num_videos=num_videos,
        num_frames=num_frames,
        notes=tuple(notes),
        **values,
    )


def _videos(measured: Measured, row: Row) -> list[str]:
    """The videos that a row can do: of a whole extraction those that were given to it."""
    failed = measured.failures.get(row, {})
    if row.store is not None:
        failed = {**failed, **measured.failures.get(Row("discard", row.decoder, row.num_jobs), {})}
    return [] if WHOLE in failed else [video for video in measured.num_frames if video not in failed]


def _failures(measured: Measured, row: Row) -> list[str]:
    failed = measured.failures.get(row, {})
    return [reason if video == WHOLE else f"{quote(video)}: {reason}" for video, reason in failed.items()]


def _sum_cpu_s(samples: dict[str, list[Sample]], videos: Iterable[str]) -> float:
    return sum(median(sample.cpu_s for sample in samples[video]) for video in videos)


def _us(measured: Measured, row: Row, videos: Sequence[str]) -> float | None:
    """Microseconds of processor time a frame over these videos; None unless the row can do them all."""
    samples = measured.samples.get(row, {})
    if not videos or not all(video in samples for video in videos):
        return None
    return _sum_cpu_s(samples, videos) / sum(samples[video][0].num_frames for video in videos) * 1e6


def _limit_us(measured: Measured, videos: Sequence[str]) -> float | None:
    """The fastest decoder's time to decode, and libjpeg-turbo's to encode the same pictures."""
    decoding = [_us(measured, row, videos) for row in measured.samples if row.step in ("decode", "bare decode")]
    encoding = _us(measured, ENCODE_ONLY, videos)
    known = [us for us in decoding if us is not None]
    return min(known) + encoding if known and encoding is not None else None


def json_rows(measured: Measured, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The figures of each row, and the samples that they come from, by video (`-`: all together)."""
    return [
        {
            **asdict(made),
            "samples": {
                video: [asdict(sample) for sample in some] for video, some in measured.samples.get(row, {}).items()
            },
            "failures": measured.failures.get(row, {}),
        }
        for row, made in zip(rows, figures(measured, rows), strict=True)
    ]


def limit_line(measured: Measured) -> str:
    limit_us = _limit_us(measured, list(measured.num_frames))
    if limit_us is None:
        return "the limit is not known: no decoder can do all of these videos"
    loop_us = _us(measured, OPENCV_LOOP, list(measured.num_frames))
    times = f", {loop_us / limit_us:.2f} times the OpenCV loop" if loop_us else ""
    return f"limit (fastest decode + encode only): {1e6 / limit_us:,.0f} frames/CPU-s{times}"


def tables(measured: Measured, rows: Sequence[Row]) -> list[str]:
    """Two tables: all rows but the sampled ones, then those; and what is to be noted."""
    made = figures(measured, rows)
    plain = [
        [
            _title(one),
            str(one.num_jobs),
            _number(one.frames_per_cpu_s, ",.0f"),
            _number(one.frames_per_s, ",.0f"),
            _number(one.share_of_limit, ".0%"),
            _number(one.times_loop, ".2f"),
            _number(one.bytes_per_frame, ",.0f"),
            str(one.num_videos),
        ]
        for one in made
        if not one.row.startswith("sampled ")
    ]
    sampled = [
        [
            _title(one),
            _number(one.cpu_us_per_frame and one.cpu_us_per_frame * one.num_frames / one.num_videos / 1000, ",.1f"),
            _number(one.times_opencv, ".2f"),
            "-" if one.num_asked is None else f"{one.num_right:,} of {one.num_asked:,}",
            str(one.num_videos),
        ]
        for one in made
        if one.row.startswith("sampled ")
    ]
    head = ["", "jobs", "frames/CPU-s", "frames/s", "of the limit", "x OpenCV loop", "bytes/frame", "videos"]
    lines = table_lines(head, plain)
    if sampled:
        head = ["frames for a clip, from the video", "CPU-ms/video", "x OpenCV", "right frames", "videos"]
        lines += ["", *table_lines(head, sampled)]
    notes = [f"{one.decoder or _title(one)}: {note}" for one in made for note in one.notes]
    return [*lines, *(["", *dict.fromkeys(notes)] if notes else [])]


_TITLES = {
    "decode": "{}: decode",
    "scale": "{}: decode, scale",
    "encode": "{}: decode, scale, encode",
    "bare decode": "{} alone: decode",
    "bare scale": "{} alone: decode, scale",
    "bare encode": "{} alone: decode, scale, encode",
    "discard": "{}: extraction into none",
    "into arrow": "{}: extraction into arrow",
    "into frames": "{}: extraction into frames",
    "encode only": "libjpeg-turbo: encode",
    "opencv loop": "OpenCV loop: read, resize, imwrite",
    "sampled 8": "{}: 8 frames, scale, crop",
    "sampled 32": "{}: 32 frames, scale, crop",
}


def _title(one: Figures) -> str:
    return _TITLES[one.row].format(one.decoder)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def header_lines(measured: Measured) -> list[str]:
    videos, frames = count(len(measured.num_frames), "video"), count(sum(measured.num_frames.values()), "frame")
    rounds, left_out = count(measured.num_rounds, "round"), len(measured.left_out)
    more = f"; {left_out} more were looked at and left out" if left_out else ""
    return [f"{videos}, {frames}, {rounds} in {measured.seconds:.0f} s{more}"]
