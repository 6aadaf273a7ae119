"""The loader in this process: order, values, shared memory, and that it takes its workers with it.

Arrays: clips_NTHWC uint8; scores_NK float32; labels_N int64.
"""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from datasets_made import draw_jpegs, make_dataset, ok_video
from paddle_import import paddle

from manifests.errors import DamagedError, Error
from train import watchdog
from train.dataset import ClipDataset, Sample
from train.evaluate import evaluate, score
from train.loader import load
from train.models import build_model
from train.recipe import Clip, Model, Optimizer, TrainRecipe
from train.sampler import Item, evaluation_batches, training_batches

NUM_VIDEOS = 20
NUM_CLASSES = 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same noise in both stores: 20 videos of 1 to 20 frames."""
    videos = [
        ok_video(f"v{i:02d}", draw_jpegs(i, i + 1), label=i % NUM_CLASSES, class_name="abc"[i % NUM_CLASSES])
        for i in range(NUM_VIDEOS)
    ]
    found = {}
    for store in ("arrow", "frames"):
        found[store] = tmp_path_factory.mktemp(store) / "out"
        make_dataset(found[store], store, videos, classes=["a", "b", "c"])
    return found


def open_clips(folder: Path, *, training: bool) -> ClipDataset:
    return ClipDataset(folder, "all", training=training, seed=5, flips=True)


def children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # a thread that ended just now
            found += map(int, task.read_text().split())
    return found


def segments(pids: list[int]) -> list[Path]:
    return [path for pid in [os.getpid(), *pids] for path in Path("/dev/shm").glob(f"paddle_{pid}_*")]


def mapped() -> set[str]:
    """The segments that this process has mapped, those included that have lost their name in /dev/shm."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.partition("/dev/shm/")[2] for line in lines if "/dev/shm/paddle_" in line}


@pytest.mark.parametrize("store", ["arrow", "frames"])
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_batches_are_those_of_the_dataset_in_order(folders: dict[str, Path], store: str, num_workers: int) -> None:
    """Against the samples of the other store, asked for one by one; sizes of batch and clip change on the way."""
    dataset = open_clips(folders[store], training=True)
    plain = open_clips(folders["arrow"], training=True)
    batches = training_batches(NUM_VIDEOS, batch_size=3, num_frames=4, crop_px=24, seed=1, epoch=2)
    batches += [[Item(7, 2, 16, 9)], [Item(3, 5, 40, 1), Item(3, 5, 40, 2)]]
    for items, batch in zip(batches, load(dataset, batches, num_workers=num_workers, timeout_s=30), strict=True):
        samples = [plain[item] for item in items]
        assert all(isinstance(sample, Sample) for sample in samples)
        assert batch.clips_NTHWC.dtype == paddle.uint8
        np.testing.assert_array_equal(batch.clips_NTHWC.numpy(), np.stack([sample.clip_THWC for sample in samples]))
        assert batch.labels_N.tolist() == [item.index % NUM_CLASSES for item in items]
        assert batch.indices_N.tolist() == [item.index for item in items]
    assert children() == []


