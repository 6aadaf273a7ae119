"""What this machine lets us use: processors, disk, shared memory."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Processors:
    """How many processors this process may use, and which limit says so."""

    count: int
    reason: str


def usable_processors() -> Processors:
    """The smaller of the CPU affinity and the cgroup's CPU quota, at least 1."""
    affinity = len(os.sched_getaffinity(0))
    quota = _cgroup_quota()
    if quota is not None and quota < affinity:
        return Processors(max(1, int(quota)), f"a cgroup quota of {quota:g}")
    present = os.cpu_count() or affinity
    return Processors(
        affinity, "all of the machine" if affinity == present else f"an affinity to {affinity} of {present}"
    )


def _cgroup_quota() -> float | None:
    """The tightest quota in processors over this process's cgroup and those above it (version 2), or of the root
    cgroup (version 1, where a container has its own); None where there is none."""
    quotas = [*_quotas_v2(), *_quota_v1()]
    return min(quotas, default=None)


def _quotas_v2() -> list[float]:
    quotas = []
    for folder in _cgroup_folders():
        for line in _lines(folder / "cpu.max"):
            quota, _, period = line.strip().partition(" ")
            if quota != "max":
                quotas.append(int(quota) / int(period))
    return quotas


def _cgroup_folders() -> list[Path]:
    """Of this process's cgroup (version 2) and those above it."""
    own = next((line[3:].strip("/\n") for line in _lines(Path("/proc/self/cgroup")) if line.startswith("0::")), "")
    folder = _CGROUP / own
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(_CGROUP))]


def _quota_v1() -> list[float]:
    quota = next(iter(_lines(_CGROUP / "cpu/cpu.cfs_quota_us")), "-1")
    period = next(iter(_lines(_CGROUP / "cpu/cpu.cfs_period_us")), "100000")
    return [int(quota) / int(period)] if int(quota) > 0 else []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


@dataclass(frozen=True)
class Space:
    """What is free for this user on a file system: bytes, and inodes (None where their number has no limit). A file
    takes whole blocks of `block_bytes`."""

    num_bytes: int
    num_inodes: int | None
    block_bytes: int


def free_space(folder: Path) -> Space:
    """The space for `folder`, which need not exist yet. Quotas are not seen. Raises OSError."""
    folder = folder.absolute()
    while not os.path.exists(folder):
        folder = folder.parent
    disk = os.statvfs(folder)
    # File systems without a fixed number of inodes say 0.
    return Space(disk.f_bavail * disk.f_frsize, disk.f_favail if disk.f_files else None, disk.f_frsize)


def describe_space(folder: Path) -> str:
    """Free disk, free inodes and free shared memory, in one line; `folder` need not exist yet."""
    disk = free_space(folder)
    inodes = "no inode limit" if disk.num_inodes is None else f"{disk.num_inodes:,} inodes"
    shared = free_shared_memory()
    shared_text = "none" if shared is None else f"{format_bytes(shared)} free"
    return f"disk: {format_bytes(disk.num_bytes)} and {inodes} free; /dev/shm: {shared_text}"


def free_shared_memory() -> int | None:
    """Free bytes of /dev/shm, None where there is none."""
    shared = Path("/dev/shm")
    return shutil.disk_usage(shared).free if shared.exists() else None


def available_memory() -> int | None:
    """Bytes that the machine could still give, or the limit of this process's cgroup (version 2) where that is less;
    None where the kernel does not tell."""
    available = [
        int(line.split()[1]) * 1024 for line in _lines(Path("/proc/meminfo")) if line.startswith("MemAvailable:")
    ]
    limits = [
        int(line) for folder in _cgroup_folders() for line in _lines(folder / "memory.max") if line.strip().isdecimal()
    ]
    return min([*available, *limits], default=None)


def format_bytes(num_bytes: float) -> str:
    """1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"
