"""A disk that refuses stops the run at once: exit code 5, one sentence, nothing half-written under a final name; what
was finished stays finished, and the same command resumes once there is room, to the bytes of an undisturbed run."""

import ctypes
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from conftest import PREP, Prep
from stand_in import CALLS, bad_disk
from trees import hash_tree

from manifests.stores import STORES

VIDEOS_PER_SHARD = 2
NUM_VIDEOS = 16
NUM_MOMENTS = int(os.environ.get("DECODE_ONCE_KILLS", "12")) // 3


def command(videos: Path, store: str, out: Path) -> list[object]:
    settings = ["--set", f"store.videos_per_shard={VIDEOS_PER_SHARD}"]
    return ["extract", videos, "--store", store, "--quiet", *settings, "--out", out]


@pytest.fixture(scope="module")
def undisturbed(prep: Prep, synthetic: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The files of an undisturbed run, by store."""
    trees = {}
    for store in STORES:
        out = tmp_path_factory.mktemp("undisturbed") / "out"
        assert prep(*command(synthetic, store, out)).returncode == 0
        trees[store] = hash_tree(out)
    return trees


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a small file system with the given mount options."""
    folder = tmp_path / "disk"

    def mount(options: str) -> Path:
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"mounting is refused here: {done.stderr.decode().strip()}")
        return folder

    yield mount
    if os.path.ismount(folder):
        subprocess.run(["umount", folder], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)


def assert_stopped(done: subprocess.CompletedProcess[str], out: Path, words: str, whole: dict[str, str]) -> None:
    """`whole` are the files of an undisturbed run: what is there under a final name is what that has there."""
    assert done.returncode == 5, done.stderr
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("prep extract: cannot write ")
    assert words in sentence
    assert str(out) in sentence
    assert "again" in sentence
    assert done.stdout == ""
    # dataset.json may be there, whole, where only to make its name durable was refused.
    found = hash_tree(out) if os.path.lexists(out) else {}
    final = {path: digest for path, digest in found.items() if not path.startswith(".work/") and "/.tmp-" not in path}
    assert final.items() <= whole.items()
    for folder in (out / "frames").rglob("*.jpg"):  # a folder under its final name has all of its frames
        name = folder.parent.relative_to(out).as_posix()
        assert {path for path in final if path.startswith(f"{name}/")} == {
            path for path in whole if path.startswith(f"{name}/")
        }


def num_finished(out: Path) -> int:
    """How many videos are in groups that are committed."""
    return VIDEOS_PER_SHARD * len(list((out / ".work" / "groups").glob("*.manifest.parquet")))


def assert_resumes(prep: Prep, arguments: list[object], out: Path, whole: dict[str, str]) -> None:
    """Again, on a good disk; what is committed is not decoded again."""
    num_kept, sealed = num_finished(out), (out / "dataset.json").exists()
    resumed = prep(*arguments, "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["num_attempted"] <= (0 if sealed else NUM_VIDEOS - num_kept)
    assert hash_tree(out) == whole


@contextmanager
def running(videos: Path, store: str, out: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of which the first group is committed and others are to come; killed in the end, unless it has ended."""
    process = subprocess.Popen(
        [str(PREP), *map(str, command(videos, store, out))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not num_finished(out):
            assert process.poll() is None, "it ended too early"
            time.sleep(0.002)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def vanish(process: subprocess.Popen[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Remove a folder while the run stands still, and let it end."""
    os.killpg(process.pid, signal.SIGSTOP)
    shutil.rmtree(folder)
    os.killpg(process.pid, signal.SIGCONT)
    stdout, stderr = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


# --- Real file systems ---


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("size", ["16k", "150k", "900k"])
def test_full(prep: Prep, synthetic: Path, disk: Callable[[str], Path], undisturbed: dict[str, dict[str, str]],
              store: str, size: str) -> None:  # fmt: skip
    folder = disk(f"size={size}")
    out = folder / "out"
    full = prep(*command(synthetic, store, out))
    assert_stopped(full, out, "No space left on device", undisturbed[store])
    assert not (out / "dataset.json").exists()
    assert (num_finished(out) > 0) == (size == "900k")
    again = prep(*command(synthetic, store, out))
    assert_stopped(again, out, "No space left on device", undisturbed[store])
    remount(folder, "size=64m")
    assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("num_inodes", [4, 12, 20])
def test_no_inodes(prep: Prep, synthetic: Path, disk: Callable[[str], Path], undisturbed: dict[str, dict[str, str]],
                   store: str, num_inodes: int) -> None:  # fmt: skip
    folder = disk(f"nr_inodes={num_inodes}")
    out = folder / "out"
    full = prep(*command(synthetic, store, out))
    assert_stopped(full, out, "No space left on device", undisturbed[store])
    remount(folder, "nr_inodes=100k")
    assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])


