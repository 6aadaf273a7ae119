"""Where the program starts: signals first, then the imports that take a while."""

import signal
import sys
from types import FrameType


def main() -> int:
    """Run `train` and return its exit code. SIGTERM and SIGHUP end it as Ctrl-C does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # what nohup has us ignore stays ignored
            signal.signal(number, _interrupt)
    try:
        from manifests.command import start

        return start("train.cli")
    except KeyboardInterrupt:
        print("train: interrupted before anything was begun", file=sys.stderr)
        return 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
