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
from dataclasses import dataclass
from typing import Any

from manifests.errors import Error, StoreError
from manifests.records import Outcome

_START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Reply:
    """What a decoding process made of one video. `table_crc32` is that of its frame table, 0 unless ok."""

    outcome: Outcome
    table_crc32: int


class Child:
    """One decoding process. Must be used by the thread that made it: the process dies with that thread."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        self._process = subprocess.Popen(
            # -P: a prep.py or manifests.py in the working folder is not ours.
            [sys.executable, "-P", "-m", "prep.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs = self._process.stdin
        self._replies = self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN | select.POLLHUP)
        self._unread = b""
        self._is_ready = False
        self.num_videos = 0

    def extract(self, job: dict[str, Any], timeout_s: float) -> Reply:
        """Have one video extracted. A process that dies or stalls gives a failed outcome and is gone afterwards.

        Raises StoreError where the frames cannot be written, Error where the process cannot start or has a bug.
        """
        self.num_videos += 1
        with suppress(BrokenPipeError):  # the reply tells why
            self._jobs.write(json.dumps(job).encode() + b"\n")
            self._jobs.flush()
        while True:
            message = self._receive(timeout_s if self._is_ready else max(timeout_s, _START_TIMEOUT_S))
            if isinstance(message, Outcome):
                if not self._is_ready and self._process.returncode >= 0:
                    raise Error(f"cannot start the decoding process: {self._last_words() or message.detail}")
                return Reply(message, 0)
            if "ready" in message:
                self._is_ready = True
            elif "store_error" in message:
                raise StoreError(f"cannot write frames: {message['store_error']}; mend that and run again to resume")
            elif "bug" in message:
                raise Error(f"unexpected error while extracting {job['source']}:\n{message['bug']}")
            elif "outcome" in message:
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

    def _receive(self, timeout_s: float) -> Any:
        """The next message (a dict), or the outcome of a process that died or gave no sign of life in time."""
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
        return json.loads(line)

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def _cause_of_death(return_code: int) -> str:
    if return_code >= 0:
        return f"the decoding process ended with code {return_code}"
    return f"the decoding process died of {signal.Signals(-return_code).name}"
