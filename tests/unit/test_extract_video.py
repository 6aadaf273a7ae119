"""From one video to its frames and its outcome.

Arrays: table_N entries of prep.frame_table.FRAME_DTYPE; frame_HWC uint8 RGB.
"""

import hashlib
import math
import zlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from clips import (
    Clip,
    ListWriter,
    flip_bytes,
    numbered_frame,
    packet_spans,
    rewrite_packets,
    truncate,
    write_clip,
)

from manifests.records import FAILURE_KINDS, Outcome
from prep.decoders.interface import Tally
from prep.extract_video import extract_video, judge, measured_rate
from prep.frame_table import FrameTable
from prep.recipe import ExtractRecipe, Frames, Limits

NATIVE = Frames(short_side_px=0)
CLIP = Clip(name="clip", codec="libx264", options={"x264-params": "keyint=10:scenecut=0:bframes=2"})


def extract(
    path: Path, frames: Frames = NATIVE, limits: Limits | None = None
) -> tuple[Outcome, FrameTable, ListWriter]:
    writer = ListWriter()
    recipe = ExtractRecipe(decoder="pyav", frames=frames, limits=limits or Limits())
    outcome, table_N = extract_video(path, recipe, writer, lambda: None)
    assert outcome.failure is None or outcome.failure in FAILURE_KINDS
    return outcome, table_N, writer


def failure(path: Path, limits: Limits | None = None) -> tuple[str, str | None]:
    """Status and failure kind; a video that is not ok leaves nothing that could be taken for frames."""
    outcome, table_N, _ = extract(path, limits=limits)
    assert outcome.status != "ok"
    assert (len(table_N), outcome.num_frames, outcome.num_bytes, outcome.content_crc32) == (0, 0, 0, None)
    assert outcome.detail or outcome.failure == "empty"
    assert str(path.parent) not in (outcome.detail or "")
    return outcome.status, outcome.failure


# --- Good videos ---


