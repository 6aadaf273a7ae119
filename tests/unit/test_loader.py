"""The loader in this process: order, values, shared memory, and that it takes its workers with it.

Arrays: clips_NTHWC uint8; scores_NK float32; labels_N int64.
"""

import gc
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from batches import load
from datasets_made import draw_jpegs, make_dataset, ok_video
from paddle_import import paddle

from manifests.errors import DamagedError, Error
from train.dataset import ClipDataset, Sample
from train.device import normalise
from train.evaluate import evaluate, score
from train.loader import Loader
from train.metrics import Accuracy
from train.models import build_model
from train.recipe import Run, TrainRecipe
from train.recipe_of_clips import Clip, Views
from train.recipe_of_learning import Model, Optimizer
from train.sampler import Item, evaluation_batches, training_batches
from train.schedules import Shape
from train.slots import Slots, num_slots
from train.watchdog import Board, Note, stuck_s

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
    return ClipDataset(folder, "all", TrainRecipe(run=Run(seed=5)), training=training)


def children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # a thread that ended just now
            found += map(int, task.read_text().split())
    return found


def mapped() -> set[str]:
    """The slots for batches that this process has mapped, those included that are closed."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {" ".join(line.split()[4:]) for line in lines if "/memfd:decode-once-batch" in line}


@pytest.mark.parametrize("store", ["arrow", "frames"])
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_batches_are_those_of_the_dataset_in_order(folders: dict[str, Path], store: str, num_workers: int) -> None:
    """Against the samples of the other store, asked for one by one; sizes of batch and clip change on the way."""
    dataset = open_clips(folders[store], training=True)
    plain = open_clips(folders["arrow"], training=True)
    batches = training_batches(NUM_VIDEOS, batch_size=3, shapes=[Shape(1, 4, 24)], seed=1, epoch=2)
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


def test_shared_memory_is_a_few_slots_that_are_used_again(folders: dict[str, Path]) -> None:
    """Over an epoch of 60 batches of two workers, without any help of the cyclic collector; and none of it stays."""
    dataset = open_clips(folders["arrow"], training=False)
    batches = [[Item((4 * i + k) % NUM_VIDEOS, 4, 64, 0) for k in range(4)] for i in range(60)]
    gc.collect()
    gc.disable()
    before = mapped()
    try:
        most = max(len(mapped() - before) for _ in load(dataset, batches, num_workers=2, timeout_s=30))
    finally:
        gc.enable()
    assert num_slots(2) == 6
    assert 1 <= most <= 6
    assert mapped() == before
    assert num_slots(0) == 0


def test_batches_that_are_kept_do_not_change(folders: dict[str, Path]) -> None:
    """However many, and after their loader is gone."""
    dataset = open_clips(folders["arrow"], training=False)
    batches = [[Item(i % NUM_VIDEOS, 4, 48, 0)] for i in range(40)]
    kept = list(load(dataset, batches, num_workers=2, timeout_s=30))
    for items, batch in zip(batches, kept, strict=True):
        sample = dataset[items[0]]
        assert isinstance(sample, Sample)
        np.testing.assert_array_equal(batch.clips_NTHWC.numpy()[0], sample.clip_THWC)


def test_a_slot_grows_and_what_was_in_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with Slots(2) as slots:
        slots.make_room(1, 24)
        small = slots.array(1, (1, 2, 2, 2, 3))
        small[:] = 7
        slots.make_room(1, 5 * 12 * 4096)
        large = slots.array(1, (5, 1, 64, 64, 12))  # type: ignore[arg-type]
        assert (large.ravel()[:24] == 7).all()
        large[:] = 9
        assert (small == 9).all()
        slots.make_room(1, 24)
        assert slots.array(1, (1, 2, 2, 2, 3)).tolist() == small.tolist()

        def refuse(descriptor: int, offset: int, num_bytes: int) -> None:
            raise OSError(12, "Cannot allocate memory")

        monkeypatch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(Error, match=r"no memory for a batch of 1.0 MiB .* \(Cannot allocate memory\): use fewer"):
            slots.make_room(0, 2**20)
    assert (large == 9).all()


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
    assert time.monotonic() - started_s < 20
    assert children() == []
    assert [thread.name for thread in threading.enumerate() if "_watch" in thread.name] == []


def divide_by_zero(clips: object) -> None:
    for _ in clips:  # type: ignore[attr-defined]
        1 / 0  # noqa: B018


def epoch_of(loader: Loader, dataset: ClipDataset, epoch: int, first_step: int = 0) -> list[bytes]:
    batches = training_batches(
        NUM_VIDEOS, batch_size=4, shapes=[Shape(1, 2, 16)], seed=1, epoch=epoch, first_step=first_step
    )
    return [batch.clips_NTHWC.numpy().tobytes() for batch in loader.batches(dataset, batches)]


def test_workers_stay_from_epoch_to_epoch_and_dataset_to_dataset(folders: dict[str, Path]) -> None:
    training, validation = (open_clips(folders[store], training=store == "arrow") for store in ("arrow", "frames"))
    expected = [epoch_of(Loader([training], num_workers=0, timeout_s=30), training, epoch) for epoch in range(3)]
    assert expected[0] != expected[1]
    evaluated = list(evaluation_batches(NUM_VIDEOS, batch_size=3, num_frames=2, crop_px=16))
    with Loader([training, validation], num_workers=2, timeout_s=30) as loader:
        assert children() == []
        met = set()
        for epoch in range(3):
            assert epoch_of(loader, training, epoch) == expected[epoch]
            batches = list(loader.batches(validation, evaluated))
            assert [index for batch in batches for index in batch.indices_N] == list(range(NUM_VIDEOS))
            sample = validation[evaluated[0][0]]
            assert isinstance(sample, Sample)
            np.testing.assert_array_equal(batches[0].clips_NTHWC.numpy()[0], sample.clip_THWC)
            met |= set(children())
        assert len(met) == 2
    assert children() == []


@pytest.mark.parametrize("num_consumed", [0, 1, 3, 5])
def test_another_number_of_workers_goes_on_where_one_stopped(folders: dict[str, Path], num_consumed: int) -> None:
    """The state of a loader is how many batches were consumed, whatever it had read ahead."""
    dataset = open_clips(folders["arrow"], training=True)
    (expected,) = {tuple(epoch_of(Loader([dataset], num_workers=0, timeout_s=30), dataset, 7))}
    for before, after in ((2, 1), (1, 3), (3, 0), (0, 2)):
        seen: list[bytes] = []
        with Loader([dataset], num_workers=before, timeout_s=30) as loader:
            batches = training_batches(NUM_VIDEOS, batch_size=4, shapes=[Shape(1, 2, 16)], seed=1, epoch=7)
            for batch in loader.batches(dataset, batches):
                if len(seen) == num_consumed:
                    break
                seen.append(batch.clips_NTHWC.numpy().tobytes())
        with Loader([dataset], num_workers=after, timeout_s=30) as loader:
            seen += epoch_of(loader, dataset, 7, first_step=num_consumed)
        assert tuple(seen) == expected


def test_an_iteration_after_one_that_was_left_early(folders: dict[str, Path]) -> None:
    """Also while the first one is still there, and when it goes later."""
    dataset = open_clips(folders["arrow"], training=True)
    expected = epoch_of(Loader([dataset], num_workers=0, timeout_s=30), dataset, 1)
    batches = training_batches(NUM_VIDEOS, batch_size=2, shapes=[Shape(1, 2, 16)], seed=1, epoch=0)
    with Loader([dataset], num_workers=2, timeout_s=30) as loader:
        left = loader.batches(dataset, batches)
        next(left)
        assert epoch_of(loader, dataset, 1) == expected
        workers = children()
        assert len(workers) == 2
        left.close()  # type: ignore[attr-defined]
        assert epoch_of(loader, dataset, 1) == expected
        assert children() == workers
    assert children() == []


def test_what_the_loader_leaves_as_it_was(folders: dict[str, Path]) -> None:
    """Handlers, mask and wakeup of signals, descriptors, threads, and no shard open that only workers read."""
    dataset = open_clips(folders["arrow"], training=True)

    def state() -> tuple[object, ...]:
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        handlers = [signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)]
        descriptors = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists()]
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        return wakeup, handlers, mask, sorted(descriptors), threading.active_count()

    with Loader([dataset], num_workers=2, timeout_s=30) as loader:
        epoch_of(loader, dataset, 0)
    before = state()
    assert not any(name.endswith(".arrow") for name in before[3])  # type: ignore[attr-defined]
    with Loader([dataset], num_workers=2, timeout_s=30) as loader:
        epoch_of(loader, dataset, 0)
        pids = children()
        opened = [os.readlink(path) for pid in pids for path in Path(f"/proc/{pid}/fd").iterdir()]
        assert any(name.endswith(".arrow") for name in opened), "the test does not see them"
    assert state() == before


def test_a_worker_has_one_thread(folders: dict[str, Path]) -> None:
    """As OpenCV says, also where the training process has more; the kernel counts those of a fork that does nothing
    (some libraries start one there), here and while clips are read."""

    class Spy(Bad):
        def __getitem__(self, item: Item) -> Any:
            sample = self.dataset[item]
            num_threads = len(os.listdir("/proc/self/task"))
            return Sample(sample.clip_THWC, 100 * num_threads + cv2.getNumThreads(), item.index)

    dataset = Spy(open_clips(folders["arrow"], training=False), -1, None)
    batches = list(evaluation_batches(NUM_VIDEOS, batch_size=4, num_frames=2, crop_px=16))
    cv2.setNumThreads(2)
    try:
        found = [batch.labels_N.tolist() for batch in load(dataset, batches, num_workers=2, timeout_s=30)]  # type: ignore[arg-type]
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(1)
    pid = os.fork()
    if pid == 0:
        os._exit(len(os.listdir("/proc/self/task")))
    num_threads = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert {label for labels in found for label in labels} == {100 * num_threads + 1}


def test_when_a_worker_hangs() -> None:
    busy, idle = (Note(since_s=100, is_busy=is_busy, which=0, index=3) for is_busy in (True, False))
    assert stuck_s(busy, 104, 105) == 5
    assert stuck_s(idle, 104, 105) == 1
    assert stuck_s(idle, 90, 105) == 5
    board = Board(2)
    assert board.read(1) == Note(0, False, 0, 0)
    assert stuck_s(board.read(1), 104, 105) == 1
    board.write(1, is_busy=True, which=1, index=2**40)
    assert board.read(0).index == 0
    assert (board.read(1).is_busy, board.read(1).which, board.read(1).index) == (True, 1, 2**40)
    assert 0 <= stuck_s(board.read(1), 0, time.monotonic()) < 5


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
            r"worker \d+ at video v13 of .* was killed: nothing came of it for more than 2 s",
        ),
        (lambda: time.sleep(100), r"data worker \d+ at video v13 of .*/out was killed: .* than 2 s"),
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
        for batch in load(dataset, batches, num_workers=2, timeout_s=2):  # type: ignore[arg-type]
            seen += batch.indices_N.tolist()
    assert time.monotonic() - started_s < 30
    assert seen == list(range(len(seen)))
    assert len(seen) <= 12
    assert children() == []


def test_a_worker_that_cannot_be_started(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container limits processes: those that were started go again."""
    fork, num_forks = os.fork, 0

    def refuse_the_second() -> int:
        nonlocal num_forks
        num_forks += 1
        if num_forks == 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    dataset = open_clips(folders["arrow"], training=True)
    monkeypatch.setattr(os, "fork", refuse_the_second)
    with (
        Loader([dataset], num_workers=3, timeout_s=30) as loader,
        pytest.raises(Error, match=r"^cannot start 3 data workers: Resource temporarily .*; use fewer \(loader\.num_"),
    ):
        epoch_of(loader, dataset, 0)
    assert num_forks == 2
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
    assert time.monotonic() - started_s < 30
    assert children() == []


