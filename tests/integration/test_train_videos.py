"""`train` straight from videos, as its users run it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from clips import Clip, flip_bytes, packet_spans, write_clip
from conftest import TRAIN, Prep
from training_runs import assert_one_sentence, assert_same_run, fit, fit_arguments, metrics_of


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, prep: Prep) -> Path:
    """The source list of two classes, one in MP4, one in AVI: 4 + 4 videos in train, one and a damaged one in val."""
    folder = tmp_path_factory.mktemp("videos")
    kinds = {
        "a": Clip(name="mp4", codec="libx264", options={"g": "6", "bf": "2"}, num_frames=24),
        "b": Clip(name="avi", codec="mpeg4", num_frames=24),
    }
    for subset, number in (*(("train", number) for number in range(4)), ("val", 0)):
        for label, clip in kinds.items():
            path = folder / "videos" / subset / label / f"{subset}{number}.{clip.name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_clip(path, clip)
    damaged = write_clip(folder / "videos" / "val" / "b" / "damaged.avi", kinds["b"])
    for start, num_bytes in packet_spans(damaged)[5:8]:
        flip_bytes(damaged, start, num_bytes)
    done = prep("scan", folder / "videos", "--out", folder / "sources.parquet", "--quiet")
    assert done.returncode == 0, done.stderr
    return folder / "sources.parquet"


def test_workers_change_nothing(sources: Path, tmp_path: Path) -> None:
    for num_workers in (0, 2):
        code, stderr = fit(sources, tmp_path / f"run{num_workers}", loader__num_workers=num_workers)
        assert (code, stderr) == (0, "")
    assert_same_run(tmp_path / "run0", tmp_path / "run2")
    lines = metrics_of(tmp_path / "run0")
    forward = {kind: [line["clips_forward"] for line in lines if line["kind"] == kind] for kind in ("train", "eval")}
    assert [sum(forward["train"][4 * epoch : 4 * epoch + 4]) for epoch in range(3)] == [4, 4, 4]
    assert forward["eval"] == [1, 1, 1]


def test_what_a_run_says(sources: Path, train: Prep, tmp_path: Path) -> None:
    arguments = [
        word for word in fit_arguments(sources, tmp_path / "run", optimizer__num_epochs=1) if word != "--quiet"
    ]
    done = train(*arguments, "--decoder", "opencv")
    assert done.returncode == 0, done.stderr
    assert (
        "10 videos decoded on the fly by opencv, 10 of them from the beginning for every clip: no index access can be "
        "trusted there; 1 video cannot be used: val/b/damaged (decode: "
    ) in done.stderr
    assert done.stdout.splitlines()[-1] == (
        "opencv gave 10 clips, 10 of them by decoding from the beginning of the video: no index access can be trusted "
        "there"
    )
    done = train(*fit_arguments(sources, tmp_path / "run2", optimizer__num_epochs=1), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert {key: result[key] for key in ("decoder", "clips_decoded", "clips_decoded_forward")} == {
        "decoder": "pyav",
        "clips_decoded": 10,
        "clips_decoded_forward": 5,
    }
    assert list(result["videos_failed"]) == ["val/b/damaged"]

    done = train("eval", tmp_path / "run2", "--data", sources, "--subset", "val", "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    scored = json.loads(done.stdout)
    assert scored["top1"] == result["top1"]
    assert (scored["decoder"], scored["clips_decoded"], scored["clips_decoded_forward"]) == ("pyav", 2, 1)
    assert list(scored["videos_failed"]) == ["val/b/damaged"]
    done = train("eval", tmp_path / "run2", "--data", sources, "--subset", "val", "--views", "2x3", "--quiet")
    assert done.stdout.splitlines()[1] == (
        "pyav gave 12 clips, 6 of them by decoding from the beginning of the video: no index access can be trusted "
        "there"
    )


def test_what_does_not_fit(sources: Path, prepared: dict[str, Path], train: Prep, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, stderr = fit(sources, run, optimizer__num_epochs=1)
    assert (code, stderr) == (0, "")
    for arguments, message in (
        (
            (*fit_arguments(sources, run, optimizer__num_epochs=1), "--decoder", "opencv"),
            "give it the same data, decoder",
        ),
        ((*fit_arguments(prepared["arrow"], tmp_path / "x"), "--decoder", "pyav"), "is no source list: --decoder goes"),
        (fit_arguments(sources.with_name("videos"), tmp_path / "x"), "is not a prepared dataset"),
        (fit_arguments(sources.with_name("nothing"), tmp_path / "x"), "is not a prepared dataset"),
        ((*fit_arguments(sources, tmp_path / "x"), "--val-subset", "test"), "has no subset 'test'"),
    ):
        done = train(*arguments)
        assert done.returncode == 2, done.stderr
        assert_one_sentence(done.stderr)
        assert message in done.stderr
    (tmp_path / "text.parquet").write_text("no list")
    done = train(*fit_arguments(tmp_path / "text.parquet", tmp_path / "x"))
    assert done.returncode == 2
    assert "is not a source list: write one with 'prep scan'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_decoder_hangs(sources: Path, tmp_path: Path, number: signal.Signals) -> None:
    """In the count of frames: the run ends all the same, and says which video it was."""
    (tmp_path / "sitecustomize.py").write_text(
        "import time, pathlib, prep.index_file as file\n"
        f"file.index_video = lambda *_: pathlib.Path({str(tmp_path)!r}, 'hangs').touch() or time.sleep(1000)\n"
    )
    shutil.copy(sources, tmp_path / "sources.parquet")  # of which nothing is counted
    command = [TRAIN, "fit", "--data", tmp_path / "sources.parquet", "--recipe", "demo_tsm", "--out", tmp_path / "run"]
    running = subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 60
    while not (tmp_path / "hangs").exists():
        assert time.monotonic() < deadline_s
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(number)
    _, stderr = running.communicate(timeout=30)
    assert running.returncode == 130
    assert re.search(
        r"interrupted while the frames of .*\.(mp4|avi).* were counted; what is counted is kept$", stderr.strip()
    )


def test_a_missing_library_is_one_sentence(sources: Path, tmp_path: Path) -> None:
    patch = "import sys\nsys.modules['decord'] = None\nsys.argv = ['train', *sys.argv[1:]]\n"
    command = [sys.executable, "-W", "ignore", "-P", "-c", f"{patch}from train.cli import main\nsys.exit(main())"]
    done = subprocess.run(
        [*command, *fit_arguments(sources, tmp_path / "run"), "--decoder", "decord"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "pip install decord" in done.stderr


def test_predictions_of_a_run_on_videos(sources: Path, train: Prep, tmp_path: Path) -> None:
    """Decoded on the fly as the run's were: the scores of the evaluation, and why the damaged one has none."""
    run = tmp_path / "run"
    assert fit(sources, run, loader__num_workers=0, optimizer__num_epochs=1)[0] == 0
    scores = tmp_path / "scores.parquet"
    done = train("eval", run, "--data", sources, "--subset", "val", "--scores", scores, "--quiet")
    assert done.returncode == 0, done.stderr
    table = pq.read_table(scores).to_pydict()
    videos = sources.parent / "videos"
    paths = [videos / "val" / "a" / "val0.mp4", videos / "val" / "b" / "damaged.avi", videos / "val" / "b" / "val0.avi"]
    done = train("predict", run, *paths, "--json", "--quiet")
    assert done.returncode == 3, done.stderr
    first, damaged, second = json.loads(done.stdout)["videos"]
    assert damaged["failure"].startswith("decode: ")
    assert damaged["best"] == []
    assert table["video_id"] == ["val/a/val0", "val/b/val0"]
    for found, expected in zip((first, second), table["scores"], strict=True):
        assert {row["label"]: row["score"] for row in found["best"]} == pytest.approx(
            dict(enumerate(expected)), abs=1e-5
        )
