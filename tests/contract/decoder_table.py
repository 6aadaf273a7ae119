"""What each decoder makes of each kind of video, found out by extracting clips: the table in the README.

    python tests/contract/decoder_table.py        prints it

A clip that comes out ok must have all its frames, in order, once, upright; a decoder that gives others and is not found
out is an AssertionError. So each result is "right", or the failure that the video ends with.

Arrays: frame_HWC uint8 RGB.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import simplejpeg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clips import (
    Clip,
    drop_first_packets,
    flip_bytes,
    hide_first_frames,
    hide_vp8_frame,
    numbered_frame,
    pack_bframes,
    packet_spans,
    read_number,
    rewrite_packets,
    truncate,
    write_clip,
)

from prep.decoders import DECODERS
from prep.extract_video import extract_video
from prep.recipe import ExtractRecipe, Frames

X265_QUIET = "log-level=none:pools=none:frame-threads=1"
H264 = Clip(name="", codec="libx264")
CLOSED = replace(H264, options={"g": "12", "bf": "2"})
OPEN = replace(H264, options={"x264-params": "open-gop=1:keyint=12:bframes=3:scenecut=0"})
HEVC = Clip(name="", codec="libx265", options={"x265-params": f"open-gop=0:keyint=12:bframes=3:{X265_QUIET}"})
HEVC_OPEN = replace(HEVC, options={"x265-params": f"open-gop=1:keyint=12:{X265_QUIET}"})
MPEG4 = Clip(name="", codec="mpeg4", options={"qmin": "3", "qmax": "3"})
SINGLE_BFRAMES = replace(MPEG4, options={"bf": "1", "qmin": "3", "qmax": "3"})
VP8 = Clip(name="", codec="libvpx", options={"cpu-used": "8"})
VP9 = Clip(name="", codec="libvpx-vp9", options={"cpu-used": "8"})
UNEVEN_MS = tuple(40 * i + 13 * (i % 3) + (900 if i > 20 else 0) for i in range(40))
SIMPLE = replace(H264, options={"x264-params": "keyint=10:scenecut=0:bframes=0"})


@dataclass(frozen=True)
class Kind:
    """A kind of video: what the README calls it, a file name, what writes the file, and the numbers that its frames
    show. None for a file whose frames are not all there, which must not come out ok."""

    label: str
    file_name: str
    write: Callable[[Path], Path]
    numbers: tuple[int, ...] | None = tuple(range(40))


def plain(clip: Clip) -> Callable[[Path], Path]:
    return lambda path: write_clip(path, clip)


def changed(clip: Clip, suffix: str, change: Callable[[Path, Path], Path]) -> Callable[[Path], Path]:
    """Write the clip beside `path`, and what `change` makes of it to `path`."""
    return lambda path: change(write_clip(path.with_suffix(f".before{suffix}"), clip), path)


def turned(turn_deg: int, hflip: bool) -> Callable[[Path], Path]:
    """Coded so that its display matrix brings the pictures upright, wide enough for real."""
    width, height = (144, 192) if turn_deg in (90, 270) else (192, 144)

    def write(path: Path) -> Path:
        frames = []
        for number in range(40):
            upright_HWC = numbered_frame(number, width, height)
            mirrored_HWC = upright_HWC[:, ::-1] if hflip else upright_HWC
            frames.append(np.ascontiguousarray(np.rot90(mirrored_HWC, -turn_deg // 90)))
        clip = replace(H264, width=192, height=144, turn_deg=turn_deg, hflip=hflip)
        return write_clip(path, clip, frames)

    return write


def hidden_vp8(path: Path, target: Path) -> Path:
    """The last of every four packets is not shown."""
    return rewrite_packets(
        path, target, lambda packets: [hide_vp8_frame(p) if i % 4 == 3 else p for i, p in enumerate(packets)]
    )


def with_flipped_bytes(path: Path) -> Path:
    write_clip(path, SIMPLE)
    position, size = packet_spans(path)[13]
    return flip_bytes(path, position + size // 2, 8)


def with_a_lost_block(path: Path) -> Path:
    """The demuxer drops the rest of the cluster, and the file seems to end there."""
    write_clip(path, SIMPLE)
    return flip_bytes(path, packet_spans(path)[12][0], 2)


def without_end(path: Path) -> Path:
    write_clip(path, SIMPLE)
    return truncate(path, packet_spans(path)[25][0])


def under_another_name(path: Path) -> Path:
    """Written under a plain name first, for the sake of the writer."""
    return write_clip(path.with_name("plain.avi"), MPEG4).rename(path)


KINDS = (
    Kind("H.264 in MP4", "h264.mp4", plain(CLOSED)),
    Kind("H.264 in MKV", "h264.mkv", plain(CLOSED)),
    Kind("H.264 in AVI", "h264.avi", plain(CLOSED)),
    Kind("H.264 with open GOP in MP4", "open.mp4", plain(OPEN)),
    Kind("H.264 with open GOP in MKV", "open.mkv", plain(OPEN)),
    Kind("H.264 with open GOP in AVI", "open.avi", plain(OPEN)),
    Kind("H.264 in MPEG-TS", "h264.ts", plain(CLOSED)),
    Kind(
        "H.264 in fragmented MP4",
        "fragments.mp4",
        plain(replace(CLOSED, container_options={"movflags": "frag_keyframe+empty_moov"})),
    ),
    Kind("HEVC", "hevc.mp4", plain(HEVC)),
    Kind("HEVC with open GOP", "hevc-open.mp4", plain(HEVC_OPEN)),
    Kind("MPEG-4 in AVI", "mpeg4.avi", plain(MPEG4)),
    Kind("MPEG-4 with B-frames in AVI", "bframes.avi", plain(replace(MPEG4, options={**MPEG4.options, "bf": "2"}))),
    Kind("MPEG-4 with packed B-frames in AVI", "packed.avi", changed(SINGLE_BFRAMES, ".avi", pack_bframes)),
    Kind("MPEG-2 in MPEG-TS", "mpeg2.ts", plain(replace(MPEG4, codec="mpeg2video"))),
    Kind("Motion JPEG", "mjpeg.avi", plain(Clip(name="", codec="mjpeg", pix_fmt="yuvj420p"))),
    Kind("VP8", "vp8.webm", plain(VP8)),
    Kind(
        "VP8 with frames that are not shown",
        "hidden.webm",
        changed(VP8, ".webm", hidden_vp8),
        tuple(i for i in range(40) if i % 4 != 3),
    ),
    Kind("VP9", "vp9.webm", plain(VP9)),
    Kind("WebM without a duration", "live.webm", plain(replace(VP9, container_options={"live": "1"}))),
    Kind(
        "AV1",
        "av1.mkv",
        plain(Clip(name="", codec="libsvtav1", options={"preset": "9", "crf": "20", "svtav1-params": "lp=1"})),
    ),
    Kind("variable frame rate", "uneven.mp4", plain(replace(CLOSED, pts_ms=UNEVEN_MS))),
    Kind("29.97 frames/s", "ntsc.mp4", plain(replace(CLOSED, rate=Fraction(30000, 1001)))),
    Kind("times that start late", "late.mp4", plain(replace(H264, pts_ms=tuple(8000 + 40 * i for i in range(40))))),
    Kind("any file name", os.fsdecode(b"concat:%d \xff\xfe.avi"), under_another_name),
    Kind("one frame", "one.mp4", plain(replace(H264, num_frames=1)), (0,)),
    Kind("turned by 90°", "turned-90.mp4", turned(90, False)),
    Kind("turned by 180°", "turned-180.mp4", turned(180, False)),
    Kind("turned by 270°", "turned-270.mp4", turned(270, False)),
    Kind("mirrored", "mirrored.mp4", turned(0, True)),
    Kind("mirrored and turned", "mirrored-90.mp4", turned(90, True)),
    Kind(
        "interlaced H.264",
        "interlaced.mp4",
        plain(replace(H264, options={"flags": "+ildct+ilme", "x264-params": "tff=1"})),
    ),
    Kind("10 bits", "10bit.mp4", plain(replace(H264, pix_fmt="yuv420p10le"))),
    Kind("4:4:4", "444.mp4", plain(replace(H264, pix_fmt="yuv444p"))),
    Kind("gray", "gray.mkv", plain(replace(HEVC, pix_fmt="gray"))),
    Kind("odd sizes", "odd.webm", plain(replace(VP9, width=161, height=121))),
    Kind("full range", "full.mp4", plain(replace(H264, matrix=6, full_range=True))),
    Kind("BT.709", "bt709.mp4", plain(replace(H264, matrix=1, full_range=False))),
    Kind(
        "hidden pre-roll (edit list)",
        "preroll.mp4",
        changed(CLOSED, ".mp4", lambda path, target: hide_first_frames(path, target, 15)),
        tuple(range(15, 40)),
    ),
    Kind("a packet with flipped bits", "flipped.mp4", with_flipped_bytes, None),
    Kind("a damaged block header in MKV", "block.mkv", with_a_lost_block, None),
    Kind("a file that is cut short", "cut.avi", without_end, None),
    Kind(
        "no key frame at the start",
        "no-key.mkv",
        changed(SIMPLE, ".mkv", lambda path, target: drop_first_packets(path, target, 5)),
        None,
    ),
)


class NumberWriter:
    """Keeps the numbers of the frames that it is given, None where one shows none."""

    def __init__(self) -> None:
        self.numbers: list[int | None] = []

    def add(self, jpeg: bytes) -> None:
        try:
            self.numbers.append(read_number(simplejpeg.decode_jpeg(jpeg, colorspace="RGB")))
        except ValueError:
            self.numbers.append(None)


def result(decoder: str, kind: Kind, folder: Path) -> str:
    """ "right", or the kind of failure. Raises AssertionError where wrong frames count as ok."""
    path = folder / kind.file_name
    if not path.exists():
        kind.write(path)
    writer = NumberWriter()
    outcome, _ = extract_video(
        path, ExtractRecipe(decoder=decoder, frames=Frames(short_side_px=0)), writer, lambda: None
    )
    if outcome.status == "ok":
        assert kind.numbers is not None, f"{decoder} takes {kind.label} for whole: {writer.numbers}"
        assert writer.numbers == list(kind.numbers), f"{decoder} gives wrong frames of {kind.label}"
        return "right"
    assert outcome.failure is not None
    return f"`{outcome.failure}`"


def table(folder: Path) -> list[str]:
    """The lines of the README's table. Kinds of which all decoders make the same share a row, those that all do right
    first."""
    rows: dict[tuple[str, ...], list[str]] = {tuple("right" for _ in DECODERS): []}
    for kind in KINDS:
        rows.setdefault(tuple(result(decoder, kind, folder) for decoder in DECODERS), []).append(kind.label)
    head = f"| kind of video | {' | '.join(DECODERS)} |"
    lines = [f"| {'; '.join(labels)} | {' | '.join(results)} |" for results, labels in rows.items() if labels]
    return [head, "| --- " * (1 + len(DECODERS)) + "|", *lines]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print("\n".join(table(Path(name))))
