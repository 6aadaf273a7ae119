"""Clips straight from videos: those of a dataset extracted from them, counts that are remembered, and what is refused.

Arrays: clip_THWC uint8 RGB.
"""

import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clips import Clip, flip_bytes, packet_spans, truncate, write_clip
from conftest import Prep

from manifests.errors import DamagedError, UsageError
from manifests.records import Source
from manifests.sources import SourceList, read_sources
from prep import index_file
from prep.by_index import FrameIndex
from train import recipe_of_clips
from train.dataset import BadSample, ClipDataset, Sample
from train.recipe import TrainRecipe
from train.recipe_of_clips import Augment, Views
from train.sampler import Item
from train.videos import DECODERS, Videos, index_path, open_videos

MP4 = Clip(name="mp4", codec="libx264", options={"g": "12", "bf": "2"}, num_frames=30)
AVI = Clip(name="avi", codec="mpeg4", options={"bf": "2"}, num_frames=20)


@pytest.fixture
def made(tmp_path: Path) -> SourceList:
    """Two videos of each of two classes; those of b are AVI."""
    sources = []
    for label, (name, clip) in enumerate((("a", MP4), ("b", AVI))):
        (tmp_path / "videos" / name).mkdir(parents=True)
        for number in range(2):
            source = f"{name}/{number}.{clip.name}"
            write_clip(tmp_path / "videos" / source, clip)
            subsets = ("train",) if number else ("train", "val")
            sources.append(
                Source(
                    video_id=f"{name}/{number}",
                    source=source,
                    source_bytes=(tmp_path / "videos" / source).stat().st_size,
                    label=label,
                    class_name=name,
                    subsets=subsets,
                )
            )
    gone = Source(
        video_id="gone", source="gone.avi", source_bytes=None, label=0, class_name="a", subsets=("train",),
        status="failed", failure="missing",
    )  # fmt: skip
    return SourceList(dataset="folder", root=tmp_path / "videos", classes=("a", "b"), sources=(gone, *sources))


def opened(source_list: SourceList, *subsets: str, decoder: str = "pyav") -> Videos:
    path = source_list.root.parent / "sources.parquet"
    return open_videos(path, source_list, decoder, subsets or ("train",), num_threads=2, quiet=True)


# --- The clips ---


@pytest.fixture(scope="module")
def extracted(synthetic: Path, tmp_path_factory: pytest.TempPathFactory, prep: Prep) -> tuple[Path, Path]:
    """sources.parquet of the synthetic set, and the dataset of its frames in native size."""
    folder = tmp_path_factory.mktemp("extracted")
    sources, out = folder / "sources.parquet", folder / "dataset"
    for command in (
        ("scan", synthetic, "--dataset", "ucf101", "--out", sources, "--quiet"),
        ("extract", sources, "--out", out, "--quiet", "--set", "frames.short_side_px=0", "--set", "frames.quality=98"),
    ):
        done = prep(*command)
        assert done.returncode == 0, done.stderr
    return sources, out


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("training", [True, False])
def test_clips_are_those_of_the_extracted_dataset(extracted: tuple[Path, Path], decoder: str, training: bool) -> None:
    """The same frames, crops, flips, colours and labels are drawn; what is left is the loss of JPEG."""
    sources, out = extracted
    recipe = TrainRecipe(
        clip=recipe_of_clips.Clip(max_enlargement=1.0, sampler="slowfast", interval=2, target_fps=20.0),
        augment=Augment(brightness=0.2),
        views=Views(num_clips=2, crops="three"),
    )
    videos = open_videos(sources, read_sources(sources), decoder, ["train01"], num_threads=2, quiet=True)
    on_the_fly = ClipDataset(videos, "train01", recipe, training=training)
    stored = ClipDataset(out, "train01", recipe, training=training)
    assert len(on_the_fly) == len(stored) == 8
    assert on_the_fly.classes_sha256 == stored.classes_sha256
    assert on_the_fly.num_views == stored.num_views
    for index in range(len(stored)):
        assert on_the_fly.video_id(index) == stored.video_id(index)
        item = Item(index, 6, 64, 3, view=0 if training else index % stored.num_views)
        sample, expected = on_the_fly[item], stored[item]
        assert isinstance(sample, Sample), sample
        assert isinstance(expected, Sample)
        assert (sample.label, sample.index) == (expected.label, expected.index)
        assert psnr(sample.clip_THWC, expected.clip_THWC) > 33
        other = stored[item._replace(epoch=4, view=(item.view + 1) % stored.num_views)]
        assert isinstance(other, Sample)
        assert psnr(sample.clip_THWC, other.clip_THWC) < 30, "another draw would be noticed"


