"""Running out of memory: the limit of a decoding process, and the ways in which it shows.

The data segment is limited, not the address space, which holds several hundred MiB of libraries before any video.
A library may answer the refusal with an exception, with an error of its own wording, or with the end of the process.
What the limit does not count, shared memory, is seen from outside. And a process that the kernel kills for the memory
of the machine, or of a control group, dies of SIGKILL like any other, so the kernel's count of such kills has to tell.
"""

import re
import resource
from pathlib import Path

_COUNTERS = Path("/proc/vmstat")
"""Has `oom_kill` since Linux 4.13: kills for the memory of the machine or of any control group."""

_WORDS = re.compile(
    r"bad_alloc|MemoryError|(cannot|can't|could not|failed to|unable to) allocate|memory allocation"
    r"|(out of|not enough|insufficient) memory",
    re.IGNORECASE,
)


def limit_data_segment(memory_mib: int) -> None:
    """Of this process, from now on."""
    limit = memory_mib * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def tells_of_memory(words: str) -> bool:
    """Whether these are the words of a library that was refused memory."""
    return _WORDS.search(words) is not None


def resident_mib(pid: int) -> int:
    """What a process holds of anonymous and shared memory, without pages of files; 0 for one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return sum(map(int, re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", status, re.MULTILINE))) // 1024


def num_kernel_kills() -> int:
    """How many processes of this machine the kernel has killed for memory; 0 where it does not tell."""
    try:
        found = re.search(r"^oom_kill (\d+)$", _COUNTERS.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
