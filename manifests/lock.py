"""One run at a time in one OUT."""

import errno
import fcntl
import json
import os
import socket
from pathlib import Path

from manifests.atomic import disk_errors, is_at
from manifests.closing import Closing
from manifests.errors import StoreError


class RunLock(Closing):
    """A POSIX record lock: gone when its process is, and kept by NFS servers too.

    The file tells a second run who holds it. `folder` is what it guards, by default the one above its own. Raises
    StoreError where another run does. Whoever holds the lock must not open the file again: closing it would end the
    lock.
    """

    def __init__(self, path: Path, folder: Path | None = None) -> None:
        where = folder or path.parent.parent
        with disk_errors(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(os.read(self._descriptor, 4096))
            os.close(self._descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                message = f"cannot lock {path}: {error.strerror}; choose an --out on a file system that has locks"
                raise StoreError(message) from error
            message = f"another run is at work in {where} ({holder}); wait for it or choose another --out"
            raise StoreError(message) from error
        if not is_at(self._descriptor, path):  # a run removes its lock with its .work, and locks count by file
            os.close(self._descriptor)
            raise StoreError(f"another run has just come to its end in {where}; run the same command again")
        with disk_errors(path):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())

    def close(self) -> None:
        os.close(self._descriptor)


def _holder(note: bytes) -> str:
    """Who holds a lock, in words, from what the file says."""
    try:
        holder = json.loads(note)
        return f"process {int(holder['pid'])} on {holder['host']}"
    except (ValueError, LookupError, TypeError):
        return "it has not said yet which"
