"""What every decoder owes: every frame once, in order, with its time, size, orientation and colour; and a tally.

Arrays: frame_HWC uint8 or float RGB; y_HW, u_hw, v_hw uint8 planes, full-range BT.601 4:2:0.
"""

import functools
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from clips import (
    Clip,
    UInt8Array,
    drop_first_packets,
    flip_bytes,
    hide_first_frames,
    hide_vp8_frame,
    numbered_frame,
    numbered_frames,
    pack_bframes,
    packet_spans,
    read_number,
    rewrite_packets,
    truncate,
    write_clip,
    yuv_frame,
)
from PIL import Image

from prep.decoders import DECODERS, open_decoder
from prep.decoders.interface import Planes, Tally, VideoError
from prep.geometry import Orientation, Size, turn_upright

FloatArray = npt.NDArray[np.float64]

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not installed")

X265_QUIET = "log-level=none:pools=none:frame-threads=1"
UNEVEN_MS = tuple(40 * i + 13 * (i % 3) + (900 if i > 20 else 0) for i in range(40))

# The suffix of the name chooses the container.
CLIPS = (
    Clip(name="h264-closed.mp4", codec="libx264", options={"g": "12", "bf": "2"}),
    Clip(name="h264-open.mp4", codec="libx264", options={"x264-params": "open-gop=1:keyint=12:bframes=3:scenecut=0"}),
    Clip(name="h264-open.mkv", codec="libx264", options={"x264-params": "open-gop=1:keyint=12:bframes=3:scenecut=0"}),
    Clip(name="h264-bframes.avi", codec="libx264", options={"g": "12", "bf": "3"}),
    Clip(name="h264.ts", codec="libx264", options={"g": "12", "bf": "2"}),
    Clip(
        name="h264-fragments.mp4",
        codec="libx264",
        options={"g": "12"},
        container_options={"movflags": "frag_keyframe+empty_moov"},
    ),
    Clip(name="h264-29.97.mp4", codec="libx264", rate=Fraction(30000, 1001)),
    Clip(name="h264-uneven.mp4", codec="libx264", options={"bf": "2"}, pts_ms=UNEVEN_MS),
    Clip(name="h264-uneven.mkv", codec="libx264", options={"bf": "2"}, pts_ms=UNEVEN_MS),
    Clip(name="h264-late-start.mp4", codec="libx264", pts_ms=tuple(8000 + 40 * i for i in range(40))),
    Clip(name="h264-interlaced.mp4", codec="libx264", options={"flags": "+ildct+ilme", "x264-params": "tff=1"}),
    Clip(name="h264-10bit.mp4", codec="libx264", pix_fmt="yuv420p10le"),
    Clip(name="h264-444.mp4", codec="libx264", pix_fmt="yuv444p"),
    Clip(name="h264-one.mp4", codec="libx264", num_frames=1),
    Clip(name="hevc-open.mp4", codec="libx265", options={"x265-params": f"open-gop=1:keyint=12:{X265_QUIET}"}),
    Clip(name="hevc-gray.mkv", codec="libx265", pix_fmt="gray", options={"x265-params": X265_QUIET}),
    Clip(name="mpeg4.avi", codec="mpeg4", options={"qmin": "3", "qmax": "3"}),
    Clip(name="mpeg4-bframes.avi", codec="mpeg4", options={"bf": "2", "qmin": "3", "qmax": "3"}),
    Clip(name="mpeg2.ts", codec="mpeg2video", options={"bf": "2", "qmin": "3", "qmax": "3"}),
    Clip(name="mjpeg.avi", codec="mjpeg", pix_fmt="yuvj420p"),
    Clip(name="vp8.webm", codec="libvpx", options={"cpu-used": "8"}),
    Clip(name="vp9-odd.webm", codec="libvpx-vp9", width=161, height=121, options={"cpu-used": "8"}),
    Clip(name="av1.mkv", codec="libsvtav1", options={"preset": "9", "crf": "20", "svtav1-params": "lp=1"}),
    Clip(name="ffv1-odd.mkv", codec="ffv1", width=61, height=45),
)
PACKED = Clip(name="packed-bframes.avi", codec="mpeg4", options={"bf": "1", "qmin": "3", "qmax": "3"})
HIDDEN = Clip(name="vp8-hidden.webm", codec="libvpx", options={"cpu-used": "8"})
CODEC_NAMES = {
    "libx264": "h264",
    "libx265": "hevc",
    "libvpx": "vp8",
    "libvpx-vp9": "vp9",
    "libsvtav1": "av1",
}
HIDDEN_EVERY = 4  # the last of so many packets is not shown


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(params=DECODERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def others_may_refuse(test: Callable[..., None]) -> Callable[..., None]:
    """The first decoder has to give every frame. The others may fail in their own name (test_decoder_table.py pins down
    of what kinds of video), but never give another frame."""

    @functools.wraps(test)
    def run(name: str, **fixtures: object) -> None:
        try:
            test(name=name, **fixtures)
        except VideoError as error:
            if name == DECODERS[0] or name not in error.detail:
                raise

    return run


def made(folder: Path, clip: Clip) -> Path:
    """The clip's file, written the first time it is asked for."""
    path = folder / clip.name
    return path if path.exists() else write_clip(path, clip)


def decode(name: str, path: Path) -> tuple[list[int], list[float | None], Tally]:
    """The number and the time of every frame, and the tally at the end."""
    numbers, times_s = [], []
    with open_decoder(name, path) as decoder:
        for frame in decoder.frames():
            numbers.append(read_number(frame.planes(frame.size)[0]))
            times_s.append(frame.time_s)
        return numbers, times_s, decoder.tally


# --- Order, completeness, times ---


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)
@others_may_refuse
def test_every_frame_once_in_order(name: str, clip: Clip, folder: Path) -> None:
    numbers, times_s, tally = decode(name, made(folder, clip))
    assert numbers == list(range(clip.num_frames))
    assert tally == Tally(num_packets=clip.num_frames, num_errors=0, words=None)

    assert all(time_s is not None for time_s in times_s)
    steps_s = [time_s - times_s[0] for time_s in times_s]  # type: ignore[operator]
    if clip.pts_ms is None:
        expected_s = [float(index / clip.rate) for index in range(clip.num_frames)]
    else:
        expected_s = [(time_ms - clip.pts_ms[0]) / 1000 for time_ms in clip.pts_ms]
    # Matroska keeps whole milliseconds.
    assert steps_s == pytest.approx(expected_s, abs=0.00101)


