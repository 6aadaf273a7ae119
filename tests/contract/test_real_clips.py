"""The frames of real clips: as decoded, equal to what ffmpeg gave once and wrote into expected.json; as stored, each
nearest to its own reference frame.

Arrays: frame_HWC uint8 RGB; plane_HW uint8 bytes of one native plane.
"""

import hashlib
import importlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from clips import ListWriter

from prep.decoders import DECODERS, open_decoder
from prep.decoders.interface import VideoError
from prep.decoders.pyav import PyavDecoder
from prep.extract_video import extract_video
from prep.recipe import ExtractRecipe, Frames

UInt8Array = npt.NDArray[np.uint8]

VIDEOS = Path(__file__).resolve().parents[3] / "shared" / "data" / "videos"
EXPECTED: dict[str, Any] = (
    json.loads((VIDEOS / "expected.json").read_text(encoding="utf-8"))["files"] if VIDEOS.is_dir() else {}
)
GOOD = [name for name, entry in EXPECTED.items() if entry["verdict"] in ("ok", "ok_header_wrong")]
BAD = [name for name, entry in EXPECTED.items() if entry["verdict"] in ("fail", "degraded")]
# Two minutes of 1080p: its frames are counted, and that is all.
LONG = "other/long_1080p_slides_3678frames.mp4"
SHORT = [name for name in GOOD if name != LONG]
DATASET_CLIPS = [name for name in GOOD if name.startswith(("ucf101/", "kinetics/", "hmdb51/"))]

# XviD streams of which FFmpeg's releases decode a few samples a level or two apart, from their second frame on. No
# other file may differ in a single bit.
NOT_BIT_EXACT = {
    "awkward/avi_header_counts_2_extra_frames.avi",
    "awkward/names/-leading-dash.avi",
    'awkward/names/it\'s "quoted" & 100%.avi',
    "awkward/names/name with  spaces.avi",
    "awkward/names/видео_视频_é.avi",
    "ucf101/v_Biking_g05_c02.avi",
    "ucf101/v_SoccerJuggling_g23_c01.avi",
}
NOT_EVEN_AS_RGB = {"awkward/avi_header_counts_2_extra_frames.avi"}
NATIVE_TOLERANCE = 0.5  # mean absolute difference in levels
SAME = 0.02  # so near are pictures that repeat in the source

# What the libraries behind the other decoders get wrong, without an error: these must fail.
REFUSED = {
    "pyav": set[str](),
    "opencv": {"awkward/av1.mkv", "awkward/interlaced_tff.mp4"},
    "decord": {
        "awkward/av1.mkv",
        "awkward/edit_list_discards_first_keyframe.mp4",
        "awkward/no_duration_vp9.webm",
        "awkward/stream_copy_cut_hidden_preroll.mp4",
        "hmdb51/RATRACE_wave_f_nm_np1_fr_goo_37.avi",
        "hmdb51/SchoolRulesHowTheyHelpUs_wave_f_nm_np1_ba_med_0.avi",
        "hmdb51/Turnk_r_Pippi_Michel_cartwheel_f_cm_np2_le_med_6.avi",
        "other/two_video_streams_bt709_nasa.mp4",
    },
}
# Of these their RGB is not bit for bit that of ffmpeg's default conversion.
NOT_THE_SAME_RGB = {"awkward/h264_10bit.mp4", "awkward/odd_161x121_vp9.webm", *NOT_EVEN_AS_RGB}

FAILURES_ALLOWED = {
    "unreadable_container": {"unreadable"},
    "unsupported_codec": {"unsupported"},
    "no_video_stream": {"no_video"},
    "no_decodable_frames": {"decode"},
    "corrupt_packets": {"decode"},
    "missing_keyframe": {"decode", "truncated"},
    "resolution_change": {"size_change"},
    "empty_file": {"empty"},
    "truncated": {"truncated"},
}

pytestmark = pytest.mark.skipif(not EXPECTED, reason=f"the real clips are not at {VIDEOS}")
HAS_FFMPEG = shutil.which("ffmpeg") is not None


def no_beat() -> None:
    pass


# --- As decoded ---


@pytest.mark.parametrize("decoder_name", DECODERS)
@pytest.mark.parametrize("file_name", GOOD)
def test_count_and_order_of_time(decoder_name: str, file_name: str) -> None:
    """As many frames as ffprobe counts, whatever the header says; and time goes forward."""
    if file_name == LONG and decoder_name == "decord":
        pytest.skip("decord decodes ahead without bound: this clip would take more memory than a machine may have")
    try:
        with open_decoder(decoder_name, VIDEOS / file_name) as decoder:
            times_s = [frame.time_s for frame in decoder.frames()]
            tally = decoder.tally
    except VideoError:
        assert file_name in REFUSED[decoder_name]
        return
    assert len(times_s) == EXPECTED[file_name]["frames_decoded"]
    assert (tally.num_errors, tally.words) == (0, None)
    assert all(a is not None and b is not None and a < b for a, b in pairwise(times_s))


