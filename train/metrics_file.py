"""metrics.jsonl of a run: one object a line, of steps, stages and evaluations."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from manifests.atomic import atomic_write, disk_errors
from train.checkpoint import State

METRICS = "metrics.jsonl"


@dataclass
class Spent:
    """What the steps of a stage have taken, as far as this process has gone through them."""

    num_clips: int = 0
    seconds: float = 0.0
    waiting_s: float = 0.0

    def add(self, num_clips: int, seconds: float, waiting_s: float) -> None:
        self.num_clips += num_clips
        self.seconds += seconds
        self.waiting_s += waiting_s

    def take(self) -> dict[str, float | None]:
        """For the metrics; then it begins anew."""
        seconds = self.seconds
        found = {
            "seconds": round(seconds, 3),
            "clips_per_s": round(self.num_clips / seconds, 1) if seconds else None,
            "data_wait_share": round(self.waiting_s / seconds, 3) if seconds else None,
        }
        self.num_clips, self.seconds, self.waiting_s = 0, 0.0, 0.0
        return found


class Metrics:
    """metrics.jsonl: one object a line."""

    def __init__(self, path: Path | None = None, file: TextIO | None = None) -> None:
        self._path = path
        self._file = file

    def write(self, **values: Any) -> None:
        if self._file is None or self._path is None:
            return
        with disk_errors(self._path):
            self._file.write(json.dumps(values) + "\n")
            self._file.flush()


@contextmanager
def open_metrics(path: Path | None) -> Iterator[Metrics]:
    """None: what is written goes nowhere."""
    if path is None:
        yield Metrics()
        return
    with disk_errors(path):
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed below
    try:
        yield Metrics(path, file)
    finally:
        with disk_errors(path):
            file.close()


def cut_metrics(path: Path, state: State) -> None:
    """Drop what was logged after the checkpoint that a run resumes from: it will be logged again."""
    with disk_errors(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    kept = [line for line in lines if _is_logged_by(line, state)]
    with atomic_write(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def _is_logged_by(line: str, state: State) -> bool:
    try:
        values = json.loads(line)
        is_evaluated = values["kind"] == "train" or values["epoch"] <= state.epoch
        return bool(values["step"] <= state.step and is_evaluated)
    except (ValueError, KeyError, TypeError):
        return False  # torn by a crash
