"""Memory of a process that reads clips."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Let malloc keep what is freed instead of giving it back to the kernel, where it can (glibc).

    Clips are allocated and freed all the time; getting their pages anew costs as much as scaling them.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