@pytest.fixture(scope="module")
def model() -> paddle.nn.Layer:
    paddle.seed(3)
    return build_model(Model(name="tsm_tiny", dropout=0.5), NUM_CLASSES)


def settings(batch_size: int) -> TrainRecipe:
    return TrainRecipe(clip=Clip(num_frames=4, crop_px=32), optimizer=Optimizer(batch_size=batch_size))


def scored(model: paddle.nn.Layer, dataset: ClipDataset, recipe: TrainRecipe, num_workers: int) -> Any:
    with Loader([dataset], num_workers=num_workers, timeout_s=30) as loader:
        return score(model, dataset, recipe, loader, quiet=True)


def evaluated(model: paddle.nn.Layer, dataset: ClipDataset, recipe: TrainRecipe, num_workers: int) -> Accuracy:
    with Loader([dataset], num_workers=num_workers, timeout_s=30) as loader:
        return evaluate(model, dataset, recipe, loader, quiet=True)


def test_every_video_is_scored_once_however_it_is_read(folders: dict[str, Path], model: paddle.nn.Layer) -> None:
    """Against each clip alone through the model."""
    dataset = open_clips(folders["arrow"], training=False)
    paddle.seed(0)
    expected_NK, labels_N = scored(model, dataset, settings(1), num_workers=0)
    assert not np.isnan(expected_NK).any()
    np.testing.assert_allclose(expected_NK.sum(axis=1), 1, atol=1e-5)
    assert len(np.unique(expected_NK, axis=0)) == NUM_VIDEOS
    assert labels_N.tolist() == [i % NUM_CLASSES for i in range(NUM_VIDEOS)]
    accuracy = evaluated(model, dataset, settings(1), num_workers=0)
    assert accuracy.num_videos == NUM_VIDEOS
    assert accuracy.top1 == np.mean(expected_NK.argmax(axis=1) == labels_N)
    for store, batch_size, num_workers in (("frames", 1, 2), ("arrow", 3, 0), ("arrow", 8, 2), ("frames", 3, 2)):
        other = open_clips(folders[store], training=False)
        scores_NK, other_N = scored(model, other, settings(batch_size), num_workers=num_workers)
        np.testing.assert_allclose(scores_NK, expected_NK, atol=1e-5)
        np.testing.assert_array_equal(other_N, labels_N)
        assert evaluated(model, other, settings(batch_size), num_workers=num_workers) == accuracy