def test_times_count_from_where_the_file_says(name: str, folder: Path) -> None:
    clip = next(clip for clip in CLIPS if clip.name == "h264-late-start.mp4")
    _, times_s, _ = decode(name, made(folder, clip))
    assert times_s[0] == pytest.approx(8.0, abs=0.0001)


@others_may_refuse
def test_packed_bframes(name: str, folder: Path) -> None:
    packed = pack_bframes(made(folder, replace(PACKED, name="single-bframes.avi")), folder / PACKED.name)
    numbers, times_s, tally = decode(name, packed)
    assert numbers == list(range(PACKED.num_frames))
    assert np.diff(np.array(times_s, float)) == pytest.approx(1 / 25)
    assert tally.num_errors == 0
    with open_decoder(name, packed) as decoder:
        assert decoder.header.declared_num_frames == PACKED.num_frames + 1


@others_may_refuse
def test_pictures_that_are_not_meant_to_be_shown_are_not_missed(name: str, folder: Path) -> None:
    def is_shown(index: int) -> bool:
        return index % HIDDEN_EVERY != HIDDEN_EVERY - 1

    def hide(packets: list[bytes]) -> list[bytes]:
        return [data if is_shown(index) else hide_vp8_frame(data) for index, data in enumerate(packets)]

    path = rewrite_packets(made(folder, replace(HIDDEN, name="vp8-shown.webm")), folder / HIDDEN.name, hide)
    numbers, _, tally = decode(name, path)
    assert numbers == [index for index in range(HIDDEN.num_frames) if is_shown(index)]
    assert tally.num_packets == len(numbers)


@others_may_refuse
def test_frames_that_an_edit_list_hides_are_neither_shown_nor_missed(name: str, folder: Path) -> None:
    path = hide_first_frames(made(folder, CLIPS[0]), folder / "preroll.mp4", 15)
    numbers, times_s, tally = decode(name, path)
    assert numbers == list(range(15, 40))
    assert times_s == pytest.approx([index / 25 for index in range(25)])
    assert tally == Tally(num_packets=25, num_errors=0, words=None)


@pytest.mark.parametrize("clip_name", ["h264-open.mkv", "hevc-open.mp4"])
@others_may_refuse
def test_a_cut_at_an_open_group(name: str, clip_name: str, folder: Path) -> None:
    """Pictures that need what was cut off are left out; the key frame and all that follow it are whole."""
    path = made(folder, next(clip for clip in CLIPS if clip.name == clip_name))
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    times = [packet.pts or 0 for packet in packets]
    cut = max(i for i, packet in enumerate(packets) if packet.is_keyframe and min(times[i:]) < times[i])
    key_number = sorted(times).index(times[cut])

    numbers, _, tally = decode(name, drop_first_packets(path, folder / f"cut-{clip_name}", cut))
    assert numbers == list(range(key_number, 40))
    assert tally.num_errors == 0


