"""A signal ends a run between two steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType

from manifests.command import signals_to
from train.loader import Batch


class Stop:
    """Whether a signal has asked the loop to end. One rank of several ends only where the others do."""

    is_asked = False
    is_at_once = False

    def __init__(self, *, is_alone: bool) -> None:
        self._is_alone = is_alone

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is inside ends at a signal, and the program goes on after it."""
        self.is_at_once = self._is_alone
        try:
            yield
        except KeyboardInterrupt:
            self.is_asked = True
        finally:
            self.is_at_once = False

    def while_waiting(self, batches: Iterator[Batch], num_parts: int) -> Iterator[list[Batch]]:
        """The batches by `num_parts`, until a signal comes while some are waited for."""
        while not self.is_asked or not self._is_alone:
            parts: list[Batch] = []
            with self.at_once():
                parts = list(islice(batches, num_parts))
            if len(parts) < num_parts:
                return
            yield parts


@contextmanager
def stop_on_signals(*, is_alone: bool) -> Iterator[Stop]:
    """The first Ctrl-C, SIGTERM or SIGHUP ends the run between two steps, with a checkpoint; the second one at once."""
    stop = Stop(is_alone=is_alone)

    def ask(number: int, frame: FrameType | None) -> None:
        is_second, stop.is_asked = stop.is_asked, True
        if is_second or stop.is_at_once:
            raise KeyboardInterrupt

    with signals_to(ask):
        yield stop
