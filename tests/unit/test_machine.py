"""What the machine lets us use, on machines that the tests make up."""

import os
from pathlib import Path

import pytest

from manifests import machine
from manifests.machine import Processors, Space, describe_space, format_bytes, free_space, usable_processors


class Machine:
    """A made-up cgroup file system."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._monkeypatch = monkeypatch
        self.own = "0::/\n"
        real_lines = machine._lines

        def lines(path: Path) -> list[str]:
            return self.own.splitlines() if path == Path("/proc/self/cgroup") else real_lines(path)

        monkeypatch.setattr(machine, "_CGROUP", root)
        monkeypatch.setattr(machine, "_lines", lines)
        self.processors(8, 8)

    def processors(self, num_allowed: int, num_present: int) -> None:
        self._monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(num_allowed)))
        self._monkeypatch.setattr(os, "cpu_count", lambda: num_present)

    def write(self, name: str, text: str) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "cgroup", monkeypatch)


def test_this_machine() -> None:
    found = usable_processors()
    assert 1 <= found.count <= len(os.sched_getaffinity(0))


def test_no_limit(made_up: Machine) -> None:
    assert usable_processors() == Processors(8, "all of the machine")


def test_affinity(made_up: Machine) -> None:
    made_up.processors(3, 8)
    assert usable_processors() == Processors(3, "an affinity to 3 of 8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000\n", Processors(8, "all of the machine")),
        ("200000 100000\n", Processors(2, "a cgroup quota of 2")),
        ("250000 100000\n", Processors(2, "a cgroup quota of 2.5")),
        ("50000 100000\n", Processors(1, "a cgroup quota of 0.5")),
        ("1000 100000\n", Processors(1, "a cgroup quota of 0.01")),
        ("150000 50000\n", Processors(3, "a cgroup quota of 3")),
        ("800000 100000\n", Processors(8, "all of the machine")),
        ("6400000 100000\n", Processors(8, "all of the machine")),
        ("", Processors(8, "all of the machine")),
    ],
)
def test_a_quota_of_version_2(made_up: Machine, text: str, expected: Processors) -> None:
    made_up.write("cpu.max", text)
    assert usable_processors() == expected


@pytest.mark.parametrize("own", ["0::/a/b/c\n", "12:pids:/x\n0::/a/b/c\n"])
def test_the_tightest_quota_above_counts(made_up: Machine, own: str) -> None:
    made_up.own = own
    made_up.write("a/b/c/cpu.max", "max 100000\n")
    made_up.write("a/b/cpu.max", "300000 100000\n")
    made_up.write("a/cpu.max", "500000 100000\n")
    made_up.write("other/cpu.max", "100000 100000\n")
    assert usable_processors() == Processors(3, "a cgroup quota of 3")
    made_up.write("cpu.max", "200000 100000\n")
    assert usable_processors() == Processors(2, "a cgroup quota of 2")


def test_a_quota_outside_the_file_system_of_cgroups_is_not_looked_for(made_up: Machine, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    made_up.own = "0::/a\n"
    assert usable_processors() == Processors(8, "all of the machine")


@pytest.mark.parametrize(("quota", "count"), [("-1", 8), ("300000", 3), ("0", 8), ("40000", 1)])
def test_a_quota_of_version_1(made_up: Machine, quota: str, count: int) -> None:
    made_up.own = "4:cpu,cpuacct:/docker/abc\n"
    made_up.write("cpu/cpu.cfs_quota_us", f"{quota}\n")
    made_up.write("cpu/cpu.cfs_period_us", "100000\n")
    assert usable_processors().count == count


def test_the_tighter_of_affinity_and_quota_counts(made_up: Machine) -> None:
    made_up.processors(2, 8)
    made_up.write("cpu.max", "400000 100000\n")
    assert usable_processors() == Processors(2, "an affinity to 2 of 8")
    made_up.write("cpu.max", "100000 100000\n")
    assert usable_processors() == Processors(1, "a cgroup quota of 1")


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2, "1.0 MiB"),
        (int(2.25 * 1024**3), "2.2 GiB"),
        (1024**4, "1.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_bytes_for_people(num_bytes: int, text: str) -> None:
    assert format_bytes(num_bytes) == text


def test_space_is_told_of_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    line = describe_space(tmp_path / "a" / "b" / "c")
    assert line == describe_space(tmp_path / "a")
    free = os.statvfs(tmp_path)
    assert f"disk: {format_bytes(free.f_bavail * free.f_frsize)} and " in line
    assert "inode" in line
    assert "; /dev/shm: " in line


def test_file_systems_without_a_number_of_inodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = (4096, 4096, 1000, 900, 800, 0, 0, 0, 0, 255)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
    assert describe_space(tmp_path).startswith("disk: 3.1 MiB and no inode limit free; ")
    assert free_space(tmp_path) == Space(800 * 4096, None, 4096)


def test_free_space_is_what_this_user_may_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the blocks kept for root nor the larger unit of transfers count."""
    values = (65536, 1024, 1000, 900, 800, 70, 60, 50, 0, 255)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
    assert free_space(tmp_path) == Space(800 * 1024, 50, 1024)
    assert describe_space(tmp_path).startswith("disk: 800.0 KiB and 50 inodes free; ")


def test_space_for_a_folder_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the file system that it will lie in."""
    seen: list[Path] = []
    values = (4096, 4096, 10, 9, 8, 7, 6, 5, 0, 255)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda folder: seen.append(Path(folder)) or os.statvfs_result(values))
    free_space(Path("not/there/yet"))
    assert seen == [tmp_path]


def test_available_memory(made_up: Machine) -> None:
    """The limit of the control group, or of one above, where it is less than what the machine could give."""
    of_machine = machine.available_memory()
    assert of_machine is not None
    assert 2**20 < of_machine < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    made_up.write("a/b/memory.max", "max\n")
    made_up.write("a/memory.max", "5000000\n")
    made_up.own = "0::/a/b\n"
    assert machine.available_memory() == 5_000_000
    made_up.write("memory.max", "4000000\n")
    assert machine.available_memory() == 4_000_000
