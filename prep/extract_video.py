"""One video: decode, scale, turn, encode, and judge.

Nothing here raises for a bad video: the outcome says what is wrong with it.
"""

import hashlib
import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np

from manifests.records import Outcome
from manifests.windows import Window
from manifests.wording import count
from prep.container import cut_short
from prep.decoders import open_decoder
from prep.decoders.interface import Decoder, Frame, Tally, VideoError
from prep.frame_table import FRAME_DTYPE, FrameTable
from prep.geometry import Orientation, Size, scaled_size, turn_upright
from prep.in_window import InWindow
from prep.jpeg import encode_jpeg
from prep.recipe import ExtractRecipe, Frames, Limits
from prep.sampling import Sampler, make_sampler

MISSING_PACKETS_ALLOWED = 2
"""So many packets may give no frame whatever the length: packed B-frames leave one over."""


ONE_PICTURE = "every frame is the same picture"
"""How the detail of a damaged video begins that `limits.keep_damaged` does not keep."""

_MAX_JPEG_PX = 65500

_MAX_WAITING = 8
_MAX_WAITING_PX = 1 << 23
"""Decoded frames that wait to be stored: so many, and no more pixels than that unless it is one."""


class FrameWriter(Protocol):
    """Where frames go: manifests.stores.arrow.SpoolWriter or manifests.stores.frames.FolderWriter."""

    def add(self, jpeg: bytes) -> None: ...


def extract_video(
    path: Path,
    recipe: ExtractRecipe,
    writer: FrameWriter,
    beat: Callable[[], None],
    scanned_bytes: int | None = None,
    window: Window | None = None,
) -> tuple[Outcome, FrameTable]:
    """Decode the video at `path` from its first frame to its last and give each kept frame to `writer`.

    `scanned_bytes` is its size when it was scanned (None: not known); one of another size is not what was scanned.

    Of a `window` only the frames in it are given, and decoding ends with the first frame at its end or after. It is
    judged by all that was decoded until then, since its frames may depend on any of that.

    `beat` is called once a frame, as a sign of life. Returns the outcome and the table of the frames written
    (empty unless ok). What `writer` raises passes through; a bad video does not raise.
    """
    no_frames = np.zeros(0, FRAME_DTYPE)
    try:
        sha256, num_bytes = hash_source(path, beat)
        if num_bytes == 0:
            return Outcome(status="failed", failure="empty", source_sha256=sha256), no_frames
        if scanned_bytes is not None and num_bytes != scanned_bytes:
            detail = f"it changed: the scan saw {scanned_bytes} bytes, now there are {num_bytes}; scan again"
            return Outcome(status="failed", failure="unreadable", detail=detail, source_sha256=sha256), no_frames
        cut = cut_short(path)
    except OSError as error:
        return Outcome(status="failed", failure="unreadable", detail=error.strerror), no_frames
    try:
        with open_decoder(recipe.decoder, path) as decoder:
            try:
                outcome, table_N = _decode(decoder, recipe, writer, beat, cut, window)
            except VideoError as error:
                outcome, table_N = _failed_in_midstream(decoder, error, cut), no_frames
    except VideoError as error:
        outcome, table_N = Outcome(status="failed", failure=error.kind, detail=error.detail), no_frames
    if outcome.status != "ok":
        table_N = no_frames
    if window is not None:
        outcome = replace(outcome, declared_num_frames=None)  # the header tells of the whole file
    return replace(outcome, source_sha256=sha256), table_N


def hash_source(path: Path, beat: Callable[[], None]) -> tuple[str, int]:
    """SHA-256 and size in bytes of a file, with signs of life on the way. Raises OSError."""
    digest, num_bytes = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
            num_bytes += len(chunk)
            beat()
    return digest.hexdigest(), num_bytes