# --- Header and life ---


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)
@others_may_refuse
def test_size_and_header(name: str, clip: Clip, folder: Path) -> None:
    with open_decoder(name, made(folder, clip)) as decoder:
        frame = next(decoder.frames())
        assert frame.size == Size(clip.width, clip.height)
        assert frame.orientation == Orientation()
        assert not frame.is_damaged
        y_HW, u_hw, v_hw = frame.planes(frame.size)
        assert decoder.version.startswith(f"{name} ")
        assert decoder.header.container
        assert decoder.header.codec == CODEC_NAMES.get(clip.codec, clip.codec)
        if clip.pts_ms is None and clip.num_frames > 1:
            assert decoder.header.declared_fps == pytest.approx(float(clip.rate), rel=0.001)
    assert y_HW.shape == (clip.height, clip.width)
    assert u_hw.shape == v_hw.shape == (math.ceil(clip.height / 2), math.ceil(clip.width / 2))
    assert y_HW.dtype == u_hw.dtype == v_hw.dtype == np.uint8


def test_closing_twice_and_early(name: str, folder: Path) -> None:
    path = made(folder, CLIPS[0])
    with open_decoder(name, path) as decoder:
        frames = decoder.frames()
        next(frames)
    decoder.close()
    decoder.close()
    # Another decoder is not disturbed.
    assert len(decode(name, path)[0]) == CLIPS[0].num_frames


def test_two_decoders_at_once(name: str, folder: Path) -> None:
    first, second = made(folder, CLIPS[0]), made(folder, CLIPS[2])
    with open_decoder(name, first) as one, open_decoder(name, second) as other:
        pairs = [
            (read_number(a.planes(a.size)[0]), read_number(b.planes(b.size)[0]))
            for a, b in zip(one.frames(), other.frames(), strict=True)
        ]
    assert pairs == [(i, i) for i in range(40)]