def test_the_frames_and_what_is_said_of_them(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    outcome, table_N, writer = extract(path)
    assert writer.numbers == list(range(40))
    assert outcome == Outcome(
        status="ok",
        source_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        container=outcome.container,
        codec="h264",
        declared_num_frames=40,
        num_frames=40,
        num_decode_errors=0,
        fps=outcome.fps,
        duration_s=outcome.duration_s,
        source_width=96,
        source_height=72,
        rotation_deg=0,
        sample_aspect_ratio=outcome.sample_aspect_ratio,
        width=96,
        height=72,
        num_bytes=sum(map(len, writer.jpegs)),
        content_crc32=zlib.crc32(b"".join(writer.jpegs)),
        decoder=outcome.decoder,
    )
    assert "mp4" in (outcome.container or "")
    assert (outcome.decoder or "").startswith("pyav ")
    assert outcome.fps == pytest.approx(25)
    assert outcome.duration_s == pytest.approx(40 / 25)
    assert table_N["num_bytes"].tolist() == [len(jpeg) for jpeg in writer.jpegs]
    assert table_N["crc32"].tolist() == [zlib.crc32(jpeg) for jpeg in writer.jpegs]
    assert table_N["time_ms"] == pytest.approx(np.arange(40) * 40.0)


@pytest.mark.parametrize("every", [1, 2, 7, 39, 40, 1000])
def test_every(every: int, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    outcome, table_N, writer = extract(path, replace(NATIVE, every=every))
    kept = list(range(0, 40, every))
    assert writer.numbers == kept
    assert outcome.num_frames == len(table_N) == len(kept)
    assert table_N["time_ms"] == pytest.approx(np.array(kept) * 40.0)
    # The rate is that of the video, not of the frames kept.
    assert outcome.fps == pytest.approx(25)
    assert outcome.duration_s == pytest.approx(1.6)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_fps_keeps_the_frames_nearest_in_time(suffix: str, tmp_path: Path) -> None:
    pts_ms = tuple(40 * i for i in range(20)) + tuple(2000 + 100 * i for i in range(20))
    path = write_clip(tmp_path / f"clip{suffix}", replace(CLIP, pts_ms=pts_ms))
    outcome, table_N, writer = extract(path, replace(NATIVE, fps=5))
    # 0.0 to 0.6 s at 25 frames/s, then a gap of which each side keeps one (0.76, 2.0), then every other frame.
    assert writer.numbers == [0, 5, 10, 15, 19, *range(20, 40, 2)]
    assert outcome.num_frames == len(table_N) == len(writer.jpegs)
    assert table_N["time_ms"] == pytest.approx([pts_ms[number] for number in writer.numbers])
    assert table_N["crc32"].tolist() == [zlib.crc32(jpeg) for jpeg in writer.jpegs]
    # The rate is that of the video, not of the frames kept.
    assert outcome.duration_s == pytest.approx(3.9 * 40 / 39)


@pytest.mark.parametrize("fps", [25.0, 60.0, 1000.0])
def test_a_rate_above_that_of_the_video_repeats_nothing(fps: float, tmp_path: Path) -> None:
    path = write_clip(
        tmp_path / "clip.avi", Clip(name="", codec="mpeg4", options={"bf": "2", "qmin": "3", "qmax": "3"})
    )
    outcome, _, writer = extract(path, replace(NATIVE, fps=fps))
    assert writer.numbers == list(range(40))
    assert outcome.status == "ok"


def test_frames_that_are_not_kept_are_judged_too(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    position, size = packet_spans(path)[15]
    flip_bytes(path, position + size // 2, 8)
    outcome, _, _ = extract(path, replace(NATIVE, fps=1))
    assert (outcome.status, outcome.failure) == ("failed", "decode")


def test_scaling(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    outcome, _, writer = extract(path, Frames(short_side_px=48))
    assert (outcome.width, outcome.height) == (64, 48)
    assert (outcome.source_width, outcome.source_height) == (96, 72)
    assert {simplejpeg.decode_jpeg_header(jpeg)[:2] for jpeg in writer.jpegs} == {(48, 64)}
    assert writer.numbers == list(range(40))


@pytest.mark.parametrize("turn_deg", [90, 180, 270])
def test_a_turned_video_is_stored_upright(turn_deg: int, tmp_path: Path) -> None:
    # In the file turned clockwise; the display matrix turns it back, counter-clockwise.
    width, height = (96, 72) if turn_deg == 180 else (72, 96)
    frames = [np.rot90(numbered_frame(i, width, height), -turn_deg // 90).copy() for i in range(5)]
    path = write_clip(tmp_path / "clip.mp4", replace(CLIP, turn_deg=turn_deg), frames)
    outcome, _, writer = extract(path)
    assert writer.numbers == list(range(5))
    assert outcome.rotation_deg == 360 - turn_deg
    assert (outcome.source_width, outcome.source_height) == (96, 72)
    assert (outcome.width, outcome.height) == (width, height)
    assert simplejpeg.decode_jpeg_header(writer.jpegs[0])[:2] == (height, width)


def test_odd_sides(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mkv", replace(CLIP, codec="ffv1", options={}, width=97, height=73))
    outcome, _, writer = extract(path)
    assert (outcome.width, outcome.height) == (97, 73)
    assert writer.numbers == list(range(40))


def test_quality_decides_the_size(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", replace(CLIP, num_frames=3))
    num_bytes = [extract(path, replace(NATIVE, quality=quality))[0].num_bytes for quality in (10, 50, 90, 100)]
    assert num_bytes == sorted(set(num_bytes))


def test_a_still_video_is_fine(tmp_path: Path) -> None:
    """The same picture throughout is suspect only where packets failed."""
    path = write_clip(tmp_path / "clip.mp4", CLIP, [numbered_frame(3, 96, 72)] * 20)
    outcome, _, writer = extract(path)
    assert outcome.status == "ok"
    assert writer.numbers == [3] * 20


def test_signs_of_life(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    beats: list[None] = []
    extract_video(path, ExtractRecipe(decoder="pyav"), ListWriter(), lambda: beats.append(None))
    assert len(beats) >= 40


def test_what_the_writer_raises_passes_through(tmp_path: Path) -> None:
    class FullDisk:
        def add(self, jpeg: bytes) -> None:
            raise OSError(28, "No space left on device")

    path = write_clip(tmp_path / "clip.mp4", CLIP)
    with pytest.raises(OSError, match="No space left"):
        extract_video(path, ExtractRecipe(decoder="pyav"), FullDisk(), lambda: None)


# --- Bad videos ---


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    assert failure(tmp_path / "empty.mp4") == ("failed", "empty")


def test_text(tmp_path: Path) -> None:
    (tmp_path / "page.mp4").write_text("<html><body>404 Not Found</body></html>\n" * 10)
    assert failure(tmp_path / "page.mp4") == ("failed", "unreadable")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    assert failure(tmp_path / "folder.mp4") == ("failed", "unreadable")
    assert failure(tmp_path / "missing.mp4") == ("failed", "unreadable")


@pytest.mark.parametrize("suffix", [".avi", ".mkv", ".mp4"])
def test_a_cut_file_is_truncated(suffix: str, tmp_path: Path) -> None:
    clip = replace(CLIP, container_options={"movflags": "faststart"} if suffix == ".mp4" else {})
    path = write_clip(tmp_path / f"clip{suffix}", clip)
    position, size = packet_spans(path)[30]
    assert failure(truncate(path, position + size // 2)) == ("failed", "truncated")


def two_sizes(tmp_path: Path) -> Path:
    """An MPEG-TS whose picture becomes smaller at frame 10: two of them end to end."""
    parts = [
        write_clip(tmp_path / f"{width}.ts", replace(CLIP, num_frames=10, width=width, height=height))
        for width, height in [(96, 72), (64, 48)]
    ]
    path = tmp_path / "both.ts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def test_a_change_of_size(tmp_path: Path) -> None:
    path = two_sizes(tmp_path)
    assert failure(path) == ("failed", "size_change")
    outcome, _, _ = extract(path)
    assert outcome.detail == "96x72 becomes 64x48 at frame 10"
    # Nothing about it depends on what else is allowed.
    assert failure(path, Limits(keep_damaged=True, max_missing=1.0)) == ("failed", "size_change")


@pytest.mark.parametrize("num_flipped", [1, 2])
def test_damage(num_flipped: int, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    for position, _ in packet_spans(path)[12 : 12 + num_flipped]:
        flip_bytes(path, position, 4)
    assert failure(path) == ("failed", "decode")

    outcome, table_N, writer = extract(path, limits=Limits(keep_damaged=True))
    assert outcome.status == "ok"
    assert outcome.num_decode_errors >= num_flipped
    assert (outcome.detail or "").startswith(f"kept although {num_flipped} packet")
    assert len(table_N) == len(writer.jpegs) == outcome.num_frames <= 40 - num_flipped


@pytest.mark.parametrize("number", [0, 1, 2, 5, 20, 38])
def test_a_packet_that_the_container_loses(number: int, tmp_path: Path) -> None:
    """What precedes a picture in Matroska is its block header: with that, the demuxer drops the rest of a cluster and
    ends as if the file did."""
    path = write_clip(tmp_path / "clip.mkv", CLIP)
    flip_bytes(path, packet_spans(path)[number][0], 2)
    assert failure(path) == ("failed", "decode")


def test_a_stream_that_begins_in_mid_file(tmp_path: Path) -> None:
    one = write_clip(tmp_path / "one.ts", CLIP)
    elsewhere = {"mpegts_start_pid": "0x200", "mpegts_pmt_start_pid": "0x1f0"}
    other = write_clip(tmp_path / "other.ts", replace(CLIP, container_options=elsewhere))
    path = tmp_path / "both.ts"
    path.write_bytes(one.read_bytes() + other.read_bytes())
    assert failure(path) == ("failed", "unsupported")


def test_no_frame_at_all(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    for position, size in packet_spans(path):
        flip_bytes(path, position, size)
    assert failure(path) == ("failed", "decode")
    assert failure(path, Limits(keep_damaged=True)) == ("failed", "decode")


def test_one_picture_throughout_while_packets_fail(tmp_path: Path) -> None:
    """Key frames of one picture, among them packets that fail: not kept even where damage is."""
    still = replace(CLIP, options={"qp": "20", "x264-params": "keyint=1"})
    path = write_clip(tmp_path / "clip.mp4", still, [numbered_frame(3, 96, 72)] * 20)
    flip_bytes(path, packet_spans(path)[5][0], 4)
    assert failure(path) == ("failed", "decode")
    assert failure(path, Limits(keep_damaged=True)) == ("failed", "decode")


def test_packets_that_give_no_picture(tmp_path: Path) -> None:
    """MPEG-4 pictures that are marked as not coded: no error, and no frame."""

    def skip_some(packets: list[bytes]) -> list[bytes]:
        not_coded = b"\x00\x00\x01\xb6" + bytes([0b01010000, 0b01001111])
        return [not_coded if index in skipped else data for index, data in enumerate(packets)]

    whole = write_clip(tmp_path / "clip.avi", replace(CLIP, codec="mpeg4", options={"g": "1"}))
    skipped = {7, 8}
    path = rewrite_packets(whole, tmp_path / "two.avi", skip_some)
    assert extract(path)[2].numbers == [i for i in range(40) if i not in skipped]
    skipped = {7, 8, 9}
    path = rewrite_packets(whole, tmp_path / "three.avi", skip_some)
    assert failure(path) == ("failed", "truncated")
    # 3 of 40 are 7.5 %.
    assert failure(path, Limits(max_missing=0.074)) == ("failed", "truncated")
    assert extract(path, limits=Limits(max_missing=0.076))[0].num_frames == 37


def test_too_short(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", CLIP)
    assert failure(path, Limits(min_frames=41)) == ("excluded", "too_short")
    assert extract(path, limits=Limits(min_frames=40))[0].status == "ok"


# --- judge ---

CLEAN = Tally(num_packets=100, num_errors=0, words=None)
FAULTS: dict[str, dict[str, Any]] = {
    "size_change": {"size_change": "96x72 becomes 64x48 at frame 10"},
    "cut": {"cut": "the segment claims 9 bytes, the file has 8"},
    "no_frame": {"num_frames": 0},
    "errors": {"tally": Tally(num_packets=100, num_errors=3, words="h264: no frame!")},
    "damaged": {"num_damaged": 2},
    "one_picture": {"one_picture": True},
    "missing": {"num_frames": 94},
    "short": {"limits": Limits(min_frames=101)},
}


def judged(*faults: str, limits: Limits | None = None) -> tuple[str, str | None]:
    arguments: dict[str, Any] = {
        "tally": CLEAN,
        "num_frames": 100,
        "num_damaged": 0,
        "cut": None,
        "size_change": None,
        "one_picture": False,
        "limits": Limits(),
    }
    for fault in faults:
        arguments |= FAULTS[fault]
    if limits is not None:
        arguments["limits"] = limits
    outcome = judge(**arguments)
    assert (outcome.status == "ok") == (outcome.failure is None)
    assert outcome.status == "ok" or outcome.detail
    return outcome.status, outcome.failure


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], ("ok", None)),
        (["size_change"], ("failed", "size_change")),
        (["cut"], ("failed", "truncated")),
        (["no_frame"], ("failed", "decode")),
        (["errors"], ("failed", "decode")),
        (["damaged"], ("failed", "decode")),
        (["one_picture"], ("ok", None)),  # a still is no fault by itself
        (["missing"], ("failed", "truncated")),
        (["short"], ("excluded", "too_short")),
        # Several: size_change before truncated before decode before too_short.
        (["size_change", "cut"], ("failed", "size_change")),
        (["size_change", "errors"], ("failed", "size_change")),
        (["size_change", "no_frame"], ("failed", "size_change")),
        (["size_change", "short"], ("failed", "size_change")),
        (["cut", "errors"], ("failed", "truncated")),
        (["cut", "no_frame"], ("failed", "truncated")),
        (["cut", "damaged", "short"], ("failed", "truncated")),
        (["errors", "damaged"], ("failed", "decode")),
        (["errors", "no_frame"], ("failed", "decode")),
        (["errors", "one_picture"], ("failed", "decode")),
        (["errors", "short"], ("failed", "decode")),
        (["errors", "missing"], ("failed", "decode")),  # the errors say why frames are missing
        (["missing", "short"], ("failed", "truncated")),
    ],
)
def test_judgement(faults: list[str], expected: tuple[str, str | None]) -> None:
    assert judged(*faults) == expected


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (["errors"], ("ok", None)),
        (["damaged"], ("ok", None)),
        (["errors", "damaged", "missing"], ("ok", None)),
        (["errors", "one_picture"], ("failed", "decode")),
        (["errors", "no_frame"], ("failed", "decode")),
        (["errors", "cut"], ("failed", "truncated")),
        (["errors", "size_change"], ("failed", "size_change")),
        (["missing"], ("failed", "truncated")),  # no damage that could be kept
    ],
)
def test_judgement_where_damage_is_kept(faults: list[str], expected: tuple[str, str | None]) -> None:
    assert judged(*faults, limits=Limits(keep_damaged=True)) == expected


def test_what_is_kept_though_damaged_says_so() -> None:
    tally = Tally(num_packets=100, num_errors=3, words="h264: no frame!")
    outcome = judge(
        tally,
        num_frames=97,
        num_damaged=2,
        cut=None,
        size_change=None,
        one_picture=False,
        limits=Limits(keep_damaged=True),
    )
    assert outcome.detail == "kept although 3 packets cannot be decoded, 2 frames marked as damaged (h264: no frame!)"


@pytest.mark.parametrize(
    ("num_packets", "num_frames", "max_missing", "is_ok"),
    [
        (40, 38, 0.05, True),  # two are always allowed
        (40, 37, 0.05, False),
        (3, 1, 0.0, True),
        (100, 95, 0.05, True),
        (100, 94, 0.05, False),
        (100, 97, 0.02, False),
        (100, 98, 0.0, True),
        (100, 1, 1.0, True),
        (30, 122, 0.05, True),  # more frames than packets is no fault
        (0, 5, 0.05, True),
    ],
)
def test_missing_packets(num_packets: int, num_frames: int, max_missing: float, is_ok: bool) -> None:
    outcome = judge(
        Tally(num_packets=num_packets, num_errors=0, words=None),
        num_frames=num_frames,
        num_damaged=0,
        cut=None,
        size_change=None,
        one_picture=False,
        limits=Limits(max_missing=max_missing),
    )
    assert (outcome.status, outcome.failure) == (("ok", None) if is_ok else ("failed", "truncated"))


# --- measured_rate ---

NAN = math.nan


@pytest.mark.parametrize(
    ("times_s", "declared", "expected"),
    [
        ([0.0, 0.04, 0.08, 0.12], Fraction(30), (25.0, 0.16)),  # the header is not believed
        ([8.0, 8.5, 9.0], None, (2.0, 1.5)),  # a late start is no length
        ([0.0, 0.1, 0.5, 1.0], Fraction(30), (3.0, 4 / 3)),  # uneven: the mean
        ([5.0], Fraction(25), (25.0, 0.04)),
        ([5.0], None, (None, None)),
        ([NAN], Fraction(25), (25.0, 0.04)),
        ([NAN, NAN, NAN], Fraction(30), (30.0, 0.1)),
        ([NAN, NAN, NAN], None, (None, None)),
        ([0.0, 0.04, NAN], Fraction(25), (25.0, 0.12)),
        ([1.0, 1.0, 1.0], Fraction(25), (25.0, 0.12)),
        ([2.0, 1.0], Fraction(25), (25.0, 0.08)),
        ([1.0, 1.0], None, (None, None)),
        ([1.0, 1.0], Fraction(0), (None, None)),
        ([], Fraction(25), (None, None)),
    ],
)
def test_measured_rate(
    times_s: list[float], declared: Fraction | None, expected: tuple[float | None, float | None]
) -> None:
    assert list(measured_rate(times_s, declared)) == pytest.approx(list(expected))
