"""The parent's side of a decoding process: start it, give it a video, wait no longer than it makes progress."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from manifests.command import is_debugging
from manifests.errors import Error, StoreError
from manifests.records import Outcome
from prep.recipe import ExtractRecipe

_START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Job:
    """One video to extract: absolute paths of the source, and of the frames and the frame table to be written.
    `source_bytes` is the size that the scan saw."""

    source: Path
    source_bytes: int | None
    frames: Path
    table: Path
    recipe: ExtractRecipe

    def message(self) -> dict[str, Any]:
        """As prep.worker reads it."""
        paths = {name: os.fspath(getattr(self, name)) for name in ("source", "frames", "table")}
        return {**paths, "source_bytes": self.source_bytes, "recipe": asdict(self.recipe)}


@dataclass(frozen=True)
class Reply:
    """What a decoding process made of one video. `table_crc32` is that of its frame table, 0 unless ok."""

    outcome: Outcome
    table_crc32: int


class Child:
    """One decoding process. Must be used by the thread that made it: the process dies with that thread.

    Raises Error where it cannot start.
    """

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._process = subprocess.Popen(
                # -P: a prep.py or manifests.py in the working folder is not ours.
                [sys.executable, "-P", "-m", "prep.worker", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if is_debugging() else self._stderr,
                # OpenBLAS sets memory aside for each processor; that would count as the video's.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        except OSError as error:
            self._stderr.close()
            raise Error(f"cannot start a decoding process: {error.strerror}; try fewer --jobs") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs = self._process.stdin
        self._replies = self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN | select.POLLHUP)
        self._unread = b""
        self.num_videos = 0

    def wait_until_ready(self) -> None:
        """Wait for its imports. Raises Error where the process ends or stalls before they are done."""
        message = self._receive(_START_TIMEOUT_S)
        if isinstance(message, Outcome):
            raise Error(f"cannot start a decoding process: {self._last_words() or message.detail}")

    def extract(self, job: Job, timeout_s: float) -> Reply:
        """Have one video extracted. A process that dies or stalls gives a failed outcome and is gone afterwards.

        Raises StoreError where the frames cannot be written.
        """
        self.num_videos += 1
        with suppress(BrokenPipeError):  # the reply tells why
            self._jobs.write(json.dumps(job.message()).encode() + b"\n")
            self._jobs.flush()
        while True:
            message = self._receive(timeout_s)
            if isinstance(message, Outcome):
                return Reply(message, 0)
            if "store_error" in message:
                where = job.frames.parents[2]
                raise StoreError(f"cannot write {where}: {message['store_error']}; mend that and run again to resume")
            if "outcome" in message:
                return Reply(Outcome(**message["outcome"]), message["table_crc32"])

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process for certain. May be called by any thread, and more than once."""
        self._process.kill()

    def close(self) -> None:
        """Kill and release everything."""
        self.kill()
        self._process.wait()
        self._replies.close()
        self._stderr.close()
        with suppress(BrokenPipeError):
            self._jobs.close()

    def _receive(self, timeout_s: float) -> dict[str, Any] | Outcome:
        """The next message, or the outcome of a process that died or gave no sign of life in time."""
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not self._poll.poll(left_s * 1000):
                self.kill()
                self._process.wait()
                return Outcome(status="failed", failure="timeout", detail=f"no new frame for {timeout_s:g} s")
            data = os.read(self._replies.fileno(), 1 << 16)
            if not data:
                return Outcome(status="failed", failure="crashed", detail=_cause_of_death(self._process.wait()))
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def _cause_of_death(return_code: int) -> str:
    if return_code >= 0:
        return f"the decoding process ended with code {return_code}"
    return f"the decoding process died of {signal.Signals(-return_code).name}"
