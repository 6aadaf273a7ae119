"""Fixtures for all tests: the real command, a small synthetic set, and where the shared clips are."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from manifests.machine import usable_processors

ROOT = Path(__file__).resolve().parent.parent
PREP = Path(sys.executable).parent / "prep"
TRAIN = Path(sys.executable).parent / "train"

Prep = Callable[..., subprocess.CompletedProcess[str]]

# The programs leave signals ignored that they find so; tests may run in the background or under nohup, their programs
# not.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Other tests run at the same time, and other programs: how long an example takes says nothing.
settings.register_profile("untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Processes of `pytest -n auto`: as many as processors may be used; more than 8 would wait for the longest file."""
    return min(usable_processors().count, 8)


@pytest.fixture(scope="session")
def prep() -> Prep:
    """Run the real command: prep("verify", out) -> CompletedProcess with text output."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [str(PREP), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)

    return run


@pytest.fixture(scope="session")
def train() -> Prep:
    """Run the real command: train("fit", ...) -> CompletedProcess with text output."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [str(TRAIN), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)

    return run


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory, prep: Prep) -> Path:
    """A UCF-101-shaped set of 4 classes with 4 videos each; not to be written to."""
    folder = tmp_path_factory.mktemp("synthetic") / "videos"
    done = prep("synth", folder, "--classes", 4, "--videos-per-class", 4, "--seed", 7)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory, prep: Prep, synthetic: Path) -> dict[str, Path]:
    """The synthetic set as a dataset by store: 8 videos each in train01 and test01; not to be written to."""
    folders = {store: tmp_path_factory.mktemp("prepared") / store for store in ("arrow", "frames")}
    for store, out in folders.items():
        done = prep("extract", synthetic, "--dataset", "ucf101", "--out", out, "--store", store, "--quiet")
        assert done.returncode == 0, done.stderr
    return folders


@pytest.fixture(scope="session")
def shared_videos() -> Path:
    """The real clips beside the project, where they are."""
    folder = ROOT.parent / "shared" / "data" / "videos"
    if not folder.is_dir():
        pytest.skip(f"the real clips are not there: {folder}")
    return folder


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    """No test may leave a process behind."""
    yield
    try:
        pid, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    assert pid == 0, f"a child process was left, and ended unnoticed: {pid}"
    raise AssertionError("a child process was left running")
