"""The trainer as its users run it: the same result stopped or not, with workers or without, from either store."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from conftest import Prep
from training_runs import (
    SLOW,
    STEPS_PER_EPOCH,
    TINY,
    assert_nothing_left,
    assert_one_sentence,
    assert_same_run,
    content_of,
    end,
    fit,
    fit_arguments,
    metrics_of,
    processes_of,
    start,
    wait_for,
)

from train.checkpoint import load_checkpoint


@pytest.fixture(scope="module")
def whole(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped, without workers."""
    run = tmp_path_factory.mktemp("whole") / "run"
    code, stderr = fit(prepared["arrow"], run, loader__num_workers=0)
    assert code == 0, stderr
    assert not [line for line in stderr.splitlines() if "Warning" in line]
    return run


def test_a_run_logs_every_step_and_evaluation(whole: Path) -> None:
    lines = metrics_of(whole)
    assert [line["step"] for line in lines if line["kind"] == "train"] == list(range(1, 13))
    assert [(line["step"], line["epoch"], line["num_videos"]) for line in lines if line["kind"] == "eval"] == [
        (4, 1, 8),
        (8, 2, 8),
        (12, 3, 8),
    ]
    assert len({line["loss"] for line in lines if line["kind"] == "train"}) == 12
    assert sorted(path.name for path in whole.iterdir()) == ["best.ckpt", "last.ckpt", "lock", "metrics.jsonl"]


@pytest.mark.parametrize(("store", "num_workers"), [("arrow", 2), ("frames", 1)])
def test_workers_and_stores_change_nothing(
    prepared: dict[str, Path], whole: Path, tmp_path: Path, store: str, num_workers: int
) -> None:
    code, stderr = fit(prepared[store], tmp_path / "run", loader__num_workers=num_workers)
    assert (code, stderr) == (0, "")
    assert_same_run(tmp_path / "run", whole)


def test_another_seed_is_another_run(prepared: dict[str, Path], whole: Path, tmp_path: Path) -> None:
    """The comparison above can fail."""
    code, stderr = fit(prepared["arrow"], tmp_path / "run", loader__num_workers=0, run__seed=1)
    assert code == 0, stderr
    assert metrics_of(tmp_path / "run") != metrics_of(whole)
    assert content_of(tmp_path / "run" / "last.ckpt") != content_of(whole / "last.ckpt")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_stopped_thrice_and_resumed(prepared: dict[str, Path], whole: Path, tmp_path: Path, num_workers: int) -> None:
    """By SIGTERM and SIGINT to the group, as a terminal sends it, and by SIGKILL, each in the middle of an epoch."""
    run = tmp_path / "run"
    patch = SLOW.format(training_s=0.1, evaluation_s=0)
    for number, step in ((signal.SIGTERM, 2), (signal.SIGINT, 6), (signal.SIGKILL, 10)):
        every_s = 0.01 if number == signal.SIGKILL else 600
        arguments = fit_arguments(
            prepared["arrow"], run, loader__num_workers=num_workers, run__checkpoint_every_s=every_s
        )
        process = start(arguments, patch)
        wait_for(lambda step=step: any(line["step"] >= step for line in metrics_of(run)), process)
        pids = processes_of(run)
        assert len(pids) == 1 + num_workers
        os.killpg(process.pid, number)
        code, stderr = end(process)
        if number == signal.SIGKILL:
            assert code == -signal.SIGKILL
            assert_nothing_left(run)
            continue
        assert code == 130
        assert_one_sentence(stderr)
        assert_nothing_left(run, 0)
        assert f"interrupted after step {metrics_of(run)[-1]['step']} of 12, which is saved" in stderr
        assert "the same command resumes: -c fit --data" in stderr
        state = content_of(run / "last.ckpt")
        assert 0 < state["step_in_epoch"] < STEPS_PER_EPOCH, "not in the middle of an epoch: the test shows nothing"
        assert state["step"] == metrics_of(run)[-1]["step"]
    code, stderr = fit(prepared["arrow"], run, loader__num_workers=num_workers)
    assert (code, stderr) == (0, "")
    assert_same_run(run, whole)


ALL_CHANCE = {
    "clip__sampler": "dense",
    "clip__crop": "random_resized",
    "clip__flips": "true",
    "clip__normalise": "kinetics",
    "augment__brightness": 0.4,
    "augment__hue": 0.1,
    "augment__rand_operations": 1,
    "mix__mixup_alpha": 0.2,
    "mix__cutmix_alpha": 1.0,
    "views__num_clips": 2,
    "views__crops": "three",
    "views__batch_size": 3,
    "optimizer__batch_size": 4,
    "optimizer__num_parts": 2,
    "optimizer__schedule": "step",
    "optimizer__decay_epochs": "1.5",
    "optimizer__head_rate": 5,
    "optimizer__head_bias_rate": 10,
    "optimizer__decay_norms": "false",
    "optimizer__label_smoothing": 0.1,
    "average__ema_decay": 0.9,
    "average__precise_bn_batches": 3,
    "average__precise_bn_every_epochs": 2,
    "amp__level": "O1",
}
"""Everything that draws at random, several views, and all that a step and an evaluation can have."""


