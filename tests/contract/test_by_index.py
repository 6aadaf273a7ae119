"""Frames by number: the right ones, in any selection, whichever way they are reached; and which way that is.

Arrays: picture_HWC, frame_HWC uint8 RGB.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from clips import (
    Clip,
    drop_first_packets,
    flip_bytes,
    hide_first_frames,
    numbered_frame,
    pack_bframes,
    packet_spans,
    read_number,
    truncate,
    write_clip,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prep import by_index
from prep.by_index import BY_NUMBER, BY_TIME, FORWARD, FrameIndex, index_video, read_pictures
from prep.decoders import DECODERS
from prep.decoders.interface import VideoError
from prep.decoders.pyav import PyavFrame
from prep.extract_video import extract_video
from prep.recipe import ExtractRecipe, Frames

X265 = "log-level=none:pools=none:frame-threads=1"
UNEVEN_MS = tuple(40 * i + 13 * (i % 3) + (900 if i > 20 else 0) for i in range(40))

CLOSED = Clip(name="h264.mp4", codec="libx264", options={"g": "12", "bf": "2"})
OPEN = Clip(name="open.mkv", codec="libx264", options={"x264-params": "open-gop=1:keyint=12:bframes=3:scenecut=0"})
PLAIN_AVI = Clip(name="mpeg4.avi", codec="mpeg4", options={"bf": "2", "g": "12", "qmin": "3", "qmax": "3"})

# The access of pyav, and of decord; OpenCV reads forward always.
KINDS: tuple[tuple[Clip, str, str], ...] = (
    (CLOSED, BY_TIME, BY_NUMBER),
    (replace(CLOSED, name="h264.mkv"), BY_TIME, BY_NUMBER),
    (replace(CLOSED, name="uneven.mp4", pts_ms=UNEVEN_MS), BY_TIME, BY_NUMBER),
    (replace(CLOSED, name="late.mp4", pts_ms=tuple(8000 + 40 * i for i in range(40))), BY_TIME, BY_NUMBER),
    (replace(CLOSED, name="one.mp4", num_frames=1), BY_TIME, BY_NUMBER),
    (OPEN, BY_TIME, FORWARD),
    (replace(OPEN, name="open.mp4"), BY_TIME, FORWARD),
    (
        Clip(name="hevc.mp4", codec="libx265", options={"x265-params": f"open-gop=1:keyint=12:{X265}"}),
        BY_TIME,
        FORWARD,
    ),
    (Clip(name="vp9.webm", codec="libvpx-vp9", options={"g": "12", "cpu-used": "8"}), BY_TIME, BY_NUMBER),
    (replace(CLOSED, name="turned.mp4", turn_deg=90), BY_TIME, FORWARD),
    (replace(CLOSED, name="mirrored.mp4", turn_deg=180, hflip=True), BY_TIME, FORWARD),
    (PLAIN_AVI, FORWARD, FORWARD),
    (replace(CLOSED, name="h264.avi"), FORWARD, FORWARD),
    (replace(CLOSED, name="h264.ts"), FORWARD, FORWARD),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(params=DECODERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(folder: Path, clip: Clip) -> Path:
    path = folder / clip.name
    return path if path.exists() else write_clip(path, clip)


def indexed(path: Path, name: str) -> FrameIndex:
    """Skips where the decoder refuses this kind of video altogether."""
    try:
        return index_video(path, name)
    except VideoError as error:
        if name == DECODERS[0] or name not in error.detail:
            raise
        pytest.skip(f"an extraction fails likewise: {error}")


def numbers_of(path: Path, name: str, index: FrameIndex, asked: list[int]) -> list[int]:
    return [read_number(picture_HWC) for picture_HWC in read_pictures(path, name, index, asked)]


# --- The right frames ---


@pytest.mark.parametrize(("clip", "pyav", "decord"), KINDS, ids=lambda value: getattr(value, "name", ""))
def test_every_selection_gives_its_frames(folder: Path, name: str, clip: Clip, pyav: str, decord: str) -> None:
    path = made(folder, clip)
    index = indexed(path, name)
    assert index.num_frames == clip.num_frames
    assert index.access == {"pyav": pyav, "decord": decord, "opencv": FORWARD}[name]
    upright = (clip.height, clip.width) if clip.turn_deg == 90 else (clip.width, clip.height)
    assert (index.width, index.height) == upright
    rng = np.random.default_rng(0)
    selections = [[0], [clip.num_frames - 1], list(range(clip.num_frames))]
    selections += [
        sorted(rng.choice(clip.num_frames, min(3, clip.num_frames), replace=False).tolist()) for _ in range(8)
    ]
    for asked in selections:
        pictures = read_pictures(path, name, index, asked)
        assert {picture_HWC.shape for picture_HWC in pictures} == {(index.height, index.width, 3)}
        assert [read_number(as_coded(picture_HWC, clip)) for picture_HWC in pictures] == asked


def as_coded(picture_HWC: np.ndarray, clip: Clip) -> np.ndarray:
    """Before the turn of the clip, counter-clockwise, and the mirroring that follows it."""
    return np.rot90(picture_HWC[:, ::-1] if clip.hflip else picture_HWC, k=-clip.turn_deg // 90)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.sets(st.integers(0, 39), min_size=1), is_open=st.booleans())
def test_any_selection_by_time(folder: Path, asked: set[int], is_open: bool) -> None:
    path = made(folder, OPEN if is_open else CLOSED)
    index = _INDICES.setdefault(path.name, index_video(path, "pyav"))
    assert len(index.keys_K) > 2
    assert numbers_of(path, "pyav", index, sorted(asked)) == sorted(asked)


_INDICES: dict[str, FrameIndex] = {}


def test_only_what_is_needed_is_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(folder, CLOSED)
    index = index_video(path, "pyav")
    num_decoded = 0
    decode = by_index.PyavDecoder.frames

    def counting(self: by_index.PyavDecoder) -> Iterator[PyavFrame]:
        nonlocal num_decoded
        for frame in decode(self):
            num_decoded += 1
            yield frame

    monkeypatch.setattr(by_index.PyavDecoder, "frames", counting)
    numbers_of(path, "pyav", index, [1, 38])
    assert num_decoded < 12, "two groups of pictures are touched, not all four"
    num_decoded = 0
    numbers_of(path, "pyav", replace(index, access=FORWARD), [1, 38])
    assert num_decoded == 39


def test_packed_bframes(folder: Path, name: str) -> None:
    """HMDB-51's kind: a packet more than pictures."""
    plain = made(folder, Clip(name="plain.avi", codec="mpeg4", options={"bf": "1", "qmin": "3", "qmax": "3"}))
    path = pack_bframes(plain, folder / f"packed-{name}.avi")
    index = indexed(path, name)
    assert (index.num_frames, index.access) == (40, FORWARD)
    for asked in ([1], [13], [39], [2, 20, 38]):
        assert numbers_of(path, name, index, asked) == asked


