"""Whatever happens to a training run, it ends soon, with one sentence that names the cause and the right exit code."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import TRAIN, Prep
from training_runs import (
    SLOW,
    assert_nothing_left,
    assert_one_sentence,
    end,
    fit,
    fit_arguments,
    metrics_of,
    processes_of,
    start,
    wait_for,
)

from manifests.dataset import open_dataset
from train.sampler import epoch_order

TIMEOUT_S = 2
SOON_S = 25
"""Long before anything that would end by itself, and ample on a busy machine."""

RAISES = """
from train.dataset import ClipDataset
read = ClipDataset._sample
def raises(self, item):
    if self.video_id(item.index) == "{video}":
        raise RuntimeError("the moon is full")
    return read(self, item)
ClipDataset._sample = raises
"""

HANGS = """
import time
from train.dataset import ClipDataset
read = ClipDataset._sample
def hangs(self, item):
    if self.video_id(item.index) == "{video}":
        time.sleep(1000)
    return read(self, item)
ClipDataset._sample = hangs
"""

SIGNS_AND_HANGS = """
import time
from train.dataset import ClipDataset
read = ClipDataset._sample
def hangs(self, item):
    open({sign!r}, "w").close()
    time.sleep(1000)
    return read(self, item)
ClipDataset._sample = hangs
"""

SLOW_STEPS = """
import time
import train.loop
normalise = train.loop.normalise
def slow(*arguments):
    deadline = time.monotonic() + 0.4
    while time.monotonic() < deadline:
        pass
    return normalise(*arguments)
