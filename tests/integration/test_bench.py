"""prep bench on two tiny clips: every row is there, what cannot be is said, and nothing is left."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from av.video.frame import VideoFrame
from clips import Clip, numbered_frame, truncate, write_clip
from conftest import PREP, Prep

from prep.bench.sampled import Pictures, num_wrong, read_by_decord, read_by_opencv, reference

STEPS = {"decode", "scale", "encode", "bare decode"}
WHOLE = {"discard", "into arrow", "into frames"}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "videos"
    folder.mkdir()
    for name, num_frames in (("short", 20), ("long", 35)):
        write_clip(folder / f"{name}.avi", Clip(name=name, codec="mpeg4", num_frames=num_frames))
    truncate(shutil.copyfile(folder / "long.avi", folder / "cut.avi"), (folder / "long.avi").stat().st_size // 2)
    return folder


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def environment(temporary: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(temporary)}


def test_every_row_of_every_decoder(prep: Prep, videos: Path, temporary: Path) -> None:
    done = prep(
        *("bench", videos, "--decoder", "all", "--jobs", "1,2", "--seconds", "20", "--json"),
        *("--set", "frames.short_side_px=32", "--quiet"),
        env=environment(temporary),
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["videos"] == {"short": 20, "long": 35}
    assert list(found["left_out"]) == ["cut"]
    assert found["missing"] == {}
    assert {"av", "numpy", "simplejpeg", "opencv", "decord"} <= set(found["libraries"])
    rows = {(row["decoder"], row["row"], row["num_jobs"]): row for row in found["rows"]}
    expected = {("", "encode only", 1), ("", "opencv loop", 1)}
    for decoder in ("pyav", "opencv", "decord"):
        bare = {f"bare {step}" for step in ("scale", "encode")} if decoder != "pyav" else set()
        expected |= {(decoder, step, 1) for step in STEPS | bare}
        expected |= {(decoder, step, jobs) for step in WHOLE for jobs in (1, 2)}
    sampled = {(decoder, f"sampled {n}", 1) for decoder in ("opencv", "decord") for n in (8, 32)}
    assert set(rows) == expected | sampled
    for key in expected:
        decoder, step, jobs = key
        row = rows[key]
        if step.startswith("into ") and "too short to be told from the start" in str(row["failures"]):
            assert row["frames_per_s"] is None  # on a busy machine
            continue
        assert row["failures"] == {}
        num_frames = 55 * 4 if step.startswith("into ") else 55 * jobs
        assert (row["num_videos"], row["num_frames"], row["notes"]) == (2, num_frames, []), key
        encodes = "encode" in step or step in WHOLE or step == "opencv loop"
        assert (row["bytes_per_frame"] is not None) == encodes, key
        assert row["frames_per_cpu_s"] > 0
    for key in sampled:
        assert rows[key]["failures"] == {}
        assert (rows[key]["num_asked"], rows[key]["num_right"]) == (int(key[1].split()[1]) * 2,) * 2
    assert all(len(some) == found["num_rounds"] for row in rows.values() for some in row["samples"].values())
    assert list(temporary.iterdir()) == []


def test_the_table(prep: Prep, videos: Path, temporary: Path) -> None:
    done = prep("bench", videos, "--seconds", "3", env=environment(temporary))
    assert done.returncode == 0, done.stderr
    for words in (
        "2 videos, 55 frames, ",
        "1 other looked at and left out",
        "limit (fastest decode + encode only): ",
        "frames/CPU-s",
        "libjpeg-turbo: encode",
        "OpenCV loop: read, resize, imwrite",
        "pyav: decode, scale, encode",
        "pyav alone: decode",
        "pyav: extraction into none",
        "pyav: extraction into arrow",
        "pyav: extraction into frames",
        "decord: 32 frames, scale, crop",
        "right frames",
    ):
        assert words in done.stdout, words


def test_a_video_that_is_too_short_to_measure(prep: Prep, temporary: Path, tmp_path: Path) -> None:
    write_clip(tmp_path / "videos.avi", Clip(name="one", codec="mpeg4", num_frames=1))
    (tmp_path / "one").mkdir()
    (tmp_path / "videos.avi").rename(tmp_path / "one" / "frame.avi")
    done = prep("bench", tmp_path / "one", "--seconds", "2", "--json", "--quiet", env=environment(temporary))
    for row in json.loads(done.stdout)["rows"]:
        for figure in (row["frames_per_s"], row["frames_per_cpu_s"]):
            assert figure is None or figure > 0, row


@pytest.mark.parametrize("read", [read_by_opencv, read_by_decord])
def test_colours_beyond_rgb_make_no_frame_wrong(
    read: Callable[[Path, int], tuple[list[int], Pictures]], tmp_path: Path
) -> None:
    frames = []
    for number in range(20):
        frame = VideoFrame.from_ndarray(numbered_frame(number, 96, 72), format="rgb24").reformat(format="yuv420p")
        for plane, level in zip(frame.planes[1:], (240, 16), strict=True):
            plane.update(bytes([level]) * plane.buffer_size)
        frames.append(frame)
    path = write_clip(tmp_path / "clip.mp4", Clip(name="clip", codec="libx264", num_frames=20), frames)
    asked, pictures = read(path, 8)
    assert num_wrong(reference(path), asked, pictures) == 0
    assert num_wrong(reference(path), [number + 1 for number in asked], pictures) == 8


def test_packed_b_frames_by_number_are_found_wrong(prep: Prep, temporary: Path, shared_videos: Path) -> None:
    """As measured with decord 0.6.0: a fresh reader gives the frame before the one that it is asked for."""
    done = prep(*("bench", shared_videos / "hmdb51", "--seconds", "3", "--json", "--quiet"), env=environment(temporary))
    rows = {(row["decoder"], row["row"]): row for row in json.loads(done.stdout)["rows"]}
    assert rows["opencv", "sampled 32"]["num_right"] > rows["decord", "sampled 32"]["num_right"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jobs", "0"], "--jobs is at least 1, not 0"),
        (["--jobs", "two"], "--jobs is a number or some with commas between"),
        (["--seconds", "0"], "--seconds is above 0, not 0"),
        (["--set", "frames.every=2"], "frames.every and frames.fps are not for bench"),
        (["--set", "frames.qualty=2"], "did you mean frames.quality?"),
    ],
)
def test_what_is_refused(prep: Prep, videos: Path, arguments: list[str], words: str) -> None:
    done = prep("bench", videos, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_no_video_can_be_extracted(prep: Prep, tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    done = prep("bench", tmp_path, env=environment(temporary))
    assert done.returncode == 2
    assert "none of 1 video tried in" in done.stderr
    assert "'broken': unreadable" in done.stderr
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay_s", [1.0, 4.0])
def test_interrupted_it_leaves_nothing(videos: Path, temporary: Path, number: signal.Signals, delay_s: float) -> None:
    process = subprocess.Popen(
        [PREP, "bench", videos, "--seconds", "60"],
        env=environment(temporary),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline_s = time.monotonic() + 60
    while not list(temporary.iterdir()):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    time.sleep(delay_s)
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