@pytest.mark.parametrize("file_name", [name for name in SHORT if name not in NOT_BIT_EXACT])
def test_native_pixels_are_equal(file_name: str) -> None:
    with PyavDecoder(VIDEOS / file_name) as decoder:
        md5s = [hashlib.md5(packed_picture(frame.native)).hexdigest() for frame in decoder.frames()]
    digest = hashlib.sha256("\n".join(md5s).encode()).hexdigest()
    assert digest == EXPECTED[file_name]["all_frames_native_digest"]


@pytest.mark.parametrize("file_name", sorted(NOT_BIT_EXACT))
def test_native_pixels_are_nearly_equal(file_name: str) -> None:
    """The first frame is equal, the others are once they are RGB; and with ffmpeg here, each is compared with its."""
    references = ffmpeg_native(file_name) if HAS_FFMPEG else None
    known = {entry["index"]: entry["rgb24"] for entry in EXPECTED[file_name]["frames_md5"].values()}
    num_frames = 0
    with PyavDecoder(VIDEOS / file_name) as decoder:
        for index, frame in enumerate(decoder.frames()):
            packed = packed_picture(frame.native)
            if index == 0:
                assert hashlib.md5(packed).hexdigest() == EXPECTED[file_name]["frames_md5"]["first"]["native"]
            if index in known and file_name not in NOT_EVEN_AS_RGB:
                assert hashlib.md5(rgb(frame.native).tobytes()).hexdigest() == known[index]
            if references is not None:
                reference = np.frombuffer(next(references), np.uint8).astype(np.int16)
                assert np.abs(np.frombuffer(packed, np.uint8) - reference).mean() <= NATIVE_TOLERANCE, index
            num_frames += 1
    assert num_frames == EXPECTED[file_name]["frames_decoded"]


@pytest.mark.parametrize("decoder_name", DECODERS[1:])
@pytest.mark.parametrize("file_name", [name for name in SHORT if name not in NOT_THE_SAME_RGB])
def test_rgb_pixels_of_the_other_decoders_are_equal(decoder_name: str, file_name: str) -> None:
    if file_name in REFUSED[decoder_name]:
        return
    known = {entry["index"]: entry["rgb24"] for entry in EXPECTED[file_name]["frames_md5"].values()}
    with PyavDecoder(VIDEOS / file_name) as decoder:
        orientation = next(decoder.frames()).orientation
    read_pictures = importlib.import_module(f"prep.decoders.{decoder_name}").read_pictures
    num_frames = 0
    for index, picture in enumerate(read_pictures(VIDEOS / file_name, orientation)):
        if index in known:
            assert hashlib.md5(rgb(picture).tobytes()).hexdigest() == known[index]
        num_frames += 1
    assert num_frames == EXPECTED[file_name]["frames_decoded"]


def packed_picture(native: av.VideoFrame) -> bytes:
    """The planes end to end without padding, as ffmpeg's rawvideo has them."""
    num_bytes = 2 if native.format.components[0].bits > 8 else 1
    parts = []
    for plane in native.planes:
        plane_HW = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        parts.append(plane_HW[:, : plane.width * num_bytes].tobytes())
    return b"".join(parts)


