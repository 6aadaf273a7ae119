"""`train --loader dali` as its users run it, where DALI is installed."""

import json
import signal
from pathlib import Path

import pytest
from conftest import Prep
from training_runs import (
    SLOW,
    assert_one_sentence,
    assert_same_run,
    content_of,
    end,
    fit_arguments,
    metrics_of,
    start,
    wait_for,
)

pytest.importorskip("nvidia.dali", reason="nvidia-dali-cuda120 is not installed (extra dali)")


def test_stopped_and_resumed(prepared: dict[str, Path], train: Prep, tmp_path: Path) -> None:
    """From either store, with any number of threads; and near to what the normal loader gives."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    done = train(*fit_arguments(prepared["arrow"], whole, loader__num_workers=0), "--loader", "dali")
    assert (done.returncode, done.stderr) == (0, "")
    arguments = [*fit_arguments(prepared["frames"], stopped, loader__num_workers=2), "--loader", "dali"]
    process = start(arguments, SLOW.format(training_s=0.1, evaluation_s=0).replace("_sample", "_drawn"))
    wait_for(lambda: any(line["step"] >= 6 for line in metrics_of(stopped)), process)
    process.send_signal(signal.SIGTERM)
    code, stderr = end(process)
    assert code == 130, stderr
    assert 0 < content_of(stopped / "last.ckpt")["step"] < 12
    done = train(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same_run(stopped, whole)

    done = train(
        "eval",
        whole / "last.ckpt",
        "--data",
        prepared["arrow"],
        "--subset",
        "test01",
        "--loader",
        "dali",
        "--json",
        "--quiet",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["top1"] == metrics_of(whole)[-1]["top1"]

    done = train(*fit_arguments(prepared["arrow"], whole, loader__num_workers=0))
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "was begun with --loader dali: use the same or another --out" in done.stderr

    one = tmp_path / "paddle"
    done = train(*fit_arguments(prepared["arrow"], one, optimizer__num_epochs=1))
    assert done.returncode == 0, done.stderr
    first, expected = metrics_of(whole)[0], metrics_of(one)[0]
    assert first["loss"] == pytest.approx(expected["loss"], rel=0.02)