train.loop.normalise = slow
"""


@pytest.fixture(scope="module")
def late_video(prepared: dict[str, Path]) -> str:
    """A video that the first epoch of seed 0 reads in its last batch."""
    return video_of(prepared["arrow"], int(epoch_order(8, 0, 0)[-1]))["video_id"]


@pytest.fixture(scope="module")
def done_run(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("done") / "run"
    code, stderr = fit(prepared["arrow"], run, loader__num_workers=0, optimizer__num_epochs=1)
    assert code == 0, stderr
    return run


def video_of(data: Path, index: int) -> dict[str, Any]:
    with open_dataset(data) as dataset:
        return dataset.video(int(dataset.rows("train01")[index]))


def children_of(run: Path, process: subprocess.Popen[str]) -> list[int]:
    return [pid for pid in processes_of(run) if pid != process.pid]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_an_exception_in_the_dataset(
    prepared: dict[str, Path], tmp_path: Path, late_video: str, num_workers: int
) -> None:
    started_s = time.monotonic()
    code, stderr = fit(
        prepared["arrow"], tmp_path / "run", RAISES.format(video=late_video), loader__num_workers=num_workers
    )
    assert time.monotonic() - started_s < SOON_S
    assert code == 1
    where = f"video {late_video} of {prepared['arrow']}"
    assert stderr == f"train fit: unexpected RuntimeError while reading {where}: the moon is full\n"
    assert [line["step"] for line in metrics_of(tmp_path / "run")] == [1, 2, 3]
    assert_nothing_left(tmp_path / "run", 0)


@pytest.mark.parametrize("patch", [SLOW.format(training_s=0.2, evaluation_s=0), SLOW_STEPS], ids=["reads", "waits"])
def test_a_killed_worker(prepared: dict[str, Path], tmp_path: Path, patch: str) -> None:
    """While it reads and we wait for it, and while it waits and we compute, where Paddle raises in the midst of us."""
    run = tmp_path / "run"
    process = start(fit_arguments(prepared["arrow"], run, loader__num_workers=2, optimizer__batch_size=1), patch)
    wait_for(lambda: metrics_of(run), process)
    victim = children_of(run, process)[0]
    os.kill(victim, signal.SIGKILL)
    killed_s = time.monotonic()
    code, stderr = end(process)
    assert time.monotonic() - killed_s < SOON_S
    assert code == 1
    assert_one_sentence(stderr)
    assert stderr.startswith(f"train fit: a data worker process ended unexpectedly ({victim} at video ")
    assert "v_" in stderr
    assert_nothing_left(run, 0)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_hung_worker(prepared: dict[str, Path], tmp_path: Path, late_video: str, num_workers: int) -> None:
    run = tmp_path / "run"
    settings = {"loader__num_workers": num_workers, "loader__timeout_s": TIMEOUT_S}
    process = start(fit_arguments(prepared["arrow"], run, **settings), HANGS.format(video=late_video))
    wait_for(lambda: len(metrics_of(run)) == 3, process)
    hung_s = time.monotonic()
    code, stderr = end(process)
    assert time.monotonic() - hung_s < SOON_S
    assert code == 1
    assert_one_sentence(stderr)
    where = f"at video {late_video} of {prepared['arrow']}"
    assert f" {where} was killed: nothing came of it for more than 2 s; check that disk" in stderr
    assert_nothing_left(run, 0)


@pytest.mark.parametrize("patch", [SLOW.format(training_s=0.2, evaluation_s=0), SLOW_STEPS], ids=["reads", "waits"])
def test_a_stopped_worker(prepared: dict[str, Path], tmp_path: Path, patch: str) -> None:
    """At a sample or between two: stopped, it answers to nothing but SIGKILL."""
    run = tmp_path / "run"
    settings = {"loader__num_workers": 2, "loader__timeout_s": TIMEOUT_S, "optimizer__batch_size": 1}
    process = start(fit_arguments(prepared["arrow"], run, **settings), patch)
    wait_for(lambda: metrics_of(run), process)
    victims = children_of(run, process)
    for victim in victims:
        os.kill(victim, signal.SIGSTOP)
    stopped_s = time.monotonic()
    code, stderr = end(process)
    assert time.monotonic() - stopped_s < SOON_S
    assert code == 1
    assert_one_sentence(stderr)
    assert any(f"data worker {victim} at " in stderr for victim in victims)
    assert_nothing_left(run, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_worker_hangs(
    prepared: dict[str, Path], tmp_path: Path, late_video: str, number: signal.Signals
) -> None:
    """It does not wait for loader.timeout_s, and the steps that are done are kept."""
    run = tmp_path / "run"
    process = start(fit_arguments(prepared["arrow"], run, loader__num_workers=2), HANGS.format(video=late_video))
    wait_for(lambda: len(metrics_of(run)) == 3, process)
    os.killpg(process.pid, number)
    asked_s = time.monotonic()
    code, stderr = end(process)
    assert time.monotonic() - asked_s < SOON_S
    assert code == 130
    assert_one_sentence(stderr)
    assert "interrupted after step 3 of 12, which is saved; the same command resumes: " in stderr
    assert (run / "last.ckpt").exists()
    assert_nothing_left(run, 0)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_signal_while_it_evaluates(
    prepared: dict[str, Path], done_run: Path, tmp_path: Path, num_workers: int
) -> None:
    arguments = ["eval", str(done_run), "--data", str(prepared["arrow"]), "--subset", "test01", "--quiet"]
    arguments += ["--set", f"loader.num_workers={num_workers}"]
    process = start(arguments, SIGNS_AND_HANGS.format(sign=str(tmp_path / "sign")))
    wait_for(lambda: (tmp_path / "sign").exists() and len(processes_of(done_run)) == 1 + num_workers, process)
    os.killpg(process.pid, signal.SIGINT)
    code, stderr = end(process, SOON_S)
    assert (code, stderr) == (130, "train eval: interrupted\n")
    assert_nothing_left(done_run, 0)


def test_a_shared_memory_file_system_without_room(prepared: dict[str, Path], tmp_path: Path) -> None:
    """As containers have it: 64 KiB, most of it taken, where a batch takes 24 KiB. Paddle's loader has a bus error."""
    fitting = fit_arguments(prepared["arrow"], tmp_path / "run", loader__num_workers=2, optimizer__num_epochs=1)
    command = shlex.join([str(TRAIN), *fitting])
    script = f"mount -t tmpfs -o size=64k tmpfs /dev/shm && head -c 60000 /dev/zero > /dev/shm/full && {command}"
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*inside, "mount -t tmpfs tmpfs /dev/shm"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system of our own may be mounted here: {error}")
    done = subprocess.run([*inside, script], text=True, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["step"] for line in metrics_of(tmp_path / "run")] == [1, 2, 3, 4, 4, 4]


def test_batches_that_do_not_fit_into_memory(prepared: dict[str, Path], done_run: Path, tmp_path: Path) -> None:
    settings = {"loader__num_workers": 2, "clip__num_frames": 10**9}
    code, stderr = fit(prepared["arrow"], tmp_path / "run", **settings)
    assert code == 2
    assert_one_sentence(stderr)
    assert "batches on their way from 2 data workers need 33.5 TiB of memory, and " in stderr
    assert " is free: use fewer (--set loader.num_workers=0), or smaller batches" in stderr
    assert not (tmp_path / "run").exists()


