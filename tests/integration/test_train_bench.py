"""train bench on a few tiny videos: every row is there, numbers fit together, what cannot be is said."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import paddle_import  # noqa: F401 - before anything that imports paddle
import pytest
from clips import Clip, pack_bframes, write_clip
from conftest import TRAIN, Prep
from training_runs import assert_one_sentence

from manifests.dataset import open_dataset
from manifests.errors import UsageError
from train.bench import TABLES, cold, pil
from train.bench.clips import Recorder, Stream
from train.bench.loader import READING, TRAINING, WHOLE, recommend
from train.cli import build_parser
from train.normalisation import NORMALISATIONS
from train.recipe import TrainRecipe
from train.transforms.decode import render

NUM_VIDEOS = 3
SMALL = ("--set", "clip.num_frames=4", "--set", "clip.crop_px=32", "--set", "optimizer.batch_size=4")


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Right in a folder, without classes: labels are of no use here."""
    folder = tmp_path_factory.mktemp("bench") / "videos"
    folder.mkdir()
    for number in range(NUM_VIDEOS):
        write_clip(folder / f"v{number}.avi", Clip(name=f"v{number}", codec="mpeg4", num_frames=12 + number))
    (folder / "broken.mp4").write_bytes(b"no video")
    return folder


def bench(train: Prep, table: str, data: Path, *arguments: object, seconds: float = 0.5, **options: Any) -> Any:
    done = train(
        "bench", table, "--data", data, *SMALL, "--seconds", seconds, "--json", "--quiet", *arguments, **options
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_formats_of_videos(train: Prep, videos: Path, tmp_path: Path) -> None:
    found = bench(train, "formats", videos, env={**os.environ, "TMPDIR": str(tmp_path)})
    rows = {row["row"]: row for row in found["rows"]}
    assert {"libjpeg-turbo alone", "Pillow and NumPy", "arrow", "frames", "video, pyav"} <= set(rows)
    assert {"arrow, half the crop", "frames, half the crop", "video, opencv", "video, decord"} <= set(rows)
    for row in rows.values():
        assert row["reader_s"] > 0
        assert row["num_rounds"] >= 3
        assert row["clips_per_s"] == pytest.approx(found["batch"] / row["ready_s"])
        assert row["of_the_limit"] == pytest.approx(rows["libjpeg-turbo alone"]["reader_s"] / row["reader_s"])
        assert row["x_pil"] == pytest.approx(rows["Pillow and NumPy"]["ready_s"] / row["ready_s"])
    assert rows["arrow"]["ready_s"] == pytest.approx(rows["arrow"]["reader_s"] + found["normalise_s"])
    assert rows["arrow"]["batch_s"] == pytest.approx(rows["arrow"]["reader_s"] + found["step_s"])
    best = min(rows[name]["reader_s"] for name in rows if name.startswith("video"))
    assert rows["frames"]["x_video_reader"] == pytest.approx(best / rows["frames"]["reader_s"])
    assert {row["store"]: row["num_files"] for row in found["cold"]} == {"arrow": 1, "frames": 12 + 13 + 14}
    for row in found["cold"]:
        assert row["warm_clips_per_s"] > 0
        assert row["is_cold"] == (row["read_amplification"] is not None) == (row["cold_clips_per_s"] is not None)
        if row["is_cold"]:
            assert row["bytes_from_disk"] > 0
    assert list(tmp_path.iterdir()) == []


def test_formats_of_a_dataset(train: Prep, prepared: dict[str, Path]) -> None:
    """Of one store only, and nothing is written into it."""
    before = {path: path.stat().st_mtime_ns for path in prepared["arrow"].rglob("*")}
    done = train("bench", "formats", "--data", prepared["arrow"], *SMALL, "--seconds", 0.5)
    assert done.returncode == 0, done.stderr
    assert f"measuring on {prepared['arrow']}, for about 0.5 s" in done.stderr
    assert "no videos: give a source list or a folder of videos for the rows of videos" in done.stdout
    assert "\narrow, half the crop  " in done.stdout
    assert "frames" not in [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert {path: path.stat().st_mtime_ns for path in prepared["arrow"].rglob("*")} == before


def test_decoders(train: Prep, videos: Path) -> None:
    """The clips have frames that all decoders give rightly."""
    found = bench(train, "decoders", videos)
    assert found["videos"] == [f"v{number}" for number in range(NUM_VIDEOS)]
    rows = {row["row"]: row for row in found["rows"]}
    assert {f"{decoder}, as train fit" for decoder in ("pyav", "opencv", "decord")} < set(rows)
    for row in rows.values():
        assert (row["num_asked"], row["num_wrong"], row["wrong"]) == (4 * NUM_VIDEOS, 0, {})
        assert row["x_opencv"] == pytest.approx(rows["opencv, read on to the last"]["clip_s"] / row["clip_s"])


def test_decoders_that_give_other_frames_are_found_out(train: Prep, tmp_path: Path) -> None:
    """decord, asked by number, on packed B-frames as HMDB-51 has them; `train fit` does not ask it so."""
    (tmp_path / "videos").mkdir()
    plain = write_clip(tmp_path / "plain.avi", Clip(name="plain", codec="mpeg4", options={"bf": "1"}, num_frames=25))
    pack_bframes(plain, tmp_path / "videos" / "packed.avi")
    found = bench(train, "decoders", tmp_path / "videos")
    wrong = {row["row"]: row["wrong"] for row in found["rows"]}
    assert wrong.pop("decord, by number")["packed"] > 0
    assert wrong == {
        "opencv, read on to the last": {},
        "pyav, as train fit": {},
        "opencv, as train fit": {},
        "decord, as train fit": {},
    }


def test_workers(train: Prep, prepared: dict[str, Path]) -> None:
    found = bench(train, "workers", prepared["frames"], "--workers", "0,2")
    assert found["store"] == "frames"
    assert [row["num_workers"] for row in found["rows"]] == [0, 2]
    for row in found["rows"]:
        assert row["x_first"] == pytest.approx(row["clips_per_s"] / found["rows"][0]["clips_per_s"])
        assert row["num_rounds"] >= 3


def test_loader(train: Prep, videos: Path, prepared: dict[str, Path]) -> None:
    found = bench(train, "loader", videos)
    assert set(found["clip_s"]) == {*READING, *TRAINING, WHOLE, "draw"}
    assert found["num_workers"] >= 1
    assert found["bottleneck"] in (*READING, *TRAINING)
    assert found["loader_clips_per_s"] > 0
    assert found["shared_memory_bytes"] == (2 * found["num_workers"] + 2) * 4 * 4 * 32 * 32 * 3
    done = train("bench", "loader", "--data", prepared["arrow"], *SMALL, "--seconds", 0.5)
    assert done.returncode == 0, done.stderr
    assert "\nbottleneck: the " in done.stdout
    assert "loader.num_workers=" in done.stdout


def test_what_loader_recommends() -> None:
    """By arithmetic: a reader of 8 ms a clip, most of it decoding."""
    reading = {"read": 0.001, "decode": 0.005, "transform": 0.001, WHOLE: 0.0075, "share": 0.0005, "draw": 0.0}
    slow_step = {"collate": 0.0, "device": 0.001, "step": 0.099}
    advice = recommend({**reading, **slow_step}, 8, is_gpu=False)
    assert (advice["num_workers"], advice["bottleneck"], advice["bottleneck_is_in"]) == (1, "step", "training")
    assert advice["expected_clips_per_s"] == pytest.approx(10)
    fast_step = {"collate": 0.0, "device": 0.0005, "step": 0.0005}
    advice = recommend({**reading, **fast_step}, 16, is_gpu=True)
    assert (advice["num_workers"], advice["num_wanted"], advice["bottleneck_is_in"]) == (8, 8, "training")
    assert advice["expected_clips_per_s"] == pytest.approx(1000)
    for is_gpu, num_workers in ((True, 4), (False, 3)):
        advice = recommend({**reading, **fast_step}, 4, is_gpu=is_gpu)
        assert (advice["num_workers"], advice["num_wanted"], advice["bottleneck"]) == (num_workers, 8, "decode")
        assert advice["expected_clips_per_s"] == pytest.approx(num_workers * 125)
    assert recommend({**reading, **fast_step}, 1, is_gpu=False)["num_workers"] == 1


def test_the_plain_loader_gives_what_ours_gives(prepared: dict[str, Path]) -> None:
    """The baseline is no straw man: the same frames, cut by the same draw, up to the way of scaling."""
    recipe = TrainRecipe()
    recorder = Recorder(prepared["frames"], recipe)
    with open_dataset(prepared["frames"]) as dataset:
        for item in Stream(recorder, recipe).next_items(8):
            clip = recorder.record(item)
            rng = np.random.default_rng(item.index)
            jpegs = dataset.read_frames(*recorder.frames_of(item))
            assert list(clip.jpegs) == jpegs
            plain_TCHW = pil.read_clip(jpegs, 64, rng, flips=True, normalise="imagenet")
            assert (plain_TCHW.shape, plain_TCHW.dtype) == ((len(jpegs), 3, 64, 64), np.float32)
            rng = np.random.default_rng(item.index)
            plan = recorder._draw_plan(96, 72, item._replace(crop_px=64), rng)
            (ours_THWC,) = render(jpegs, [plan])
            numbers = NORMALISATIONS["imagenet"]
            ours_TCHW = ((ours_THWC / 255 - numbers.mean) / numbers.std).transpose(0, 3, 1, 2)
            assert np.abs(plain_TCHW - ours_TCHW).mean() < 0.05


def test_files_are_dropped_from_memory_and_counted(tmp_path: Path) -> None:
    """Where the file system is no memory: then the kernel keeps next to nothing, and reading is reading from disk."""
    paths = [tmp_path / "large", tmp_path / "empty"]
    paths[0].write_bytes(os.urandom(4 << 20))
    paths[1].touch()
    assert cold._pages(paths[0]) == (1024, 1024)
    kept = cold.drop_from_memory(paths)
    if kept == 1:
        pytest.skip(f"the page cache of {tmp_path} cannot be dropped")
    assert kept < 0.05
    before = cold.bytes_from_disk()
    if before is None:
        pytest.skip("the kernel does not count what is read from disks")
    paths[0].read_bytes()
    after = cold.bytes_from_disk()
    assert after is not None
    assert cold._pages(paths[0]) == (1024, 1024)
    assert after - before in (0, *range(4 << 20, 5 << 20)), "0 where the disk is another machine's"


def test_wrong_usage(train: Prep, videos: Path, prepared: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    cases: list[tuple[str, tuple[object, ...], str]] = [
        (table, (), f"train bench {table} needs --data OUT, or videos: a source list or a folder")
        for table in TABLES
        if table not in ("ops", "multigrid")
    ]
    cases += [
        ("formats", ("--data", tmp_path / "gone"), f"--data {tmp_path / 'gone'} is not there"),
        ("formats", ("--data", tmp_path / "empty"), "the videos cannot be prepared: "),
        ("loader", ("--data", videos, "--seconds", "0"), "--seconds is above 0, not 0"),
        ("loader", ("--data", videos, "--set", "clip.crop=round"), "clip.crop is one of "),
        ("decoders", ("--data", prepared["arrow"]), "is a prepared dataset, and this table is of videos"),
        ("workers", ("--data", videos, "--workers", "0,two"), "--workers is a number or some with commas between"),
    ]
    for table, words, sentence in cases:
        arguments = build_parser().parse_args(["bench", table, *map(str, words)])
        with pytest.raises(UsageError, match=re.escape(sentence)):
            arguments.run(arguments)
    done = train("bench", cases[-1][0], *cases[-1][1])
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert cases[-1][2] in done.stderr


def test_no_process_is_left_after_a_signal(videos: Path, tmp_path: Path) -> None:
    command = [TRAIN, "bench", "workers", "--data", videos, *SMALL, "--workers", "2", "--seconds", "60"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True
    )
    assert process.stderr is not None
    assert "measuring on" in process.stderr.readline()
    time.sleep(1)
    os.kill(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "train bench: interrupted\n")
    assert list(tmp_path.iterdir()) == []
