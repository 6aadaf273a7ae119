"""The processes that train together, and what they exchange. One process alone exchanges nothing.

Gradients are averaged once a step, after all parts of a batch: nothing is sent inside of an accumulation window.

Arrays: scores_NK float32, labels_N int64.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle


@dataclass(frozen=True)
class Ranks:
    """This process is `rank` of `count`."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def average(self, tensors: Sequence[paddle.Tensor]) -> None:
        """Replace float32 tensors by their means over the ranks, in one exchange."""
        if self.count == 1 or not tensors:
            return
        flat = paddle.concat([tensor.detach().flatten() for tensor in tensors])
        paddle.distributed.all_reduce(flat)
        flat = flat / self.count
        for tensor, part in zip(tensors, flat.split([int(tensor.size) for tensor in tensors]), strict=True):
            tensor.set_value(part.reshape(tensor.shape))

    def total(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum over the ranks of arrays of one shape."""
        if self.count == 1:
            return array
        tensor = paddle.to_tensor(array)
        paddle.distributed.all_reduce(tensor)
        return np.asarray(tensor.numpy(), array.dtype)

    def mean(self, value: float) -> float:
        return float(self.total(np.array([value], np.float64))[0]) / self.count

    def any(self, flag: bool) -> bool:
        """Whether it is so in any of them."""
        return bool(self.total(np.array([int(flag)], np.int64))[0])

    def wait(self) -> None:
        """Until all have come here."""
        self.any(False)


def join_ranks() -> Ranks:
    """As `python -m paddle.distributed.launch` started this process; one that it did not start is alone."""
    count = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
    if count == 1:
        return Ranks()
    paddle.distributed.init_parallel_env()
    return Ranks(paddle.distributed.get_rank(), count)