def _decode(
    decoder: Decoder,
    recipe: ExtractRecipe,
    writer: FrameWriter,
    beat: Callable[[], None],
    cut: str | None,
    window: Window | None,
) -> tuple[Outcome, FrameTable]:
    header = decoder.header
    sampler: Sampler[Frame] = make_sampler(recipe.frames, header.declared_fps)
    pipeline: _Pipeline | None = None
    in_window = None if window is None else InWindow(window)
    times_s: list[float] = []
    num_frames = num_damaged = 0
    size_change: str | None = None
    for frame in decoder.frames():
        beat()
        is_in = in_window is None or in_window.take(frame.time_s)
        if in_window is not None and in_window.is_left:
            num_damaged += frame.is_damaged + decoder.num_damaged_ahead()
            break
        if pipeline is None:
            pipeline = _Pipeline(frame, header.sample_aspect, recipe.frames, writer)
        if frame.size != pipeline.coded:
            size_change = (
                f"{pipeline.coded.width}x{pipeline.coded.height} becomes "
                f"{frame.size.width}x{frame.size.height} at frame {num_frames}"
            )
            break
        num_damaged += frame.is_damaged
        num_frames += 1
        if not is_in:
            continue
        times_s.append(math.nan if frame.time_s is None else frame.time_s)
        if kept := sampler.add(frame, frame.time_s):
            pipeline.store(kept)
    if pipeline is not None:
        if kept := sampler.end():
            pipeline.store(kept)
        pipeline.flush()

    tally = decoder.tally
    table_N = np.array(pipeline.entries if pipeline else [], FRAME_DTYPE)
    fps, duration_s = measured_rate(times_s, header.declared_fps)
    one_picture = len(table_N) > 1 and len(np.unique(table_N["crc32"])) == 1
    verdict = judge(
        tally,
        num_frames=num_frames,
        num_damaged=num_damaged,
        cut=cut,
        size_change=size_change,
        one_picture=one_picture,
        limits=recipe.limits,
        in_window=in_window,
    )
    outcome = replace(
        verdict,
        container=header.container,
        codec=header.codec,
        declared_num_frames=header.declared_num_frames,
        num_decode_errors=tally.num_errors + num_damaged,
        fps=fps,
        duration_s=duration_s,
        sample_aspect_ratio=_aspect_text(header.sample_aspect),
        decoder=decoder.version,
    )
    if pipeline is not None:
        outcome = replace(
            outcome,
            source_width=pipeline.coded.width,
            source_height=pipeline.coded.height,
            rotation_deg=pipeline.orientation.rotation_deg,
        )
        if outcome.status == "ok":
            outcome = replace(
                outcome,
                num_frames=len(table_N),
                width=pipeline.stored.width,
                height=pipeline.stored.height,
                num_bytes=int(table_N["num_bytes"].sum(dtype=np.int64)),
                content_crc32=pipeline.content_crc32,
            )
    return outcome, table_N


def _failed_in_midstream(decoder: Decoder, error: VideoError, cut: str | None) -> Outcome:
    kind, detail = ("truncated", f"{cut}; {error.detail}") if cut else (error.kind, error.detail)
    return Outcome(
        status="failed",
        failure=kind,
        detail=detail,
        container=decoder.header.container,
        codec=decoder.header.codec,
        declared_num_frames=decoder.header.declared_num_frames,
        sample_aspect_ratio=_aspect_text(decoder.header.sample_aspect),
        decoder=decoder.version,
    )