@pytest.mark.parametrize("num_workers", [0, 2])
def test_no_batches_are_no_work(folders: dict[str, Path], num_workers: int) -> None:
    assert list(load(open_clips(folders["arrow"], training=True), [], num_workers=num_workers, timeout_s=30)) == []


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """A loop that allocates little collects seldom; this test would, again and again."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
def test_shared_memory_stays_at_a_few_batches(folders: dict[str, Path]) -> None:
    """Over an epoch of 60 batches, those that are named in /dev/shm or mapped here; Paddle alone may keep all."""
    dataset = open_clips(folders["arrow"], training=False)
    batches = [[Item((4 * i + k) % NUM_VIDEOS, 4, 64, 0) for k in range(4)] for i in range(60)]
    arrays_per_batch = 3
    before = mapped()
    pids: list[int] = []
    most_named = most_mapped = num_batches = 0
    for _ in load(dataset, batches, num_workers=2, timeout_s=30):
        num_batches += 1
        pids = pids or children()
        most_named = max(most_named, len(segments(pids)))
        most_mapped = max(most_mapped, len(mapped() - before))
    assert num_batches == 60
    assert len(pids) == 2
    assert most_mapped >= 1, "the test does not see them"
    assert most_named <= 8 * arrays_per_batch
    assert most_mapped <= 8 * arrays_per_batch
    assert segments(pids) == []
    kept = list(load(dataset, batches, num_workers=2, timeout_s=30))
    assert len(mapped() - before) >= len(kept) == 60, "whoever keeps batches is seen"


@pytest.mark.parametrize("how", ["break", "close", "error"])
def test_an_early_end_leaves_nothing(folders: dict[str, Path], how: str) -> None:
    dataset = open_clips(folders["arrow"], training=False)
    batches = [[Item(i % NUM_VIDEOS, 8, 64, 0)] for i in range(500)]
    clips = load(dataset, batches, num_workers=2, timeout_s=30)
    next(clips)
    pids = children()
    assert len(pids) == 2
    started_s = time.monotonic()
    if how == "close":
        clips.close()  # type: ignore[attr-defined]
    elif how == "break":
        for _ in clips:
            break
        del clips
    else:
        with pytest.raises(ZeroDivisionError):
            divide_by_zero(clips)
        del clips
    assert time.monotonic() - started_s < 5
    assert children() == []
    assert segments(pids) == []
    assert [thread.name for thread in threading.enumerate() if "_watch" in thread.name] == []


def divide_by_zero(clips: object) -> None:
    for _ in clips:  # type: ignore[attr-defined]
        1 / 0  # noqa: B018


def test_two_epochs_and_what_the_loader_leaves_as_it_was(folders: dict[str, Path]) -> None:
    """Handlers, mask and wakeup of signals, descriptors, threads."""
    dataset = open_clips(folders["arrow"], training=True)

    def state() -> tuple[object, ...]:
        time.sleep(1.5)  # Paddle's reader thread looks once a second whether it may end
        gc.collect()  # its queues are in a reference cycle
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        handlers = [signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)]
        return wakeup, handlers, signal.pthread_sigmask(signal.SIG_BLOCK, []), len(os.listdir("/proc/self/fd"))

    def epoch(number: int) -> list[bytes]:
        batches = training_batches(NUM_VIDEOS, batch_size=4, num_frames=2, crop_px=16, seed=1, epoch=number)
        return [batch.clips_NTHWC.numpy().tobytes() for batch in load(dataset, batches, num_workers=2, timeout_s=30)]

    first = epoch(0)
    before = state()
    assert epoch(0) == first
    assert epoch(1) != first
    assert state() == before


class Bad:
    """A dataset that does something else than read at one index."""

    def __init__(self, dataset: ClipDataset, index: int, deed: object) -> None:
        self.dataset, self.index, self.deed = dataset, index, deed
        self.folder, self.video_id = dataset.folder, dataset.video_id

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, item: Item) -> object:
        if item.index == self.index:
            self.deed()  # type: ignore[operator]
        return self.dataset[item]


@pytest.mark.parametrize(
    ("deed", "sentence"),
    [
        (lambda: os._exit(3), r"a data worker process ended unexpectedly \(\d+ at video v13 of .*/out\)"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), r"ended unexpectedly \(\d+ at video v13 of .*/out\)"),
        (
            lambda: os.kill(os.getpid(), signal.SIGSTOP),
            r"worker \d+ at video v13 of .* was killed: nothing came of it for more than 1 s",
        ),
        (lambda: time.sleep(100), r"data worker \d+ at video v13 of .*/out was killed: .* than 1 s"),
    ],
    ids=["exits", "crashes", "stops", "hangs"],
)
def test_a_worker_that_fails(
    folders: dict[str, Path], deed: object, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset = Bad(open_clips(folders["arrow"], training=False), 13, deed)
    batches = list(evaluation_batches(NUM_VIDEOS, batch_size=2, num_frames=2, crop_px=16))
    seen = []
    started_s = time.monotonic()
    with pytest.raises(Error, match=sentence):  # noqa: PT012
        for batch in load(dataset, batches, num_workers=2, timeout_s=1):  # type: ignore[arg-type]
            seen += batch.indices_N.tolist()
    assert time.monotonic() - started_s < 6
    assert seen == list(range(len(seen)))
    assert len(seen) <= 12
    assert children() == []


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_damage_is_raised_with_its_place(tmp_path: Path, num_workers: int) -> None:
    videos = [ok_video(f"v{i}", draw_jpegs(i, 3), label=0, class_name="a") for i in range(6)]
    videos[4] = ok_video("v4", [jpeg[: len(jpeg) // 2] for jpeg in videos[4].jpegs], label=0, class_name="a")
    make_dataset(tmp_path / "out", "arrow", videos, classes=["a"])
    batches = list(evaluation_batches(6, batch_size=1, num_frames=2, crop_px=16))
    seen = []
    with pytest.raises(DamagedError, match=r"frame 0 of video v4 in shards/\S+ row 1 is no valid JPEG"):  # noqa: PT012
        for batch in load(open_clips(tmp_path / "out", training=False), batches, num_workers=num_workers, timeout_s=30):
            seen += batch.indices_N.tolist()
    assert seen == [0, 1, 2, 3]
    assert children() == []


def test_a_signal_ends_the_wait_for_a_batch(folders: dict[str, Path]) -> None:
    dataset = Bad(open_clips(folders["arrow"], training=False), 3, lambda: time.sleep(100))
    batches = list(evaluation_batches(NUM_VIDEOS, batch_size=1, num_frames=2, crop_px=16))
    timer = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    started_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in load(dataset, batches, num_workers=2, timeout_s=60):  # type: ignore[arg-type]
            pass
    timer.join()
    assert time.monotonic() - started_s < 8
    assert children() == []


def test_segments_of_dead_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    monkeypatch.setattr(watchdog, "_SHARED_MEMORY", tmp_path)
    names = [
        f"paddle_{dead.pid}_1",
        f"paddle_{dead.pid}_2",
        f"paddle_{os.getpid()}_3",
        "paddle_x_4",
        "paddle_",
        "sem.5",
    ]
    for name in names:
        (tmp_path / name).touch()
    assert watchdog.remove_dead_segments() == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[2:])


@pytest.fixture(scope="module")
def model() -> paddle.nn.Layer:
    paddle.seed(3)
    return build_model(Model(name="tsm_tiny", dropout=0.5), NUM_CLASSES)


def settings(batch_size: int) -> TrainRecipe:
    return TrainRecipe(clip=Clip(num_frames=4, crop_px=32), optimizer=Optimizer(batch_size=batch_size))


def test_every_video_is_scored_once_however_it_is_read(folders: dict[str, Path], model: paddle.nn.Layer) -> None:
    """Against each clip alone through the model."""
    dataset = open_clips(folders["arrow"], training=False)
    paddle.seed(0)
    expected_NK, labels_N = score(model, dataset, settings(1), num_workers=0, quiet=True)
    assert not np.isnan(expected_NK).any()
    np.testing.assert_allclose(expected_NK.sum(axis=1), 1, atol=1e-5)
    assert len(np.unique(expected_NK, axis=0)) == NUM_VIDEOS
    assert labels_N.tolist() == [i % NUM_CLASSES for i in range(NUM_VIDEOS)]
    accuracy = evaluate(model, dataset, settings(1), num_workers=0, quiet=True)
    assert accuracy.num_videos == NUM_VIDEOS
    assert accuracy.top1 == np.mean(expected_NK.argmax(axis=1) == labels_N)
    for store, batch_size, num_workers in (("frames", 1, 2), ("arrow", 3, 0), ("arrow", 8, 2), ("frames", 3, 2)):
        other = open_clips(folders[store], training=False)
        scores_NK, other_N = score(model, other, settings(batch_size), num_workers=num_workers, quiet=True)
        np.testing.assert_allclose(scores_NK, expected_NK, atol=1e-5)
        np.testing.assert_array_equal(other_N, labels_N)
        assert evaluate(model, other, settings(batch_size), num_workers=num_workers, quiet=True) == accuracy
