"""Tiny training runs as processes of their own: start, watch, patch, compare, and what they leave behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddle_import  # noqa: F401 - before anything that imports paddle
from conftest import TRAIN

from train.checkpoint import load_checkpoint

TINY = {
    "optimizer.batch_size": 2,
    "optimizer.num_epochs": 3,
    "clip.crop_px": 32,
    "clip.num_frames": 4,
    "model.dropout": 0.5,
    "run.cpu_threads": 1,
    "run.log_every_steps": 1,
}
"""With `prepared` of conftest.py: 4 steps an epoch, 12 in all. Dropout, so that its draws count too."""

STEPS_PER_EPOCH = 4
TIMES = ("clips_per_s", "data_wait_share", "memory_bytes", "seconds")

SLOW = """
import time
from train.dataset import ClipDataset
read = ClipDataset._sample
def slow(self, item):
    time.sleep({training_s} if self._training else {evaluation_s})
    return read(self, item)
ClipDataset._sample = slow
"""
"""A patch: every sample takes longer."""


QUIET_IMPORT = 'import warnings\nwarnings.filterwarnings("ignore", category=UserWarning, module="paddle")\n'


def fit_arguments(data: Path, run: Path, **settings: object) -> list[str]:
    """Of `train fit`; settings with __ for the dot."""
    values = {**TINY, **{key.replace("__", "."): value for key, value in settings.items()}}
    overrides = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    return ["fit", "--data", str(data), "--recipe", "demo_tsm", "--out", str(run), "--quiet", *overrides]


def start(arguments: list[str], patch: str = "") -> subprocess.Popen[str]:
    """The real command; with `patch`, Python text that runs before it, the same program in another Python."""
    command = [str(TRAIN)]
    if patch:
        command = [
            sys.executable,
            "-c",
            f"{QUIET_IMPORT}{patch}\nimport sys\nfrom train.__main__ import main\nsys.exit(main())",
        ]
    return subprocess.Popen(
        [*command, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def end(process: subprocess.Popen[str], timeout_s: float = 60) -> tuple[int, str]:
    """Exit code and stderr; a process that does not end by then fails the test."""
    try:
        _, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"no end within {timeout_s} s") from None
    return process.returncode, stderr


def fit(data: Path, run: Path, patch: str = "", **settings: object) -> tuple[int, str]:
    return end(start(fit_arguments(data, run, **settings), patch))


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str], timeout_s: float = 90) -> Any:
    """What `condition` gives once it is true."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        assert process.poll() is None, f"ended too early: {process.communicate()}"
        time.sleep(0.005)
    process.kill()
    raise AssertionError(f"did not happen within {timeout_s} s: {process.communicate()}")


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without times; a line that is being written is left out."""
    path = run / "metrics.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def processes_of(run: Path) -> list[int]:
    """Whoever has `run` on the command line, main process and workers, the zombies left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if os.fsencode(run) in words and state not in "ZX":
            found.append(int(path.name))
    return found


def assert_nothing_left(run: Path, within_s: float = 20.0) -> None:
    """No process of the run."""
    deadline = time.monotonic() + within_s
    while processes_of(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(run) == []


def content_of(checkpoint: Path) -> dict[str, Any]:
    """All that a checkpoint holds, arrays as bytes."""
    loaded = load_checkpoint(checkpoint)
    average = {f"average {key}": value for key, value in loaded.average.items()}
    arrays = {
        **loaded.model,
        **average,
        **{key: value for key, value in loaded.optimizer.items() if hasattr(value, "numpy")},
    }
    others = {key: value for key, value in loaded.optimizer.items() if not hasattr(value, "numpy")}
    assert len(arrays) > 40, "weights, running statistics and velocities"
    state = {key: value for key, value in vars(loaded.state).items() if key != "recipe"}
    return {**state, **others, **{key: (value.shape, value.numpy().tobytes()) for key, value in arrays.items()}}


def assert_same_run(run: Path, other: Path) -> None:
    """The same metrics and, bit by bit, the same weights and optimiser."""
    assert metrics_of(run) == metrics_of(other)
    for name in ("last.ckpt", "best.ckpt"):
        assert content_of(run / name) == content_of(other / name)


def assert_one_sentence(stderr: str) -> None:
    assert stderr.count("\n") == 1, stderr
    assert "Traceback" not in stderr
    assert "DECODE_ONCE_DEBUG" not in stderr, "an error that nobody foresaw"
