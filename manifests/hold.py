"""Readers hold the dataset that they opened, so that what they read is not deleted when another one takes its place.

A hold is a shared lock (flock) on the dataset.json that was read; loader processes that are forked share it. Where the
file system has no locks there is no hold, and an update deletes what it replaced at once.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from manifests.atomic import is_at


class Hold:
    """Holds the file at `path` as it is now, if there is one, until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def is_current(self) -> bool:
        """Whether `path` is still the file that is held."""
        return self._descriptor is None or is_at(self._descriptor, self._path)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def is_held(path: Path) -> bool:
    """Whether anyone, this process included, holds the file at `path`. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # NFS locks only for writing what is open for writing
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no locks here
    finally:
        os.close(descriptor)
    return False