def psnr(one_THWC: np.ndarray, other_THWC: np.ndarray) -> float:
    error = ((one_THWC.astype(float) - other_THWC) ** 2).mean()
    return float(10 * np.log10(255**2 / error)) if error else np.inf


def test_what_is_decoded_forward_is_told(made: SourceList) -> None:
    videos = opened(made)
    dataset = ClipDataset(videos, "train", TrainRecipe(), training=True)
    assert [dataset.video_id(index) for index in range(len(dataset))] == ["a/0", "a/1", "b/0", "b/1"]
    assert [dataset.num_forward(np.array([index])) for index in range(4)] == [0, 0, 1, 1]
    assert dataset.num_forward(np.array([3, 0, 2, 3])) == 3
    assert dataset.is_on_the_fly
    assert videos.summary() == (
        "4 videos decoded on the fly by pyav, 2 of them from the beginning for every clip: no index access can be "
        "trusted there"
    )
    assert opened(made, decoder="opencv").is_forward.tolist() == [False, True, True, True, True]
    assert opened(made, decoder="auto").decoder == "pyav"


def test_a_pickled_copy_gives_the_same(made: SourceList) -> None:
    dataset = ClipDataset(opened(made), "train", TrainRecipe(), training=True)
    copy = pickle.loads(pickle.dumps(dataset))
    for index in range(4):
        item = Item(index, 4, 32, 0)
        np.testing.assert_array_equal(dataset[item].clip_THWC, copy[item].clip_THWC)


def test_other_videos_and_another_decoder_have_another_hash(made: SourceList) -> None:
    def sha256(videos: Videos, subset: str = "train") -> str:
        return ClipDataset(videos, subset, TrainRecipe(), training=True).content_sha256()

    known = sha256(opened(made))
    assert sha256(opened(made)) == known
    others = {sha256(opened(made, decoder="opencv")), sha256(opened(made, "val"), "val")}
    truncate(made.root / "a" / "1.mp4", 100)
    assert len({known, *others, sha256(opened(made))}) == 4


# --- Counts ---


