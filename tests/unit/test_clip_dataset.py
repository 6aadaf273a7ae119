"""Clips of a prepared dataset: the right frames, the same ones every time, and values instead of exceptions.

Arrays: clip_THWC, frame_HWC uint8 RGB.
"""

import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from clips import flip_bytes, numbered_frame, read_number, truncate
from datasets_made import Video, make_dataset, ok_video, other_video

from manifests import open_dataset
from manifests.errors import DamagedError, UsageError
from train.clips import SAMPLERS, random_segments, segment_centres, training_clip, view_clips
from train.dataset import BadSample, ClipDataset, Sample
from train.recipe import Run, TrainRecipe
from train.recipe_of_clips import Augment, Clip, Views
from train.sampler import Item
from train.transforms.crops import CROPS, VIEW_CROPS, Box, Plan, view_plans
from train.transforms.decode import Pixels, render

STORES = ("arrow", "frames")
WIDTH, HEIGHT = 64, 48
CLASSES = ("a", "b")
NUM_FRAMES = {"a/long": 40, "a/short": 3, "b/single": 1, "b/other": 17}


def jpegs(first: int, num_frames: int, width: int = WIDTH, height: int = HEIGHT) -> tuple[bytes, ...]:
    """Pictures that carry the numbers first, first + 1, ..."""
    frames = (numbered_frame(number, width, height) for number in range(first, first + num_frames))
    return tuple(simplejpeg.encode_jpeg(frame_HWC, colorspace="RGB") for frame_HWC in frames)


