"""What the programs say, and to whom: the exit code is right whatever becomes of the reader."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PREP, Prep


@pytest.fixture(scope="module")
def dataset(prep: Prep, synthetic: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("output") / "out"
    assert prep("extract", synthetic, "--out", out, "--quiet").returncode == 0
    return out


def shell(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script, "bash", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("redirection", ["| true", "2>&1 | true"])
def test_a_reader_that_goes_away(dataset: Path, synthetic: Path, tmp_path: Path, redirection: str) -> None:
    out = tmp_path / "out"
    done = shell(f'"$1" extract "$2" --out "$3" {redirection}; exit ${{PIPESTATUS[0]}}', PREP, synthetic, out)
    assert (done.returncode, done.stdout) == (0, "")
    assert (out / "dataset.json").exists()


def test_damage_is_told_by_the_exit_code_even_if_nobody_reads(dataset: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shell('cp -r "$1" "$2" && rm -r "$2/shards"', dataset, damaged)
    done = shell('"$1" verify "$2" | true; exit ${PIPESTATUS[0]}', PREP, damaged)
    assert done.returncode == 4


@pytest.mark.parametrize("flags", ["", "--json"])
def test_output_that_cannot_be_written(dataset: Path, flags: str) -> None:
    done = shell(f'"$1" report "$2" {flags} > /dev/full', PREP, dataset)
    assert (done.returncode, done.stderr) == (5, "prep: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_closed_outputs(dataset: Path, closed: str) -> None:
    assert shell(f'"$1" report "$2" {closed}', PREP, dataset).returncode == 0


def test_usage_errors_in_json(prep: Prep) -> None:
    done = prep("verify", "--json", "--deeper", "out")
    assert done.returncode == 2
    assert json.loads(done.stdout) == {"error": "unrecognized arguments: --deeper", "exit_code": 2}


def test_nohup(synthetic: Path, tmp_path: Path) -> None:
    """A signal that the caller has the program ignore does not stop it."""
    out = tmp_path / "out"
    command = [str(PREP), "extract", str(synthetic), "--out", str(out), "--quiet"]
    with subprocess.Popen(["nohup", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (out / ".work").exists():
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=60) == 0
    assert (out / "dataset.json").exists()


def test_names_that_are_no_text(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    videos = tmp_path / os.fsdecode(b"caf\xe9")
    videos.mkdir()
    (videos / os.fsdecode(b"\xff.avi")).symlink_to(sorted(synthetic.rglob("*.avi"))[0])
    done = subprocess.run(
        [PREP, "extract", videos, "--out", tmp_path / os.fsdecode(b"out\xfe"), "--json"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["ok"] == 1
