"""Several processes of this machine that train together: start them, and end as one.

Each of them is the same command, told by PADDLE_* variables which rank it is, as `paddle.distributed.launch` does
(https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/launch_en.html), so that
`paddle.distributed.init_parallel_env` works in it. They are in process groups of their own: a Ctrl-C is for this
process, which passes it on once. They die when it does.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from manifests.command import signals_to
from manifests.errors import Error, Interrupted, UsageError
from manifests.program import STOPPING_SIGNALS

_LAUNCHER = "DECODE_ONCE_LAUNCHER"
"""The process id of the one that started a rank."""

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.05
_SAME_END_WITHIN_S = 5.0
"""What ends all ranks for the same reason ends them within this."""


@dataclass(frozen=True)
class Layout:
    """`num_here` processes on each of `num_nodes` machines, of which this is number `node`; the first process of all
    is found at `master`, HOST:PORT, or here if that is empty."""

    num_here: int = 1
    num_nodes: int = 1
    node: int = 0
    master: str = ""

    @property
    def count(self) -> int:
        return self.num_here * self.num_nodes


def layout_of(nproc: int, nnodes: int, rank: int | None, master: str | None) -> Layout:
    """What --nproc, --nnodes, --rank and --master say. Raises UsageError."""
    for flag, number in (("--nproc", nproc), ("--nnodes", nnodes)):
        if number < 1:
            raise UsageError(f"{flag} is at least 1, not {number}")
    if nnodes == 1:
        if master is not None or rank is not None:
            raise UsageError(f"{'--rank' if master is None else '--master'} goes with --nnodes, the number of machines")
        return Layout(nproc)
    if master is None or rank is None:
        raise UsageError(
            f"--nnodes {nnodes} needs --master HOST:PORT, an address of the first machine that all can reach, and "
            "--rank, 0 on the first machine, 1 on the next, and so on"
        )
    if not 0 <= rank < nnodes:
        raise UsageError(f"--rank is in [0, {nnodes}), the number of --nnodes, not {rank}")
    host, _, port = master.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UsageError(f"--master is HOST:PORT, such as 10.0.0.1:29500, not {master!r}")
    return Layout(nproc, nnodes, rank, master)


def is_rank() -> bool:
    """Whether this process is one of several, of this launcher or of another that sets the same variables."""
    return int(os.environ.get("PADDLE_TRAINERS_NUM") or 1) > 1


def settle_in() -> None:
    """In a rank that `run_ranks` started, once its signal handlers are there: die with the launcher."""
    parent = os.environ.get(_LAUNCHER)
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before we asked to be told
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)


def run_ranks(layout: Layout, arguments: Sequence[str]) -> int:
    """Run `python -P ARGUMENTS` once for each rank of this machine, show what the first one says, and return the exit
    code. -P: a train.py in the working folder is not ours.

    Raises Error with the exit code and the words of another one that failed alone, and Interrupted.
    """
    command = [sys.executable, "-P", *arguments]
    ranks: list[_Rank] = []
    with _passed_on(ranks) as numbers:
        try:
            for number, variables in enumerate(_variables(layout)):
                _start(ranks, number, command, variables)
                if numbers:
                    break
            failed = _first_failed(ranks)
            return 0 if failed is None else _end_of(failed, ranks[0], layout, is_interrupted=bool(numbers))
        finally:
            for rank in ranks:
                rank.close()


class _Rank:
    """A process; what others than the first one say is kept. Raises Error where it cannot start."""

    def __init__(self, number: int, command: list[str], variables: dict[str, str]) -> None:
        self.number = number
        try:
            self._words = tempfile.TemporaryFile() if number else None  # noqa: SIM115 - closed by close()
            self.process = subprocess.Popen(
                command,
                env={**_inherited(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if number else None,
                stderr=self._words,
                process_group=0,
            )
        except OSError as error:
            raise Error(f"cannot start process {number}: {error.strerror}; try a smaller --nproc") from error

    def close(self) -> None:
        """Kill it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._words is not None:
            self._words.close()

    def words(self) -> list[str]:
        """What it said, once it has ended."""
        if self._words is None:
            return []
        self._words.seek(0)
        return self._words.read().decode(errors="backslashreplace").strip().splitlines()


