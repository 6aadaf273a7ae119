"""A decoder that misbehaves, put in place of the real one in decoding processes only.

`with_bad_decoder(folder)` gives an environment in which Python imports a copy of this file as `sitecustomize`, before
anything else. In a decoding process it has the video files named bad-KIND.* do, after their third frame or at the end,
what one of `KINDS` says; all other videos are decoded as ever.
"""

import ctypes
import importlib
import mmap
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FRAMES_BEFORE = 3


def with_bad_decoder(folder: Path) -> dict[str, str]:
    """The environment for a command; `folder` is made for it."""
    folder.mkdir()
    shutil.copyfile(__file__, folder / "sitecustomize.py")
    return {**os.environ, "PYTHONPATH": str(folder)}


# --- What it does ---


def spin() -> None:
    """In native code, with the interpreter's lock held, deaf to every signal but SIGKILL."""
    libc = ctypes.PyDLL(None)  # calls of which keep the lock
    # A linear search over 2^62 elements of size 0 for what is not there.
    size, number = ctypes.c_size_t(0), ctypes.c_size_t(2**62)
    libc.lfind(b"this", b"that", ctypes.byref(number), size, libc.strcmp)


def loop() -> None:
    while True:
        pass


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def sleep() -> None:
    time.sleep(1000)


def segfault() -> None:
    ctypes.string_at(0)


def die_of(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def leave() -> None:
    os._exit(3)


def crash_once() -> None:
    """At the first try of all that share PYTHONPATH."""
    try:
        os.close(os.open(Path(__file__).with_name("tried"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.abort()


def eat_bytes() -> None:
    eaten = []
    while True:
        eaten.append(b"x" * (1 << 24))
        _digest()


def eat_array() -> None:
    import numpy as np

    eaten = []
    while True:
        eaten.append(np.ones(1 << 21))
        _digest()


def eat_in_native_code() -> None:
    """C++ whose exception nobody catches: std::terminate says so, and aborts."""
    new = ctypes.CDLL("libstdc++.so.6")._Znwm  # operator new(unsigned long)
    new.argtypes, new.restype = [ctypes.c_size_t], ctypes.c_void_p
    while True:
        new(1 << 24)
        _digest()


def eat_shared() -> None:
    """Shared memory, which the limit of the data segment does not count."""
    eaten = []
    while True:
        eaten.append(mmap.mmap(-1, 1 << 24))
        eaten[-1].write(b"x" * (1 << 24))
        _digest()


def _digest() -> None:
    """So that a limit that fails to hold costs this machine no more than it can bear until the time limit."""
    time.sleep(0.01)


def write_to_parent(garbage: bytes) -> Callable[[], None]:
    def write() -> None:
        for number in pipes():
            os.write(number, garbage)
        time.sleep(1000)

    return write


def flood_parent() -> None:
    """Without the end of a line."""
    while True:
        for number in pipes():
            os.write(number, b"x" * 65536)


def close_all() -> None:
    os.closerange(0, 1000)
    time.sleep(1000)


def pipes() -> list[int]:
    """The pipes that lead to the parent, under whichever number."""
    return [
        number
        for number in map(int, os.listdir("/proc/self/fd"))
        if number > 2 and _is_pipe(number) and os.readlink(f"/proc/self/fd/{number}") != os.readlink("/proc/self/fd/0")
    ]


def _is_pipe(number: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


def raise_error() -> None:
    raise RuntimeError(f"no idea about <object at {hex(id(object()))}> in {os.getcwd()}")


def raise_os_error() -> None:
    raise OSError(5, "Input/output error", "/somewhere")


KINDS: dict[str, Callable[[], None]] = {
    "spin": spin,
    "loop": loop,
    "stop": stop,
    "sleep": sleep,
    "segfault": segfault,
    "abort": os.abort,
    "sigkill": die_of(signal.SIGKILL),
    "realtime": die_of(signal.SIGRTMIN + 1),
    "exit": leave,
    "once": crash_once,
    "bytes": eat_bytes,
    "array": eat_array,
    "native": eat_in_native_code,
    "shared": eat_shared,
    "garbage": write_to_parent(b"\xff{]\n"),
    "number": write_to_parent(b"17\n"),
    "outcome": write_to_parent(b'{"outcome": {"colour": "red"}}\n'),
    "nested": write_to_parent(b"[" * 100_000 + b"\n"),
    "flood": flood_parent,
    "close": close_all,
    "error": raise_error,
    "oserror": raise_os_error,
}


# --- Where it does it ---


class _BadDecoder:
    """A decoder that misbehaves after FRAMES_BEFORE frames, or when it is closed after all."""

    def __init__(self, decoder: Any, misbehave: Callable[[], None], *, at_end: bool) -> None:
        self._decoder = decoder
        self._misbehave = misbehave
        self._at_end = at_end

    def frames(self) -> Iterator[Any]:
        for index, frame in enumerate(self._decoder.frames()):
            if index == FRAMES_BEFORE and not self._at_end:
                self._misbehave()
            yield frame

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)

    def __enter__(self) -> "_BadDecoder":
        return self

    def __exit__(self, *error: object) -> None:
        if self._at_end:
            self._misbehave()
        self._decoder.close()


def _replace_decoder() -> None:
    decoder: Any = importlib.import_module("prep.decoders.pyav")
    open_video = decoder.open_video

    def open_bad(path: Path) -> Any:
        if not path.stem.startswith("bad-"):
            return open_video(path)
        _, kind, *end = path.stem.split("-")
        return _BadDecoder(open_video(path), KINDS[kind], at_end=bool(end))

    decoder.open_video = open_bad


if __name__ == "sitecustomize" and sys.orig_argv[2:4] == ["-m", "prep.worker"]:
    _replace_decoder()