def ffmpeg_native(file_name: str) -> Iterator[bytes]:
    """Each frame in its own pixel format, as the program decodes it. Only for 4:2:0 in 8 bits."""
    entry = EXPECTED[file_name]
    assert entry["pix_fmt"] == "yuv420p"
    return ffmpeg_frames(file_name, ["-c:v", "rawvideo"], entry["width"] * entry["height"] * 3 // 2)


def ffmpeg_frames(file_name: str, output: list[str], num_bytes: int) -> Iterator[bytes]:
    source = ["-threads", "1", "-noautorotate", "-i", f"file:{VIDEOS / file_name}"]
    every_frame = ["-map", "0:v:0", "-fps_mode", "passthrough", "-an", *output, "-f", "rawvideo", "-"]
    command = ["ffmpeg", "-nostdin", "-v", "error", *source, *every_frame]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        while frame := program.stdout.read(num_bytes):
            assert len(frame) == num_bytes
            yield frame
    assert program.returncode == 0


# --- As stored ---


@pytest.mark.parametrize("decoder_name", DECODERS)
@pytest.mark.parametrize("file_name", SHORT)
def test_good_clips_come_out_ok(decoder_name: str, file_name: str) -> None:
    entry = EXPECTED[file_name]
    writer = ListWriter()
    recipe = ExtractRecipe(decoder=decoder_name, frames=Frames(short_side_px=64, quality=50))
    outcome, table_N = extract_video(VIDEOS / file_name, recipe, writer, no_beat)
    if file_name in REFUSED[decoder_name] and outcome.status == "failed":
        assert outcome.failure in ("decode", "unsupported")
        assert decoder_name in (outcome.detail or "")
        assert (outcome.source_sha256, outcome.codec) == (entry["sha256"], entry["codec"] if outcome.codec else None)
        return
    assert (outcome.status, outcome.failure, outcome.detail) == ("ok", None, None)
    assert outcome.num_frames == len(table_N) == len(writer.jpegs) == entry["frames_decoded"]
    assert outcome.source_sha256 == entry["sha256"]
    assert outcome.codec == entry["codec"]
    assert (outcome.source_width, outcome.source_height) == (entry["width"], entry["height"])
    assert outcome.rotation_deg == (entry["rotate_clockwise_to_display"] or 0)
    assert outcome.num_decode_errors == 0
    shapes = {simplejpeg.decode_jpeg_header(jpeg)[:2] for jpeg in writer.jpegs}
    assert shapes == {(outcome.height, outcome.width)}
    assert np.all(np.diff(table_N["time_ms"]) > 0)


@pytest.mark.parametrize("decoder_name", DECODERS)
@pytest.mark.parametrize("file_name", BAD)
def test_bad_clips_never_come_out_ok(decoder_name: str, file_name: str) -> None:
    recipe = ExtractRecipe(decoder=decoder_name, frames=Frames(short_side_px=64, quality=50))
    outcome, table_N = extract_video(VIDEOS / file_name, recipe, ListWriter(), no_beat)
    assert outcome.status == "failed"
    assert outcome.failure in FAILURES_ALLOWED[EXPECTED[file_name]["failure_kind"]]
    assert outcome.failure == "empty" or outcome.detail
    assert (len(table_N), outcome.num_frames, outcome.num_bytes, outcome.content_crc32) == (0, 0, 0, None)


@pytest.mark.parametrize("decoder_name", DECODERS)
@pytest.mark.parametrize("file_name", DATASET_CLIPS)
def test_each_stored_frame_is_nearest_to_its_own_reference(decoder_name: str, file_name: str) -> None:
    """Of the reference frames i - 2 ... i + 2, i is the nearest to stored frame i, unless another shows the same."""
    writer = ListWriter()
    recipe = ExtractRecipe(decoder=decoder_name, frames=Frames(short_side_px=0))
    outcome, _ = extract_video(VIDEOS / file_name, recipe, writer, no_beat)
    if outcome.status != "ok":
        assert file_name in REFUSED[decoder_name]
        return
    references = dict(enumerate(reference_lumas(file_name)))
    assert len(writer.jpegs) == len(references)
    num_told_apart = 0
    sampled = range(0, len(references), 5)
    for index in sampled:
        stored_HW = simplejpeg.decode_jpeg(writer.jpegs[index], colorspace="GRAY")[:, :, 0]
        around = {i: references[i] for i in range(index - 2, index + 3) if i in references}
        distances = {i: distance(stored_HW, reference_HW) for i, reference_HW in around.items()}
        nearest = min(distances, key=distances.__getitem__)
        assert distances[index] < 3
        assert nearest == index or distance(references[nearest], references[index]) < SAME
        num_told_apart += all(distance(around[i], around[index]) >= SAME for i in around if i != index)
    # That the test can tell frames apart at all.
    assert num_told_apart > len(sampled) * 0.75


def distance(one_HW: UInt8Array, other_HW: UInt8Array) -> float:
    """Standard deviation of the difference in levels: libraries that round down are off by a constant."""
    return float((one_HW.astype(np.int16) - other_HW).std())


def reference_lumas(file_name: str) -> Iterator[UInt8Array]:
    """Every plane_HW of luma, decoded in order without any of our code, stretched from limited to full range."""
    entry = EXPECTED[file_name]
    height, width = entry["height"], entry["width"]
    assert entry["color_range"] != "pc"
    stretched = np.clip(np.round((np.arange(256) - 16) * 255 / 219), 0, 255).astype(np.uint8)
    if HAS_FFMPEG:
        for data in ffmpeg_native(file_name):
            yield stretched[np.frombuffer(data, np.uint8, height * width).reshape(height, width)]
    else:
        with av.open(str(VIDEOS / file_name), metadata_errors="ignore") as container:
            for frame in container.decode(video=0):
                yield stretched[np.frombuffer(packed_picture(frame), np.uint8, height * width).reshape(height, width)]


def rgb(native: av.VideoFrame) -> UInt8Array:
    return native.to_ndarray(format="rgb24").astype(np.uint8)