def test_counts_are_remembered(made: SourceList, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = index_file.index_video
    monkeypatch.setattr(
        index_file, "index_video", lambda path, decoder: counted.append(path.name) or count(path, decoder)
    )
    first = opened(made, "val")
    assert sorted(counted) == ["0.avi", "0.mp4"]
    assert first.is_ok.tolist() == [False, True, False, True, False]
    second = opened(made)
    assert sorted(counted) == ["0.avi", "0.mp4", "1.avi", "1.mp4"]
    third = opened(made, "val", "train")
    assert len(counted) == 4
    for row in range(1, 5):
        index, again = second._index(row), third._index(row)
        assert index is not None
        assert again is not None
        for name, value in vars(index).items():
            np.testing.assert_array_equal(value, vars(again)[name], err_msg=name)

    stat = (made.root / "a" / "0.mp4").stat()
    os.utime(made.root / "a" / "0.mp4", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    opened(made)
    assert counted[4:] == ["0.mp4"]
    path = index_path(made.root.parent / "sources.parquet", "pyav")
    assert path == made.root.parent / "sources.pyav-index.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    opened(made)
    assert len(counted) == 9
    opened(made, decoder="opencv")
    assert len(counted) == 13, "another decoder counts for itself"
    monkeypatch.setattr("train.videos.require_decoder", lambda name: "another version")
    opened(made)
    assert len(counted) == 17


def test_counts_that_cannot_be_written(made: SourceList, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.videos.index_path", lambda path, decoder: Path("/proc/nowhere/index.parquet"))
    assert opened(made).num_frames.tolist() == [0, 30, 30, 20, 20]


def test_videos_that_cannot_be_used_are_left_out(made: SourceList) -> None:
    damaged = made.root / "b" / "0.avi"
    for start, num_bytes in packet_spans(damaged)[5:8]:
        flip_bytes(damaged, start, num_bytes)
    (made.root / "a" / "1.mp4").unlink()
    for _ in range(2):  # counted, and remembered
        videos = opened(made)
        assert videos.rows("train").tolist() == [1, 4]
        failed = videos.failed()
        assert failed["a/1"] == "unreadable: No such file or directory"
        assert failed["b/0"].startswith("decode: ")
        assert (
            "; 2 videos cannot be used: a/1 (unreadable: No such file or directory), b/0 (decode: " in videos.summary()
        )


def test_what_nobody_expected_costs_a_video(made: SourceList, monkeypatch: pytest.MonkeyPatch) -> None:
    count = index_file.index_video

    def fail(path: Path, decoder: str) -> FrameIndex:
        if path.name == "0.avi":
            raise ValueError("the moon is full")
        return count(path, decoder)

    monkeypatch.setattr(index_file, "index_video", fail)
    videos = opened(made)
    assert videos.failed() == {"b/0": "crashed: unexpected ValueError: the moon is full"}
    assert videos.rows("train").tolist() == [1, 2, 4]


# --- What goes wrong later ---


def test_a_video_that_changed_since(made: SourceList) -> None:
    dataset = ClipDataset(opened(made), "train", TrainRecipe(), training=True)
    path = made.root / "a" / "0.mp4"
    shutil.copy(made.root / "a" / "1.mp4", path)
    os.utime(path, ns=(0, 0))
    bad = dataset[Item(0, 4, 32, 0)]
    assert bad == BadSample(f"{path} changed since its frames were counted: run the same command again", 4)
    path.unlink()
    bad = dataset[Item(0, 4, 32, 0)]
    assert isinstance(bad, BadSample)
    assert bad.exit_code == DamagedError.exit_code
    assert bad.message.startswith(f"cannot read frames of video a/0 in {path}: ")
    assert isinstance(dataset[Item(1, 4, 32, 0)], Sample)


def test_windows_of_longer_videos_are_refused(made: SourceList) -> None:
    """Before anything is counted; where no wanted subset has one they do not matter."""
    window = replace(made.sources[1], video_id="a/0_0.5_1", source="a/0.mp4#t=0.5,1", subsets=("cut",))
    to_the_end = replace(window, video_id="a/1_0.5_end", source="a/1.mp4#t=0.5")
    with_windows = replace(made, sources=(*made.sources, window, to_the_end))
    path = made.root.parent / "sources.parquet"
    for subsets in (("cut",), ("val", "cut"), ("all",)):
        with pytest.raises(UsageError) as caught:
            opened(with_windows, *subsets)
        assert str(caught.value) == (
            f"{path} has 2 windows of longer videos, such as 'a/0.mp4#t=0.5,1': they are not decoded on the fly, "
            "prepare them with prep extract"
        )
    assert not index_path(path, "pyav").exists()
    assert opened(with_windows, "val").rows("val").tolist() == [1, 3]


def test_subsets_that_cannot_be_used(made: SourceList) -> None:
    with pytest.raises(UsageError, match="the source list has no subset 'test'; it has all, train, val"):
        opened(made, "test")
    videos = opened(made, "val")
    with pytest.raises(UsageError, match="no subset 'test'"):
        ClipDataset(videos, "test", TrainRecipe(), training=True)
    for source in made.sources[1:]:
        (made.root / source.source).write_bytes(b"")
    with pytest.raises(UsageError, match="has no ok video"):
        ClipDataset(opened(made), "train", TrainRecipe(), training=True)