def flip_frames(data: Path, video: dict[str, Any]) -> None:
    """End every JPEG of the video in its middle: what follows is no picture any more."""
    shard = data / video["location"]
    content = bytearray(shard.read_bytes())
    with open_dataset(data) as dataset:
        row = dataset.manifest.column("video_id").to_pylist().index(video["video_id"])
        for jpeg in dataset.read_frames(row, range(video["num_frames"])):
            middle = content.index(jpeg) + len(jpeg) // 2
            content[middle : middle + 2] = b"\xff\xd9"
    shard.write_bytes(content)


def truncate_shard(data: Path, video: dict[str, Any]) -> None:
    os.truncate(data / video["location"], video["data_at"][0] + 10)


def remove_frames(data: Path, video: dict[str, Any]) -> None:
    for path in (data / video["location"]).iterdir():
        path.unlink()


def cut_frames(data: Path, video: dict[str, Any]) -> None:
    for path in (data / video["location"]).iterdir():
        os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("store", "damage", "num_workers"),
    [
        ("arrow", flip_frames, 0),
        ("arrow", flip_frames, 1),
        ("arrow", flip_frames, 2),
        ("arrow", truncate_shard, 2),
        ("frames", remove_frames, 0),
        ("frames", remove_frames, 2),
        ("frames", cut_frames, 1),
    ],
)
def test_damage_in_the_middle_of_an_epoch(
    prepared: dict[str, Path], tmp_path: Path, late_video: str, store: str, damage: Any, num_workers: int
) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared[store], data)
    video = video_of(data, int(epoch_order(8, 0, 0)[-1]))
    damage(data, video)
    code, stderr = fit(data, tmp_path / "run", loader__num_workers=num_workers)
    assert code == 4, stderr
    assert_one_sentence(stderr)
    assert late_video in stderr
    assert str(video["location"]) in stderr
    if damage is not truncate_shard:  # which takes later videos with it, in earlier batches
        assert [line["step"] for line in metrics_of(tmp_path / "run")] == [1, 2, 3]
    assert_nothing_left(tmp_path / "run", 0)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loss_that_is_not_finite(prepared: dict[str, Path], tmp_path: Path, num_workers: int) -> None:
    run = tmp_path / "run"
    code, stderr = fit(prepared["arrow"], run, loader__num_workers=num_workers, optimizer__learning_rate=1e30)
    assert code == 1
    assert_one_sentence(stderr)
    step = len(metrics_of(run)) + 1
    assert f" at step {step}, over videos " in stderr
    order = epoch_order(8, 0, (step - 1) // 4).tolist()
    for index in order[(step - 1) % 4 * 2 :][:2]:
        assert video_of(prepared["arrow"], index)["video_id"] in stderr
    assert not (run / "last.ckpt").exists() or step > 4
    assert_nothing_left(run, 0)


def test_a_run_folder_in_use(prepared: dict[str, Path], tmp_path: Path, train: Prep) -> None:
    run = tmp_path / "run"
    arguments = fit_arguments(prepared["arrow"], run, loader__num_workers=0, optimizer__num_epochs=5000)
    process = start(arguments)
    wait_for(lambda: metrics_of(run), process)
    os.kill(process.pid, signal.SIGSTOP)
    done = train(*arguments)
    os.kill(process.pid, signal.SIGCONT)
    os.kill(process.pid, signal.SIGTERM)
    assert end(process)[0] == 130
    assert done.returncode == 5
    assert_one_sentence(done.stderr)
    assert f"another run is at work in {run} (" in done.stderr
    assert f"(process {process.pid} on " in done.stderr


def with_other_version(data: Path, copy: Path) -> Path:
    shutil.copytree(data, copy)
    path = copy / "dataset.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 99}))
    return copy


def test_another_format_version(prepared: dict[str, Path], done_run: Path, tmp_path: Path, train: Prep) -> None:
    data = with_other_version(prepared["arrow"], tmp_path / "data")
    for arguments in (
        fit_arguments(data, tmp_path / "run"),
        ["eval", done_run, "--data", data, "--subset", "test01"],
    ):
        done = train(*arguments)
        assert done.returncode == 4
        assert_one_sentence(done.stderr)
        assert "99" in done.stderr
        assert str(data) in done.stderr


def test_another_set_of_classes(
    prepared: dict[str, Path], done_run: Path, tmp_path: Path, prep: Prep, train: Prep
) -> None:
    assert prep("synth", tmp_path / "v", "--classes", 2, "--videos-per-class", 4).returncode == 0
    data = tmp_path / "data"
    assert prep("extract", tmp_path / "v", "--dataset", "ucf101", "--out", data, "--quiet").returncode == 0
    run = tmp_path / "run"
    shutil.copytree(done_run, run)
    for arguments in (
        ["eval", run, "--data", data, "--subset", "test01"],
        fit_arguments(data, run, optimizer__num_epochs=1),
    ):
        done = train(*arguments)
        assert done.returncode == 4
        assert_one_sentence(done.stderr)
        assert f"was trained on other classes than {data} has" in done.stderr


NO_WORKER = ("--set", "loader.num_workers=0")


def test_wrong_usage_of_fit(prepared: dict[str, Path], done_run: Path, tmp_path: Path, train: Prep) -> None:
    data, run = prepared["arrow"], tmp_path / "run"
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.tex").write_text("all my work")
    before = {path.name: path.read_bytes() for path in done_run.iterdir() if path.name != "lock"}
    cases: list[tuple[list[str], str]] = [
        ([*fit_arguments(data, run), "--train-subset", "tain01"], "no subset 'tain01'; it has all, test01, train01"),
        ([*fit_arguments(data, run), "--set", "optimizer.learning_rat=1"], "did you mean optimizer.learning_rate?"),
        (
            fit_arguments(data, run, optimizer__batch_size=9),
            "'train01' has 8 videos, fewer than optimizer.batch_size=9",
        ),
        (fit_arguments(data, strange), f"{strange} holds something else ('thesis.tex')"),
        (
            [*fit_arguments(data, done_run, optimizer__num_epochs=1), "--resume", "never"],
            f"{done_run} holds a run already",
        ),
        (
            fit_arguments(data, done_run, optimizer__num_epochs=1, optimizer__momentum=0.5, clip__crop_px=48),
            "was begun with clip.crop_px 32, not 48; optimizer.momentum 0.9, not 0.5",
        ),
        (
            [*fit_arguments(data, done_run, optimizer__num_epochs=1), "--train-subset", "test01"],
            f"{done_run} was begun with other videos than subset 'test01' of {data} has",
        ),
        (
            [*fit_arguments(data, done_run, optimizer__num_epochs=1), "--val-subset", "all"],
            f"{done_run} was begun with other videos than subset 'all' of {data} has",
        ),
        (fit_arguments(tmp_path / "nowhere", run), str(tmp_path / "nowhere")),
    ]
    for arguments, sentence in cases:
        done = train(*arguments, *NO_WORKER)
        assert done.returncode == 2, done.stderr
        assert_one_sentence(done.stderr)
        assert sentence in done.stderr
    assert {path.name: path.read_bytes() for path in done_run.iterdir() if path.name != "lock"} == before
    assert (strange / "thesis.tex").read_text() == "all my work"


def test_wrong_usage_of_eval(prepared: dict[str, Path], done_run: Path, tmp_path: Path, train: Prep) -> None:
    text = tmp_path / "notes.ckpt"
    text.write_text("no checkpoint, just some notes\n")
    cut = tmp_path / "cut.ckpt"
    cut.write_bytes((done_run / "last.ckpt").read_bytes()[:5000])
    empty = tmp_path / "empty.ckpt"
    empty.touch()
    cases = [
        (tmp_path / "gone", "test01", 2, f"no checkpoint at {tmp_path / 'gone'}"),
        (tmp_path, "test01", 2, f"no checkpoint at {tmp_path / 'last.ckpt'}"),
        (text, "test01", 4, f"{text} is no checkpoint of this program"),
        (cut, "test01", 4, f"{cut} is no checkpoint of this program"),
        (empty, "test01", 4, f"{empty} is no checkpoint of this program"),
        (done_run, "val", 2, "no subset 'val'; it has all, test01, train01"),
    ]
    for checkpoint, subset, code, sentence in cases:
        done = train("eval", checkpoint, "--data", prepared["arrow"], "--subset", subset, *NO_WORKER)
        assert done.returncode == code, done.stderr
        assert_one_sentence(done.stderr)
        assert sentence in done.stderr
