"""DALI's batches beside those of the normal loader: the same clips in the same order, and the same errors.

Arrays: clips_NTHWC uint8 RGB.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import paddle_import  # noqa: F401 - before anything that imports paddle
import pytest
import simplejpeg
from batches import load
from clips import Clip, numbered_frame, read_number, write_clip
from datasets_made import make_dataset, ok_video

from manifests.errors import DamagedError, UsageError
from manifests.records import Source
from manifests.sources import SourceList
from train import recipe_of_clips
from train.dali import DaliLoader, require_dali, run_pipeline
from train.dataset import ClipDataset
from train.loader import Batch
from train.recipe import TrainRecipe
from train.recipe_of_clips import Augment, Views
from train.sampler import Item, evaluation_batches, training_batches
from train.schedules import Shape
from train.videos import open_videos

WIDTH, HEIGHT = 160, 120
LENGTHS = (20, 3, 9, 14, 8)


@pytest.fixture
def _dali() -> None:
    pytest.importorskip("nvidia.dali", reason="nvidia-dali-cuda120 is not installed (extra dali)")


needs_dali = pytest.mark.usefixtures("_dali")


def picture(seed: int, number: int) -> np.ndarray:
    """Smooth colours that move, without mirror symmetry."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH] / 20
    shift = 10 * seed + number / 3
    waves = np.stack([np.sin(columns + shift), np.cos(rows - shift), np.sin(rows + columns + 2 * shift)], axis=2)
    return (127 + 100 * waves).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dali")
    videos = []
    for seed, length in enumerate(LENGTHS):
        jpegs = [simplejpeg.encode_jpeg(picture(seed, number), 95) for number in range(length)]
        videos.append(ok_video(f"{seed}", jpegs, label=seed % 2, class_name="ab"[seed % 2], width=WIDTH, height=HEIGHT))
    make_dataset(folder / "out", "arrow", videos, classes=("a", "b"))
    return folder / "out"


def opened(folder: Path, *, training: bool = True, **sections: object) -> ClipDataset:
    return ClipDataset(folder, "all", replace(TrainRecipe(), **sections), training=training)


def assert_same(batches: Sequence[Batch], expected: Sequence[Batch], at_least_db: float) -> None:
    assert len(batches) == len(expected)
    for batch, other in zip(batches, expected, strict=True):
        assert batch.labels_N.tolist() == other.labels_N.tolist()
        assert batch.indices_N.tolist() == other.indices_N.tolist()
        clips, others = batch.clips_NTHWC.numpy(), other.clips_NTHWC.numpy()
        assert (clips.shape, clips.dtype) == (others.shape, np.uint8)
        for clip_THWC, other_THWC in zip(clips, others, strict=True):
            error = ((clip_THWC.astype(float) - other_THWC) ** 2).mean()
            assert 10 * np.log10(255**2 / max(error, 1e-9)) > at_least_db


@needs_dali
@pytest.mark.parametrize(("crop_px", "at_least_db"), [(112, 45), (40, 33)], ids=["enlarged", "shrunk"])
@pytest.mark.parametrize("crop", ["multi_scale", "random_resized", "jitter", "centre"])
def test_training_clips(folder: Path, crop: str, crop_px: int, at_least_db: float) -> None:
    clip = recipe_of_clips.Clip(crop=crop, crop_px=crop_px, flip_classes="a=b", jitter_min_px=112, jitter_max_px=150)
    dataset = opened(folder, clip=clip)
    batches = [
        batch
        for epoch in range(4)
        for batch in training_batches(5, batch_size=2, shapes=[Shape(1, 4, crop_px)], seed=1, epoch=epoch)
    ]
    expected = list(load(dataset, batches, num_workers=0, timeout_s=60))
    mirrored = {
        label != index % 2 for batch in expected for label, index in zip(batch.labels_N, batch.indices_N, strict=True)
    }
    assert mirrored == {True, False}
    assert_same(list(DaliLoader(num_workers=2).batches(dataset, batches)), expected, at_least_db)
    # Another draw, or a mirrored clip, would be noticed.
    others = [[item._replace(epoch=item.epoch + 1) for item in batch] for batch in batches]
    with pytest.raises(AssertionError):
        assert_same(list(load(dataset, others, num_workers=0, timeout_s=60)), expected, at_least_db)


@needs_dali
def test_every_view_of_an_evaluation(folder: Path) -> None:
    """The last batch is short."""
    dataset = opened(folder, training=False, views=Views(num_clips=2, crops="ten"))
    batches = list(evaluation_batches(5, batch_size=8, num_frames=3, crop_px=105, num_views=20))
    expected = list(load(dataset, batches, num_workers=0, timeout_s=60))
    assert len(expected[-1].labels_N) == 4
    assert_same(list(DaliLoader(num_workers=1).batches(dataset, batches)), expected, 45)


@needs_dali
def test_clips_may_change_their_shape_and_begin_anywhere(folder: Path) -> None:
    dataset = opened(folder)
    batches = [
        [Item(index, num_frames, crop_px, 0) for index in (4, 0)] for num_frames, crop_px in ((2, 112), (8, 224))
    ]
    batches += [[Item(1, 5, 120, 3)], [Item(2, 1, 120, 3)]]
    expected = list(load(dataset, batches, num_workers=0, timeout_s=60))
    assert_same(list(DaliLoader(num_workers=1).batches(dataset, batches)), expected, 45)
    assert_same(list(DaliLoader(num_workers=1).batches(dataset, batches[2:])), expected[2:], 45)
    assert list(DaliLoader(num_workers=1).batches(dataset, [])) == []