def _start(ranks: list[_Rank], number: int, command: list[str], variables: dict[str, str]) -> None:
    """With the signals that stop a program blocked until it has its handlers (`settle_in`), and here until it is one of
    `ranks`."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
    try:
        ranks.append(_Rank(number, command, variables))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _inherited() -> dict[str, str]:
    """Without what other launchers left, which Paddle would take for the address of the first process."""
    return {key: value for key, value in os.environ.items() if key not in ("MASTER_ADDR", "MASTER_PORT")}


def _variables(layout: Layout) -> Iterator[dict[str, str]]:
    """Of each rank of this machine."""
    master = layout.master or f"127.0.0.1:{_free_port()}"
    # Paddle wants an endpoint of each rank and uses the first one only.
    ends = [master, *(f"127.0.0.1:{number}" for number in range(1, layout.count))]
    for here in range(layout.num_here):
        rank = layout.node * layout.num_here + here
        yield {
            _LAUNCHER: str(os.getpid()),
            "PADDLE_MASTER": master,
            "PADDLE_GLOBAL_SIZE": str(layout.count),
            "PADDLE_LOCAL_SIZE": str(layout.num_here),
            "PADDLE_GLOBAL_RANK": str(rank),
            "PADDLE_LOCAL_RANK": str(here),
            "PADDLE_NNODES": str(layout.num_nodes),
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": str(layout.count),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(ends),
            "PADDLE_CURRENT_ENDPOINT": ends[rank],
            "PADDLE_RANK_IN_NODE": str(here),
            "FLAGS_selected_gpus": str(here),
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _passed_on(ranks: "list[_Rank]") -> Iterator[list[int]]:
    """Signals go on to all ranks, each once; the third one kills them. Gives the numbers of those that came."""
    numbers: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        numbers.append(number)
        for rank in ranks:
            rank.process.send_signal(signal.SIGKILL if len(numbers) > 2 else number)

    with signals_to(pass_on):
        yield numbers


def _first_failed(ranks: "list[_Rank]") -> "_Rank | None":
    """Wait until all have ended well, or one has not."""
    while True:
        for rank in ranks:
            if rank.process.poll():
                return rank
        if all(rank.process.returncode == 0 for rank in ranks):
            return None
        time.sleep(_LOOK_EVERY_S)


def _end_of(failed: _Rank, first: _Rank, layout: Layout, *, is_interrupted: bool) -> int:
    """The exit code, where the first rank says why. Raises Error where another has to be told of, Interrupted."""
    code = failed.process.returncode
    if code == -signal.SIGABRT and failed is not first:
        # Gloo aborts one that the first one, which holds its store, leaves behind: then all is said and saved.
        with suppress(subprocess.TimeoutExpired):
            first.process.wait(_SAME_END_WITHIN_S)
        if first.process.returncode in (0, Interrupted.exit_code):
            return first.process.returncode
    if code > 0:
        # Most of what ends one ends all, and the first says it; after a signal it saves, however long that takes.
        with suppress(subprocess.TimeoutExpired):
            first.process.wait(None if code == Interrupted.exit_code else _SAME_END_WITHIN_S)
        if first.process.returncode == code:
            return code
    if is_interrupted and code in (Interrupted.exit_code, *(-number for number in STOPPING_SIGNALS)):
        raise Interrupted("interrupted")  # before the first had a handler
    name = f"process {failed.number} of {layout.num_here}"
    if code < 0:
        raise Error(f"{name} was killed by {signal.Signals(-code).name}, and the others with it")
    *before, last = failed.words() or [f"{name} ended without a word"]
    for line in before:
        print(line, file=sys.stderr)
    error = Error(last.removeprefix("train fit: "))
    error.exit_code = code
    raise error
