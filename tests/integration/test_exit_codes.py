"""The exit codes, each made to happen to the real command. What they mean is in manifests.errors.EXIT_CODES."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PREP, Prep
from stand_in import stand_in

from manifests.errors import EXIT_CODES

ALL_FAIL = """
import sys
if "prep.worker" not in sys.orig_argv:
    import {module}
    def fail(*_, **__):
        raise ZeroDivisionError("a bug")
    {module}.{name} = fail
"""


@pytest.fixture
def videos(synthetic: Path, tmp_path: Path) -> Path:
    """Two good videos in a folder of their own."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for source in sorted(synthetic.rglob("*.avi"))[:2]:
        (folder / source.name).symlink_to(source)
    return folder


@pytest.fixture
def out(prep: Prep, videos: Path, tmp_path: Path) -> Path:
    """The two as a dataset."""
    assert prep("extract", videos, "--out", tmp_path / "dataset", "--quiet").returncode == 0
    return tmp_path / "dataset"


def assert_ends(done: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    """With the code, and with words on stderr, in JSON too; no traceback."""
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    if "--json" in done.args:
        found = json.loads(done.stdout)
        assert found["exit_code"] == code
        assert words in found["error"]


def test_the_codes_are_these() -> None:
    assert list(EXIT_CODES) == [0, 1, 2, 3, 4, 5, 6, 130]


def test_0_all_is_done(prep: Prep, videos: Path, tmp_path: Path, out: Path) -> None:
    sources = tmp_path / "sources.parquet"
    for arguments in (
        ["scan", videos, "--out", sources],
        ["extract", sources, "--out", out],  # complete already
        ["verify", out, "--deep"],
        ["report", out],
        ["synth", tmp_path / "drawn", "--classes", 2, "--videos-per-class", 2],
        ["--version"],
        ["extract", "--help"],
    ):
        assert prep(*arguments).returncode == 0, arguments


@pytest.mark.parametrize(
    ("module", "name"),
    [("manifests.machine", "usable_processors"), ("prep.datasets", "scan"), ("prep.seal", "seal")],
)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_1_unexpected(prep: Prep, videos: Path, tmp_path: Path, module: str, name: str, flags: list[str]) -> None:
    """A bug of ours, before anything is begun and after everything is decoded."""
    env = stand_in(tmp_path, ALL_FAIL.format(module=module, name=name))
    done = prep("extract", videos, "--out", tmp_path / "out", *flags, env=env)
    assert_ends(done, 1, "unexpected ZeroDivisionError: a bug; set DECODE_ONCE_DEBUG=1 to see where, and report it")
    debugged = prep("extract", videos, "--out", tmp_path / "out", env={**env, "DECODE_ONCE_DEBUG": "1"})
    assert debugged.returncode == 1
    assert "Traceback" in debugged.stderr
    assert prep("extract", videos, "--out", tmp_path / "out").returncode == 0


def test_2_usage(prep: Prep, videos: Path, tmp_path: Path, out: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear reader\n")
    for arguments, words in (
        (["extract", videos, "--out", other, "--json"], "holds something else"),
        (["extract", videos, "--out", out, "--set", "frames.quality=7", "--json"], "frames.quality 90, not 7"),
        (["extract", videos, "--out", other, "--set", "frames.qualty=7", "--json"], "did you mean frames.quality?"),
        (["extract", tmp_path / "nowhere", "--out", out], "no such folder"),
        (["verify", other, "--json"], "is not a prepared dataset"),
        (["extract", videos], "required: --out"),
        ([], "required: COMMAND"),
    ):
        assert_ends(prep(*arguments), 2, words)


def test_3_some_failed(prep: Prep, videos: Path, tmp_path: Path) -> None:
    (videos / "zero.avi").touch()
    for _ in range(2):  # also where nothing is left to do
        done = prep("extract", videos, "--out", tmp_path / "out", "--json")
        assert done.returncode == 3
        assert json.loads(done.stdout)["failures"] == {"empty": 1}
    assert prep("verify", tmp_path / "out", "--deep").returncode == 0


def test_4_damaged(prep: Prep, videos: Path, out: Path) -> None:
    shutil.rmtree(out / "shards")
    for flags in ([], ["--deep"], ["--json"]):
        assert prep("verify", out, *flags).returncode == 4
    (out / "dataset.json").write_text("{")
    assert_ends(prep("report", out, "--json"), 4, "dataset.json")
    assert_ends(prep("extract", videos, "--out", out, "--json"), 4, "dataset.json")


def test_5_the_disk(prep: Prep, videos: Path, tmp_path: Path, out: Path) -> None:
    (tmp_path / "file").touch()
    done = prep("extract", videos, "--out", tmp_path / "file" / "out", "--json")
    assert_ends(done, 5, "Not a directory")
    with open("/dev/full", "w") as full:
        done = subprocess.run([PREP, "report", out], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (5, "prep: cannot write the output: No space left on device\n")


def test_6_all_failed(prep: Prep, videos: Path, tmp_path: Path) -> None:
    for path in list(videos.iterdir()):
        path.unlink()
        path.touch()
    done = prep("extract", videos, "--out", tmp_path / "out", "--json")
    assert_ends(done, 6, "none of 2 videos is ok (empty 2)")
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_130_interrupted(videos: Path, tmp_path: Path, number: signal.Signals) -> None:
    """While it decodes; and it prints the command that resumes."""
    out = tmp_path / "out"
    command = [str(PREP), "extract", str(videos), "--out", str(out), "--quiet", "--jobs", "1"]
    command += ["--set", "frames.enlarge=true", "--set", "frames.short_side_px=1080"]  # slow
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (out / ".work" / "spool").is_dir() or not os.listdir(out / ".work" / "spool"):
            assert process.poll() is None, "it ended too early"
            time.sleep(0.005)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert "the same command resumes: prep extract " in stderr
    assert not (out / "dataset.json").exists()
    resumed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert resumed.returncode == 0, resumed.stderr