def test_a_relative_name_with_a_colon_is_a_file(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    shutil.copy(made(folder, CLIPS[0]), "concat:part.mp4")
    with open_decoder(name, Path("concat:part.mp4")) as decoder:
        assert sum(1 for _ in decoder.frames()) == CLIPS[0].num_frames


# --- Orientation ---


@pytest.mark.parametrize("turn_deg", [0, 90, 180, 270])
@pytest.mark.parametrize("hflip", [False, True])
@others_may_refuse
def test_orientation(name: str, turn_deg: int, hflip: bool, folder: Path) -> None:
    """`set_display_rotation` turns counter-clockwise, then mirrors: undone before coding, it must come out upright."""
    upright_HWC = numbered_frame(5, 72, 96) if turn_deg in (90, 270) else numbered_frame(5, 96, 72)
    coded_HWC = upright_HWC[:, ::-1] if hflip else upright_HWC
    coded_HWC = np.ascontiguousarray(np.rot90(coded_HWC, -turn_deg // 90))
    clip = Clip(name=f"turned-{turn_deg}-{hflip}.mp4", codec="libx264", turn_deg=turn_deg, hflip=hflip)
    path = write_clip(folder / clip.name, clip, [coded_HWC] * 3)
    with open_decoder(name, path) as decoder:
        for frame in decoder.frames():
            assert frame.size == Size(96, 72)
            assert frame.orientation.swaps_sides == (turn_deg in (90, 270))
            y_HW = turn_upright(frame.planes(frame.size), frame.orientation)[0]
            assert y_HW.shape == upright_HWC.shape[:2]
            assert read_number(y_HW) == 5


@needs_ffmpeg
@pytest.mark.parametrize("turn_deg", [0, 90, 180, 270])
@pytest.mark.parametrize("hflip", [False, True])
@others_may_refuse
def test_orientation_is_that_of_ffmpeg(name: str, turn_deg: int, hflip: bool, folder: Path) -> None:
    clip = Clip(name=f"shown-{turn_deg}-{hflip}.mp4", codec="libx264", num_frames=2, turn_deg=turn_deg, hflip=hflip)
    path = made(folder, clip)
    with open_decoder(name, path) as decoder:
        frame = next(decoder.frames())
        y_HW = turn_upright(frame.planes(frame.size), frame.orientation)[0]
    height, width = y_HW.shape
    reference_HWC = ffmpeg_rgb(path, width, height)[0]
    assert np.abs(reference_HWC.mean(axis=2) - y_HW).mean() < 2


# --- Colour ---


COLOUR_WIDTH, COLOUR_HEIGHT = 96, 72

# Mean absolute error in levels, of each channel. A wrong matrix or range is off by more than 4.
COLOUR_TOLERANCE = 2.0


def smooth_rgb(width: int = COLOUR_WIDTH, height: int = COLOUR_HEIGHT) -> FloatArray:
    """frame_HWC float in [0, 255]: slow waves through most of the RGB cube, equal within 2x2 pixels, so that 4:2:0
    loses nothing."""
    y_H1, x_1W = np.ogrid[0 : height // 2, 0 : width // 2]
    y_H1, x_1W = y_H1 * 2 / height, x_1W * 2 / width
    phases = [x_1W + 0 * y_H1, y_H1 + x_1W, y_H1 - 0.3 + 0 * x_1W]
    frame_hwC = np.stack([127.5 + 110 * np.sin(2 * np.pi * phase) for phase in phases], axis=-1)
    return frame_hwC.repeat(2, axis=0).repeat(2, axis=1)


def rgb_to_yuv(frame_HWC: FloatArray, matrix: str, full_range: bool) -> tuple[UInt8Array, UInt8Array, UInt8Array]:
    """The definition in ITU-T H.273 (8.3: luma coefficients, scaling to 8 bits); chroma is 2x2 averages."""
    kr, kb = LUMA_SHARES[matrix]
    r_HW, g_HW, b_HW = np.moveaxis(frame_HWC / 255, -1, 0)
    luma_HW = kr * r_HW + (1 - kr - kb) * g_HW + kb * b_HW
    blue_HW, red_HW = (b_HW - luma_HW) / (2 - 2 * kb), (r_HW - luma_HW) / (2 - 2 * kr)
    luma_scale, luma_offset, chroma_scale = (255, 0, 255) if full_range else (219, 16, 224)
    height, width = luma_HW.shape

    def quantise(plane: FloatArray, scale: int, offset: int) -> UInt8Array:
        return np.clip(np.round(plane * scale + offset), 0, 255).astype(np.uint8)

    def halve(plane_HW: FloatArray) -> FloatArray:
        halved: FloatArray = plane_HW.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))
        return halved

    return (
        quantise(luma_HW, luma_scale, luma_offset),
        quantise(halve(blue_HW), chroma_scale, 128),
        quantise(halve(red_HW), chroma_scale, 128),
    )


def jfif_rgb(planes: Planes) -> FloatArray:
    """frame_HWC from planes as JFIF 1.02 says (full range, BT.601), each chroma sample for its 2x2 pixels."""
    y_HW = planes[0].astype(float)
    height, width = y_HW.shape
    cb_HW, cr_HW = (plane_hw.astype(float).repeat(2, 0).repeat(2, 1)[:height, :width] - 128 for plane_hw in planes[1:])
    channels = (y_HW + 1.402 * cr_HW, y_HW - 0.34414 * cb_HW - 0.71414 * cr_HW, y_HW + 1.772 * cb_HW)
    return np.clip(np.stack(channels, axis=-1), 0, 255)


def ffmpeg_rgb(path: Path, width: int, height: int) -> UInt8Array:
    """clip_THWC as the program converts it, upright."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-threads", "1", "-i", f"file:{path}", "-fps_mode", "passthrough"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(data, np.uint8).reshape(-1, height, width, 3)


# Matrix coefficients by name, and the shares of red and blue in their luma: ITU-T H.273, table 4.
MATRICES = {"bt601": 6, "bt470bg": 5, "bt709": 1, "bt2020": 9, "smpte240m": 7, "fcc": 4}
LUMA_SHARES = {
    "bt601": (0.299, 0.114),
    "bt470bg": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
    "smpte240m": (0.212, 0.087),
    "fcc": (0.30, 0.11),
}
COLOURS = [(matrix, full_range) for matrix in MATRICES for full_range in (False, True)]


@pytest.fixture(params=COLOURS, ids=lambda colour: f"{colour[0]}-{'full' if colour[1] else 'limited'}")
def colour_clip(request: pytest.FixtureRequest, folder: Path) -> Path:
    """Two lossless frames of `smooth_rgb` in the colours of the parameter, tagged as such."""
    matrix, full_range = request.param
    path = folder / f"colour-{matrix}-{full_range}.mp4"
    if not path.exists():
        clip = Clip(name="", codec="libx264", options={"qp": "0"}, matrix=MATRICES[matrix], full_range=full_range)
        frames = [yuv_frame(rgb_to_yuv(smooth_rgb(), matrix, full_range), "yuv420p") for _ in range(2)]
        write_clip(path, clip, frames)
    return path


def test_colour_is_that_of_the_picture_encoded(name: str, colour_clip: Path) -> None:
    with open_decoder(name, colour_clip) as decoder:
        for frame in decoder.frames():
            error_HWC = np.abs(jfif_rgb(frame.planes(frame.size)) - smooth_rgb())
            assert error_HWC.mean(axis=(0, 1)).max() < COLOUR_TOLERANCE


def test_untagged_colour_is_bt601_limited(name: str, folder: Path) -> None:
    frames = [yuv_frame(rgb_to_yuv(smooth_rgb(), "bt601", False), "yuv420p")]
    path = write_clip(folder / "untagged.mkv", Clip(name="", codec="ffv1"), frames)
    with open_decoder(name, path) as decoder:
        frame = next(decoder.frames())
        error_HWC = np.abs(jfif_rgb(frame.planes(frame.size)) - smooth_rgb())
    assert error_HWC.mean(axis=(0, 1)).max() < COLOUR_TOLERANCE


@needs_ffmpeg
def test_colour_is_that_of_ffmpeg(name: str, colour_clip: Path) -> None:
    reference_HWC = ffmpeg_rgb(colour_clip, COLOUR_WIDTH, COLOUR_HEIGHT)[0]
    with open_decoder(name, colour_clip) as decoder:
        frame = next(decoder.frames())
        error_HWC = np.abs(jfif_rgb(frame.planes(frame.size)) - reference_HWC)
    assert error_HWC.mean(axis=(0, 1)).max() < COLOUR_TOLERANCE


@pytest.mark.parametrize("pix_fmt", ["yuv422p", "yuv444p", "yuv420p10le", "yuv444p12le", "bgr0", "gbrp10le"])
def test_every_layout_has_the_colour(name: str, pix_fmt: str, tmp_path: Path) -> None:
    picture_HWC = smooth_rgb(384, 288)  # large, for some layouts interpolate chroma
    native = VideoFrame.from_ndarray(picture_HWC.round().astype(np.uint8), format="rgb24").reformat(
        format=pix_fmt,
        interpolation=Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INP,
        dst_colorspace=Colorspace.ITU601,
        dst_color_range=ColorRange.MPEG,
    )
    path = write_clip(
        tmp_path / "clip.mkv", Clip(name="", codec="ffv1", width=384, height=288, pix_fmt=pix_fmt), [native]
    )
    with open_decoder(name, path) as decoder:
        frame = next(decoder.frames())
        error_HWC = np.abs(jfif_rgb(frame.planes(frame.size)) - picture_HWC)
    assert error_HWC.mean(axis=(0, 1)).max() < COLOUR_TOLERANCE


def test_colours_that_rgb_cannot_hold(name: str, tmp_path: Path) -> None:
    """Most YUV has no RGB: a decoder that gives RGB clips it, and these are the right frames all the same."""
    rng = np.random.default_rng(5)
    frames = []
    for _ in range(4):
        y_HW, u_hw, v_hw = (rng.integers(0, 256, shape, np.uint8) for shape in ((72, 96), (36, 48), (36, 48)))
        frames.append(yuv_frame((y_HW, u_hw, v_hw), "yuv420p"))
    path = write_clip(tmp_path / "clip.mkv", Clip(name="", codec="ffv1"), frames)
    with open_decoder(name, path) as decoder:
        assert sum(1 for _ in decoder.frames()) == 4


def test_ten_bits_become_eight(name: str, folder: Path) -> None:
    """Levels from 0 to 1023 in equal steps, full range: a plane of 8 bits holds a quarter of each."""
    y_HW = np.tile(np.linspace(0, 1023, 96).round().astype(np.uint16), (72, 1))
    gray_hw = np.full((36, 48), 512, np.uint16)
    clip = Clip(name="", codec="ffv1", pix_fmt="yuv420p10le", matrix=6, full_range=True)
    path = write_clip(folder / "levels-10bit.mkv", clip, [yuv_frame((y_HW, gray_hw, gray_hw), "yuv420p10le")])
    with open_decoder(name, path) as decoder:
        frame = next(decoder.frames())
        decoded_HW, u_hw, v_hw = frame.planes(frame.size)
    assert np.abs(decoded_HW - y_HW * (255 / 1023)).max() <= (1 if name == "pyav" else ROUNDINGS)
    assert np.abs(u_hw.astype(int) - 128).max() <= 1
    assert np.abs(v_hw.astype(int) - 128).max() <= 1


# --- Scaling ---

ROUNDINGS = 3  # levels that a way through the RGB of a library may cost


def noise_clip(path: Path, width: int, height: int) -> Planes:
    """One lossless full-range BT.601 frame of noise, hence with detail of every size, that RGB can hold; returns its
    planes."""
    rng = np.random.default_rng(7)
    y_HW = rng.integers(64, 192, (height, width), np.uint8)
    u_hw, v_hw = (rng.integers(112, 144, (height // 2, width // 2), np.uint8) for _ in range(2))
    clip = Clip(name="", codec="ffv1", width=width, height=height, matrix=6, full_range=True)
    write_clip(path, clip, [yuv_frame((y_HW, u_hw, v_hw), "yuv420p")])
    return y_HW, u_hw, v_hw


def test_native_size_keeps_the_planes(name: str, tmp_path: Path) -> None:
    expected = noise_clip(tmp_path / "noise.mkv", 96, 72)
    with open_decoder(name, tmp_path / "noise.mkv") as decoder:
        frame = next(decoder.frames())
        for plane, source in zip(frame.planes(frame.size), expected, strict=True):
            # By way of RGB there are two more roundings.
            assert np.abs(plane.astype(int) - source).max() <= (0 if name == "pyav" else ROUNDINGS)


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_shrinking_by_a_whole_factor_averages_blocks(name: str, factor: int, tmp_path: Path) -> None:
    source = noise_clip(tmp_path / "noise.mkv", 96, 72)
    with open_decoder(name, tmp_path / "noise.mkv") as decoder:
        planes = next(decoder.frames()).planes(Size(96 // factor, 72 // factor))
    for plane, full in zip(planes, source, strict=True):
        height, width = full.shape
        blocks = full.reshape(height // factor, factor, width // factor, factor).mean(axis=(1, 3))
        assert plane.shape == blocks.shape
        assert np.abs(plane - blocks).max() <= (1.0 if name == "pyav" else ROUNDINGS)


@pytest.mark.parametrize(("width", "height"), [(48, 36), (62, 46), (80, 60), (94, 70)])
def test_shrinking_does_not_alias(name: str, width: int, height: int, tmp_path: Path) -> None:
    """Stripes one pixel wide, faded by half at both ends: what is left after shrinking to half is their mean."""
    y_HW = np.tile(np.array([0, 255], np.uint8), (72, 48))
    gray_hw = np.full((36, 48), 128, np.uint8)
    clip = Clip(name="", codec="ffv1", matrix=6, full_range=True)
    write_clip(tmp_path / "stripes.mkv", clip, [yuv_frame((y_HW, gray_hw, gray_hw), "yuv420p")])
    with open_decoder(name, tmp_path / "stripes.mkv") as decoder:
        small_HW = next(decoder.frames()).planes(Size(width, height))[0]
    assert small_HW.mean() == pytest.approx(127.5, abs=1.5)
    if width == 48:
        assert np.ptp(small_HW) <= 2


def area_weights(num_out: int, num_in: int) -> FloatArray:
    """The share of each sample of a line in each of a shorter one: their overlap, laid over each other."""
    edges_out = np.arange(num_out + 1)[:, None] * num_in / num_out
    edges_in = np.arange(num_in)[None]
    overlap = np.minimum(edges_out[1:], edges_in + 1) - np.maximum(edges_out[:-1], edges_in)
    return np.clip(overlap, 0, None) * num_out / num_in


def area_scaled(plane_HW: npt.NDArray[np.generic], height: int, width: int) -> FloatArray:
    """The mean over the area that each pixel of the smaller picture covers in the larger one."""
    full_height, full_width = plane_HW.shape
    scaled_HW: FloatArray = area_weights(height, full_height) @ plane_HW @ area_weights(width, full_width).T
    return scaled_HW


def zone_plate(width: int, height: int) -> UInt8Array:
    """y_HW: rings whose frequency grows from the middle to the highest that pixels can hold at the nearer edges."""
    y_H1, x_1W = np.ogrid[0.5 - height / 2 : height / 2, 0.5 - width / 2 : width / 2]
    phase_HW = np.pi / 2 * (x_1W**2 + y_H1**2) / (min(width, height) / 2)
    return (127.5 + 110 * np.cos(phase_HW)).round().astype(np.uint8)


@pytest.mark.parametrize(
    ("full", "small"),
    [
        (Size(1920, 1080), Size(456, 256)),
        (Size(1280, 720), Size(456, 256)),
        (Size(340, 256), Size(298, 224)),
        (Size(320, 240), Size(134, 101)),
        (Size(270, 480), Size(256, 456)),
    ],
    ids=lambda size: f"{size.width}x{size.height}",
)
def test_a_zone_plate_shrinks_to_the_means_of_areas(name: str, full: Size, small: Size, tmp_path: Path) -> None:
    """Neither aliases nor lies half a pixel off."""
    y_HW = zone_plate(full.width, full.height)
    gray_hw = np.full((full.height // 2, full.width // 2), 128, np.uint8)
    clip = Clip(name="", codec="ffv1", width=full.width, height=full.height, matrix=6, full_range=True)
    write_clip(tmp_path / "plate.mkv", clip, [yuv_frame((y_HW, gray_hw, gray_hw), "yuv420p")])
    with open_decoder(name, tmp_path / "plate.mkv") as decoder:
        planes = next(decoder.frames()).planes(small)
    error_HW = np.abs(planes[0] - area_scaled(y_HW, small.height, small.width))
    assert error_HW.mean() < 0.7
    assert error_HW.max() <= ROUNDINGS
    for plane in planes[1:]:
        assert np.abs(plane.astype(int) - 128).max() <= 1
    # That the test can tell: the nearest pixels make another picture.
    rows, columns = (np.arange(n) * m // n for n, m in ((small.height, full.height), (small.width, full.width)))
    assert np.abs(y_HW[rows][:, columns] - area_scaled(y_HW, small.height, small.width)).mean() > 10


@others_may_refuse
def test_interlaced_pictures_shrink_as_whole_pictures(name: str, tmp_path: Path) -> None:
    """Not each field for itself: that would move lines by up to half a pixel."""
    y_HW = np.tile(np.linspace(0, 255, 288).round().astype(np.uint8)[:, None], (1, 352))
    gray_hw = np.full((144, 176), 128, np.uint8)
    options = {"qp": "0", "flags": "+ildct+ilme", "x264-params": "tff=1"}
    clip = Clip(name="", codec="libx264", width=352, height=288, options=options, matrix=6, full_range=True)
    write_clip(tmp_path / "ramp.mp4", clip, [yuv_frame((y_HW, gray_hw, gray_hw), "yuv420p")] * 2)
    with open_decoder(name, tmp_path / "ramp.mp4") as decoder:
        for frame in decoder.frames():
            small_HW = frame.planes(Size(88, 72))[0]
            assert np.abs(small_HW - area_scaled(y_HW, 72, 88)).max() <= ROUNDINGS / 2


@pytest.mark.parametrize("factor", [1.5, 2, 3.2])
def test_enlarging_does_not_shift(name: str, factor: float, tmp_path: Path) -> None:
    """A ramp stays the ramp that it was, away from the edges."""
    y_HW = np.tile((40 + np.arange(80) * 2).astype(np.uint8), (60, 1))
    gray_hw = np.full((30, 40), 128, np.uint8)
    clip = Clip(name="", codec="ffv1", width=80, height=60, matrix=6, full_range=True)
    write_clip(tmp_path / "ramp.mkv", clip, [yuv_frame((y_HW, gray_hw, gray_hw), "yuv420p")])
    with open_decoder(name, tmp_path / "ramp.mkv") as decoder:
        large_HW = next(decoder.frames()).planes(Size(round(80 * factor), round(60 * factor)))[0]
    positions = (np.arange(large_HW.shape[1]) + 0.5) / factor - 0.5
    inside = (positions > 3) & (positions < 76)
    assert np.abs(large_HW[:, inside] - (40 + 2 * positions[inside])).max() <= ROUNDINGS / 2


@pytest.mark.parametrize(("width", "height"), [(48, 36), (80, 60), (144, 108), (192, 144), (97, 73)])
def test_any_size_shows_the_same_picture(name: str, width: int, height: int, folder: Path) -> None:
    with open_decoder(name, made(folder, CLIPS[0])) as decoder:
        for number, frame in enumerate(decoder.frames()):
            y_HW, u_hw, v_hw = frame.planes(Size(width, height))
            assert y_HW.shape == (height, width)
            assert u_hw.shape == v_hw.shape == (math.ceil(height / 2), math.ceil(width / 2))
            assert read_number(y_HW) == number


# --- Damage ---

DAMAGED = Clip(name="to-damage.mp4", codec="libx264", options={"x264-params": "keyint=10:scenecut=0:bframes=0"})


def damaged(name: str, path: Path) -> tuple[list[int | None], int]:
    """What each frame shows (None where nothing can be read), and how many faults were reported."""
    numbers: list[int | None] = []
    num_faults = 0
    with open_decoder(name, path) as decoder:
        for frame in decoder.frames():
            num_faults += frame.is_damaged
            try:
                numbers.append(read_number(frame.planes(frame.size)[0]))
            except ValueError:
                numbers.append(None)
        num_faults += decoder.tally.num_errors
        assert num_faults == 0 or decoder.tally.words
    return numbers, num_faults


@pytest.mark.parametrize("where", ["length", "header", "data"])
@others_may_refuse
def test_a_damaged_packet_is_counted_and_decoding_goes_on(name: str, where: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", DAMAGED)
    position, size = packet_spans(path)[13]
    # The length of the NAL unit (4 bytes, then its type); within the slice header; the coded picture.
    start, num_bytes = {"length": (position, 4), "header": (position + 8, 4), "data": (position + size // 2, 8)}[where]
    numbers, num_faults = damaged(name, flip_bytes(path, start, num_bytes))
    assert num_faults > 0
    assert numbers[:13] == list(range(13))
    # From the next key frame on all is well again, and nothing stands in for the lost one.
    assert numbers[-20:] == list(range(20, 40))
    assert len(numbers) <= DAMAGED.num_frames


def test_an_undamaged_copy_reports_no_fault(name: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", DAMAGED)
    assert damaged(name, path) == (list(range(40)), 0)


@pytest.mark.parametrize("suffix", [".mp4", ".avi", ".mkv"])
def test_a_cut_file_gives_the_frames_it_has(name: str, suffix: str, tmp_path: Path) -> None:
    clip = replace(DAMAGED, container_options={"movflags": "faststart"} if suffix == ".mp4" else {})
    path = write_clip(tmp_path / f"clip{suffix}", clip)
    position, _ = packet_spans(path)[25]
    numbers, _ = damaged(name, truncate(path, position))
    assert numbers == list(range(25))


# --- Files that are no video ---


@pytest.mark.parametrize(
    ("file_name", "content"),
    [
        ("empty.mp4", b""),
        ("page.mp4", b"<!DOCTYPE html><html><body>404 Not Found</body></html>\n" * 3),
        ("zeros.avi", bytes(5000)),
        ("noise.mkv", np.random.default_rng(3).bytes(5000)),
    ],
)
def test_unreadable(name: str, file_name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / file_name
    path.write_bytes(content)
    with pytest.raises(VideoError) as caught:
        open_decoder(name, path)
    assert caught.value.kind in ("unreadable", "no_video")
    assert caught.value.detail
    assert str(tmp_path) not in caught.value.detail


def test_a_missing_file_is_unreadable(name: str, tmp_path: Path) -> None:
    with pytest.raises(VideoError) as caught:
        open_decoder(name, tmp_path / "missing.mp4")
    assert caught.value.kind == "unreadable"


def test_a_cut_header_is_unreadable(name: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", DAMAGED)
    with pytest.raises(VideoError) as caught:
        open_decoder(name, truncate(path, path.stat().st_size // 2))
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_picture_is_no_video(name: str, suffix: str, tmp_path: Path) -> None:
    Image.fromarray(numbered_frame(1, 96, 72)).save(tmp_path / f"picture{suffix}")
    (tmp_path / f"picture{suffix}").rename(tmp_path / "picture.mp4")
    with pytest.raises(VideoError) as caught:
        open_decoder(name, tmp_path / "picture.mp4")
    assert caught.value.kind == "no_video"


def write_audio(path: Path, *, with_cover: bool, video: bool = False) -> Path:
    """A short silence in an MP4, behind a cover picture and before a video if wanted."""
    with av.open(str(path), "w") as container:
        sound = container.add_stream("aac", rate=16000)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        silence.sample_rate = 16000
        pictures = []
        if with_cover:
            cover = container.add_stream("mjpeg", rate=1, options={"strict": "unofficial"})
            cover.disposition = Disposition.attached_pic
            pictures.append((cover, "yuvj420p", [numbered_frame(900, 64, 64)]))
        if video:
            pictures.append((container.add_stream("mpeg4", rate=25), "yuv420p", list(numbered_frames(5))))
        for stream, pix_fmt, frames in pictures:
            stream.height, stream.width = frames[0].shape[:2]
            stream.pix_fmt = pix_fmt
        container.start_encoding()
        for stream, pix_fmt, frames in pictures:
            for frame in frames:
                picture = VideoFrame.from_ndarray(frame, format="rgb24").reformat(format=pix_fmt)
                container.mux(stream.encode(picture))
            container.mux(stream.encode(None))
        container.mux(sound.encode(silence))
        container.mux(sound.encode(None))
    return path


@pytest.mark.parametrize("with_cover", [False, True])
def test_audio_is_no_video(name: str, with_cover: bool, tmp_path: Path) -> None:
    path = write_audio(tmp_path / "audio.mp4", with_cover=with_cover)
    with pytest.raises(VideoError) as caught:
        open_decoder(name, path)
    assert caught.value.kind == "no_video"


def test_a_cover_picture_is_not_taken_for_the_video(name: str, tmp_path: Path) -> None:
    path = write_audio(tmp_path / "video.mp4", with_cover=True, video=True)
    assert decode(name, path)[0] == list(range(5))


def test_tags_need_not_be_utf8(name: str, tmp_path: Path) -> None:
    path = tmp_path / "clip.avi"
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "a title to replace"
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 72, "yuv420p"
        for frame_HWC in numbered_frames(5):
            container.mux(stream.encode(VideoFrame.from_ndarray(frame_HWC, format="rgb24")))
        container.mux(stream.encode(None))
    data = path.read_bytes()
    assert data.count(b"a title") == 1
    path.write_bytes(data.replace(b"a title", b"\xff\xfe\xe9\x80\x81\x82\x83"))
    assert decode(name, path)[0] == list(range(5))


def test_an_unknown_codec_is_unsupported(name: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", DAMAGED)
    data = path.read_bytes()
    assert data.count(b"avc1") >= 1
    # The last one is that of the sample entry; the others are brands of the file.
    head, _, tail = data.rpartition(b"avc1")
    path.write_bytes(head + b"zzzz" + tail)
    with pytest.raises(VideoError) as caught:
        open_decoder(name, path)
    assert caught.value.kind == "unsupported"


def test_numbers_can_be_misread() -> None:
    """The tests above hang on `read_number`: it must not find numbers in what has none, or upside down."""
    frame_HWC = numbered_frame(77, 96, 72)
    blend_HWC = (frame_HWC // 2 + numbered_frame(78, 96, 72) // 2).astype(np.uint8)
    for wrong in (blend_HWC, frame_HWC[::-1], frame_HWC[:, ::-1], np.full_like(frame_HWC, 128)):
        with pytest.raises(ValueError, match="no number"):
            read_number(wrong)
    assert [read_number(frame_HWC) for frame_HWC in numbered_frames(1024, 32, 24)] == list(range(1024))


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No decoder may write to stderr: that belongs to the user's progress and errors."""
    yield
    captured = capfd.readouterr().err
    # Encoders of the test may; SVT-AV1 and x26x begin their lines like this.
    assert [line for line in captured.splitlines() if not line.startswith(("Svt[", "x26"))] == []
