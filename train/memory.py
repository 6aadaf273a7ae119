"""Memory of a process that reads clips or trains on them."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30
_MOST_BYTES = 32 << 20


def keep_freed_memory() -> None:
    """Let malloc keep what is freed instead of giving it back to the kernel, where it can (glibc).

    Clips, and what a model on a CPU makes of them, are allocated and freed all the time; getting their pages anew costs
    as much as scaling or normalising them.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        if not mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES):  # glibc had a limit once
            mallopt(_M_MMAP_THRESHOLD, _MOST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