class _Pipeline:
    """Scale, turn, encode, write: fixed by the first frame for the whole video.

    `entries` are those of the frame table, `content_crc32` is that of all frames written; both are complete after
    `flush`. Frames wait until there are some: a few pictures in a row through each step are faster than each picture
    through all steps, between which the processor's caches forget.
    """

    def __init__(self, first: Frame, sample_aspect: Fraction, frames: Frames, writer: FrameWriter) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self._waiting: list[Frame] = []
        self._max_waiting = max(1, min(_MAX_WAITING, _MAX_WAITING_PX // (first.size.width * first.size.height)))
        self.content_crc32 = 0
        self._writer = writer
        self.coded: Size = first.size
        self.orientation: Orientation = first.orientation
        self.scaled = scaled_size(self.coded, sample_aspect, frames)
        swaps = self.orientation.swaps_sides
        self.stored = Size(self.scaled.height, self.scaled.width) if swaps else self.scaled
        self._quality = frames.quality
        if max(self.stored.width, self.stored.height) > _MAX_JPEG_PX:
            detail = f"it would be stored as {self.stored.width}x{self.stored.height}, JPEG allows {_MAX_JPEG_PX} px"
            raise VideoError("unsupported", detail)

    def store(self, frame: Frame) -> None:
        self._waiting.append(frame)
        if len(self._waiting) >= self._max_waiting:
            self.flush()

    def flush(self) -> None:
        pictures = [turn_upright(frame.planes(self.scaled), self.orientation) for frame in self._waiting]
        jpegs = [encode_jpeg(planes, self._quality) for planes in pictures]
        for frame, jpeg in zip(self._waiting, jpegs, strict=True):
            self._writer.add(jpeg)
            self.content_crc32 = zlib.crc32(jpeg, self.content_crc32)
            time_s = math.nan if frame.time_s is None else frame.time_s
            self.entries.append((len(jpeg), zlib.crc32(jpeg), time_s * 1000))
        self._waiting.clear()


def judge(
    tally: Tally,
    *,
    num_frames: int,
    num_damaged: int,
    cut: str | None,
    size_change: str | None,
    one_picture: bool,
    limits: Limits,
    in_window: InWindow | None = None,
) -> Outcome:
    """The status, failure and detail of a video that was decoded to its end, to that of its window, or to a change of
    size. `in_window` has taken all frames.

    Where several faults apply, size_change comes before truncated before decode before too_short. `num_frames` counts
    decoded frames, stored or not. What a file lacks after the window is not looked at.
    """
    is_left = in_window is not None and in_window.is_left
    num_in = num_frames if in_window is None else in_window.num_frames
    num_bad = tally.num_errors + num_damaged
    num_missing = tally.num_packets - tally.num_errors - num_frames
    said = f" ({tally.words})" if tally.words else ""
    damage = (
        f"{count(tally.num_errors, 'packet')} cannot be decoded, {count(num_damaged, 'frame')} marked as damaged{said}"
    )
    if size_change:
        return Outcome(status="failed", failure="size_change", detail=size_change)
    if cut and not is_left:
        detail = f"{cut}; {count(num_frames, 'frame')} could be decoded"
        return Outcome(status="failed", failure="truncated", detail=detail)
    if num_frames == 0:
        return Outcome(status="failed", failure="decode", detail=f"no frame can be decoded{said}")
    if not is_left and num_missing > max(MISSING_PACKETS_ALLOWED, limits.max_missing * tally.num_packets):
        detail = f"{count(tally.num_packets, 'packet')} gave only {count(num_frames, 'frame')}{said}"
        return Outcome(status="failed", failure="truncated", detail=detail)
    if num_bad and one_picture:
        return Outcome(status="failed", failure="decode", detail=f"{ONE_PICTURE}; {damage}")
    if num_bad and not limits.keep_damaged:
        return Outcome(status="failed", failure="decode", detail=damage)
    if in_window is not None and not in_window.num_frames:
        return Outcome(status="failed", failure="too_short", detail=in_window.nothing())
    if num_in < limits.min_frames:
        detail = f"{count(num_in, 'frame')}, fewer than limits.min_frames={limits.min_frames}"
        return Outcome(status="excluded", failure="too_short", detail=detail)
    remarks = [f"kept although {damage}"] if num_bad else []
    if tally.words and not num_bad:
        # Words alone are no failure: a clip cut at an open group of pictures has them too.
        remarks.append(f"the decoder said: {tally.words}")
    if in_window is not None and (shortage := in_window.shortage()):
        remarks.append(shortage)
    return Outcome(status="ok", detail="; ".join(remarks) or None)


def measured_rate(times_s: list[float], declared_fps: Fraction | None) -> tuple[float | None, float | None]:
    """Frames a second and duration in seconds of decoded frames shown at `times_s`.

    N frames span N - 1 gaps, so the last one is taken to be shown for the mean gap. Where the times do not
    tell (one frame, or times that are missing or do not grow) the header's rate stands in.
    """
    num_frames = len(times_s)
    span_s = times_s[-1] - times_s[0] if num_frames > 1 else math.nan
    if span_s > 0:
        fps = (num_frames - 1) / span_s
    elif num_frames and declared_fps:
        fps = float(declared_fps)
    else:
        return None, None
    return fps, num_frames / fps


def _aspect_text(aspect: Fraction) -> str | None:
    return f"{aspect.numerator}:{aspect.denominator}" if aspect else None
