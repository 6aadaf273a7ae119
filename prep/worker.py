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
import dataclasses
import json
import os
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from manifests.recipe import recipe_from_table
from manifests.records import Outcome
from prep.extract_video import extract_video
from prep.frame_table import write_table
from prep.recipe import ExtractRecipe
from prep.spool import open_writer, remove

_BEAT_EVERY_S = 0.2
_PR_SET_PDEATHSIG = 1


def main() -> None:
    _die_with_parent(int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent decides, and kills for certain
    # Whatever a library prints goes to stderr, not between the replies.
    replies = os.fdopen(os.dup(1), "w", buffering=1, encoding="ascii")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    _reply(replies, {"ready": True})
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
    except MemoryError:
        outcome, table_crc32 = Outcome(status="failed", failure="out_of_memory"), 0
    except OSError as error:
        return {"store_error": error.strerror or str(error)}
    except Exception as error:
        if "memory" in str(error).lower():  # as libraries say it that do not raise MemoryError
            return {"outcome": dataclasses.asdict(Outcome(status="failed", failure="out_of_memory")), "table_crc32": 0}
        # Ours or a library's fault, but it costs no more than this video.
        traceback.print_exc()
        outcome = Outcome(status="failed", failure="crashed", detail=f"unexpected {type(error).__name__}: {error}")
        return {"outcome": dataclasses.asdict(outcome), "table_crc32": 0}
    return {"outcome": dataclasses.asdict(outcome), "table_crc32": table_crc32}


def _extract(job: dict[str, Any], pulse: "_Pulse") -> tuple[Outcome, int]:
    recipe = recipe_from_table(ExtractRecipe, job["recipe"])
    _limit_memory(recipe.limits.memory_mib)
    frames, table = Path(job["frames"]), Path(job["table"])
    writer = open_writer(frames, recipe.store.format)
    try:
        outcome, table_N = extract_video(
            Path(job["source"]), recipe, writer, pulse.beat, scanned_bytes=job["source_bytes"]
        )
    finally:
        writer.close()
    if outcome.status != "ok":
        remove(frames)
        return outcome, 0
    return outcome, write_table(table, table_N)


def _limit_memory(memory_mib: int) -> None:
    """Limit the data segment: the address space holds several hundred MiB of libraries before any video."""
    limit = memory_mib * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


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