@pytest.mark.parametrize("store", STORES)
def test_no_inodes_for_the_last_groups(prep: Prep, synthetic: Path, disk: Callable[[str], Path],
                                       undisturbed: dict[str, dict[str, str]], store: str) -> None:  # fmt: skip
    """How far ahead of the first commit the workers are is chance: a few inodes more until something is committed."""
    folder = disk("nr_inodes=20")
    out = folder / "out"
    for num_inodes in range(23, 1000, 3 if store == "arrow" else 30):
        assert_stopped(prep(*command(synthetic, store, out)), out, "No space left on device", undisturbed[store])
        if num_finished(out) > 0:
            break
        remount(folder, f"nr_inodes={num_inodes}")
    assert num_finished(out) > 0
    remount(folder, "nr_inodes=100k")
    assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])


@pytest.mark.parametrize("store", STORES)
def test_read_only(prep: Prep, synthetic: Path, disk: Callable[[str], Path], undisturbed: dict[str, dict[str, str]],
                   store: str) -> None:  # fmt: skip
    """From the start, and when a killed run is to go on."""
    folder = disk("size=64m")
    out = folder / "out"
    remount(folder, "ro")
    assert_stopped(prep(*command(synthetic, store, out)), out, "Read-only file system", undisturbed[store])
    assert not out.exists()
    remount(folder, "rw")
    with running(synthetic, store, out):
        pass
    wait_until_unused(folder)
    assert_stopped(prep(*command(synthetic, store, out)), out, "Read-only file system", undisturbed[store])
    remount(folder, "rw")
    assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])


def wait_until_unused(folder: Path) -> None:
    """Until the decoding processes of a killed run are gone, which end at once."""
    deadline_s = time.monotonic() + 10
    while subprocess.run(["mount", "-o", "remount,ro", folder], capture_output=True, check=False).returncode != 0:
        assert time.monotonic() < deadline_s, "a decoding process still writes"
        time.sleep(0.02)


# --- Limits and rights ---


def _allow_small_files_only() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_files_that_may_not_grow(prep: Prep, synthetic: Path, tmp_path: Path,
                                 undisturbed: dict[str, dict[str, str]]) -> None:  # fmt: skip
    """EFBIG stands in for a full disk where nothing can be mounted."""
    out = tmp_path / "out"
    done = prep(*command(synthetic, "arrow", out), preexec_fn=_allow_small_files_only)
    assert_stopped(done, out, "File too large", undisturbed["arrow"])
    assert_resumes(prep, command(synthetic, "arrow", out), out, undisturbed["arrow"])


_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2


def _respect_rights() -> None:
    """Root passes over the rights of files; without these capabilities it does not."""
    if os.geteuid() == 0:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("closed", [".", ".work", ".work/spool", ".work/groups", "shards or frames"])
