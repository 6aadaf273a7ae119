"""How the programs start: signals first, then the imports that take a while."""

import os
import signal
import sys
from types import FrameType
from typing import Any

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130


def run_program(name: str) -> int:
    """Run the program `name`, prep or train, and return its exit code. SIGTERM and SIGHUP end it as Ctrl-C does."""
    try:
        _on_signals(_interrupt)
        from manifests.command import start

        exit_code = start(f"{name}.cli")
        _end_signals()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        exit_code = _INTERRUPTED
        _end_signals()
    return exit_code


def _interrupt(number: int, frame: FrameType | None) -> None:
    _on_signals(_leave)
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    """The second signal does not wait for what the first one set going."""
    os._exit(_INTERRUPTED)


def _on_signals(handler: Any) -> None:
    for number in STOPPING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # what nohup has us ignore stays ignored
            signal.signal(number, handler)


def _end_signals() -> None:
    """What is left is the exit, whose code is settled."""
    # First none may come in: Python complains of one whose handler has gone by the time that it looks for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
    _on_signals(signal.SIG_IGN)
