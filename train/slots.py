"""Memory that the training process and its data workers share: a slot for each batch on its way.

Pages are asked for once and used again. Nothing has a name that could be left behind, and the size of /dev/shm is no
limit (a memory file, memfd_create(2), is bounded by the memory of the machine or the container).

Arrays: batch_NTHWC uint8.
"""

import mmap
import os

import numpy as np
import numpy.typing as npt

from manifests.closing import Closing
from manifests.errors import Error
from manifests.machine import format_bytes

Shape = tuple[int, int, int, int, int]

BATCHES_PER_WORKER = 2
"""On their way at most, or waiting to be asked for: a worker always has a next one."""

BATCHES_IN_USE = 2
"""That the caller of a loader may hold (the one it has, the one before it); then it gets copies."""


def num_slots(num_workers: int) -> int:
    """How many batches a loader keeps in shared memory."""
    return BATCHES_PER_WORKER * num_workers + BATCHES_IN_USE if num_workers else 0


class Slots(Closing):
    """`num_slots` pieces of shared memory, empty at first. Processes that are forked later have them too."""

    def __init__(self, num_slots: int) -> None:
        self._files = [os.memfd_create(f"decode-once-batch-{slot}") for slot in range(num_slots)]
        self._maps: dict[int, mmap.mmap] = {}

    def __len__(self) -> int:
        return len(self._files)

    def make_room(self, slot: int, num_bytes: int) -> None:
        """Let the slot hold so much. Raises Error where there is no memory for it."""
        if num_bytes <= os.fstat(self._files[slot]).st_size:
            return
        try:
            os.posix_fallocate(self._files[slot], 0, num_bytes)
        except OSError as error:
            raise Error(
                f"no memory for a batch of {format_bytes(num_bytes)} on its way from a data worker ({error.strerror}): "
                "use fewer of them (loader.num_workers), or smaller batches"
            ) from error

    def array(self, slot: int, shape: Shape) -> npt.NDArray[np.uint8]:
        """batch_NTHWC of this shape in the slot, which has room for it. It outlives `close`."""
        num_bytes = int(np.prod(shape))
        if len(self._maps.get(slot, b"")) < num_bytes:
            self._maps[slot] = mmap.mmap(self._files[slot], os.fstat(self._files[slot]).st_size)
        return np.frombuffer(self._maps[slot], np.uint8, num_bytes).reshape(shape)

    def close(self) -> None:
        self._maps.clear()
        while self._files:
            os.close(self._files.pop())