def test_frames_that_an_edit_list_hides(folder: Path, name: str) -> None:
    path = hide_first_frames(made(folder, CLOSED), folder / f"hidden-{name}.mp4", 5)
    index = indexed(path, name)
    assert index.num_frames == 35
    assert numbers_of(path, name, index, [0, 3, 34]) == [5, 8, 39]
    assert numbers_of(path, name, index, [20]) == [25]


# --- As an extraction gives them ---


class _Kept(list[bytes]):
    """A writer that keeps the frames."""

    def add(self, jpeg: bytes) -> None:
        self.append(jpeg)


@pytest.mark.parametrize("clip", [CLOSED, PLAIN_AVI, KINDS[9][0], KINDS[10][0]], ids=lambda clip: clip.name)
def test_pictures_are_those_of_an_extraction(tmp_path: Path, name: str, clip: Clip) -> None:
    """But for the loss of JPEG: with smooth colours, two levels."""
    rows, columns = np.mgrid[:72, :96]
    frames = [
        np.stack([columns // 2 + 4 * number + 20, rows // 2 + 4 * number + 20, 180 - columns + number], axis=2)
        .clip(16, 235)
        .astype(np.uint8)
        for number in range(clip.num_frames)
    ]
    path = write_clip(tmp_path / clip.name, clip, frames)
    index = indexed(path, name)
    kept = _Kept()
    recipe = ExtractRecipe(decoder=name, frames=Frames(short_side_px=0, quality=100))
    outcome, _ = extract_video(path, recipe, kept, lambda: None)
    assert (outcome.status, outcome.num_frames) == ("ok", index.num_frames)
    assert (outcome.width, outcome.height) == (index.width, index.height)
    assert outcome.fps == pytest.approx(index.fps)
    asked = list(range(0, 40, 3))
    for number, picture_HWC in zip(asked, read_pictures(path, name, index, asked), strict=True):
        stored_HWC = simplejpeg.decode_jpeg(kept[number])
        inner = (slice(4, -4), slice(4, -4))  # chroma of edges is up to each library
        assert np.abs(picture_HWC[inner].astype(int) - stored_HWC[inner]).mean() < 2
    first_HWC, last_HWC = (simplejpeg.decode_jpeg(kept[number]) for number in (0, 39))
    assert np.abs(first_HWC.astype(int) - last_HWC).mean() > 10, "another frame would be noticed"


# --- What cannot be trusted ---


def test_what_an_extraction_fails_is_refused(folder: Path, tmp_path: Path) -> None:
    path = made(folder, PLAIN_AVI)
    half = truncate(tmp_path_copy(path, tmp_path / "half.avi"), path.stat().st_size // 2)
    damaged = tmp_path_copy(path, tmp_path / "damaged.avi")
    for start, num_bytes in packet_spans(damaged)[5:8]:
        flip_bytes(damaged, start, num_bytes)
    headless = drop_first_packets(made(folder, CLOSED), tmp_path / "headless.mp4", 6)
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("no video" * 100)
    kinds = {half: "truncated", damaged: "decode", tmp_path / "empty.mp4": "empty", tmp_path / "text.mp4": "unreadable"}
    kinds |= {tmp_path / "none.mp4": "unreadable", headless: "truncated"}
    for path, kind in kinds.items():
        with pytest.raises(VideoError) as caught:
            index_video(path, "pyav")
        assert caught.value.kind == kind, path


def tmp_path_copy(path: Path, target: Path) -> Path:
    target.write_bytes(path.read_bytes())
    return target


def test_an_access_that_gives_other_frames_is_not_believed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(folder, CLOSED)
    assert index_video(path, "pyav").access == BY_TIME
    seek = by_index.PyavDecoder.seek
    monkeypatch.setattr(by_index.PyavDecoder, "seek", lambda self, ticks: seek(self, ticks + 10**9))
    assert index_video(path, "pyav").access == FORWARD
    decord = pytest.importorskip("prep.decoders.decord")
    assert index_video(path, "decord").access == BY_NUMBER
    read = decord.read_numbers
    monkeypatch.setattr(
        decord, "read_numbers", lambda path, asked, count: read(path, [max(0, n - 1) for n in asked], count)
    )
    assert index_video(path, "decord").access == FORWARD


def test_decord_by_number_is_wrong_where_it_is_not_asked(folder: Path) -> None:
    """The reason for the list of codecs: of open groups of pictures it gives others."""
    decord = pytest.importorskip("prep.decoders.decord")
    path = made(folder, KINDS[7][0])
    asked = list(range(39, -1, -3))
    natives = [decord.read_numbers(path, [number], 40)[0] for number in asked]
    assert [read_or_none(native.to_ndarray()) for native in natives] != asked


def read_or_none(picture_HWC: np.ndarray) -> int | None:
    try:
        return read_number(picture_HWC)
    except ValueError:
        return None


def test_frames_that_are_gone(folder: Path) -> None:
    path = made(folder, CLOSED)
    index = index_video(path, "pyav")
    shorter = write_clip(folder / "shorter.mp4", replace(CLOSED, name="shorter.mp4", num_frames=20))
    for access in (BY_TIME, FORWARD):
        with pytest.raises(VideoError, match="frame 30 does not come"):
            read_pictures(shorter, "pyav", replace(index, access=access), [3, 30])


def test_the_pictures_differ() -> None:
    """The numbers can be told apart."""
    pictures = [numbered_frame(number, 96, 72) for number in range(40)]
    assert all((one != other).any() for one, other in pairwise(pictures))
