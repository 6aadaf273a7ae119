"""One window of a video: its frames, what is said of it, and what is wrong with the file before, in and after it.

Arrays: table_N entries of prep.frame_table.FRAME_DTYPE; frame_HWC uint8 RGB.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clips import (
    Clip,
    ListWriter,
    flip_bytes,
    numbered_frame,
    pack_bframes,
    packet_spans,
    rewrite_packets,
    truncate,
    write_clip,
)

from manifests.records import Outcome
from manifests.windows import Window
from prep.decoders import DECODERS
from prep.extract_video import extract_video
from prep.frame_table import FrameTable
from prep.recipe import ExtractRecipe, Frames, Limits

NATIVE = Frames(short_side_px=0)
CLIP = Clip(name="clip.mp4", codec="libx264", options={"x264-params": "keyint=10:scenecut=0:bframes=2"})
MPEG4 = {"qmin": "3", "qmax": "3"}
EVEN_MS = tuple(40 * i for i in range(40))
UNEVEN_MS = tuple(40 * i + 13 * (i % 3) + (900 if i > 20 else 0) for i in range(40))
LATE_MS = tuple(8000 + 40 * i for i in range(40))

CLIPS = [
    CLIP,
    replace(CLIP, name="open.mkv", options={"x264-params": "open-gop=1:keyint=12:bframes=3:scenecut=0"}),
    replace(CLIP, name="uneven.mp4", options={"bf": "2"}, pts_ms=UNEVEN_MS),
    replace(CLIP, name="uneven.mkv", options={"bf": "2"}, pts_ms=UNEVEN_MS),
    replace(CLIP, name="late.mp4", pts_ms=LATE_MS),
    Clip(name="bframes.avi", codec="mpeg4", options={"bf": "2", **MPEG4}),
    Clip(name="plain.avi", codec="mpeg4", options=MPEG4),
    Clip(name="vp9.webm", codec="libvpx-vp9", options={"cpu-used": "8"}),
]

# Frames at the end of a window are predicted from some that are shown well after it.
DEEP = replace(
    CLIP, name="deep.mp4", options={"x264-params": "keyint=40:scenecut=0:bframes=5:b-adapt=0:b-pyramid=strict"}
)

WINDOWS = [Window(0, 0.2), Window(0.4, 0.8), Window(0.41, 0.81), Window(0.6, 5), Window(1.4)]


def extract(
    path: Path,
    window: Window | None,
    decoder: str = "pyav",
    frames: Frames = NATIVE,
    limits: Limits | None = None,
    beat: Callable[[], None] = lambda: None,
) -> tuple[Outcome, FrameTable, ListWriter]:
    writer = ListWriter()
    recipe = ExtractRecipe(decoder=decoder, frames=frames, limits=limits or Limits())
    return *extract_video(path, recipe, writer, beat, window=window), writer  # type: ignore[return-value]


def verdict(path: Path, window: Window | None, limits: Limits | None = None) -> tuple[str, str | None, str | None]:
    outcome, table_N, writer = extract(path, window, limits=limits)
    assert len(table_N) == (len(writer.jpegs) if outcome.status == "ok" else 0)
    return outcome.status, outcome.failure, outcome.detail


def inside(pts_ms: tuple[int, ...], window: Window) -> list[int]:
    """The numbers of the frames, by whole milliseconds."""
    start, end = round(window.start_s * 1000), round((window.end_s or 10**6) * 1000)
    return [number for number, ms in enumerate(pts_ms) if start <= ms - pts_ms[0] < end]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


def made(folder: Path, clip: Clip) -> Path:
    path = folder / clip.name
    return path if path.exists() else write_clip(path, clip)


# --- Frames ---


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)
def test_just_the_frames_of_the_window_with_their_times_in_the_file(decoder: str, clip: Clip, folder: Path) -> None:
    path, pts_ms = made(folder, clip), clip.pts_ms or EVEN_MS
    whole, whole_N, all_frames = extract(path, None, decoder)
    assert (whole.status, all_frames.numbers) == ("ok", list(range(40)))
    for window in WINDOWS:
        outcome, table_N, writer = extract(path, window, decoder)
        expected = inside(pts_ms, window)
        assert writer.numbers == expected
        assert writer.jpegs == [all_frames.jpegs[number] for number in expected]
        assert table_N.tobytes() == whole_N[expected].tobytes()  # type: ignore[index]
        assert (outcome.status, outcome.failure, outcome.num_frames) == ("ok", None, len(expected))


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_packed_bframes(decoder: str, folder: Path) -> None:
    clip = Clip(name="bf1.avi", codec="mpeg4", options={"bf": "1", **MPEG4})
    path = pack_bframes(made(folder, clip), folder / "packed.avi")
    for window in WINDOWS:
        assert extract(path, window, decoder)[2].numbers == inside(EVEN_MS, window)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_turned_video(decoder: str, tmp_path: Path) -> None:
    frames = [np.rot90(numbered_frame(i, 96, 128), -1).copy() for i in range(40)]
    path = write_clip(tmp_path / "turned.mp4", replace(CLIP, width=128, height=96, turn_deg=90), frames)
    outcome, _, writer = extract(path, Window(0.4, 0.8), decoder)
    assert writer.numbers == list(range(10, 20))
    assert (outcome.rotation_deg, outcome.width, outcome.height) == (270, 96, 128)


def test_sampling_counts_within_the_window(folder: Path) -> None:
    path = made(folder, CLIP)
    assert extract(path, Window(0.44, 0.8), frames=replace(NATIVE, every=3))[2].numbers == [11, 14, 17]
    # After the first frame 0.44 s: 0.1, 0.2 and 0.3 s lie in the middle between two, of which the earlier is kept.
    assert extract(path, Window(0.43, 0.8), frames=replace(NATIVE, fps=10))[2].numbers == [11, 13, 16, 18]
    assert extract(path, Window(0.43, 0.8), frames=replace(NATIVE, fps=1000))[2].numbers == list(range(11, 20))


def test_what_is_said_of_a_window(folder: Path) -> None:
    """Rate and length are its own, the hash is that of the file, and no header knows its number of frames."""
    path = made(folder, replace(CLIP, name="uneven.mp4", options={"bf": "2"}, pts_ms=UNEVEN_MS))
    whole, _, _ = extract(path, None)
    outcome, table_N, writer = extract(path, Window(0.5, 1))
    assert writer.numbers == list(range(13, 21))
    own = {name: getattr(outcome, name) for name in ("fps", "duration_s", "num_bytes", "content_crc32", "num_frames")}
    assert outcome == replace(whole, **own, declared_num_frames=None)
    span_s = (UNEVEN_MS[20] - UNEVEN_MS[13]) / 1000
    assert (outcome.fps, outcome.duration_s) == (pytest.approx(7 / span_s), pytest.approx(span_s * 8 / 7))
    assert outcome.source_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert table_N["time_ms"] == pytest.approx(UNEVEN_MS[13:21])
    assert outcome.num_bytes == sum(map(len, writer.jpegs))


def test_nothing_is_decoded_after_the_window(folder: Path) -> None:
    beats: list[None] = []
    extract(made(folder, CLIP), Window(0.2, 0.4), beat=lambda: beats.append(None))
    assert len(beats) == 1 + 11  # one for the hash, one for each of the frames 0 to 10


# --- Windows that the video does not fill ---


def test_windows_without_a_frame(folder: Path) -> None:
    path = made(folder, CLIP)
    beyond = "no frame from 1.6 s to the end: the video ends at 1.6 s"
    assert verdict(path, Window(1.6)) == ("failed", "too_short", beyond)
    assert verdict(path, Window(0.41, 0.43)) == ("failed", "too_short", "no frame from 0.41 s to 0.43 s")
    path = made(folder, replace(CLIP, name="late.mp4", pts_ms=LATE_MS))
    assert verdict(path, Window(8, 9))[2] == "no frame from 8 s to 9 s: the video ends at 1.6 s"


def test_a_video_that_ends_before_its_window(folder: Path) -> None:
    path = made(folder, CLIP)
    assert verdict(path, Window(1, 2.1)) == ("ok", None, None)
    short = "the video ends at 1.6 s, and a list names the window from 1 s to 2.2 s"
    assert verdict(path, Window(1, 2.2)) == ("ok", None, short)


def test_the_smallest_number_of_frames_is_that_of_the_window(folder: Path) -> None:
    path, window = made(folder, CLIP), Window(0.4, 0.8)
    assert verdict(path, window, Limits(min_frames=10)) == ("ok", None, None)
    too_short = "10 frames, fewer than limits.min_frames=11"
    assert verdict(path, window, Limits(min_frames=11)) == ("excluded", "too_short", too_short)


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_a_file_without_times(decoder: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.h264", CLIP)
    assert extract(path, None, decoder)[0].status == "ok"
    outcome, _, _ = extract(path, Window(0.4, 0.8), decoder)
    assert (outcome.status, outcome.failure, outcome.declared_num_frames) == ("failed", "unsupported", None)
    assert (
        outcome.detail
        == "a list names the window from 0.4 s to 0.8 s, and the file does not tell when its frames are shown"
    )


# --- Damage ---


@pytest.mark.parametrize(
    ("clip", "num_flipped", "step"),
    [(CLIP, 4, 3), (CLIP, 24, 3), (DEEP, 24, 1), (CLIPS[1], 24, 3), (CLIPS[5], 4, 3), (CLIPS[5], 24, 1)],
)
def test_no_damage_passes_that_would_not_pass_in_the_whole(
    clip: Clip, num_flipped: int, step: int, folder: Path, tmp_path: Path
) -> None:
    """Whichever packet is damaged: an ok window has the right frames, unless nothing tells of the damage at all; it is
    not ok if the damage is before its end, and ok if it is some frames after."""
    whole = made(folder, clip)
    window = Window(0.2, 0.8)
    right = extract(whole, window)[2].jpegs
    path = tmp_path / clip.name
    num_ok = 0
    for number, (position, size) in list(enumerate(packet_spans(whole)))[::step]:
        path.write_bytes(whole.read_bytes())
        flip_bytes(path, position + (0 if num_flipped == 4 else size // 3), min(num_flipped, size // 2))
        outcome, _, writer = extract(path, window)
        is_told = extract(path, None)[0].status != "ok"
        if outcome.status == "ok" and is_told:
            assert writer.jpegs == right, number
            num_ok += 1
        if is_told and number < 15:  # packets of frames before the end, however these are reordered
            assert (outcome.status, outcome.failure) == ("failed", "decode"), number
        if number >= 20 + 8:
            assert outcome.status == "ok", number
    assert num_ok > 2


def test_damage_before_the_window_can_be_kept(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(made(folder, CLIP).read_bytes())
    flip_bytes(path, packet_spans(path)[3][0], 4)
    outcome, _, writer = extract(path, Window(0.8, 1.2), limits=Limits(keep_damaged=True))
    assert (outcome.status, writer.numbers) == ("ok", list(range(20, 30)))
    assert (outcome.detail or "").startswith("kept although 1 packet cannot be decoded")


@pytest.mark.parametrize("suffix", [".mkv", ".avi"])
def test_a_file_that_is_cut_after_the_window(suffix: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / f"clip{suffix}", CLIP)
    position, size = packet_spans(path)[30]
    truncate(path, position + size // 2)
    assert extract(path, Window(0.4, 0.8))[2].numbers == list(range(10, 20))
    assert verdict(path, Window(0.4, 0.8)) == ("ok", None, None)
    for window in (None, Window(0.4), Window(0.4, 1.5), Window(1.4, 1.5)):
        assert verdict(path, window)[:2] == ("failed", "truncated")


def test_packets_without_a_picture_after_the_window(tmp_path: Path) -> None:
    """MPEG-4 pictures that are marked as not coded: no error, and no frame."""

    def skip_some(packets: list[bytes]) -> list[bytes]:
        not_coded = b"\x00\x00\x01\xb6" + bytes([0b01010000, 0b01001111])
        return [not_coded if 30 <= index < 36 else data for index, data in enumerate(packets)]

    whole = write_clip(tmp_path / "clip.avi", replace(CLIP, codec="mpeg4", options={"g": "1"}))
    path = rewrite_packets(whole, tmp_path / "six.avi", skip_some)
    assert extract(path, Window(0.4, 0.8))[2].numbers == list(range(10, 20))
    assert verdict(path, Window(0.4, 0.8)) == ("ok", None, None)
    assert verdict(path, Window(0.4))[:2] == ("failed", "truncated")


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_a_change_of_size_after_the_window(decoder: str, tmp_path: Path) -> None:
    parts = [
        write_clip(tmp_path / f"{width}.ts", replace(CLIP, num_frames=10, width=width, height=height))
        for width, height in [(96, 72), (64, 48)]
    ]
    path = tmp_path / "both.ts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    assert extract(path, Window(0.1, 0.3), decoder)[2].numbers == [3, 4, 5, 6, 7]
    outcome, _, _ = extract(path, Window(0.1, 5), decoder)
    assert (outcome.failure, outcome.detail) == ("size_change", "96x72 becomes 64x48 at frame 10")
