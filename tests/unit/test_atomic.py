"""Files are whole or absent, whatever happens on the way."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from manifests.atomic import TEMPORARY_PREFIX, atomic_write, disk_errors, sync_file_system, sync_folder
from manifests.errors import StoreError


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_content_appears_at_the_end_under_the_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"half")
        assert not path.exists()
        assert temporary.parent == tmp_path  # else a rename would be a copy
        assert temporary.name.startswith(TEMPORARY_PREFIX)
        temporary.write_bytes(b"whole")
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == ["file"]


def test_an_older_file_stays_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open(path, "rb") as reader:
        with atomic_write(path) as temporary:
            temporary.write_bytes(b"new")
            assert path.read_bytes() == b"old"
        assert path.read_bytes() == b"new"
        assert reader.read() == b"old"  # who has it open keeps what he has


class _Bug(Exception):
    pass


@pytest.mark.parametrize("error", [_Bug, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("has_written", [False, True])
def test_an_exception_leaves_the_older_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException], has_written: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write() -> None:
        with atomic_write(path) as temporary:
            if has_written:
                temporary.write_bytes(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_killed_writer_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = (
        "import os, pathlib, signal, sys\n"
        "from manifests.atomic import atomic_write\n"
        "with atomic_write(pathlib.Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_bytes(b'new')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = set(names(tmp_path)) - {"file"}
    assert left.startswith(TEMPORARY_PREFIX)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_is_that_of_any_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "file") as temporary:
            temporary.write_bytes(b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_writers_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as one, atomic_write(path) as other:
        assert one != other
        one.write_bytes(b"one")
        other.write_bytes(b"other")
    assert path.read_bytes() == b"one"  # the last to finish
    assert names(tmp_path) == ["file"]


def test_the_longest_name_will_do(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"x")
    assert path.read_bytes() == b"x"


def test_names_that_are_not_utf8_will_do(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"x")
    assert os.listdir(os.fsencode(tmp_path)) == [b"caf\xe9"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing/file", "No such file or directory"), ("file/file", "Not a directory"), ("folder", "Is a directory")],
)
def test_a_disk_that_refuses(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()

    def write() -> None:
        with atomic_write(tmp_path / name) as temporary:
            temporary.write_bytes(b"x")

    with pytest.raises(StoreError) as caught:
        write()
    expected = f"cannot write {tmp_path / name}: {reason}; mend that and run the same command again"
    assert str(caught.value) == expected
    assert isinstance(caught.value.__cause__, OSError)
    assert names(tmp_path) == ["file", "folder"]


def test_a_folder_where_nothing_can_be_made() -> None:
    def write() -> None:
        with atomic_write(Path("/proc/version")) as temporary:
            temporary.write_bytes(b"x")

    with pytest.raises(StoreError, match="cannot write /proc/version: "):
        write()


def test_a_body_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_write(tmp_path / "file"):
            pass

    with pytest.raises(StoreError, match="No such file"):
        write()
    assert names(tmp_path) == []


def _small_files_only() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = (
        "import pathlib, sys\n"
        "from manifests.atomic import atomic_write\n"
        "from manifests.errors import StoreError\n"
        "try:\n"
        "    with atomic_write(pathlib.Path(sys.argv[1])) as temporary:\n"
        "        temporary.write_bytes(bytes(5000))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", code, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=_small_files_only)
    assert done.stdout == f"cannot write {path}: File too large; mend that and run the same command again\n"
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_disk_errors_name_the_path_and_keep_the_cause() -> None:
    def write() -> None:
        with disk_errors(Path("/out")):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(StoreError, match="cannot write /out: Input/output error; mend that") as caught:
        write()
    assert isinstance(caught.value.__cause__, OSError)


def test_disk_errors_keeps_an_error_without_a_number_readable() -> None:
    def write() -> None:
        with disk_errors(Path("/out")):
            raise OSError("what a library says")

    with pytest.raises(StoreError, match="cannot write /out: what a library says; mend that"):
        write()


def test_disk_errors_lets_everything_else_through() -> None:
    def write() -> None:
        with disk_errors(Path("/out")):
            raise StoreError("said already")

    with pytest.raises(StoreError, match=r"^said already$"):
        write()


def test_syncing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    sync_folder(tmp_path)
    sync_file_system(tmp_path)
    for sync in (sync_folder, sync_file_system):
        with pytest.raises(FileNotFoundError):
            sync(tmp_path / "missing")
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError):
            sync(tmp_path / "file")
    assert len(os.listdir("/proc/self/fd")) == before
