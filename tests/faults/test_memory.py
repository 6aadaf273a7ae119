"""Memory is bounded: of a decoding process for any length and size of video, of the parent for any number of them."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from clips import Clip, UInt8Array, numbered_frame, write_clip
from conftest import PREP

from prep.child import Child, Job
from prep.recipe import ExtractRecipe, Frames, resolve

MAX_CHILD_MIB = 600
NUM_VIDEOS = 600


def memory_mib(pid: int, field: str) -> float:
    """VmRSS (now) or VmHWM (the most so far) of a process, 0 for one that has ended."""
    try:
        found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def pid_of_child() -> int:
    """Of the one process that this thread has started."""
    (pid,) = Path("/proc/thread-self/children").read_text().split()
    return int(pid)


def peak_mib(source: Path, recipe: ExtractRecipe, num_frames: int) -> float:
    """The most memory that a new process holds while it decodes a video of so many frames."""
    frames, table = source.with_suffix(".jpegs"), source.with_suffix(".table")
    with closing(Child()) as child:
        reply = child.extract(Job(source.parent, source, None, frames, table, resolve(recipe)), timeout_s=60.0)
        assert (reply.outcome.status, reply.outcome.num_frames) == ("ok", num_frames)
        return memory_mib(pid_of_child(), "VmHWM")


def repeated_frames(num_frames: int, width: int, height: int) -> Iterator[UInt8Array]:
    pictures = [numbered_frame(number, width, height) for number in range(16)]
    return (pictures[index % 16] for index in range(num_frames))


def test_a_long_video(tmp_path: Path) -> None:
    """Ten times the frames, with much more JPEG than that, do not need more than 8 MiB more."""
    recipe = ExtractRecipe(frames=Frames(short_side_px=480, enlarge=True, quality=100))
    peaks = []
    for num_frames in (250, 2500):
        clip = Clip(name="long", codec="mpeg4", num_frames=num_frames, width=320, height=240)
        path = write_clip(tmp_path / f"{num_frames}.avi", clip, repeated_frames(num_frames, 320, 240))
        peaks.append(peak_mib(path, recipe, num_frames))
        assert peaks[-1] < MAX_CHILD_MIB
    num_bytes = (tmp_path / "2500.jpegs").stat().st_size
    assert num_bytes > 24 * 2**20
    assert peaks[1] - peaks[0] < 8


def test_a_large_picture(tmp_path: Path) -> None:
    """4K with as many reference pictures as its level allows, stored as it is."""
    options = {"preset": "ultrafast", "refs": "5", "bf": "3", "b-pyramid": "normal"}
    clip = Clip(name="large", codec="libx264", options=options, num_frames=15, width=3840, height=2160)
    path = write_clip(tmp_path / "large.mp4", clip, repeated_frames(15, 3840, 2160))
    assert peak_mib(path, ExtractRecipe(frames=Frames(short_side_px=0)), 15) < MAX_CHILD_MIB


def test_many_videos(tmp_path: Path) -> None:
    """The parent holds as much after hundreds of videos as after the first hundred."""
    clip = write_clip(tmp_path / "clip.avi", Clip(name="tiny", codec="mpeg4", num_frames=3))
    (tmp_path / "videos").mkdir()
    for row in range(NUM_VIDEOS):
        os.link(clip, tmp_path / "videos" / f"v{row:04d}.avi")
    command = [PREP, "extract", tmp_path / "videos", "--out", tmp_path / "out", "--quiet", "--jobs", "2"]
    command += ["--set", "store.videos_per_shard=8"]
    journal = tmp_path / "out" / ".work" / "journal.jsonl"
    seen: list[tuple[int, float]] = []
    with subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if journal.exists():
                seen.append((line_count(journal), memory_mib(process.pid, "VmRSS")))
            time.sleep(0.02)
    assert process.returncode == 0
    early = [mib for num_done, mib in seen if 100 <= num_done < 200]
    late = [mib for num_done, mib in seen if num_done >= NUM_VIDEOS - 100 and mib]
    assert early
    assert late
    assert max(late) - max(early) < 8


def line_count(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0
