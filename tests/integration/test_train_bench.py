"""train bench on a few tiny videos: every row is there, numbers fit together, what cannot be is said."""

import json
import os
import re
import shutil
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
from manifests.errors import StoreError, UsageError
from manifests.sources import read_sources
from train.bench import TABLES, cold, formats, multigrid, pil
from train.bench.clips import Clips, Recorder, Stream
from train.bench.data import Data, run_prep
from train.bench.loader import READING, TRAINING, WHOLE, recommend
from train.cli import build_parser
from train.normalisation import NORMALISATIONS
from train.recipe import TrainRecipe
from train.sampler import epoch_order
from train.transforms.decode import render
from train.videos import open_videos

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


def test_decoders_of_videos_that_nobody_can_read(train: Prep, tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    done = train("bench", "decoders", "--data", tmp_path, *SMALL, "--seconds", 0.5, "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_sentence(done.stderr)
    assert f"no video of {tmp_path} can be read by every decoder: without pyav: " in done.stderr


def test_a_cold_round_of_a_large_dataset_is_of_some_clips(
    prepared: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "_MAX_CLIPS", 3)
    (row,) = cold.measure_cold({"frames": prepared["frames"]}, TrainRecipe(), 0.0)
    with open_dataset(prepared["frames"]) as dataset:
        rows = epoch_order(len(dataset.rows()), 0, 0)[:3]
        assert (row["num_clips"], row["num_rounds"]) == (3, 1)
        assert row["num_files"] == dataset.num_frames[dataset.rows()[rows]].sum()


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


def test_all_rows_read_the_same_videos(videos: Path, tmp_path: Path) -> None:
    """One that a row lacks is left out of all: else ratios would be of different videos."""
    for name, numbers in (("all", (0, 1, 2)), ("some", (0, 2))):
        (tmp_path / name / "class").mkdir(parents=True)
        for number in numbers:
            shutil.copy(videos / f"v{number}.avi", tmp_path / name / "class")
        run_prep("scan", tmp_path / name, "--dataset", "folder", "--out", tmp_path / f"{name}.parquet")
    run_prep("extract", tmp_path / "all.parquet", "--out", tmp_path / "arrow")
    some = tmp_path / "some.parquet"
    opened = open_videos(some, read_sources(some), "pyav", ["all"], num_threads=1, quiet=True)
    data = Data({"arrow": tmp_path / "arrow"}, some, "videos")
    common, left_out = formats.common_videos(data, {"pyav": opened}, TrainRecipe())
    assert (common, left_out) == ({"class/v0", "class/v2"}, ["class/v1"])
    assert Clips(tmp_path / "arrow", TrainRecipe(), common).video_ids() == ["class/v0", "class/v2"]


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
    parts = ("--set", "optimizer.num_parts=2")
    done = train("bench", "loader", "--data", prepared["arrow"], *SMALL, *parts, "--seconds", 0.5)
    assert done.returncode == 0, done.stderr
    assert "; shared memory for its batches: " in done.stdout
    assert "\nbottleneck: the " in done.stdout
    assert "loader.num_workers=" in done.stdout


def test_multigrid(train: Prep, prepared: dict[str, Path], tmp_path: Path) -> None:
    """Five runs of two or three epochs on eight videos: what is in the table, and that its numbers fit together."""
    settings = {
        "optimizer.batch_size": 1,
        "optimizer.num_epochs": 2,
        "optimizer.decay_epochs": "1",
        "clip.num_frames": 4,
        "clip.crop_px": 32,
        "multigrid.epoch_factor": 1.5,
        "multigrid.time_factors": "0.5, 1",
        "multigrid.space_factors": "1, 1",
        "average.precise_bn_batches": 0,
        "loader.num_workers": 0,
    }
    overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = train(
        "bench", "multigrid", "--data", prepared["arrow"], "--json", "--quiet", *overrides,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["row"]: row for row in json.loads(done.stdout)["rows"]}
    assert list(rows) == ["off", "short", "long", "both", multigrid.FULL_DECODE]
    assert (rows["off"]["num_epochs"], rows["off"]["num_steps"]) == (2, 16)
    assert {row["num_epochs"] for name, row in rows.items() if name != "off"} == {3}
    for row in rows.values():
        assert row["x_plain"] == pytest.approx(rows["off"]["total_s"] / row["total_s"])
        assert row["x_fewer_steps"] == pytest.approx(16 / row["num_steps"])
        assert sum(shape["num_steps"] for shape in row["shapes"]) == row["num_steps"]
        assert sum(shape["num_steps"] * shape["batch_size"] for shape in row["shapes"]) == row["num_clips"]
        assert sum(stage["seconds"] for stage in row["stages"]) == pytest.approx(row["steps_s"])
        assert row["steps_s"] < row["total_s"]
        assert row["shapes"][0]["x_step"] == row["shapes"][0]["x_pixels"] == 1
        assert (row["shapes"][0]["num_frames"], row["shapes"][0]["crop_px"]) == (4, 32)
    assert [tuple(shape["batch_size"] for shape in rows[name]["shapes"]) for name in ("off", "long")] == [(1,), (1, 2)]
    assert list(tmp_path.iterdir()) == []


def test_lines_of_multigrid() -> None:
    stage = {"epoch": 3, "num_frames": 4, "crop_px": 32, "seconds": 1.0, "data_wait_share": 0.25}
    shape = {"batch_size": 2, "num_frames": 4, "crop_px": 32, "num_steps": 5, "step_s": 0.2, "x_pixels": 1.0}
    row = {
        **{"num_epochs": 3, "num_steps": 5, "num_clips": 10, "epoch_s": 0.5, "steps_s": 1.0, "total_s": 2.0},
        **{"x_plain": 1.5, "top1": 0.5, "shapes": [{**shape, "x_step": 1.0}], "stages": [stage]},
    }
    rows = [{"row": name, **row} for name in ("off", "short", "long", "both", multigrid.FULL_DECODE)]
    rows[-1] = {**rows[-1], "stages": [{**stage, "data_wait_share": None}]}
    lines = multigrid._lines({"machine": "m", "data": "d", "model": "tsm", "plain_num_epochs": 2, "rows": rows})
    assert any(line.split() == ["long", "3", "5", "10", "0.50", "s", "1.0", "s", "2.0", "s", "1.50", "50.0%"]
               for line in lines)  # fmt: skip
    assert any(line.split() == ["3", "4", "x", "32", "1.0", "s", "25%", "-"] for line in lines)
    assert lines[-1] == "without cycles 25% of the time of steps are spent waiting"


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


def test_a_stream_goes_through_epoch_after_epoch(prepared: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a training run does, and an order is drawn once an epoch: it takes long where there are many videos."""
    drawn: list[int] = []

    def order(num_samples: int, seed: int, epoch: int) -> Any:
        drawn.append(epoch)
        return epoch_order(num_samples, seed, epoch)

    monkeypatch.setattr("train.bench.clips.epoch_order", order)
    dataset = Clips(prepared["arrow"], TrainRecipe())
    stream = Stream(dataset, TrainRecipe())
    items = [*stream.next_items(20), *(item for batch in stream.next_batches(3, 4) for item in batch)]
    expected = [(index, epoch) for epoch in range(2) for index in epoch_order(len(dataset), 0, epoch).tolist()]
    assert [(item.index, item.epoch) for item in items] == expected[:32]
    assert drawn == [0, 1]


def test_a_frame_that_cannot_be_read(train: Prep, prepared: dict[str, Path], tmp_path: Path) -> None:
    """Ends a table as it ends a training run."""
    shutil.copytree(prepared["frames"], tmp_path / "data")
    for path in (tmp_path / "data" / "frames").rglob("*.jpg"):
        path.write_bytes(b"no picture")
    done = train("bench", "loader", "--data", tmp_path / "data", *SMALL, "--quiet")
    assert done.returncode == 4
    assert_one_sentence(done.stderr)
    assert " is no valid JPEG: " in done.stderr


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
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.mp4").write_bytes(b"no video")
    cases: list[tuple[str, tuple[object, ...], str]] = [
        (table, (), f"train bench {table} needs --data OUT, or videos: a source list or a folder")
        for table in TABLES
        if table not in ("ops", "multigrid")  # which make their own
    ]
    cases += [
        ("formats", ("--data", tmp_path / "gone"), f"--data {tmp_path / 'gone'} is not there"),
        ("formats", ("--data", tmp_path / "empty"), "the videos cannot be prepared: "),
        ("loader", ("--data", videos, "--seconds", "0"), "--seconds is above 0, not 0"),
        ("loader", ("--data", videos, "--set", "clip.crop=round"), "clip.crop is one of "),
        ("decoders", ("--data", prepared["arrow"]), "is a prepared dataset, and this table is of videos"),
        ("loader", ("--data", tmp_path / "broken"), "none of the videos can be prepared: "),
        ("multigrid", ("--data", videos), f"{videos} is no prepared dataset: train bench multigrid trains on one"),
        (
            "multigrid",
            ("--data", prepared["arrow"]),
            "fewer than optimizer.batch_size=4 times 16 (multigrid.cycles=both)",
        ),
        ("multigrid", ("--recipe", "demo_tsm"), "multigrid.cycles=both goes through its shapes before each of "),
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


def test_nowhere_to_prepare_videos(train: Prep, videos: Path) -> None:
    """Python takes another temporary folder where TMPDIR is none; and what prep advises is for a folder that stays."""
    done = train("bench", "formats", "--data", videos, env={**os.environ, "TMPDIR": "/nowhere"})
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "TMPDIR=/nowhere is not a folder that can be written to" in done.stderr
    with pytest.raises(StoreError, match=r"videos are prepared in .*: set TMPDIR to a folder with room$"):
        run_prep("scan", videos, "--out", "/proc/sources.parquet")


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
