"""A disk that goes bad at a chosen moment, without a hook in the program: Python imports a `sitecustomize` from
PYTHONPATH before anything else, and this one makes calls of the system fail below one folder.

    prep("extract", ..., env=bad_disk(tmp_path, out, "fsync", errno.EIO, after=3))
"""

import os
from pathlib import Path

CALLS = ("write", "fsync", "rename", "mkdir")

_SITECUSTOMIZE = """
import builtins, io, os, sys

folder, call, number, after, who = {arguments!r}
left = after
worker = "prep.worker" in sys.orig_argv


def fail_maybe(path):
    global left
    if os.path.realpath(os.fspath(path)).startswith(folder) and worker == (who == "worker"):
        left -= 1
        if left < 0:
            raise OSError(number, os.strerror(number), os.fspath(path))


def first(function):
    def instead(path, *arguments, **options):
        fail_maybe(path)
        return function(path, *arguments, **options)
    return instead


class Raw(io.FileIO):
    def write(self, data):
        fail_maybe(self.name)
        return super().write(data)


def instead_of_open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, **options):
    if not set(mode) & set("wxa") or not isinstance(file, (str, os.PathLike)) or "opener" in options:
        return open_before(file, mode, buffering, encoding, errors, newline, **options)
    raw = Raw(file, mode.replace("b", "").replace("t", ""))
    if buffering == 0:
        return raw
    buffered = io.BufferedWriter(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


if call == "write":
    open_before = io.open
    io.open = builtins.open = instead_of_open
elif call == "fsync":
    fsync_before = os.fsync

    def fsync(descriptor):
        fail_maybe(os.readlink(f"/proc/self/fd/{{descriptor}}"))
        fsync_before(descriptor)

    os.fsync = fsync
elif call == "rename":
    os.rename, os.replace = first(os.rename), first(os.replace)
else:
    os.mkdir = first(os.mkdir)
"""


def bad_disk(
    tmp_path: Path, folder: Path, call: str, number: int, *, after: int = 0, who: str = "main"
) -> dict[str, str]:
    """The environment in which `call` (of CALLS) fails with errno `number` below `folder` for good, after so many
    that succeed, in the main process or in each decoding process (`who`: main, worker)."""
    arguments = (os.path.realpath(folder), call, number, after, who)
    return stand_in(tmp_path, _SITECUSTOMIZE.format(arguments=arguments))


def stand_in(tmp_path: Path, code: str) -> dict[str, str]:
    """The environment in which Python runs `code` first."""
    folder = tmp_path / "stand-in"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(code)
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{before}" if before else str(folder)}
