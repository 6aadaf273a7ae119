"""The decoding process: a long-lived interpreter that extracts one video at a time for `prep.child.Child`.

It reads jobs from stdin and writes replies to stdout, both as JSON lines:

    {"source", ...}                                  a job, see prep.child.Job; the recipe as nested tables
    {"ready": true}                                  once, after the imports
    {"beat": true}                                   a sign of life, at most a few times a second
    {"outcome": {...}, "table_crc32": N}             a video is done, whatever became of it
    {"store_error": "..."}                           frames could not be written: the run must stop

The process ends when its stdin does, and dies with the thread that started it.
"""

import ctypes
import gc
import json
import os
import queue
import re
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from manifests.recipe import recipe_from_table
from manifests.records import Outcome, by_name
from prep.extract_video import FrameWriter, extract_video
from prep.frame_table import write_table
from prep.memory import limit_data_segment, tells_of_memory
from prep.recipe import ExtractRecipe
from prep.spool import open_writer, remove

_BEAT_EVERY_S = 0.2
_PR_SET_PDEATHSIG = 1


def main() -> None:
    _die_with_parent(int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent decides, and kills for certain
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is foreseen, and its image may be large
    # Whatever a library prints goes to stderr, not between the replies.
    replies = os.fdopen(os.dup(1), "w", buffering=1, encoding="ascii")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    _reply(replies, {"ready": True})
    gc.freeze()  # what is there from now on need not be looked at by each collection
    while True:
        _reply(replies, _work(jobs.get(), replies))


def _die_with_parent(parent_pid: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def _read_jobs(jobs: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


def _reply(replies: TextIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")


def _work(job: dict[str, Any], replies: TextIO) -> dict[str, Any]:
    try:
        outcome, table_crc32 = _extract(job, _Pulse(replies))
    except _StoreFault as fault:
        return {"store_error": str(fault)}
    except Exception as error:
        outcome, table_crc32 = _unexpected(error, job["source"]), 0
    return {"outcome": by_name(outcome), "table_crc32": table_crc32}


def _unexpected(error: Exception, source: str) -> Outcome:
    """Too little memory; or our fault, or a library's, which costs no more than this video."""
    words = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if isinstance(error, MemoryError) or tells_of_memory(words):
        return Outcome(status="failed", failure="out_of_memory")
    traceback.print_exc()
    # What is kept is the same wherever and whenever this runs.
    words = re.sub("0x[0-9a-fA-F]+", "0x...", words.replace(source, Path(source).name))
    return Outcome(status="failed", failure="crashed", detail=f"unexpected {type(error).__name__}: {words}")


def _extract(job: dict[str, Any], pulse: "_Pulse") -> tuple[Outcome, int]:
    recipe = recipe_from_table(ExtractRecipe, job["recipe"])
    limit_data_segment(recipe.limits.memory_mib)
    frames, table = Path(job["frames"]), Path(job["table"])
    with _store_faults():
        writer = open_writer(frames, recipe.store.format)
    try:
        outcome, table_N = extract_video(
            Path(job["source"]), recipe, _Writer(writer), pulse.beat, scanned_bytes=job["source_bytes"]
        )
    finally:
        with _store_faults():
            writer.close()
    with _store_faults():
        if outcome.status != "ok":
            remove(frames)
            return outcome, 0
        return outcome, write_table(table, table_N)


class _StoreFault(Exception):
    """The frames cannot be written, which is no fault of the video; an OSError from elsewhere may be."""


@contextmanager
def _store_faults() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _StoreFault(error.strerror or str(error)) from error


class _Writer:
    """A writer of frames that tells its errors from those of a decoder."""

    def __init__(self, writer: FrameWriter) -> None:
        self._writer = writer

    def add(self, jpeg: bytes) -> None:
        try:  # as _store_faults does, which costs more than it may for each frame
            self._writer.add(jpeg)
        except OSError as error:
            raise _StoreFault(error.strerror or str(error)) from error


class _Pulse:
    """Tells the parent that frames keep coming, without flooding the pipe."""

    def __init__(self, replies: TextIO) -> None:
        self._replies = replies
        self._last_s = time.monotonic()

    def beat(self) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s > _BEAT_EVERY_S:
            self._last_s = now_s
            _reply(self._replies, {"beat": True})


if __name__ == "__main__":
    main()
