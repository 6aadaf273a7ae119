"""Lists with start and end times, through the real commands: each window is a video, from the scan to what is made of
the dataset."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import list_readers as readers
import pytest
import simplejpeg
from clips import Clip, read_number, write_clip
from conftest import Prep
from crash_points import calls_of, run_until
from layouts import refusal
from trees import hash_tree

from manifests import open_dataset
from manifests.sources import read_sources
from manifests.stores import STORES
from prep.export import export
from prep.report import make_report
from prep.sheet import make_sheet
from prep.verify import verify

# 25 frames a second: frame n is shown from n * 0.04 s on.
TRAIN = """path,label,start,end
long/match.mp4,kick,0.4,0.8
long/match.mp4,run,0.8,1.2
long/match.mp4,run,1.2,3
long/match.mp4,run,9,
short.avi,kick,,
"""
VAL = """path,label,start,end
long/match.mp4,kick,,0.2
short.avi,run,0.1,
long/gone.mp4,run,1,2
"""
FRAMES = {
    "long/match_0.4_0.8": range(10, 20),
    "long/match_0.8_1.2": range(20, 30),
    "long/match_1.2_3": range(30, 60),
    "short": range(20),
    "long/match_0_0.2": range(5),
    "short_0.1_end": range(3, 20),
}
"""The numbers of the frames of each video that has some."""

VAL_PART = "short.avi#t=0.1"


def draw(path: Path, num_frames: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"x264-params": "keyint=12:scenecut=0:bframes=2"} if path.suffix == ".mp4" else {}
    codec = "libx264" if path.suffix == ".mp4" else "mpeg4"
    write_clip(path, Clip(name=path.stem, codec=codec, num_frames=num_frames, options=options))


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    draw(tmp_path / "videos" / "long" / "match.mp4", 60)
    draw(tmp_path / "videos" / "short.avi", 20)
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "val.csv").write_text(VAL)
    return tmp_path / "videos"


def command(videos: Path, out: Path, store: str, *flags: object) -> list[object]:
    lists = [word for name in ("train", "val") for word in ("--annotations", videos.parent / f"{name}.csv")]
    settings = ["--store", store, "--set", "store.videos_per_shard=3", "--jobs", 1, "--quiet", "--json"]
    return ["extract", videos, "--dataset", "list", *lists, "--out", out, *settings, *flags]


def numbers_of(out: Path) -> dict[str, list[int]]:
    """What the frames of each ok video carry."""
    with open_dataset(out) as dataset:
        return {
            dataset.video(row)["video_id"]: [
                read_number(simplejpeg.decode_jpeg(jpeg, colorspace="RGB"))
                for jpeg in dataset.read_frames(row, range(dataset.num_frames[row]))
            ]
            for row in dataset.rows()
        }


def as_lists(ranges: dict[str, range]) -> dict[str, list[int]]:
    return {video_id: list(numbers) for video_id, numbers in ranges.items()}


def rows_of(out: Path, without: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    with open_dataset(out) as dataset:
        rows = dataset.manifest.drop_columns(list(without)).to_pylist()
    return {row["source"]: row for row in rows}


@pytest.mark.parametrize("store", STORES)
def test_from_the_list_to_what_is_made_of_the_dataset(prep: Prep, videos: Path, tmp_path: Path, store: str) -> None:
    out = tmp_path / "out"
    done = prep(*command(videos, out, store))
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["failures"] == {"missing": 1, "too_short": 1}
    assert numbers_of(out) == as_lists(FRAMES)
    rows = rows_of(out)
    late = rows["long/match.mp4#t=9"]
    assert (late["status"], late["failure"]) == ("failed", "too_short")
    assert late["detail"] == "no frame from 9 s to the end: the video ends at 2.4 s"
    part = rows["long/match.mp4#t=1.2,3"]
    assert part["detail"] == "the video ends at 2.4 s, and a list names the window from 1.2 s to 3 s"
    assert (part["declared_num_frames"], part["num_frames"]) == (None, 30)
    assert (part["fps"], part["duration_s"]) == (pytest.approx(25), pytest.approx(1.2))
    assert part["source_bytes"] == (videos / "long" / "match.mp4").stat().st_size
    assert verify(out, deep=True, num_jobs=1).problems == ()

    (leak,) = make_report(out).leaks
    assert (leak.kind, [sources[-1] for sources in leak.shared]) == ("file", ["long/match.mp4#t=0,0.2", VAL_PART])
    assert make_sheet(out, "long/match_0.8_1.2", tmp_path / "sheet.png") == 10
    file = tmp_path / "videos.txt"
    assert refusal(lambda: export(out, file, format_name="mmaction2", videos=videos, link=None)) == (
        "a mmaction2 list of videos has no times, and 5 of 6 videos are windows of longer files, the first of them "
        "'long/match.mp4#t=0,0.2': leave out --videos, to list frame folders"
    )
    done = prep(*command(videos, out, store))
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (3, 0)

    if store == "frames":
        export(out, tmp_path / "frames.txt", format_name="mmaction2", videos=None, link=None)
        listed = readers.mmaction2_frames(tmp_path / "frames.txt", "")
        prefix = f"{out}/frames/"
        counts = {folder.removeprefix(prefix): num_frames for folder, num_frames, _ in listed}
        assert counts == {video_id: len(numbers) for video_id, numbers in FRAMES.items()}
        assert prep("adopt", out / "frames", "--out", tmp_path / "adopted", "--quiet").returncode == 0
        assert numbers_of(tmp_path / "adopted") == as_lists(FRAMES)
    else:
        assert prep("pack", out, "--out", tmp_path / "packed", "--subset", "val", "--quiet").returncode == 0
        packed = numbers_of(tmp_path / "packed")
        assert packed == as_lists({name: FRAMES[name] for name in ("long/match_0_0.2", "short_0.1_end")})


@pytest.mark.parametrize("store", STORES)
def test_other_times_and_another_file(prep: Prep, videos: Path, tmp_path: Path, store: str) -> None:
    """What an update makes is what a new extraction would; windows that nothing has happened to keep their bytes."""
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    assert prep(*command(videos, out, store)).returncode == 3
    (tmp_path / "train.csv").write_text(TRAIN.replace("0.4,0.8", "0.4,1").replace("run,9", "run,2.2"))
    done = prep(*command(videos, out, store, "--update"))
    assert json.loads(done.stdout)["changes"] == {
        "num_new": 2,
        "num_gone": 2,
        "num_decoded_again": 0,
        "num_copied": {"arrow": 1, "frames": 0}[store],
    }
    frames = {**FRAMES, "long/match_0.4_1": range(10, 25), "long/match_2.2_end": range(55, 60)}
    del frames["long/match_0.4_0.8"]
    assert numbers_of(out) == as_lists(frames)

    draw(videos / "long" / "match.mp4", 59)
    done = prep(*command(videos, out, store, "--retry", "changed"))
    assert json.loads(done.stdout)["changes"]["num_decoded_again"] == 5, done.stderr
    assert numbers_of(out) == {
        name: [number for number in numbers if number < 59 or name.startswith("short")]
        for name, numbers in as_lists(frames).items()
    }
    assert prep(*command(videos, fresh, store)).returncode == 0
    places = ["location", "row", "offsets_at", "data_at"]
    assert rows_of(out, places) == rows_of(fresh, places)
    assert (out / "frames.parquet").read_bytes() == (fresh / "frames.parquet").read_bytes()
    assert verify(out, deep=True, num_jobs=1).problems == ()


@pytest.mark.parametrize("store", STORES)
def test_killed_and_resumed(videos: Path, tmp_path: Path, store: str) -> None:
    whole = tmp_path / "whole"
    calls = calls_of(tmp_path / "log", command(videos, whole, store))
    expected = hash_tree(whole)
    number = len(calls) * 2 // 3
    out = tmp_path / "out"
    assert run_until(tmp_path / "crash", command(videos, out, store), number).returncode == -9
    assert (out / ".work").exists()
    assert run_until(tmp_path / "crash", command(videos, out, store), -1).returncode == 3
    assert hash_tree(out) == expected, calls[number]


def test_a_source_list_and_a_split(prep: Prep, videos: Path, tmp_path: Path) -> None:
    """Windows of one file stay in one subset, and a root may move."""
    draw(videos / "second.mp4", 30)
    times = "".join(
        f"{name},{start},{start + 0.4}\n" for name in ("long/match.mp4", "second.mp4") for start in (0, 0.4)
    )
    (tmp_path / "parts7.csv").write_text(f"path,start,end\n{times}")
    sources = tmp_path / "sources.parquet"
    flags = ["--dataset", "list", "--annotations", tmp_path / "parts7.csv", "--split", "0.5,0.5", "--out", sources]
    done = prep("scan", videos, *flags, "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    files = [videos / name for name in ("long/match.mp4", "second.mp4", "short.avi")]
    assert (table["leaks"], table["num_bytes"]) == ([], sum(file.stat().st_size for file in files))
    subsets = {source.source.partition("#")[0]: source.subsets for source in read_sources(sources).sources}
    assert {subset for (_, subset) in map(sorted, (s for s in subsets.values() if s))} == {"train", "val"}
    videos.rename(tmp_path / "moved")
    done = prep("extract", sources, "--root", tmp_path / "moved", "--out", tmp_path / "out", "--quiet")
    assert done.returncode == 0, done.stderr
    assert numbers_of(tmp_path / "out") == as_lists(
        {f"{name}_{times}": frames for name in ("long/match", "second") for times, frames in
         (("0_0.4", range(10)), ("0.4_0.8", range(10, 20)))}
    )  # fmt: skip