def frame_at(folder: Path, video: int, frame: int) -> tuple[Path, int]:
    dataset = opened(folder)._dataset
    (jpeg,) = dataset.read_frames(video, [frame])
    path = folder / dataset.video(video)["location"]
    return path, path.read_bytes().index(jpeg)


@needs_dali
@pytest.mark.parametrize(
    ("offset", "what"),
    [(0, "is no valid JPEG"), (159, "is no valid JPEG")],
    ids=["the header", "the tables"],
)
def test_a_damaged_frame_ends_it_where_it_is(folder: Path, tmp_path: Path, offset: int, what: str) -> None:
    """With the words of the normal loader; the batches before it come."""
    (tmp_path / "out").symlink_to(folder)
    copy = copied(folder, tmp_path / "copy")
    path, start = frame_at(copy, 2, 4)
    data = bytearray(path.read_bytes())
    data[start + offset : start + offset + 40] = bytes(40)
    path.write_bytes(data)
    dataset = opened(copy, training=False)
    batches = [[Item(index, 1, 105, 0)] for index in (0, 1, 3, 2, 4)]
    with pytest.raises(DamagedError) as expected:
        list(load(dataset, batches, num_workers=0, timeout_s=60))
    loading = DaliLoader(num_workers=1).batches(dataset, batches)
    assert [next(loading).indices_N.tolist() for _ in range(3)] == [[0], [1], [3]]
    with pytest.raises(DamagedError, match=what) as caught:
        next(loading)
    assert str(caught.value) == str(expected.value)
    assert str(caught.value).startswith("frame 4 of video 2 in shards/shard-00000.arrow row 2 ")


def copied(folder: Path, target: Path) -> Path:
    for path in folder.rglob("*"):
        if path.is_file():
            (target / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(folder)).write_bytes(path.read_bytes())
    return target


# --- Videos ---


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> SourceList:
    root = tmp_path_factory.mktemp("webm")
    clip = Clip(name="vp9", codec="libvpx-vp9", options={"g": "12", "cpu-used": "8"}, width=160, height=120)
    sources = []
    for number in range(2):
        path = write_clip(root / f"{number}.webm", clip, (numbered_frame(n, 160, 120) for n in range(number, 40)))
        sources.append(
            Source(video_id=str(number), source=path.name, source_bytes=path.stat().st_size, label=0, class_name="a")
        )
    return SourceList(dataset="folder", root=root, classes=("a",), sources=tuple(sources))


def on_the_fly(videos: SourceList, decoder: str, recipe: TrainRecipe, *, training: bool) -> ClipDataset:
    opened = open_videos(videos.root / "sources.parquet", videos, decoder, ["all"], num_threads=1, quiet=True)
    return ClipDataset(opened, "all", recipe, training=training)


@needs_dali
def test_frames_of_videos(videos: SourceList) -> None:
    """On a CPU, where DALI decodes VP9 (and no codec of the usual datasets)."""
    dataset = on_the_fly(videos, "pyav", TrainRecipe(), training=True)
    batches = [[Item(index, 6, 105, epoch) for index in (1, 0)] for epoch in range(3)]
    expected = list(load(dataset, batches, num_workers=0, timeout_s=60))
    assert_same(list(run_pipeline(dataset, batches, num_threads=1, device_id=None)), expected, 33)
    whole = replace(TrainRecipe(), clip=recipe_of_clips.Clip(crop="centre", flips=False))
    dataset = on_the_fly(videos, "pyav", whole, training=False)
    (batch,) = run_pipeline(dataset, [[Item(0, 8, 105, 0)]], num_threads=1, device_id=None)
    cells_HWC = np.zeros((8, 120, 160, 3), np.uint8)
    cells_HWC[:, 7:112, 27:132] = batch.clips_NTHWC.numpy()[0]
    cells_HWC[:, :, :27], cells_HWC[:, :, 132:] = cells_HWC[:, :, 27:28], cells_HWC[:, :, 131:132]
    cells_HWC[:, :7], cells_HWC[:, 112:] = cells_HWC[:, 7:8], cells_HWC[:, 111:112]
    assert [read_number(frame_HWC) for frame_HWC in cells_HWC] == [2, 7, 12, 17, 22, 27, 32, 37]


@needs_dali
def test_videos_need_a_gpu(videos: SourceList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = TrainRecipe()
    with pytest.raises(UsageError, match="decodes videos on a GPU only"):
        require_dali(on_the_fly(videos, "pyav", recipe, training=True))
    monkeypatch.setattr("train.dali.gpu", lambda: 0)
    require_dali(on_the_fly(videos, "pyav", recipe, training=True))
    with pytest.raises(UsageError, match="cannot be trusted for 2 videos of subset 'all'"):
        require_dali(on_the_fly(videos, "opencv", recipe, training=True))
    turned = Clip(name="turned", codec="libx264", turn_deg=90, width=160, height=120)
    write_clip(tmp_path / "0.mp4", turned)
    source = replace(videos.sources[0], source="0.mp4")
    with pytest.raises(UsageError, match="for 0 videos of subset 'all', and does not turn them, which 1 need"):
        require_dali(on_the_fly(replace(videos, root=tmp_path, sources=(source,)), "pyav", recipe, training=True))


# --- What it cannot do ---


@needs_dali
def test_changes_of_colour_are_refused(folder: Path) -> None:
    augment = Augment(rand_operations=1)
    with pytest.raises(UsageError, match=r"--loader dali knows no augment\.\*"):
        require_dali(opened(folder, augment=augment))
    require_dali(opened(folder, augment=augment, training=False))
    require_dali(opened(folder))


def test_where_it_is_not_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)
    with pytest.raises(UsageError, match=r"pip install 'decode-once\[dali\]', or use --loader paddle"):
        require_dali(opened(folder))