def test_no_right_to_write(prep: Prep, synthetic: Path, tmp_path: Path, undisturbed: dict[str, dict[str, str]],
                           store: str, closed: str) -> None:  # fmt: skip
    out = tmp_path / "out"
    with running(synthetic, store, out):
        pass
    time.sleep(0.1)  # its decoding processes are dying
    folder = out / {"shards or frames": {"arrow": "shards", "frames": "frames/MoveUp"}[store]}.get(closed, closed)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o555)
    refused = prep(*command(synthetic, store, out), preexec_fn=_respect_rights)
    assert_stopped(refused, out, "Permission denied", undisturbed[store])
    folder.chmod(0o755)
    assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])


def test_no_right_to_make_the_folder(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    out = tmp_path / "closed" / "out"
    assert_stopped(prep(*command(synthetic, "arrow", out), preexec_fn=_respect_rights), out, "Permission denied", {})


# --- Folders that vanish ---


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("what", [".", ".work", ".work/spool", ".work/groups"])
def test_a_folder_that_vanishes_in_mid_run(prep: Prep, synthetic: Path, tmp_path: Path,
        undisturbed: dict[str, dict[str, str]], store: str, what: str) -> None:  # fmt: skip
    out = tmp_path / "out"
    with running(synthetic, store, out) as process:
        done = vanish(process, out / what)
    assert_stopped(done, out, "No such file or directory", undisturbed[store])
    assert not (out / "dataset.json").exists()
    if what == ".work":  # with it went the word that the rest is ours
        refused = prep(*command(synthetic, store, out))
        if refused.returncode != 0:
            assert refused.returncode == 2
            assert f"{out} holds something else" in refused.stderr
            shutil.rmtree(out)
    assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])


@pytest.mark.parametrize("store", STORES)
def test_finished_frames_that_vanish_in_mid_run_are_not_sealed(prep: Prep, synthetic: Path, tmp_path: Path,
        undisturbed: dict[str, dict[str, str]], store: str) -> None:  # fmt: skip
    """What was committed is looked for once more before dataset.json says that it is there."""
    out = tmp_path / "out"
    with running(synthetic, store, out) as process:
        done = vanish(process, out / {"arrow": "shards", "frames": "frames"}[store])
    assert done.returncode == 5, done.stderr
    assert not (out / "dataset.json").exists()
    assert prep(*command(synthetic, store, out)).returncode == 0
    assert hash_tree(out) == undisturbed[store]


# --- Errors at a chosen moment ---


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("call", CALLS)
def test_any_call_may_fail(prep: Prep, synthetic: Path, tmp_path: Path, undisturbed: dict[str, dict[str, str]],
                           store: str, call: str) -> None:  # fmt: skip
    """Of the main process, at random moments, each time later on; then the same command on a good disk."""
    chance = random.Random(f"{store} {call}")
    number = {"write": errno.EIO, "fsync": errno.EIO, "rename": errno.EROFS, "mkdir": errno.EDQUOT}[call]
    after, num_failures = 0, 0
    while num_failures < NUM_MOMENTS:
        out = tmp_path / f"out{after}"
        env = bad_disk(tmp_path, out, call, number, after=after)
        done = prep(*command(synthetic, store, out), env=env)
        if done.returncode == 0:
            break  # there are no more such calls
        assert_stopped(done, out, os.strerror(number), undisturbed[store])
        assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])
        shutil.rmtree(out)
        num_failures += 1
        after += 1 if call == "mkdir" else chance.randint(1, 6)
    assert num_failures > 1


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("after", [0, 1, 100])
def test_a_decoding_process_that_cannot_write(prep: Prep, synthetic: Path, tmp_path: Path,
        undisturbed: dict[str, dict[str, str]], store: str, after: int) -> None:  # fmt: skip
    out = tmp_path / "out"
    env = bad_disk(tmp_path, out, "write", errno.EIO, after=after, who="worker")
    done = prep(*command(synthetic, store, out), env=env)
    assert_stopped(done, out, "Input/output error", undisturbed[store])
    assert_resumes(prep, command(synthetic, store, out), out, undisturbed[store])