def test_the_score_of_a_video_is_the_mean_over_its_views(folders: dict[str, Path], model: paddle.nn.Layer) -> None:
    """Against each view alone through the model."""
    recipe = TrainRecipe(
        clip=Clip(num_frames=4, crop_px=32), optimizer=Optimizer(batch_size=4), views=Views(num_clips=2, crops="three")
    )
    dataset = ClipDataset(folders["arrow"], "all", recipe, training=False)
    model.eval()
    expected_NK = np.zeros((NUM_VIDEOS, NUM_CLASSES))
    met = set()
    for index in range(NUM_VIDEOS):
        for view in range(6):
            sample = dataset[Item(index, 4, 32, 0, view)]
            assert isinstance(sample, Sample)
            met.add(sample.clip_THWC.tobytes())
            logits_NK = model(normalise(paddle.to_tensor(sample.clip_THWC[None])))
            expected_NK[index] += paddle.nn.functional.softmax(logits_NK, axis=1).numpy()[0] / 6
    assert len(met) > 5 * NUM_VIDEOS  # both clips of a very short video are the same
    for num_workers in (0, 2):
        scores_NK, labels_N = scored(model, dataset, recipe, num_workers=num_workers)
        np.testing.assert_allclose(scores_NK, expected_NK, atol=1e-5)
        assert labels_N.tolist() == [i % NUM_CLASSES for i in range(NUM_VIDEOS)]
