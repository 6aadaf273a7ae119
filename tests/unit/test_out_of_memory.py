"""The signs by which running out of memory is known."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prep import memory
from prep.memory import num_kernel_kills, resident_mib, tells_of_memory


@pytest.mark.parametrize(
    "words",
    [
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
        "MemoryError\n",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 16.0 MiB for an array",
        "[Errno 12] Cannot allocate memory",
        "memory allocation of 16777216 bytes failed",
        "OpenCV(4.10) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate 1048576000 bytes",
        "Insufficient memory (case 4)",
        "fatal: Out of memory, malloc failed",
    ],
)
def test_words_that_tell_of_memory(words: str) -> None:
    assert tells_of_memory(words)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "double free or corruption (!prev)",
        "malloc(): corrupted top size",
        "invalid memory access at address 0x7f",
        "Segmentation fault",
        "[h264 @ 0x55] error while decoding MB 3 4, bytestream -7",
    ],
)
def test_words_that_do_not(words: str) -> None:
    assert not tells_of_memory(words)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_the_limit_is_on_what_is_allocated() -> None:
    code = "from prep.memory import limit_data_segment; limit_data_segment(256)\ntry: b'x' * (1 << {bits})\n"
    code += "except MemoryError: print('refused')\nelse: print('given')"
    assert run(code.format(bits=26)) == "given"
    assert run(code.format(bits=28)) == "refused"


def test_a_limit_from_outside_stays() -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 400 << 20))\n"
    code += "from prep.memory import limit_data_segment; limit_data_segment({mib})\n"
    code += "print(*resource.getrlimit(resource.RLIMIT_DATA))"
    assert run(code.format(mib=500)) == f"{400 << 20} {400 << 20}"
    assert run(code.format(mib=256)) == f"{256 << 20} {400 << 20}"


MEASURED = """
import mmap, os
from prep.memory import resident_mib
before = resident_mib(os.getpid())
{use}
print(resident_mib(os.getpid()) - before)
"""


@pytest.mark.parametrize(
    "use",
    [
        "kept = b'x' * (100 << 20)",
        "kept = mmap.mmap(-1, 100 << 20)\nfor _ in range(100): kept.write(b'x' * (1 << 20))",
    ],
)
def test_what_a_process_holds(use: str) -> None:
    """Of its own, and shared, though shared with nobody."""
    assert 95 <= int(run(MEASURED.format(use=use))) <= 110


def test_pages_of_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (64 << 20))
    use = f"file = open({str(tmp_path / 'file')!r}, 'rb')\n"
    use += "kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\nkept.find(b'y')"
    assert int(run(MEASURED.format(use=use))) <= 8


def test_a_process_that_has_ended_holds_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert resident_mib(ended.pid) == 0  # a zombie
    ended.wait()
    assert resident_mib(ended.pid) == 0


def test_kills_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = tmp_path / "vmstat"
    monkeypatch.setattr(memory, "_COUNTERS", counters)
    assert num_kernel_kills() == 0
    counters.write_text("pgfault 17\noom_kill 3\ndrop_slab 0\n")
    assert num_kernel_kills() == 3
    counters.write_text("pgfault 17\n")
    assert num_kernel_kills() == 0


def test_the_kernel_has_the_counter() -> None:
    if not Path("/proc/vmstat").exists():
        pytest.skip("no /proc/vmstat here")
    assert "\noom_kill " in Path("/proc/vmstat").read_text()
