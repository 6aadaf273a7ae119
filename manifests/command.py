"""What the programs share on the command line: start, common flags, results, and errors as a sentence with a code."""

import argparse
import errno
import importlib
import io
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from manifests.errors import EXIT_CODES, Error, Interrupted, StoreError, UsageError
from manifests.program import STOPPING_SIGNALS

_DEBUG_VARIABLE = "DECODE_ONCE_DEBUG"


def start(module: str) -> int:
    """Run `main` of `module`, whose output may be lost but not fail, and return its exit code."""
    # Files that the caller closed are None.
    stdout = _Output(sys.stdout or open(os.devnull, "w"))  # noqa: SIM115 - as long as the program
    sys.stdout, sys.stderr = stdout, _Output(sys.stderr or open(os.devnull, "w"))  # noqa: SIM115
    exit_code: int = importlib.import_module(module).main()
    stdout.flush()
    if stdout.error is not None:
        print(f"{module.partition('.')[0]}: cannot write the output: {stdout.error.strerror}", file=sys.stderr)
        return exit_code or StoreError.exit_code
    return exit_code


def handle_signals(handler: Any) -> dict[int, Any]:
    """Set the handler of the signals that stop a program, and return the ones before. What the caller of the program
    has it ignore (nohup, jobs in the background) stays ignored."""
    before: dict[int, Any] = {number: signal.getsignal(number) for number in STOPPING_SIGNALS}
    for number, present in before.items():
        if present != signal.SIG_IGN:
            signal.signal(number, handler)
    return before


@contextmanager
def signals_to(handler: Any) -> Iterator[None]:
    """`handle_signals` inside, and the handlers before it again after that."""
    before = handle_signals(handler)
    try:
        yield
    finally:
        for number, present in before.items():
            signal.signal(number, present)


class _Output:
    """stdout or stderr that writes any text and outlives its reader.

    File names may hold bytes that are no text, which are shown escaped; and what is said to a closed pipe (`| head`) is
    lost, while the command goes on to its own end and exit code. Any other error is kept in `error`.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.error: OSError | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        try:
            written: int = self._stream.write(text)
            return written
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self.error = error
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, self._stream.fileno())
        os.close(devnull)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_parser(program: str, description: str, version: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        description=description,
        epilog=_exit_codes_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version)
    return parser


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in JSON too, where that is asked for."""

    def error(self, message: str) -> NoReturn:
        if "--json" in sys.argv:
            print(json.dumps({"error": message, "exit_code": UsageError.exit_code}))
        super().error(message)


def path_argument(text: str) -> Path:
    """An argument that names a file or folder; nothing is no name."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return Path(text)


def add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], help_text: str) -> Any:
    """Add a subcommand that calls `run`, with the flags and the exit codes that all have."""
    parser = commands.add_parser(
        name,
        help=help_text,
        description=help_text[0].upper() + help_text[1:] + ".",
        epilog=_exit_codes_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--quiet", action="store_true", help="no progress and no notes on stderr")
    parser.set_defaults(run=run)
    return parser


def _exit_codes_text() -> str:
    return "exit codes:\n" + "\n".join(f"  {code:3d}  {meaning}" for code, meaning in EXIT_CODES.items())


def run_command(parser: argparse.ArgumentParser) -> int:
    """Parse the arguments, run their command, and return its exit code; no exception gets out."""
    arguments = parser.parse_args()
    try:
        exit_code: int = arguments.run(arguments)
        return exit_code
    except KeyboardInterrupt:
        return _fail(parser.prog, arguments, Interrupted("interrupted"))
    except Error as error:
        return _fail(parser.prog, arguments, error)
    except Exception as error:
        if is_debugging():
            raise
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return _fail(parser.prog, arguments, Error(f"{error.strerror}: raise the limit with ulimit -n"))
        message = f"unexpected {type(error).__name__}: {error}; set {_DEBUG_VARIABLE}=1 to see where, and report it"
        return _fail(parser.prog, arguments, Error(message))


def _fail(program: str, arguments: argparse.Namespace, error: Error) -> int:
    print(f"{program} {arguments.command}: {error}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"error": str(error), "exit_code": error.exit_code}))
    return error.exit_code


def resume_hint() -> str:
    """The command that goes on after an interruption: this one."""
    program = os.path.basename(sys.argv[0].removesuffix("/__main__.py")).removesuffix(".py")
    return f"the same command resumes: {' '.join(map(_quoted, [program, *sys.argv[1:]]))}"


def _quoted(argument: str) -> str:
    """For a shell, also where bytes are no text."""
    raw = os.fsencode(argument)
    try:
        raw.decode()
    except UnicodeDecodeError:
        escaped = "".join(chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in raw)
        return f"$'{escaped}'"
    return shlex.quote(argument)


def is_debugging() -> bool:
    """Whether the user asked for tracebacks."""
    return bool(os.environ.get(_DEBUG_VARIABLE))


def say(arguments: argparse.Namespace, line: str) -> None:
    """Tell the user something on the way, on stderr."""
    if not arguments.quiet:
        print(line, file=sys.stderr)


def print_result(arguments: argparse.Namespace, table: Mapping[str, Any], lines: Sequence[str]) -> None:
    """The result of a command, on stdout: one JSON object, or text."""
    print(json.dumps(table) if arguments.json else "\n".join(lines))
