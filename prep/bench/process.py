"""A process that runs one step at a time, so that a library that crashes or hangs costs a figure, not the bench.

It reads tasks from stdin and writes samples to stdout, both as JSON lines, and ends when its stdin does.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from manifests.closing import Closing
from manifests.recipe import recipe_from_table
from prep.bench.steps import Sample, Task, run_step
from prep.decoders.interface import VideoError
from prep.recipe import ExtractRecipe

STEP_TIMEOUT_S = 300.0


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent decides, and kills for certain
    replies = os.fdopen(os.dup(1), "w", buffering=1, encoding="ascii")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints
    for line in sys.stdin:
        replies.write(json.dumps(asdict(_sample(json.loads(line)))) + "\n")


def _sample(message: dict[str, Any]) -> Sample:
    task = Task(
        step=message["step"],
        decoder=message["decoder"],
        path=Path(message["path"]),
        recipe=recipe_from_table(ExtractRecipe, message["recipe"]),
        folder=Path(message["folder"]),
    )
    try:
        return run_step(task)
    except VideoError as error:
        return Sample(failure=f"{error.kind}: {error.detail}")
    except Exception as error:  # whatever a library raises
        return Sample(failure=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    unread: bytes = b""


class Meters(Closing):
    """As many measuring processes as wanted, started when needed; see `measure`."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    def measure(self, task: Task, num_jobs: int) -> Sample:
        """The step run by `num_jobs` processes at the same time, added up; `wall_s` is that of the slowest."""
        while len(self._running) < num_jobs:
            self._running.append(_start())
        chosen = self._running[:num_jobs]
        for number, running in enumerate(chosen):
            _send(running, task, task.folder / str(number))
        samples = [self._receive(running) for running in chosen]
        failures = [sample.failure for sample in samples if sample.failure]
        if failures:
            return Sample(failure=failures[0])
        return Sample(
            num_frames=sum(sample.num_frames for sample in samples),
            num_bytes=sum(sample.num_bytes for sample in samples),
            cpu_s=sum(sample.cpu_s for sample in samples),
            wall_s=max(sample.wall_s for sample in samples),
            num_wrong=samples[0].num_wrong,
        )

    def _receive(self, running: _Running) -> Sample:
        """The reply of a process, which is gone where it died or hung."""
        stdout = running.process.stdout
        assert stdout is not None
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        while b"\n" not in running.unread:
            ready, _, _ = select.select([stdout], [], [], max(0.0, deadline_s - time.monotonic()))
            data = os.read(stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                self._running.remove(running)
                _end(running)
                code = running.process.returncode
                return Sample(failure=f"died ({code})" if ready else f"hung for {STEP_TIMEOUT_S:g} s")
            running.unread += data
        line, _, running.unread = running.unread.partition(b"\n")
        return Sample(**json.loads(line))

    def close(self) -> None:
        while self._running:
            _end(self._running.pop())


def _start() -> _Running:
    return _Running(
        subprocess.Popen(
            # -P: a prep.py or manifests.py in the working folder is not ours.
            [sys.executable, "-P", "-m", "prep.bench.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    )


def _send(running: _Running, task: Task, folder: Path) -> None:
    assert running.process.stdin is not None
    folder.mkdir(exist_ok=True)
    message = {
        "step": task.step,
        "decoder": task.decoder,
        "path": os.fspath(task.path),
        "recipe": asdict(task.recipe),
        "folder": os.fspath(folder),
    }
    with suppress(BrokenPipeError):  # the reply tells
        running.process.stdin.write(json.dumps(message).encode() + b"\n")
        running.process.stdin.flush()


def _end(running: _Running) -> None:
    running.process.kill()
    running.process.wait()
    for pipe in (running.process.stdin, running.process.stdout):
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.close()


if __name__ == "__main__":
    main()
