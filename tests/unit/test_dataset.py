"""`open_dataset`: videos by row, subsets, labels. The frames are in tests/contract/test_stores.py."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from datasets_made import CLASSES, make_dataset, row_of, variety

import manifests
from manifests import open_dataset
from manifests.description import hash_file, read_description, write_description
from manifests.errors import DamagedError, UsageError
from manifests.manifest import read_parquet, write_parquet

VIDEOS = variety()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dataset") / "out"
    make_dataset(out, "arrow", VIDEOS, classes=CLASSES)
    return out


def test_the_public_names() -> None:
    assert manifests.__all__ == ["Dataset", "open_dataset"]


def test_every_source_is_a_row_in_source_order(folder: Path) -> None:
    with open_dataset(folder) as dataset:
        assert len(dataset) == len(VIDEOS)
        for row, video in enumerate(VIDEOS):
            found = dataset.video(row)
            assert found["video_id"] == video.source.video_id
            assert found["status"] == video.outcome.status
            assert found["failure"] == video.outcome.failure
            assert found["subsets"] == list(video.source.subsets)


def test_labels_and_counts_are_arrays(folder: Path) -> None:
    with open_dataset(folder) as dataset:
        assert dataset.labels.dtype == np.int32
        assert dataset.labels.tolist() == [video.source.label for video in VIDEOS]
        assert dataset.num_frames.dtype == np.int64
        assert dataset.num_frames.tolist() == [len(video.jpegs) for video in VIDEOS]
        assert dataset.classes == CLASSES


def test_a_subset_is_its_ok_videos(folder: Path) -> None:
    with open_dataset(folder) as dataset:
        for subset in ("train01", "test01", "test02"):
            expected = [
                row
                for row, video in enumerate(VIDEOS)
                if video.outcome.status == "ok" and subset in video.source.subsets
            ]
            assert dataset.rows(subset).tolist() == expected
        ok = [row for row, video in enumerate(VIDEOS) if video.outcome.status == "ok"]
        assert dataset.rows().tolist() == dataset.rows("all").tolist() == ok
        assert dataset.rows().dtype == np.int64
        assert dataset.rows("test02").tolist() == [row_of(VIDEOS, "Juggling/many")]


def test_an_unknown_subset(folder: Path) -> None:
    with open_dataset(folder) as dataset, pytest.raises(UsageError) as caught:
        dataset.rows("val")
    assert str(caught.value) == "the dataset has no subset 'val'; it has all, test01, test02, train01"


def test_a_subset_of_which_no_video_is_ok(tmp_path: Path) -> None:
    make_dataset(tmp_path / "out", "frames", [VIDEOS[0], VIDEOS[7]])
    with open_dataset(tmp_path / "out") as dataset:
        rows = dataset.rows("test01")
    assert (rows.tolist(), rows.dtype) == ([], np.int64)


def test_the_path_may_be_text_or_relative(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    for path in (str(folder), "out", Path("out")):
        with open_dataset(path) as dataset:
            assert dataset.read_frames(0, [0]) == [VIDEOS[0].jpegs[0]]


def test_rows_that_are_not_there(folder: Path) -> None:
    with open_dataset(folder) as dataset:
        for row in (-1, len(VIDEOS)):
            with pytest.raises(IndexError):
                dataset.video(row)


def test_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a prepared dataset"):
        open_dataset(tmp_path)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_a_manifest_that_is_missing_or_another(copy: Path, tmp_path: Path) -> None:
    path = copy / "manifest.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError) as caught:
        open_dataset(copy)
    assert str(caught.value) == (
        f"{path} is not the one that dataset.json tells of: its SHA-256 differs; "
        "restore it, or extract into a new --out"
    )
    make_dataset(tmp_path / "other", "arrow", VIDEOS[:3])
    shutil.copy(tmp_path / "other" / "manifest.parquet", path)  # whole, but of another dataset
    with pytest.raises(DamagedError, match="its SHA-256 differs; restore it, or extract into a new --out"):
        open_dataset(copy)
    path.unlink()
    with pytest.raises(DamagedError, match=r"^cannot read .*/manifest\.parquet: .*No such file"):
        open_dataset(copy)


def test_a_manifest_with_other_columns(copy: Path) -> None:
    path = copy / "manifest.parquet"
    write_parquet(path, read_parquet(path).drop_columns(["fps"]))
    description = read_description(copy)
    write_description(copy, type(description)(**{**vars(description), "manifest_sha256": hash_file(path)}))
    with pytest.raises(DamagedError, match=r"manifest\.parquet does not have the columns of a manifest$"):
        open_dataset(copy)


def test_a_manifest_that_is_no_table(copy: Path) -> None:
    path = copy / "manifest.parquet"
    path.write_bytes(b"PAR1")
    description = read_description(copy)
    write_description(copy, type(description)(**{**vars(description), "manifest_sha256": hash_file(path)}))
    with pytest.raises(DamagedError, match=r"^cannot read .*/manifest\.parquet: "):
        open_dataset(copy)


def test_nothing_is_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All comes from dataset.json, the manifest and the store."""

    def refuse(*_: object) -> None:
        raise AssertionError("a folder was listed")

    for module, name in ((os, "listdir"), (os, "scandir"), (Path, "iterdir"), (Path, "glob"), (Path, "rglob")):
        monkeypatch.setattr(module, name, refuse)
    with open_dataset(folder) as dataset:
        assert dataset.read_frames(0, [0]) == [VIDEOS[0].jpegs[0]]
