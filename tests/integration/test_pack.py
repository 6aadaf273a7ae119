"""`prep pack`: frames as they are into Arrow shards, through the real command."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Prep
from datasets_made import CLASSES, make_dataset, variety
from frame_trees import names_like, write_frames
from trees import hash_tree

from manifests import open_dataset
from manifests.description import read_description
from manifests.manifest import FRAMES_FILE, read_parquet
from manifests.sources import SourceList
from manifests.stores import STORES
from prep.run_folder import RunFolder, Update, note
from prep.verify import verify

VIDEOS = variety()
PLACEMENT = ["location", "row", "offsets_at", "data_at"]


@pytest.fixture(params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_dataset(tmp_path / "in", request.param, VIDEOS, classes=CLASSES)
    return tmp_path / "in"


def packed(prep: Prep, folder: Path, out: Path, *flags: object) -> dict[str, Any]:
    done = prep("pack", folder, "--out", out, "--json", "--quiet", *flags)
    assert (done.returncode, done.stderr) == (3, ""), done.stderr
    assert verify(out, deep=True, num_jobs=1).problems == ()
    table: dict[str, Any] = json.loads(done.stdout)
    return table


def refusal(prep: Prep, *arguments: object, code: int = 2) -> str:
    done = prep("pack", *arguments, "--quiet")
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_whole(prep: Prep, folder: Path, tmp_path: Path) -> None:
    """Every row, every frame, every time, and the bytes that an extraction into shards gives."""
    packed(prep, folder, tmp_path / "out")
    with open_dataset(folder) as before, open_dataset(tmp_path / "out") as after:
        assert after.manifest.drop_columns(PLACEMENT).equals(before.manifest.drop_columns(PLACEMENT))
        for row in after.rows():
            indices = range(int(after.num_frames[row]))
            assert after.read_frames(int(row), indices) == before.read_frames(int(row), indices)
        description = after.description
        assert description.recipe == {
            **before.description.recipe,
            "store": {"format": "arrow", "videos_per_shard": 3},
        }
        assert description.libraries == before.description.libraries
        assert (description.classes, description.dataset) == (before.classes, before.description.dataset)
    frames = [read_parquet(out / FRAMES_FILE) for out in (folder, tmp_path / "out")]
    assert frames[0].equals(frames[1])
    make_dataset(tmp_path / "extracted", "arrow", VIDEOS, classes=CLASSES)
    assert hash_tree(tmp_path / "out") == hash_tree(tmp_path / "extracted")


def test_a_subset(prep: Prep, folder: Path, tmp_path: Path) -> None:
    packed(prep, folder, tmp_path / "out", "--subset", "train01")
    chosen = [row for row, video in enumerate(VIDEOS) if "train01" in video.source.subsets]
    with open_dataset(folder) as before, open_dataset(tmp_path / "out") as after:
        expected = before.manifest.take(chosen).drop_columns(PLACEMENT)
        assert after.manifest.drop_columns(PLACEMENT).equals(expected)
        assert len(after.rows()) < len(after) == len(chosen)
        for row, old in enumerate(chosen):
            indices = range(int(after.num_frames[row]))
            assert not indices or after.read_frames(row, indices) == before.read_frames(old, indices)
    assert read_description(tmp_path / "out").subsets == {"all": 5, "test02": 1, "train01": 5}


def test_again(prep: Prep, folder: Path, tmp_path: Path) -> None:
    packed(prep, folder, tmp_path / "out", "--subset", "train01")
    before = hash_tree(tmp_path / "out")
    done = prep("pack", folder, "--out", tmp_path / "out", "--subset", "train01", "--quiet")
    assert (done.returncode, "nothing to do" in done.stdout) == (3, True)
    assert "holds another dataset than" in refusal(prep, folder, "--out", tmp_path / "out")
    assert hash_tree(tmp_path / "out") == before


def test_an_update_that_was_begun_is_left_alone(prep: Prep, tmp_path: Path) -> None:
    make_dataset(tmp_path / "in", "frames", VIDEOS, classes=CLASSES)
    packed(prep, tmp_path / "in", tmp_path / "out")
    run = RunFolder(tmp_path / "out")
    run.make()
    sources = SourceList(
        dataset="ucf101", root=tmp_path, classes=CLASSES, sources=tuple(video.source for video in VIDEOS)
    )
    note(run, {}, None, sources, Update("--retry failed", read_description(tmp_path / "out").manifest_sha256))
    done = prep("pack", tmp_path / "in", "--out", tmp_path / "out", "--quiet")
    assert (done.returncode, "--retry failed was begun here and not finished" in done.stdout) == (3, True)
    assert run.settings.exists()


def test_refusals(prep: Prep, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "of something").touch()
    assert "has no subset 'train9'" in refusal(prep, folder, "--out", tmp_path / "out", "--subset", "train9")
    assert "holds something else" in refusal(prep, folder, "--out", tmp_path / "full")
    assert "is not a prepared dataset" in refusal(prep, tmp_path / "none", "--out", tmp_path / "out")
    before = hash_tree(folder)
    for out in (folder, folder / "out", folder / "frames" / "out"):
        assert "where the frames are: choose a folder beside it" in refusal(prep, folder, "--out", out)
    assert hash_tree(folder) == before
    assert not (tmp_path / "out").exists()


def test_a_damaged_frame_is_never_copied(prep: Prep, folder: Path, tmp_path: Path) -> None:
    with open_dataset(folder) as dataset:
        row = int(dataset.rows()[1])
        video = dataset.video(row)
    if video["row"] < 0:
        path, position = folder / video["location"] / "img_00002.jpg", 300
    else:
        path, position = folder / video["location"], video["data_at"][0] + video["num_bytes"] // 2
    whole = path.read_bytes()
    path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
    said = refusal(prep, folder, "--out", tmp_path / "out", code=4)
    assert "have changed: the CRC-32 differs" in said
    assert video["video_id"] in said
    assert not (tmp_path / "out" / "dataset.json").exists()
    path.write_bytes(whole)
    packed(prep, folder, tmp_path / "out")  # the same command goes on
    shutil.rmtree(tmp_path / "out")
    path.unlink()
    assert "cannot read frames of video" in refusal(prep, folder, "--out", tmp_path / "out", code=4)


def test_another_dataset_in_the_middle(prep: Prep, tmp_path: Path) -> None:
    """What was begun with one dataset is not finished with another."""
    make_dataset(tmp_path / "in", "frames", VIDEOS, classes=CLASSES)
    make_dataset(tmp_path / "other", "frames", VIDEOS[:8], classes=CLASSES)
    (tmp_path / "in" / "frames" / "deep" / "er" / "and deeper" / "img_00001.jpg").unlink()
    refusal(prep, tmp_path / "in", "--out", tmp_path / "out", code=4)
    assert "SHA-256 of the packed manifest" in refusal(prep, tmp_path / "other", "--out", tmp_path / "out")


def test_what_was_adopted(prep: Prep, tmp_path: Path) -> None:
    """The frames of other tools end up in shards as they are."""
    written = {}
    for number, name in enumerate(("train/Run/a", "train/Walk/b", "val/Run/c")):
        written[name] = write_frames(
            tmp_path / "tree" / name, names_like("image_%05d.jpg", 2 + number, number % 2), number
        )
    assert prep("adopt", tmp_path / "tree", "--out", tmp_path / "adopted", "--quiet").returncode == 0
    for subset in ("all", "train"):
        out = tmp_path / subset
        done = prep("pack", tmp_path / "adopted", "--out", out, "--subset", subset, "--quiet")
        assert done.returncode == 0, done.stderr
        assert verify(out, deep=True, num_jobs=1).problems == ()
        with open_dataset(out) as dataset:
            assert dataset.description.recipe["store"]["format"] == "arrow"
            assert dataset.classes == ("Run", "Walk")
            ids = dataset.columns(["video_id"]).column("video_id").to_pylist()
            assert ids == [name for name in written if subset == "all" or name.startswith("train/")]
            for row, name in enumerate(ids):
                assert dataset.read_frames(row, range(int(dataset.num_frames[row]))) == written[name]