def test_all_that_is_drawn_is_drawn_again(prepared: dict[str, Path], whole: Path, tmp_path: Path) -> None:
    """A stopped run with one number of workers ends as a whole one with another, whatever the recipe draws."""
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    code, stderr = fit(prepared["arrow"], straight, loader__num_workers=0, **ALL_CHANCE)
    assert code == 0, stderr
    losses = [[line["loss"] for line in metrics_of(run) if line["kind"] == "train"] for run in (straight, whole)]
    assert not set(losses[0]) & set(losses[1])
    arguments = fit_arguments(prepared["frames"], stopped, loader__num_workers=2, **ALL_CHANCE)
    process = start(arguments, SLOW.format(training_s=0.1, evaluation_s=0))
    wait_for(lambda: any(line["step"] >= 5 for line in metrics_of(stopped)), process)  # of two an epoch
    process.send_signal(signal.SIGTERM)
    code, stderr = end(process)
    assert code == 130, stderr
    assert content_of(stopped / "last.ckpt")["step_in_epoch"] > 0
    code, stderr = fit(prepared["frames"], stopped, loader__num_workers=1, **ALL_CHANCE)
    assert (code, stderr) == (0, "")
    assert_same_run(stopped, straight)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_in_the_evaluation(
    prepared: dict[str, Path], whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """A signal does not wait for its end; the run resumes after the last step of the epoch, with no batch left."""
    run = tmp_path / "run"
    arguments = fit_arguments(prepared["arrow"], run, loader__num_workers=2, run__checkpoint_every_s=1e-6)
    process = start(arguments, SLOW.format(training_s=0, evaluation_s=5))
    wait_for(lambda: len(metrics_of(run)) == STEPS_PER_EPOCH, process)
    time.sleep(0.3)
    asked_s = time.monotonic()
    os.killpg(process.pid, number)
    code, stderr = end(process)
    assert time.monotonic() - asked_s < 10
    assert code == (130 if number == signal.SIGTERM else -number), stderr
    assert_nothing_left(run)
    assert content_of(run / "last.ckpt")["step_in_epoch"] == STEPS_PER_EPOCH
    assert len(metrics_of(run)) == STEPS_PER_EPOCH
    code, stderr = fit(prepared["arrow"], run, loader__num_workers=2)
    assert (code, stderr) == (0, "")
    assert_same_run(run, whole)


DIE_SAVING = """
import os
import train.loop
save = train.loop.save_checkpoint
def dies(path, checkpoint):
    if path.name == "{name}" and checkpoint.state.epoch == 1:
        if {after}:
            save(path, checkpoint)
        (path.parent / ".tmp-0badcafe").write_bytes(b"half a checkpoint")
        os._exit(9)
    save(path, checkpoint)
train.loop.save_checkpoint = dies
"""


@pytest.mark.parametrize(
    ("name", "after", "every_s"),
    [("best.ckpt", False, 0.0001), ("best.ckpt", True, 600), ("best.ckpt", True, 0.0001), ("last.ckpt", True, 600)],
    ids=["before best", "before the first last", "between best and last", "after last"],
)
def test_killed_while_it_saves(
    prepared: dict[str, Path], whole: Path, tmp_path: Path, name: str, after: bool, every_s: float
) -> None:
    run = tmp_path / "run"
    settings = {"loader__num_workers": 0, "run__checkpoint_every_s": every_s}
    code, stderr = fit(prepared["arrow"], run, DIE_SAVING.format(name=name, after=after), **settings)
    assert code == 9, stderr
    code, stderr = fit(prepared["arrow"], run, **settings)
    assert (code, stderr) == (0, "")
    assert_same_run(run, whole)
    assert sorted(path.name for path in run.iterdir()) == ["best.ckpt", "last.ckpt", "lock", "metrics.jsonl"]


def test_the_real_command_stops_and_says_how_to_go_on(prepared: dict[str, Path], tmp_path: Path) -> None:
    """Workers are as busy as they can be: the run would take minutes."""
    run = tmp_path / "run"
    process = start(fit_arguments(prepared["arrow"], run, loader__num_workers=2, optimizer__num_epochs=5000))
    wait_for(lambda: len(metrics_of(run)) > 20, process)
    os.killpg(process.pid, signal.SIGTERM)
    asked_s = time.monotonic()
    code, stderr = end(process)
    assert time.monotonic() - asked_s < 25
    assert code == 130
    assert_one_sentence(stderr)
    assert stderr.startswith("train fit: interrupted after step ")
    assert f"the same command resumes: train fit --data {prepared['arrow']} --recipe demo_tsm" in stderr
    assert_nothing_left(run, 0)


def test_a_complete_run_is_evaluated_and_left_as_it_is(prepared: dict[str, Path], whole: Path, train: Prep) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir() if path.name != "lock"}
    done = train(*fit_arguments(prepared["arrow"], whole, loader__num_workers=0), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    last = metrics_of(whole)[-1]
    assert {key: result[key] for key in ("num_videos", "top1", "top5", "mean_class")} == {
        key: last[key] for key in ("num_videos", "top1", "top5", "mean_class")
    }
    assert {path.name: path.read_bytes() for path in whole.iterdir() if path.name != "lock"} == before


@pytest.mark.parametrize(
    ("store", "name", "num_workers"), [("arrow", "last.ckpt", 0), ("frames", "best.ckpt", 2), ("arrow", "", 1)]
)
def test_eval_gives_what_the_run_logged(
    prepared: dict[str, Path], whole: Path, train: Prep, store: str, name: str, num_workers: int
) -> None:
    done = train(
        "eval", whole / name, "--data", prepared[store], "--subset", "test01", "--json", "--quiet",
        "--set", f"loader.num_workers={num_workers}", "--set", "run.cpu_threads=1",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    logged = next(line for line in metrics_of(whole) if line["kind"] == "eval" and line["epoch"] == result["epoch"])
    assert {key: result[key] for key in ("num_videos", "top1", "top5", "mean_class")} == {
        key: logged[key] for key in ("num_videos", "top1", "top5", "mean_class")
    }
    evaluations = [line for line in metrics_of(whole) if line["kind"] == "eval"]
    best = max(evaluations, key=lambda line: line["top1"])  # the first of equals
    assert result["epoch"] == (evaluations[-1] if name == "last.ckpt" else best)["epoch"]


def test_a_killed_run_takes_its_workers_and_their_memory_with_it(prepared: dict[str, Path], tmp_path: Path) -> None:
    """With batches on their way; nothing of them has a name, in /dev/shm or elsewhere."""
    run = tmp_path / "run"
    arguments = fit_arguments(prepared["arrow"], run, loader__num_workers=2, optimizer__num_epochs=5000)
    before = set(Path("/dev/shm").iterdir())
    process = start(arguments)
    wait_for(lambda: len(metrics_of(run)) > 20, process)
    pids = processes_of(run)
    assert len(pids) == 3
    assert any("memfd:decode-once-batch" in Path(f"/proc/{pid}/maps").read_text() for pid in pids)
    os.kill(process.pid, signal.SIGKILL)
    end(process)
    assert_nothing_left(run)
    assert {path for path in set(Path("/dev/shm").iterdir()) - before if str(process.pid) in path.name} == set()


def test_first_weights_from_another_run(prepared: dict[str, Path], whole: Path, tmp_path: Path, train: Prep) -> None:
    """They are read once: a run that resumes has its own."""
    first = tmp_path / "first"
    shutil.copytree(whole, first)
    run = tmp_path / "run"
    arguments = fit_arguments(prepared["arrow"], run, loader__num_workers=0, optimizer__num_epochs=1)
    arguments = [*(word for word in arguments if word != "--quiet"), "--init", str(first)]
    done = train(*arguments)
    assert done.returncode == 0, done.stderr
    num_arrays = len(load_checkpoint(whole / "best.ckpt").model)
    assert f"began with {num_arrays} arrays of {first / 'best.ckpt'}\n" in done.stderr
    losses = {path: metrics_of(path)[0]["loss"] for path in (run, whole)}
    assert losses[run] != losses[whole]
    shutil.rmtree(first)
    done = train(*arguments)
    assert done.returncode == 0, done.stderr
    assert "complete already" in done.stdout
    done = train(*fit_arguments(prepared["arrow"], tmp_path / "new", model__init=first))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"train fit: model.init: there is no file {first}\n"


def test_real_clips(shared_videos: Path, prep: Prep, tmp_path: Path) -> None:
    """A few steps over clips that cameras made, from both stores, with the same result."""
    for label, folder in (("hmdb", "hmdb51"), ("ucf", "ucf101")):
        clips = sorted((shared_videos / folder).glob("*.avi"))[:3]
        if len(clips) < 3:
            pytest.skip(f"fewer than 3 clips in {shared_videos / folder}")
        for subset in ("train", "test"):
            (tmp_path / "videos" / subset / label).mkdir(parents=True)
            for clip in clips:
                (tmp_path / "videos" / subset / label / clip.name).symlink_to(clip)
    for store, num_workers in (("arrow", 0), ("frames", 2)):
        done = prep(
            "extract", tmp_path / "videos", "--dataset", "folder", "--out", tmp_path / store, "--store", store,
            "--quiet", "--set", "frames.short_side_px=64",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        settings = {"optimizer__num_epochs": 1, "loader__num_workers": num_workers}
        code, stderr = fit(tmp_path / store, tmp_path / f"run_{store}", **settings)
        assert (code, stderr) == (0, "")
    assert_same_run(tmp_path / "run_arrow", tmp_path / "run_frames")
    assert [line["step"] for line in metrics_of(tmp_path / "run_arrow")] == [1, 2, 3, 3, 3]
    assert TINY["optimizer.batch_size"] == 2
