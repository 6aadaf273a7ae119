"""The parent's side of a decoding process: start it, give it a video, wait no longer than it makes progress."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from manifests.command import is_debugging
from manifests.errors import Error, StoreError
from manifests.records import Outcome
from manifests.windows import Window
from prep.memory import num_kernel_kills, resident_mib, tells_of_memory
from prep.recipe import ExtractRecipe

_START_TIMEOUT_S = 120.0
_DEATH_TIMEOUT_S = 3.0
"""From the end of its replies to the end of a process that is dying."""

_LOOK_EVERY_S = 0.25
_MAX_REPLY_BYTES = 1 << 20
_LAST_WORDS_BYTES = 4096


@dataclass(frozen=True)
class Job:
    """One video to extract: absolute paths of the source, and of the frames and the frame table to be written, for the
    dataset `out`. `source_bytes` is the size that the scan saw, `window` the part that is wanted."""

    out: Path
    source: Path
    source_bytes: int | None
    frames: Path
    table: Path
    recipe: ExtractRecipe
    window: Window | None = None

    def message(self) -> dict[str, Any]:
        """As prep.worker reads it."""
        paths = {name: os.fspath(getattr(self, name)) for name in ("source", "frames", "table")}
        window = None if self.window is None else asdict(self.window)
        return {**paths, "source_bytes": self.source_bytes, "window": window, "recipe": _recipe_table(self.recipe)}


@lru_cache(maxsize=1)
def _recipe_table(recipe: ExtractRecipe) -> dict[str, Any]:
    return asdict(recipe)


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
        try:
            self._stderr = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise Error(f"cannot make a temporary file: {error.strerror}; set TMPDIR to a folder with room") from error
        # The process writes at the end, wherever that is after `_forget_words`.
        fcntl.fcntl(self._stderr, fcntl.F_SETFL, fcntl.fcntl(self._stderr, fcntl.F_GETFL) | os.O_APPEND)
        try:
            self._process = subprocess.Popen(
                # -P: a prep.py or manifests.py in the working folder is not ours.
                [sys.executable, "-P", "-m", "prep.worker", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
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
        self._num_kernel_kills = num_kernel_kills()
        self.num_videos = 0

    def wait_until_ready(self) -> None:
        """Wait for its imports. Raises Error where the process ends or stalls before they are done."""
        message = self._receive(_START_TIMEOUT_S)
        if isinstance(message, Outcome):
            self._show_words()
            lines = self._words().strip().splitlines()
            raise Error(f"cannot start a decoding process: {lines[-1] if lines else message.detail}")

    def extract(self, job: Job, timeout_s: float) -> Reply:
        """Have one video extracted. A process that dies, stalls, runs out of memory or sends what is no reply gives a
        failed outcome and is gone afterwards.

        Raises StoreError where the frames cannot be written.
        """
        self.num_videos += 1
        self._forget_words()
        self._num_kernel_kills = num_kernel_kills()
        with suppress(BrokenPipeError):  # the reply tells why
            self._jobs.write(json.dumps(job.message()).encode() + b"\n")
            self._jobs.flush()
        reply = self._reply(job, timeout_s)
        self._show_words()
        if reply.outcome.failure != "out_of_memory":
            return reply
        self._end()  # what it still holds must not decide about the next video
        # In the same words, whichever of the ways it was that it showed.
        mib = job.recipe.limits.memory_mib
        detail = f"decoding needs more than {mib} MiB (limits.memory_mib), or than the machine has"
        return Reply(replace(reply.outcome, detail=detail), 0)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process for certain. May be called by any thread, and more than once."""
        self._process.kill()

    def close(self) -> None:
        """Kill and release everything."""
        self._end()
        self._replies.close()
        self._stderr.close()
        with suppress(BrokenPipeError):
            self._jobs.close()

    def _reply(self, job: Job, timeout_s: float) -> Reply:
        while True:
            message = self._receive(timeout_s, job.recipe.limits.memory_mib)
            if isinstance(message, Outcome):
                return Reply(message, 0)
            if "store_error" in message:
                raise StoreError(f"cannot write {job.out}: {message['store_error']}; mend that and run again to resume")
            if "outcome" in message:
                try:
                    return Reply(Outcome(**message["outcome"]), int(message["table_crc32"]))
                except (LookupError, TypeError, ValueError):
                    return Reply(self._no_reply(), 0)

    def _receive(self, timeout_s: float, memory_mib: int | None = None) -> dict[str, Any] | Outcome:
        """The next message, or the outcome of a process that died, gave no sign of life in time, holds more than
        `memory_mib`, or sent what is no message; that is gone then."""
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                self._end()
                return Outcome(status="failed", failure="timeout", detail=f"no new frame for {timeout_s:g} s")
            if memory_mib is not None and resident_mib(self._process.pid) > memory_mib:
                self._end()
                return Outcome(status="failed", failure="out_of_memory")
            if not self._poll.poll(min(left_s, _LOOK_EVERY_S) * 1000):
                continue
            data = os.read(self._replies.fileno(), 1 << 16)
            if not data:
                return self._cause_of_death()
            self._unread += data
            if len(self._unread) > _MAX_REPLY_BYTES:
                return self._no_reply()
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return self._no_reply()
        return message if isinstance(message, dict) else self._no_reply()

    def _cause_of_death(self) -> Outcome:
        """The outcome of a process whose replies have ended."""
        try:
            return_code = self._process.wait(_DEATH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return self._no_reply()
        if tells_of_memory(self._words()):
            return Outcome(status="failed", failure="out_of_memory")
        if return_code == -signal.SIGKILL and num_kernel_kills() > self._num_kernel_kills:
            return Outcome(status="failed", failure="out_of_memory")
        if return_code >= 0:
            detail = f"the decoding process ended with code {return_code}"
        else:
            detail = f"the decoding process died of {_signal_name(-return_code)}"
        return Outcome(status="failed", failure="crashed", detail=detail)

    def _no_reply(self) -> Outcome:
        self._end()
        return Outcome(status="failed", failure="crashed", detail="the decoding process gave no proper reply")

    def _end(self) -> None:
        self.kill()
        self._process.wait()

    def _words(self) -> str:
        """The last that the process said on stderr, since it began with its video."""
        num_bytes = os.fstat(self._stderr.fileno()).st_size
        start = max(0, num_bytes - _LAST_WORDS_BYTES)
        return os.pread(self._stderr.fileno(), _LAST_WORDS_BYTES, start).decode(errors="replace")

    def _show_words(self) -> None:
        if is_debugging():
            print(self._words(), end="", file=sys.stderr)

    def _forget_words(self) -> None:
        os.ftruncate(self._stderr.fileno(), 0)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals, which have no names
        return f"signal {number}"
