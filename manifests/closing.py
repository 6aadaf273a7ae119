"""What has a `close` may be used in a `with` block."""

from types import TracebackType
from typing import Self


class Closing:
    """Closes itself at the end of a `with` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
