"""The main road through the real command: extract, again, with another number of workers, verify, read."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PREP, Prep
from trees import hash_tree

from manifests import open_dataset

STORES = ("arrow", "frames")


@pytest.mark.parametrize("store", STORES)
def test_bytes_do_not_depend_on_the_number_of_workers(prep: Prep, synthetic: Path, tmp_path: Path, store: str) -> None:
    trees = []
    for jobs in (1, 2, 3):
        out = tmp_path / f"jobs{jobs}"
        done = prep("extract", synthetic, "--dataset", "ucf101", "--out", out, "--store", store, "--jobs", jobs,
                    "--set", "store.videos_per_shard=3")  # fmt: skip
        assert done.returncode == 0, done.stderr
        trees.append(hash_tree(out))
    assert trees[0] == trees[1] == trees[2]
    assert not any(path.startswith(".work") for path in trees[0])


@pytest.mark.parametrize("store", STORES)
def test_a_second_run_does_nothing_and_says_so(prep: Prep, synthetic: Path, tmp_path: Path, store: str) -> None:
    command = ["extract", synthetic, "--out", tmp_path / "out", "--store", store]
    first = prep(*command)
    assert first.returncode == 0, first.stderr
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    second = prep(*command)
    assert second.returncode == 0, second.stderr
    assert "nothing to do" in second.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_both_stores_hold_the_same_frames(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    for store in STORES:
        assert prep("extract", synthetic, "--out", tmp_path / store, "--store", store, "--quiet").returncode == 0
    with open_dataset(tmp_path / "arrow") as shards, open_dataset(tmp_path / "frames") as folders:
        assert len(shards) == len(folders) == 16
        for row in shards.rows():
            num_frames = shards.num_frames[row]
            indices = [num_frames - 1, 0, num_frames // 2]
            assert shards.read_frames(row, indices) == folders.read_frames(row, indices)
        for column in ("video_id", "num_frames", "content_crc32", "num_bytes", "width", "fps"):
            assert shards.manifest.column(column) == folders.manifest.column(column)


def test_scan_then_extract_is_extract(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources.parquet"
    assert prep("scan", synthetic, "--dataset", "ucf101", "--out", sources).returncode == 0
    assert prep("extract", sources, "--out", tmp_path / "a", "--quiet").returncode == 0
    done = prep("extract", synthetic, "--dataset", "ucf101", "--out", tmp_path / "b", "--quiet")
    assert done.returncode == 0
    assert hash_tree(tmp_path / "a") == hash_tree(tmp_path / "b")


def test_labels_and_subsets_reach_the_dataset(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    done = prep("extract", synthetic, "--dataset", "ucf101", "--out", tmp_path / "out", "--quiet", "--json")
    assert json.loads(done.stdout)["counts"] == {"ok": 16, "failed": 0, "excluded": 0}
    listed = (synthetic / "trainlist01.txt").read_text().split()
    train = dict(zip(listed[::2], map(int, listed[1::2]), strict=True))
    test = set((synthetic / "testlist01.txt").read_text().split())
    with open_dataset(tmp_path / "out") as dataset:
        found_train = {dataset.video(row)["source"]: dataset.labels[row] + 1 for row in dataset.rows("train01")}
        found_test = {dataset.video(row)["source"] for row in dataset.rows("test01")}
        for row in dataset.rows():
            video = dataset.video(row)
            assert dataset.classes[video["label"]] == video["class_name"] == video["source"].split("/")[0]
    assert (found_train, found_test) == (train, test)


def test_sealed_files_tell_nothing_of_time_or_path(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    """Another folder, another moment, another order of arguments: the same bytes; and no path in them."""
    (tmp_path / "elsewhere").symlink_to(synthetic)
    assert prep("extract", synthetic, "--out", tmp_path / "a", "--quiet").returncode == 0
    done = prep("extract", "elsewhere", "--quiet", "--out", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert hash_tree(tmp_path / "a") == hash_tree(tmp_path / "b")
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            assert str(tmp_path).encode() not in path.read_bytes()


def test_two_workers_work_at_once(prep: Prep, tmp_path: Path) -> None:
    """Four videos on two workers: at some moment two frame spools grow, and never three."""
    videos = tmp_path / "videos"
    assert prep("synth", videos, "--classes", 2, "--videos-per-class", 2).returncode == 0
    for path in videos.rglob("*.txt"):
        path.unlink()
    # Longer videos, so that there is something to see: enlarged frames are slow to encode.
    command = [PREP, "extract", videos, "--out", tmp_path / "out", "--jobs", "2", "--quiet"]
    command += ["--set", "frames.enlarge=true", "--set", "frames.short_side_px=1080"]
    spool = tmp_path / "out" / ".work" / "spool"
    at_once = set()
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            names = os.listdir(spool) if spool.is_dir() else []
            done = {name.removesuffix(".table") for name in names if name.endswith(".table")}
            at_once.add(sum(name.endswith(".jpegs") and name.removesuffix(".jpegs") not in done for name in names))
            time.sleep(0.005)
    assert process.returncode == 0
    assert max(at_once) == 2


def test_verify_and_report_of_a_good_dataset(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert prep("extract", synthetic, "--dataset", "ucf101", "--out", out, "--quiet").returncode == 0
    deep = prep("verify", out, "--deep", "--json")
    found = json.loads(deep.stdout)
    assert deep.returncode == 0
    assert found["problems"] == []
    report = json.loads(prep("report", out, "--json").stdout)
    assert found["num_frames"] == report["description"]["num_frames"] > 16 * 20
    assert report["subsets"]["all"]["num_ok"] == 16
    assert "16 ok, 0 failed, 0 excluded" in prep("report", out).stdout