def videos() -> list[Video]:
    size = {"width": WIDTH, "height": HEIGHT}
    made: list[Video] = []
    for number, (video_id, num_frames) in enumerate(NUM_FRAMES.items()):
        class_name = video_id[0]
        label = {"label": CLASSES.index(class_name), "class_name": class_name}
        made.append(ok_video(video_id, jpegs(100 * number, num_frames), **label, subsets=("train",), **size))
    failed = other_video("b/bad", "failed", "decode", label=1, class_name="b", subsets=("train", "val"))
    # In the middle, so that positions in the subset and rows of the manifest differ.
    return [*made[:1], failed, *made[1:], ok_video("stray", jpegs(900, 4), subsets=("loose",), **size)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One dataset for each store; not to be written to."""
    folder = tmp_path_factory.mktemp("clips")
    for store in STORES:
        make_dataset(folder / store, store, videos(), classes=CLASSES)
    return {store: folder / store for store in STORES}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def damaged(folders: dict[str, Path], store: str, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    shutil.copytree(folders[store], tmp_path / "out")
    return tmp_path / "out"


def opened(folder: Path, *, training: bool = True, seed: int = 5, flips: bool = True) -> ClipDataset:
    recipe = TrainRecipe(run=Run(seed=seed), clip=Clip(flips=flips))
    return ClipDataset(folder, "train", recipe, training=training)


def read(dataset: ClipDataset, index: int, *, epoch: int = 0, num_frames: int = 8, crop_px: int = 40) -> Sample:
    sample = dataset[Item(index, num_frames, crop_px, epoch)]
    assert isinstance(sample, Sample), sample
    return sample


def read_bad(dataset: ClipDataset, index: int, num_frames: int = 8) -> BadSample:
    sample = dataset[Item(index, num_frames, 40, 0)]
    assert isinstance(sample, BadSample)
    return sample


def number_of(frame_HWC: np.ndarray) -> int:
    """Of a whole picture, or of one that the centre crop has cut: 42 of 48 rows and of 64 columns."""
    if frame_HWC.shape[:2] == (HEIGHT, WIDTH):
        return read_number(frame_HWC)
    whole_HWC = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    whole_HWC[3:45, 11:53] = frame_HWC
    # What was cut off is the outer part of the outer cells: their inner edge stands for them.
    whole_HWC[:3], whole_HWC[45:] = whole_HWC[3], whole_HWC[44]
    whole_HWC[:, :11], whole_HWC[:, 53:] = whole_HWC[:, 11:12], whole_HWC[:, 52:53]
    return read_number(whole_HWC)


# --- Which frames ---


@pytest.mark.parametrize("num_frames", [1, 3, 8])
def test_an_evaluation_clip_has_the_middle_frames(folders: dict[str, Path], store: str, num_frames: int) -> None:
    dataset = opened(folders[store], training=False)
    assert len(dataset) == len(NUM_FRAMES)
    for index, (video_id, length) in enumerate(NUM_FRAMES.items()):
        sample = read(dataset, index, num_frames=num_frames, crop_px=42)
        assert dataset.video_id(index) == video_id
        assert (sample.index, sample.label) == (index, CLASSES.index(video_id[0]))
        assert (sample.clip_THWC.shape, sample.clip_THWC.dtype) == ((num_frames, 42, 42, 3), np.uint8)
        expected = [100 * index + int(frame) for frame in segment_centres(length, num_frames)]
        assert [number_of(frame_HWC) for frame_HWC in sample.clip_THWC] == expected


def test_an_evaluation_clip_is_the_middle_of_each_frame(folders: dict[str, Path], store: str) -> None:
    clip_THWC = read(opened(folders[store], training=False), 0, num_frames=2, crop_px=42).clip_THWC
    for frame_HWC, index in zip(clip_THWC, (10, 30), strict=True):
        np.testing.assert_array_equal(frame_HWC, simplejpeg.decode_jpeg(jpegs(0, 40)[index])[3:45, 11:53])


def test_a_training_clip_has_one_frame_of_each_segment(
    folders: dict[str, Path], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the crop as large as the frame, the numbers can be read."""
    monkeypatch.setattr("train.dataset.multi_scale_box", lambda width, height, rng: Box(0, 0, width, height))
    dataset = opened(folders[store], flips=False)
    met = set()
    for epoch in range(30):
        numbers = [read_number(frame_HWC) for frame_HWC in read(dataset, 0, epoch=epoch, crop_px=64).clip_THWC]
        assert [number // 5 for number in numbers] == list(range(8))
        rng = np.random.default_rng([5, epoch, 1 + 0])
        assert numbers == random_segments(40, 8, rng).tolist()
        met.update(numbers)
    assert len(met) > 35
    # Each video has chance of its own.
    others = [read_number(frame_HWC) for frame_HWC in read(dataset, 3, epoch=2, crop_px=64).clip_THWC]
    assert others == [300 + int(frame) for frame in random_segments(17, 8, np.random.default_rng([5, 2, 1 + 3]))]
    short = [read_number(frame_HWC) for frame_HWC in read(dataset, 1, crop_px=64).clip_THWC]
    assert short == [100 + int(frame) for frame in segment_centres(3, 8)]


def test_half_of_the_training_clips_are_flipped(folders: dict[str, Path], store: str) -> None:
    """The flip is drawn last, so without flips the rest of a sample stays the same."""
    flipping, still = opened(folders[store]), opened(folders[store], flips=False)
    mirrored = 0
    for epoch in range(60):
        clip_THWC = read(flipping, 0, epoch=epoch).clip_THWC
        still_THWC = read(still, 0, epoch=epoch).clip_THWC
        if not np.array_equal(clip_THWC, still_THWC):
            np.testing.assert_array_equal(clip_THWC, still_THWC[:, :, ::-1])
            mirrored += 1
    assert 15 < mirrored < 45  # four standard deviations


# --- What the recipe chooses ---


def chosen(folder: Path, *, training: bool = True, subset: str = "train", **sections: Any) -> ClipDataset:
    return ClipDataset(folder, subset, TrainRecipe(run=Run(seed=5), **sections), training=training)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_each_clip_sampler_picks_its_frames(folders: dict[str, Path], sampler: str) -> None:
    clip = Clip(sampler=sampler, interval=4, flips=False, crop="centre")
    num_clips = 1 if sampler == "uniform" else 3  # which has one
    dataset = chosen(folders["arrow"], clip=clip, training=False, views=Views(num_clips=num_clips))
    drawing = chosen(folders["arrow"], clip=clip)
    for index, length in ((0, 40), (1, 3), (3, 17)):
        expected_KT = view_clips(sampler, length, 8, num_clips, span=4.0)
        for number, indices_T in enumerate(expected_KT):
            sample = dataset[Item(index, 8, 42, 0, number)]
            assert isinstance(sample, Sample), sample
            assert [number_of(frame_HWC) for frame_HWC in sample.clip_THWC] == (100 * index + indices_T).tolist()
        drawn_T = training_clip(sampler, length, 8, np.random.default_rng([5, 2, 1 + index]), span=4.0)
        sample = read(drawing, index, epoch=2, crop_px=42)
        assert [number_of(frame_HWC) for frame_HWC in sample.clip_THWC] == (100 * index + drawn_T).tolist()


def test_a_slowfast_clip_spans_as_much_time_in_every_video(tmp_path: Path) -> None:
    """At 25 frames/s, a clip of 8 * 4 frames of 30 a second spans 26.7."""
    size = {"width": WIDTH, "height": HEIGHT, "subsets": ("train",), "label": 0, "class_name": "a"}
    made = [ok_video("a/x", jpegs(0, 60), **size), ok_video("a/y", jpegs(0, 60), duration_s=None, **size)]
    make_dataset(tmp_path / "set", "arrow", made, classes=CLASSES)
    clip = Clip(sampler="slowfast", interval=4, target_fps=30.0)
    dataset = chosen(tmp_path / "set", training=False, clip=clip)
    for index, span in ((0, 4 * 25 / 30), (1, 4.0)):  # without times it counts frames
        numbers = [number_of(frame_HWC) for frame_HWC in read(dataset, index, crop_px=42).clip_THWC]
        assert numbers == view_clips("slowfast", 60, 8, 1, span=span)[0].tolist()


@pytest.mark.parametrize("crops", VIEW_CROPS)
def test_views_go_through_the_crops_of_each_clip(folders: dict[str, Path], crops: str) -> None:
    views, clip = Views(num_clips=2, crops=crops), Clip(max_enlargement=1.0)
    dataset = chosen(folders["arrow"], training=False, views=views, clip=clip)
    plans = view_plans(WIDTH, HEIGHT, crops, 32)
    assert dataset.num_views == 2 * len(plans)
    for view in range(dataset.num_views):
        sample = dataset[Item(0, 4, 32, 0, view)]
        assert isinstance(sample, Sample)
        indices = view_clips("segments", 40, 4, 2)[view // len(plans)].tolist()
        stored = jpegs(0, 40)
        (expected_THWC,) = render([stored[i] for i in sorted(indices)], [plans[view % len(plans)]])
        np.testing.assert_array_equal(sample.clip_THWC, expected_THWC)


def test_each_crop_is_its_own_and_stays_the_same_for_a_sample(folders: dict[str, Path]) -> None:
    clips = set()
    for crop in CROPS:
        for _ in range(2):
            dataset = chosen(folders["arrow"], clip=Clip(crop=crop, crop_px=32, flips=False))
            clips.add(read(dataset, 0, epoch=1, crop_px=32).clip_THWC.tobytes())
    assert len(clips) == len(CROPS)


def test_a_smaller_crop_jitters_as_far_and_farther(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest short side shrinks with the crop of the item, the largest stays."""
    ranges = []

    def jitter(width: int, height: int, crop_px: int, short_side: tuple[float, float], rng: object) -> Box:
        ranges.append((crop_px, short_side))
        return Box(0, 0, width, height)

    monkeypatch.setattr("train.dataset.jitter_box", jitter)
    dataset = chosen(folders["arrow"], clip=Clip(crop="jitter"))
    for crop_px in (224, 112, 158):
        read(dataset, 0, crop_px=crop_px)
    assert ranges == [(224, (256, 320)), (112, (128, 320)), (158, (181, 320))]


@pytest.mark.parametrize("sampler", ["strided", "slowfast"])
def test_a_clip_of_fewer_frames_may_span_as_much_time(folders: dict[str, Path], sampler: str) -> None:
    """Its interval is drawn from the recipe's to as many times that as it has fewer frames, both included; a clip of
    all frames draws nothing, and nor does an evaluation."""
    clip = Clip(num_frames=8, sampler=sampler, interval=2)

    def intervals(num_frames: int, **settings: Any) -> set[int]:
        dataset = chosen(folders["arrow"], clip=clip, **settings)
        found = [dataset.frames_of(Item(0, num_frames, 32, epoch))[1] for epoch in range(80)]
        return {numbers[1] - numbers[0] for numbers in found}

    wide = intervals(3)
    assert wide == ({2, 3, 4} if sampler == "strided" else wide)
    assert max(wide) <= 2 * (8 // 3) * 3 / 2 + 1
    if sampler == "slowfast":  # spread over interval * 3 frames, the last included
        assert {2, 3, 5} <= wide <= {2, 3, 4, 5, 6}
    assert len(intervals(8)) == 1 if sampler == "strided" else intervals(8) <= {2, 3}
    assert len(intervals(3, training=False)) == 1


def test_a_mirror_exchanges_the_classes_that_are_named(folders: dict[str, Path]) -> None:
    plain, paired = (chosen(folders["arrow"], clip=Clip(flip_classes=flip_classes)) for flip_classes in ("", "a = b"))
    still = chosen(folders["arrow"], clip=Clip(flips=False))
    swapped = 0
    for epoch in range(30):
        before, after, unflipped = (read(dataset, 0, epoch=epoch) for dataset in (plain, paired, still))
        np.testing.assert_array_equal(before.clip_THWC, after.clip_THWC)
        is_mirrored = not np.array_equal(after.clip_THWC, unflipped.clip_THWC)
        assert (before.label, after.label, unflipped.label) == (0, int(is_mirrored), 0)
        swapped += is_mirrored
    assert 0 < swapped < 30
    assert read(chosen(folders["arrow"], clip=Clip(flip_classes="a=b"), training=False), 0).label == 0
    with pytest.raises(UsageError) as caught:
        chosen(folders["arrow"], clip=Clip(flip_classes="a=c"))
    assert str(caught.value) == "clip.flip_classes names 'c', which is no class of the dataset"


def test_augmentation_is_drawn_last_and_by_seed_epoch_and_index(folders: dict[str, Path]) -> None:
    """What it changes are pixels: undone, the rest of the sample is the same."""
    augment = Augment(brightness=0.5, contrast=0.4, saturation=0.4, hue=0.1, rand_operations=2)
    plain, changed, again = (
        chosen(folders[store], **sections)
        for store, sections in (("arrow", {}), ("arrow", {"augment": augment}), ("frames", {"augment": augment}))
    )
    asked = [(index, epoch) for index in (0, 3) for epoch in range(6)]
    assert clips_of(changed, asked) == clips_of(again, asked)
    assert all(clip != clips_of(plain, asked)[key] for key, clip in clips_of(changed, asked).items())
    untouched = chosen(folders["arrow"], augment=augment, training=False)
    assert clips_of(untouched, asked) == clips_of(chosen(folders["arrow"], training=False), asked)
    none = chosen(folders["arrow"], augment=Augment(rand_operations=0))
    assert clips_of(none, asked) == clips_of(plain, asked)


def test_a_small_crop_is_decoded_small(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    scales = []

    def spy(jpegs: list[bytes], plans: list[Plan], scale: int) -> list[Pixels]:
        scales.append(scale)
        return render(jpegs, plans, scale)

    monkeypatch.setattr("train.dataset.render", spy)
    plain = chosen(folders["arrow"], training=False, clip=Clip(max_enlargement=1.0))
    wide = chosen(folders["arrow"], training=False)
    for dataset, crop_px in ((plain, 42), (plain, 21), (plain, 24), (wide, 24), (wide, 29)):
        read(dataset, 0, crop_px=crop_px)
    assert scales == [1, 2, 1, 2, 1]  # the crop has 42 px


# --- The same sample every time ---


@pytest.mark.parametrize("training", [True, False])
def test_both_stores_give_the_same(folders: dict[str, Path], training: bool) -> None:
    arrow, frames = (opened(folders[store], training=training) for store in STORES)
    assert arrow.classes == frames.classes == CLASSES
    assert arrow.classes_sha256 == frames.classes_sha256
    assert arrow.content_sha256() == frames.content_sha256()
    for index in range(len(arrow)):
        for epoch in (0, 1):
            np.testing.assert_array_equal(
                read(arrow, index, epoch=epoch).clip_THWC, read(frames, index, epoch=epoch).clip_THWC
            )


def test_other_videos_have_another_hash(tmp_path: Path) -> None:
    size = {"width": WIDTH, "height": HEIGHT, "subsets": ("train",), "label": 0, "class_name": "a"}
    sets = {
        "one": [ok_video("a/x", jpegs(0, 3), **size)],
        "another id": [ok_video("a/y", jpegs(0, 3), **size)],
        "other frames": [ok_video("a/x", jpegs(1, 3), **size)],
        "one more": [ok_video("a/w", jpegs(0, 3), **size), ok_video("a/x", jpegs(0, 3), **size)],
    }
    for name, made in sets.items():
        make_dataset(tmp_path / name, "arrow", made, classes=CLASSES)
    assert len({opened(tmp_path / name).content_sha256() for name in sets}) == len(sets)


def clips_of(dataset: ClipDataset, asked: Sequence[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """The clip of each (index, epoch)."""
    return {(index, epoch): read(dataset, index, epoch=epoch).clip_THWC.tobytes() for index, epoch in asked}


def test_a_sample_follows_from_seed_epoch_and_index(folders: dict[str, Path], store: str) -> None:
    asked = [(index, epoch) for index in (0, 3) for epoch in range(5)]
    expected = clips_of(opened(folders[store]), asked)
    assert len(set(expected.values())) == len(asked)
    dataset = opened(folders[store])
    assert clips_of(dataset, asked[::-1]) == expected  # in whatever order
    assert clips_of(dataset, asked) == expected  # and however often
    others = clips_of(opened(folders[store], seed=6), asked)
    assert all(others[key] != expected[key] for key in asked)


def test_an_evaluation_knows_no_seed_and_no_epoch(folders: dict[str, Path], store: str) -> None:
    clips = {
        read(opened(folders[store], training=False, seed=seed), 0, epoch=epoch).clip_THWC.tobytes()
        for seed in (0, 1)
        for epoch in (0, 1, 2)
    }
    assert len(clips) == 1


def test_a_pickled_copy_gives_the_same(folders: dict[str, Path], store: str) -> None:
    dataset = opened(folders[store])
    expected = clips_of(dataset, [(0, 0)])  # opens a shard
    assert clips_of(pickle.loads(pickle.dumps(dataset)), [(0, 0)]) == expected


# --- Damage ---


def frame_at(folder: Path, video_id: str, frame: int) -> tuple[Path, int, int]:
    """The file, position and number of bytes of a stored frame."""
    with open_dataset(folder) as dataset:
        row = next(row for row in range(len(dataset)) if dataset.video(row)["video_id"] == video_id)
        jpeg = dataset.read_frames(row, [frame])[0]
        path = folder / dataset.video(row)["location"]
    if path.is_dir():
        return path / f"img_{frame + 1:05d}.jpg", 0, len(jpeg)
    return path, path.read_bytes().index(jpeg), len(jpeg)


def where_is(store: str, video_id: str) -> str:
    return {"arrow": "shards/shard-00000.arrow row 0", "frames": f"frames/{video_id}"}[store]


def test_a_frame_that_is_no_jpeg(damaged: Path, store: str) -> None:
    path, start, _ = frame_at(damaged, "a/long", 22)
    flip_bytes(path, start, 1)
    dataset = opened(damaged, training=False)
    bad = read_bad(dataset, 0)
    assert bad.exit_code == DamagedError.exit_code == 4
    prefix = f"frame 22 of video a/long in {where_is(store, 'a/long')} is no valid JPEG: "
    assert bad.message.startswith(prefix)
    assert bad.message.endswith("; prep verify --deep finds all such frames")
    assert "\n" not in bad.message
    read(dataset, 0, num_frames=4)  # frames 5, 15, 25, 35 are whole
    read(dataset, 3)


def test_no_flipped_byte_raises(damaged: Path) -> None:
    """What the codec still takes for a picture passes; all else names the video."""
    path, start, num_bytes = frame_at(damaged, "b/single", 0)
    dataset = opened(damaged, training=False)
    before = path.read_bytes()
    num_bad = 0
    for position in range(start, start + num_bytes, 4):
        path.write_bytes(before)
        flip_bytes(path, position, 1)
        sample = dataset[Item(2, 1, 40, 0)]
        if isinstance(sample, BadSample):
            assert sample.exit_code == 4
            assert sample.message.startswith("frame 0 of video b/single in ")
            num_bad += 1
    assert num_bad > 30


def test_a_frame_of_another_size(damaged: Path, store: str) -> None:
    path, start, num_bytes = frame_at(damaged, "a/long", 22)
    (small,) = jpegs(0, 1, 16, 12)
    data = path.read_bytes()
    # A JPEG ends with its end marker: what follows it in the shard is not looked at.
    assert len(small) <= num_bytes
    filled = small[:2] + b"\xff\xfe" + (num_bytes - len(small) - 2).to_bytes(2, "big")
    filled += bytes(num_bytes - len(small) - 4) + small[2:]
    path.write_bytes(data[:start] + filled + data[start + num_bytes :])
    dataset = opened(damaged, training=False)
    bad = read_bad(dataset, 0)
    assert bad.exit_code == 4
    assert bad.message.startswith(
        f"frame 22 of video a/long in {where_is(store, 'a/long')} has another size than frame 2; "
    )
    assert dataset.draw(Item(0, 8, 40, 0)) == bad, "another decoder cuts them all alike"


@pytest.mark.parametrize("store", ["arrow"], indirect=True)
def test_a_shard_cut_short(damaged: Path) -> None:
    path, start, _ = frame_at(damaged, "a/long", 22)
    truncate(path, start + 10)
    dataset = opened(damaged, training=False)
    bad = read_bad(dataset, 0)
    assert bad.exit_code == 4
    assert bad.message.startswith(
        "cannot read frames of video a/long in shards/shard-00000.arrow row 0: the file ends "
    )
    read(dataset, 0, num_frames=1)  # frame 20 lies before the cut
    read(dataset, 3)  # in another shard


def test_a_file_that_is_gone(damaged: Path, store: str) -> None:
    frame_at(damaged, "a/long", 22)[0].unlink()
    bad = read_bad(opened(damaged, training=False), 0)
    assert bad.exit_code == 4
    assert bad.message.startswith(f"cannot read frames of video a/long in {where_is(store, 'a/long')}: ")
    assert "No such file or directory" in bad.message


def test_what_nobody_thought_of_travels_too(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("train.dataset.view_plans", fail)
    bad = read_bad(opened(folders["arrow"], training=False), 1)
    assert bad.exit_code == 1
    assert bad.message == f"unexpected ZeroDivisionError while reading video a/short of {folders['arrow']}: a bug"


def test_what_went_wrong_may_keep_the_name_from_being_read(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError("it is full")

    dataset = opened(folders["arrow"], training=False)
    monkeypatch.setattr("train.dataset.view_plans", fail)
    monkeypatch.setattr("manifests.dataset.Dataset.video", fail)
    bad = read_bad(dataset, 1)
    said = f"unexpected MemoryError while reading sample 1 of subset 'train' of {folders['arrow']}: it is full"
    assert (bad.message, bad.exit_code) == (said, 1)


# --- What cannot be opened ---


def test_subsets_that_cannot_be_used(folders: dict[str, Path], store: str) -> None:
    folder = folders[store]
    for subset, message in {
        "test": "the dataset has no subset 'test'; it has all, loose, train, val",
        "val": f"subset 'val' of {folder} has no ok video",
        "loose": f"1 videos of subset 'loose' of {folder} have no label, such as stray",
        "all": f"1 videos of subset 'all' of {folder} have no label, such as stray",
    }.items():
        with pytest.raises(UsageError) as caught:
            ClipDataset(folder, subset, TrainRecipe(), training=True)
        assert str(caught.value) == message


def test_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        opened(tmp_path)
