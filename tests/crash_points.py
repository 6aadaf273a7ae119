"""Kill the real `prep` at one exact moment: before the n-th change that it makes to names, or to what is durable.

A module that Python imports at its start (sitecustomize, on PYTHONPATH) wraps the system calls of the main process; the
program under test knows nothing of it. Without a number it only writes down what was called, one JSON list a line.
"""

import json
import os
import subprocess
from pathlib import Path

from conftest import PREP

_SITECUSTOMIZE = """
import os, sys

if sys.orig_argv[1:2] and sys.orig_argv[1].endswith("/prep"):
    import json, signal

    left = int(os.environ.get("CRASH_AT", "-1"))
    log = open(os.environ["CRASH_LOG"], "a") if "CRASH_LOG" in os.environ else None

    def wrap(name):
        plain = getattr(os, name)

        def call(*arguments, **options):
            global left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            if log:
                paths = arguments[: 2 if name in ("replace", "rename", "link") else 1]
                shown = [os.readlink(f"/proc/self/fd/{p}") if name == "fsync" else os.fspath(p) for p in paths]
                print(json.dumps([name, *shown]), file=log, flush=True)
            return plain(*arguments, **options)

        setattr(os, name, call)

    for name in ("replace", "rename", "link", "unlink", "rmdir", "mkdir", "fsync"):
        wrap(name)
"""


def _run(folder: Path, command: list[object], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE)
    return subprocess.run(
        [str(PREP), *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_until(folder: Path, command: list[object], number: int) -> subprocess.CompletedProcess[str]:
    """Run `prep` with the arguments `command`, and kill it before its call `number` (from 0), if it gets that far."""
    return _run(folder, command, {"CRASH_AT": str(number)})


def calls_of(folder: Path, command: list[object]) -> list[list[str]]:
    """[name, paths...] of each call that a whole run makes."""
    log = folder / "log"
    done = _run(folder, command, {"CRASH_LOG": str(log)})
    assert done.returncode in (0, 3), done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]
