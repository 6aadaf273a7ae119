"""The processes that train together, and what they exchange. One process alone exchanges nothing.

Gradients are averaged once a step, after all parts of a batch: nothing is sent inside of an accumulation window.

Arrays: scores_NK float32, labels_N int64.
"""

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle

from manifests.command import signals_to
from manifests.errors import Error, UsageError
from train.device import has_gpu

_END_WITHIN_S = 10.0
"""Where one of several fails, its launcher ends the others within this."""


@dataclass(frozen=True)
class Ranks:
    """This process is `rank` of `count`, `num_here` of them on this machine."""

    rank: int = 0
    count: int = 1
    num_here: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def average(self, tensors: Sequence[paddle.Tensor]) -> None:
        """Replace float32 tensors by their means over the ranks, in one exchange."""
        if self.count == 1 or not tensors:
            return
        flat = paddle.concat([tensor.detach().flatten() for tensor in tensors])
        _exchange(lambda: paddle.distributed.all_reduce(flat))
        flat = flat / self.count
        for tensor, part in zip(tensors, flat.split([int(tensor.size) for tensor in tensors]), strict=True):
            tensor.set_value(part.reshape(tensor.shape))

    def total(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum over the ranks of arrays of one shape."""
        if self.count == 1:
            return array
        tensor = paddle.to_tensor(array)
        _exchange(lambda: paddle.distributed.all_reduce(tensor))
        return np.asarray(tensor.numpy(), array.dtype)

    def mean(self, value: float) -> float:
        return float(self.total(np.array([value], np.float64))[0]) / self.count

    def any(self, flag: bool) -> bool:
        """Whether it is so in any of them."""
        return bool(self.total(np.array([int(flag)], np.int64))[0])

    def are_alike(self, parts: Iterable[bytes]) -> bool:
        """Whether all of them have the same."""
        if self.count == 1:
            return True
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        own = np.frombuffer(digest.digest(), np.int32).astype(np.int64)
        first = self.total(own if self.is_first else np.zeros_like(own))
        return not self.any(not np.array_equal(own, first))

    def wait(self) -> None:
        """Until all have come here."""
        self.any(False)


def _exchange(exchange: Callable[[], Any]) -> None:
    """What fails here fails for another's sake, who says why before this one is ended. Raises Error if not."""
    try:
        exchange()
    except Exception as error:
        time.sleep(_END_WITHIN_S)
        raise Error(f"another process has gone, or cannot be reached: {_first_line(error)}") from error


def join_ranks() -> Ranks:
    """As train.launch or `python -m paddle.distributed.launch` started this process; one that they did not start is
    alone. Raises UsageError where there are fewer GPUs than processes, Error where the others are not found."""
    count = int(os.environ.get("PADDLE_TRAINERS_NUM") or 1)
    if count == 1:
        return Ranks()
    num_here = int(os.environ.get("PADDLE_LOCAL_SIZE") or count)
    if has_gpu():
        num_gpus = paddle.device.cuda.device_count()
        if num_here > num_gpus:
            raise UsageError(f"--nproc is at most the number of GPUs, {num_gpus}, not {num_here}")
    else:
        os.environ["PADDLE_DISTRI_BACKEND"] = "gloo"
    # There is nothing to save yet, and no handler would run while the others are waited for.
    try:
        with signals_to(signal.SIG_DFL), _muted():
            paddle.distributed.init_parallel_env()
    except Exception as error:
        raise Error(
            f"cannot join the other processes at {os.environ.get('PADDLE_MASTER', 'PADDLE_TRAINER_ENDPOINTS')}: "
            f"{_first_line(error)}"
        ) from error
    return Ranks(paddle.distributed.get_rank(), count, num_here)


@contextmanager
def _muted() -> Iterator[None]:
    """Paddle tells how the processes found each other, and of flags that it set itself."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as devnull:
            os.dup2(devnull.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
