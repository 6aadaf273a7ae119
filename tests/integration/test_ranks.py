"""Two processes that train together give what one gives with the same global batch."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_runs import QUIET_IMPORT, end, fit, fit_arguments, metrics_of, wait_for

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

PATCH = f"{QUIET_IMPORT}from train.__main__ import main\nimport sys\nsys.exit(main())\n"


SLOW_STEPS = """
import time, train.loop
mix = train.loop.mix
def slow(*arguments, **keywords):
    time.sleep(1)
    return mix(*arguments, **keywords)
train.loop.mix = slow
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_two(arguments: list[str], patch: str = "") -> list[subprocess.Popen[str]]:
    """As the launcher starts them, without its log files."""
    ports = [free_port(), free_port()]
    ends = ",".join(f"127.0.0.1:{port}" for port in ports)
    started = []
    for rank in range(2):
        variables = {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_TRAINER_ENDPOINTS": ends,
            "PADDLE_CURRENT_ENDPOINT": f"127.0.0.1:{ports[rank]}",
            "PADDLE_DISTRI_BACKEND": "gloo",
        }
        command = [sys.executable, "-P", "-c", patch + PATCH, *arguments]
        started.append(
            subprocess.Popen(
                command,
                env={**os.environ, **variables},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        )
    return started


def end_two(processes: list[subprocess.Popen[str]], code: int) -> list[str]:
    ended = [end(process, 120) for process in processes]
    assert [found for found, _ in ended] == [code, code], ended
    return [stderr for _, stderr in ended]


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
    end_two(start_two(fit_arguments(prepared["arrow"], two, **SETTINGS)), 0)
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
    end_two(start_two(fit_arguments(prepared["arrow"], tmp_path / "two", **settings)), 0)
    assert_close(tmp_path / "two", tmp_path / "one")
    shapes = {(line["batch_size"], line["num_frames"], line["crop_px"]) for line in steps_of(tmp_path / "two")}
    assert shapes == {(8, 2, 23), (4, 4, 23)}


def test_the_comparison_can_fail(prepared: dict[str, Path], alone: Path, tmp_path: Path) -> None:
    """One process that computes the batch in one part has other batch statistics."""
    code, stderr = fit(prepared["arrow"], tmp_path / "run", **{**SETTINGS, "optimizer__num_parts": 1})
    assert code == 0, stderr
    with pytest.raises(AssertionError):
        assert_close(tmp_path / "run", alone)


def test_one_signal_stops_both_and_one_alone_resumes(prepared: dict[str, Path], alone: Path, tmp_path: Path) -> None:
    """A signal that only the second one gets."""
    run = tmp_path / "run"
    arguments = fit_arguments(prepared["arrow"], run, **SETTINGS)
    processes = start_two(arguments, QUIET_IMPORT + SLOW_STEPS)
    wait_for(lambda: len(metrics_of(run)) >= 1, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    for stderr in end_two(processes, 130):
        assert "which is saved" in stderr
    assert 0 < load_checkpoint(run / "last.ckpt").state.step < 4
    code, stderr = fit(prepared["arrow"], run, **SETTINGS)
    assert code == 0, stderr
    assert_close(run, alone)


def test_parts_that_cannot_be_shared_out(prepared: dict[str, Path], tmp_path: Path) -> None:
    arguments = fit_arguments(prepared["arrow"], tmp_path / "run", **{**SETTINGS, "optimizer__num_parts": 1})
    for stderr in end_two(start_two(arguments), 2):
        assert "optimizer.num_parts is a multiple of the number of processes, 2, not 1" in stderr
