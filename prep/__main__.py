"""Where the program starts: signals first, then the imports that take a while."""

import io
import signal
import sys
from types import FrameType


def main() -> int:
    """Run `prep` and return its exit code. SIGTERM and SIGHUP end it as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    # File names may hold bytes that are no text; stderr shows those escaped already.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from prep import cli

        return cli.main()
    except KeyboardInterrupt:
        print("prep: interrupted before anything was begun", file=sys.stderr)
        return 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
