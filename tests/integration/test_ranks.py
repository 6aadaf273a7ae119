"""Two processes that train together give what one gives with the same global batch."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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

from train.checkpoint import load_checkpoint

SETTINGS = {
    "optimizer__batch_size": 4,
    "optimizer__num_parts": 2,
    "optimizer__num_epochs": 2,
    "optimizer__head_rate": 5,
    "mix__mixup_alpha": 0.2,
    "average__precise_bn_batches": 4,
    "loader__num_workers": 0,
}
"""Two steps an epoch. Precise statistics, since running ones are averages over the ranks in one run only."""

SLOW_TRAINING = f"""
import os
if "PADDLE_TRAINER_ID" in os.environ:
    {SLOW.format(training_s=0.25, evaluation_s=0).strip().replace(chr(10), chr(10) + "    ")}
"""


def start_two(data: Path, run: Path, **settings: object) -> subprocess.Popen[str]:
    return start([*fit_arguments(data, run, **settings), "--nproc", "2"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ranks_of(launcher: subprocess.Popen[str]) -> list[int]:
    """The process ids of its ranks, in order."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
    return sorted(map(int, children.split()))


def learned(run: Path, name: str = "last.ckpt") -> dict[str, Any]:
    """Weights and velocities; statistics of batch norms are in the scores."""
    checkpoint = load_checkpoint(run / name)
    arrays = {**checkpoint.model, **checkpoint.optimizer}
    return {
        key: value.numpy()
        for key, value in arrays.items()
        if hasattr(value, "numpy") and not key.endswith(("_mean", "_variance"))
    }


def steps_of(run: Path) -> list[dict[str, Any]]:
    return [line for line in metrics_of(run) if line["kind"] == "train"]


def assert_close(run: Path, other: Path) -> None:
    found, expected = metrics_of(run), metrics_of(other)
    assert len(found) == len(expected) >= 6
    for line, other_line in zip(found, expected, strict=True):
        assert line.pop("kind") == other_line.pop("kind")
        assert line == pytest.approx(other_line, rel=1e-3, abs=1e-5), json.dumps([line, other_line])
    arrays, others = learned(run), learned(other)
    assert arrays.keys() == others.keys()
    assert len(arrays) > 20
    for key, value in arrays.items():
        np.testing.assert_allclose(value, others[key], rtol=1e-3, atol=2e-5, err_msg=key)


@pytest.fixture(scope="module")
def alone(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("alone") / "run"
    code, stderr = fit(prepared["arrow"], run, **SETTINGS)
    assert code == 0, stderr
    return run


def test_two_give_what_one_gives(prepared: dict[str, Path], alone: Path, tmp_path: Path) -> None:
    """Losses, norms of gradients, weights, velocities and accuracies, with mixup and dropout."""
    two = tmp_path / "two"
    assert end(start_two(prepared["arrow"], two, **SETTINGS)) == (0, "")
    assert_close(two, alone)
    assert sorted(path.name for path in two.iterdir()) == ["best.ckpt", "last.ckpt", "lock", "metrics.jsonl"]


def test_two_give_what_one_gives_with_batches_that_vary(prepared: dict[str, Path], tmp_path: Path) -> None:
    """Both cycles, batches of 2 to 8 clips, batch norms in groups of one clip."""
    settings = {
        **SETTINGS,
        "optimizer__batch_size": 2,
        "optimizer__schedule": "step",
        "optimizer__decay_epochs": "1",
        "multigrid__cycles": "both",
        "multigrid__time_factors": "0.5, 1",
        "multigrid__space_factors": "1, 1",
        "multigrid__short_factors": "0.7071, 0.7071",
        "multigrid__norm_size": 1,
    }
    code, stderr = fit(prepared["arrow"], tmp_path / "one", **settings)
    assert code == 0, stderr
    assert end(start_two(prepared["arrow"], tmp_path / "two", **settings)) == (0, "")
    assert_close(tmp_path / "two", tmp_path / "one")
    shapes = {(line["batch_size"], line["num_frames"], line["crop_px"]) for line in steps_of(tmp_path / "two")}
    assert shapes == {(8, 2, 23), (4, 4, 23)}


def test_the_comparison_can_fail(prepared: dict[str, Path], alone: Path, tmp_path: Path) -> None:
    """One process that computes the batch in one part has other batch statistics."""
    code, stderr = fit(prepared["arrow"], tmp_path / "run", **{**SETTINGS, "optimizer__num_parts": 1})
    assert code == 0, stderr
    with pytest.raises(AssertionError):
        assert_close(tmp_path / "run", alone)


def test_one_signal_stops_all_and_one_alone_resumes(
    prepared: dict[str, Path], alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a terminal sends it, and one that only the second rank gets."""
    run = tmp_path / "run"
    (tmp_path / "sitecustomize.py").write_text(SLOW_TRAINING)
    with monkeypatch.context() as slowly:
        slowly.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
        step = 0
        for is_terminal in (True, False):
            launcher = start_two(prepared["arrow"], run, **SETTINGS)
            wait_for(lambda step=step: [line for line in metrics_of(run) if line["step"] > step], launcher)
            if is_terminal:
                os.killpg(launcher.pid, signal.SIGINT)
            else:
                os.kill(ranks_of(launcher)[1], signal.SIGTERM)
            code, stderr = end(launcher)
            assert code == 130, stderr
            assert_one_sentence(stderr)
            before, step = step, load_checkpoint(run / "last.ckpt").state.step
            assert before < step
            assert f"interrupted after step {step} of 4, which is saved; the same command resumes: train fit " in stderr
            assert_nothing_left(run)
    code, stderr = fit(prepared["arrow"], run, **SETTINGS)
    assert code == 0, stderr
    assert_close(run, alone)


def test_nothing_outlives_its_launcher(prepared: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = {**SETTINGS, "optimizer__num_epochs": 5000, "loader__num_workers": 1}
    launcher = start_two(prepared["arrow"], run, **settings)
    wait_for(lambda: metrics_of(run), launcher)
    assert len(processes_of(run)) == 5
    launcher.kill()
    end(launcher)
    assert_nothing_left(run)


def test_parts_that_cannot_be_shared_out(prepared: dict[str, Path], tmp_path: Path) -> None:
    code, stderr = end(start_two(prepared["arrow"], tmp_path / "run", **{**SETTINGS, "optimizer__num_parts": 1}))
    assert code == 2
    assert_one_sentence(stderr)
    assert "optimizer.num_parts is a multiple of the number of processes, 2, not 1: --set" in stderr


def test_processes_of_two_machines_that_begin_with_different_things(prepared: dict[str, Path], tmp_path: Path) -> None:
    """The machines are this one, both times."""
    machines = ["--nnodes", "2", "--master", f"127.0.0.1:{free_port()}", "--rank"]
    processes = [
        start([*fit_arguments(prepared["arrow"], tmp_path / "run", run__seed=seed, **SETTINGS), *machines, str(seed)])
        for seed in range(2)
    ]
    for code, stderr in [end(process) for process in processes]:
        assert code == 2, stderr
        assert_one_sentence(stderr)
        assert "the processes begin with different recipes, videos, weights or checkpoints" in stderr
