"""`prep adopt` and `prep pack`, killed at any moment: nothing half under a final name, and the same command ends with
the same bytes."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PREP, Prep
from crash_points import calls_of, run_until
from frame_trees import names_like, write_frames
from trees import hash_tree

from prep.verify import verify

CRASHES_TRIED = int(os.environ.get("DECODE_ONCE_CRASHES", "5"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Seven folders of two classes in two subsets, one of which has a gap."""
    folder = tmp_path / "tree"
    for number, name in enumerate(("A/a", "A/b", "A/c", "B/d", "B/e", "B/f")):
        write_frames(folder / "train" / name, names_like("img_%05d.jpg", 3 + number, number % 2), seed=number)
    (folder / "train" / "B" / "e" / "img_00003.jpg").unlink()
    write_frames(folder / "val" / "B" / "g", ["img_00001.jpg"])
    return folder


@pytest.mark.parametrize("what", ["adopt", "pack a subset"])
def test_killed_at_any_moment(prep: Prep, tree: Path, tmp_path: Path, what: str) -> None:
    source, flags = tree, ["--quiet"]
    if what == "pack a subset":
        source, flags = tmp_path / "adopted", ["--quiet", "--subset", "train"]
        assert prep("adopt", tree, "--out", source, "--quiet").returncode == 3
    command = what.split()[0]
    untouched = hash_tree(source)
    calls = calls_of(tmp_path / "log", [command, source, "--out", tmp_path / "undisturbed", *flags])
    expected = hash_tree(tmp_path / "undisturbed")
    out = tmp_path / "out"
    commit = next(index for index, call in enumerate(calls) if call[-1] == str(tmp_path / "undisturbed/dataset.json"))
    for number in sorted({*range(0, len(calls), max(1, len(calls) // CRASHES_TRIED)), commit, commit + 1}):
        killed = run_until(tmp_path / "crash", [command, source, "--out", out, *flags], number)
        assert killed.returncode == -9, calls[number]
        if (out / "dataset.json").exists():
            assert verify(out, deep=True, num_jobs=1).problems == (), calls[number]
        resumed = prep(command, source, "--out", out, *flags)
        assert resumed.returncode == 3, (resumed.stderr, calls[number])
        assert hash_tree(out) == expected, calls[number]
        assert hash_tree(source) == untouched, calls[number]
        shutil.rmtree(out)


def test_a_mended_folder_is_taken_when_it_goes_on(prep: Prep, tree: Path, tmp_path: Path) -> None:
    """What failed in a run that was stopped is tried again."""
    out = tmp_path / "out"
    calls = calls_of(tmp_path / "log", ["adopt", tree, "--out", tmp_path / "other", "--quiet"])
    last = next(index for index, call in enumerate(calls) if call[-1] == str(tmp_path / "other/manifest.parquet"))
    assert run_until(tmp_path / "crash", ["adopt", tree, "--out", out, "--quiet"], last).returncode == -9
    write_frames(tree / "train" / "B" / "e", ["img_00003.jpg"])
    resumed = prep("adopt", tree, "--out", out, "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert prep("adopt", tree, "--out", tmp_path / "fresh", "--quiet").returncode == 0
    assert hash_tree(out) == hash_tree(tmp_path / "fresh")


@pytest.mark.parametrize("command", ["adopt", "pack"])
def test_a_signal_leaves_a_run_that_resumes(prep: Prep, tree: Path, tmp_path: Path, command: str) -> None:
    source, out = tree, tmp_path / "out"
    for number in range(40):
        write_frames(tree / "train" / "C" / f"more {number}", names_like("img_%05d.jpg", 40), seed=number)
    if command == "pack":
        source = tmp_path / "adopted"
        assert prep("adopt", tree, "--out", source, "--quiet").returncode == 3
    arguments = [str(PREP), command, str(source), "--out", str(out), "--quiet"]
    process = subprocess.Popen(arguments, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (out / ".work" / "journal.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "the same command resumes" in stderr
    assert not (out / "dataset.json").exists()
    assert prep(command, source, "--out", out, "--quiet").returncode == 3
    assert prep(command, source, "--out", tmp_path / "undisturbed", "--quiet").returncode == 3
    assert hash_tree(out) == hash_tree(tmp_path / "undisturbed")
