"""What is done with a trained model: evaluated in any batches, asked about videos, exported, planned.

Arrays: scores_NK float32, labels_N int64, clips_NTHWC uint8.
"""

import csv
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import TRAIN
from paddle_import import paddle
from training_runs import fit

from manifests.dataset import open_dataset
from prep.recipe import ExtractRecipe, resolve
from train.checkpoint import load_checkpoint
from train.dataset import ClipDataset
from train.plan import cost_of_a_clip
from train.predict import ExtractedVideos
from train.recipe import TrainRecipe, recipe_file
from train.recipe_of_clips import Views
from train.sampler import Item
from train.trained import load_trained


def train(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([TRAIN, *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def run(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("trained") / "run"
    code, stderr = fit(prepared["arrow"], found, loader__num_workers=0, average__ema_decay=0.5)
    assert code == 0, stderr
    return found


def scores_of(run: Path, data: Path, out: Path, *arguments: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result, and the table of scores as columns."""
    done = train("eval", run, "--data", data, "--subset", "test01", "--scores", out, "--json", "--quiet", *arguments)
    return json.loads(done.stdout), pq.read_table(out).to_pydict()


def scores_array(table: dict[str, Any]) -> npt.NDArray[np.float32]:
    return np.array(table["scores"], np.float32)


def test_one_file_for_two_tables(run: Path, prepared: dict[str, Path], tmp_path: Path) -> None:
    both = ("--scores", tmp_path / "x", "--confusion", tmp_path / "x")
    done = train("eval", run, "--data", prepared["arrow"], "--subset", "test01", *both, code=2)
    assert (
        done.stderr == f"train eval: --scores and --confusion both name {tmp_path / 'x'}: give each a file of its own\n"
    )


def test_a_plan_of_no_step_is_none(prepared: dict[str, Path]) -> None:
    """As train fit says."""
    done = train(
        "plan", "--recipe", "demo_tsm", "--data", prepared["arrow"], "--set", "optimizer.batch_size=1000", code=2
    )
    assert done.stderr.endswith("videos, fewer than optimizer.batch_size=1000\n")


def test_a_slowfast_scores_larger_crops_by_windows(prepared: dict[str, Path], tmp_path: Path) -> None:
    """As those who published its accuracies do: by windows of the training's crop, whose softmaxes are averaged."""
    settings = {"model__name": "slowfast_tiny", "clip__num_frames": 4, "clip__crop_px": 32, "optimizer__num_epochs": 1}
    code, stderr = fit(prepared["arrow"], tmp_path / "run", loader__num_workers=0, **settings)
    assert code == 0, stderr
    larger = ("--set", "views.crop_px=64", "--set", "loader.num_workers=0")
    _, table = scores_of(tmp_path / "run", prepared["arrow"], tmp_path / "scores", *larger)
    trained = load_trained(tmp_path / "run", ["views.crop_px=64"])
    dataset = ClipDataset(prepared["arrow"], "test01", trained.recipe, training=False)
    clip_THWC = dataset[Item(0, 4, 64, 0)].clip_THWC
    clips = paddle.to_tensor(clip_THWC[None].astype(np.float32) / 255 - 0.45).transpose([0, 1, 4, 2, 3]) / 0.225
    model = trained.model
    slow, fast = model.backbone(*[clips[:, times].transpose([0, 2, 1, 3, 4]) for times in ([0], [0, 1, 2, 3])])
    assert slow.shape[3:] == fast.shape[3:] == [4, 4]
    rows, columns = slow.shape[3:]
    scores = []
    for row, column in np.ndindex(rows - 1, columns - 1):  # a crop of 32 has two positions a side
        pooled = [x[:, :, :, row : row + 2, column : column + 2].mean([2, 3, 4], keepdim=True) for x in (slow, fast)]
        scores.append(paddle.nn.functional.softmax(model.head(pooled).flatten()).numpy())
    np.testing.assert_allclose(table["scores"][0], np.mean(scores, 0), rtol=0, atol=1e-5)


def test_scores_of_every_video_for_any_batch_and_worker(run: Path, prepared: dict[str, Path], tmp_path: Path) -> None:
    """Three views of each of two clips, in batches of 1, 5 and 16, from both stores."""
    found = []
    for batch_size, num_workers, store in ((1, 0, "arrow"), (5, 2, "frames"), (16, 1, "arrow")):
        settings = ("--views", "2x3", "--set", f"views.batch_size={batch_size}")
        workers = ("--set", f"loader.num_workers={num_workers}")
        found.append(scores_of(run, prepared[store], tmp_path / f"{batch_size}", *settings, *workers))
    result, table = found[0]
    dataset = open_dataset(prepared["arrow"])
    rows = dataset.rows("test01")
    assert table["video_id"] == [dataset.video(row)["video_id"] for row in rows]
    assert table["class_name"] == [dataset.video(row)["class_name"] for row in rows]
    assert table["label"] == dataset.labels[rows].tolist()
    scores_NK = scores_array(table)
    np.testing.assert_allclose(scores_NK.sum(axis=1), 1, atol=1e-5)
    assert len({tuple(row) for row in scores_NK.tolist()}) == len(rows), "scores that do not depend on the video"
    assert table["predicted"] == scores_NK.argmax(axis=1).tolist()
    assert table["predicted_name"] == [dataset.classes[label] for label in table["predicted"]]
    assert result["num_views"] == 6
    assert result["top1"] == np.mean(np.array(table["predicted"]) == table["label"])
    for other_result, other_table in found[1:]:
        assert other_result == result
        np.testing.assert_allclose(scores_array(other_table), scores_NK, rtol=0, atol=1e-5)


def test_scores_are_those_of_the_averaged_weights(run: Path, prepared: dict[str, Path], tmp_path: Path) -> None:
    """Against a forward pass of our own, clip by clip."""
    _, table = scores_of(run / "last.ckpt", prepared["arrow"], tmp_path / "scores")
    checkpoint = load_checkpoint(run / "last.ckpt")
    assert any(np.any(value.numpy() != checkpoint.average[key].numpy()) for key, value in checkpoint.model.items())
    trained = load_trained(run / "last.ckpt")
    for key, value in trained.model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), checkpoint.average[key].numpy())
    clip_TCHW = normalised_clips(trained.recipe, prepared["arrow"])[3]
    logits_K = trained.model(paddle.to_tensor(clip_TCHW[None])).numpy()[0].astype(np.float64)
    expected_K = np.exp(logits_K) / np.exp(logits_K).sum()
    np.testing.assert_allclose(scores_array(table)[3], expected_K, atol=1e-5)


def normalised_clips(recipe: TrainRecipe, data: Path) -> npt.NDArray[np.float32]:
    clips_NTHWC = clips(recipe, data)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    return ((clips_NTHWC / 255 - mean) / std).transpose(0, 1, 4, 2, 3).astype(np.float32)


def clips(recipe: TrainRecipe, data: Path) -> npt.NDArray[np.uint8]:
    """clips_NTHWC of test01."""
    dataset = ClipDataset(data, "test01", recipe, training=False)
    items = [Item(i, recipe.clip.num_frames, recipe.clip.crop_px, 0) for i in range(len(dataset))]
    return np.stack([dataset[item].clip_THWC for item in items])


def test_confusions_are_counted(run: Path, prepared: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "confusion.csv"
    _, table = scores_of(run, prepared["arrow"], tmp_path / "scores", "--confusion", out)
    with open(out, newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    classes = list(open_dataset(prepared["arrow"]).classes)
    assert head == ["class", *classes]
    assert [row[0] for row in rows] == classes
    pairs = list(zip(table["label"], table["predicted"], strict=True))
    for label, row in enumerate(rows):
        assert list(map(int, row[1:])) == [pairs.count((label, other)) for other in range(len(classes))]


@pytest.mark.parametrize("flag", ["--scores", "--confusion"])
def test_files_that_could_not_be_written(flag: str, prepared: dict[str, Path], tmp_path: Path) -> None:
    """Said at once: even the checkpoint is not there."""
    for path in (tmp_path, tmp_path / "gone" / "file"):
        done = train("eval", tmp_path / "run", "--data", prepared["arrow"], "--subset", "test01", flag, path, code=2)
        assert f"{flag} {path} is a folder, or in none" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10x4", "--views takes clips x crops, the crops being one of 1, 3, 10, such as 10x3, not '10x4'"),
        ("0x3", "--views takes clips x crops, the crops being one of 1, 3, 10, such as 10x3, not '0x3'"),
        ("3", "--views takes clips x crops, the crops being one of 1, 3, 10, such as 10x3, not '3'"),
    ],
)
def test_views_that_are_none(run: Path, prepared: dict[str, Path], text: str, message: str) -> None:
    done = train("eval", run, "--data", prepared["arrow"], "--subset", "test01", "--views", text, code=2)
    assert message in done.stderr


# --- Predictions ---


def test_predictions_equal_the_evaluation(
    run: Path, prepared: dict[str, Path], synthetic: Path, tmp_path: Path
) -> None:
    """On the source files of test01, one of them twice, and in any order."""
    _, table = scores_of(run, prepared["arrow"], tmp_path / "scores", "--views", "2x1")
    dataset = open_dataset(prepared["arrow"])
    rows = dataset.rows("test01").tolist()
    order = [3, 0, 7, 3]
    videos = [synthetic / dataset.video(rows[index])["source"] for index in order]
    settings = ("--views", "2x1", "--top", 3, "--set", "loader.num_workers=0", "--json", "--quiet")
    done = train("predict", run, *(os.path.relpath(video) for video in videos), *settings)
    found = json.loads(done.stdout)
    assert found["checkpoint"] == str(run / "best.ckpt")
    assert len(found["videos"]) == len(order)
    for index, video in zip(order, found["videos"], strict=True):
        scores_K = scores_array(table)[index]
        assert [row["label"] for row in video["best"]] == np.argsort(-scores_K)[:3].tolist()
        assert [row["class"] for row in video["best"]] == [dataset.classes[row["label"]] for row in video["best"]]
        np.testing.assert_allclose([row["score"] for row in video["best"]], np.sort(scores_K)[::-1][:3], atol=1e-5)


def test_a_video_that_cannot_be_prepared_is_told(run: Path, synthetic: Path, tmp_path: Path) -> None:
    good = next(synthetic.rglob("*.avi"))
    bad = tmp_path / "bad.avi"
    bad.write_bytes(b"no video at all" * 100)
    done = train("predict", run, bad, good, "--json", "--quiet", code=3)
    videos = json.loads(done.stdout)["videos"]
    assert videos[0]["best"] == []
    assert videos[0]["failure"]
    assert videos[1]["failure"] is None
    assert len(videos[1]["best"]) == 4, "of five that are wanted, since there are four classes"
    assert (
        train("predict", run, bad, "--quiet", code=6).stderr == "train predict: none of the videos could be prepared\n"
    )
    assert f"no such video: {tmp_path / 'gone.avi'}" in train("predict", run, tmp_path / "gone.avi", code=2).stderr


def test_what_an_extraction_does_not_tell_has_its_type_all_the_same(tmp_path: Path) -> None:
    """No video of them has a duration."""
    (tmp_path / "bad.avi").write_bytes(b"no video at all" * 100)
    videos = ExtractedVideos([str(tmp_path / "bad.avi")], ["a"], resolve(ExtractRecipe()))
    durations = videos.columns(["duration_s"]).column(0)
    assert (durations.type, durations.to_pylist()) == (pa.float64(), [None])
    assert durations.fill_null(0).to_pylist() == [0]


# --- Export ---


def test_an_exported_model_gives_the_scores_of_the_evaluation(
    run: Path, prepared: dict[str, Path], tmp_path: Path
) -> None:
    """Loaded by PaddlePaddle alone, from bytes; all clips at once and one by one."""
    _, table = scores_of(run, prepared["arrow"], tmp_path / "scores")
    train("export", run, "--out", tmp_path / "out", "--quiet")
    description = json.loads((tmp_path / "out" / "export.json").read_text())
    recipe = load_trained(run).recipe
    clips_NTHWC = clips(recipe, prepared["arrow"])
    assert description["input"]["shape"] == [None, *clips_NTHWC.shape[1:2], None, None, 3]
    assert description["classes"] == list(open_dataset(prepared["arrow"]).classes)
    assert description["crop_px"] == clips_NTHWC.shape[2]
    assert description["frames"]["frames"], "how frames were made"
    loaded = paddle.jit.load(str(tmp_path / "out" / "model"))
    loaded.eval()
    np.testing.assert_allclose(loaded(paddle.to_tensor(clips_NTHWC)).numpy(), scores_array(table), atol=1e-5)
    for clip_THWC, scores_K in zip(clips_NTHWC, scores_array(table), strict=True):
        np.testing.assert_allclose(loaded(paddle.to_tensor(clip_THWC[None])).numpy()[0], scores_K, atol=1e-5)
    refused = train("export", run, "--out", tmp_path / "out", code=2)
    assert f"{tmp_path / 'out'} is not empty: --out takes a new folder" in refused.stderr


# --- Plan ---


def test_a_plan_of_a_run_on_this_dataset(prepared: dict[str, Path]) -> None:
    settings = {
        "model.name": "tsm_tiny",
        "optimizer.batch_size": 4,
        "optimizer.num_parts": 2,
        "optimizer.num_epochs": 6,
        "optimizer.schedule": "step",
        "optimizer.decay_epochs": "3, 5",
        "optimizer.learning_rate": 0.1,
        "optimizer.num_warmup_epochs": 0,
        "loader.num_workers": 3,
        "clip.num_frames": 4,
        "clip.crop_px": 32,
    }
    overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = train("plan", "--recipe", "demo_tsm", "--data", prepared["arrow"], "--json", *overrides)
    plan = json.loads(done.stdout)
    assert (plan["steps_per_epoch"], plan["num_steps"], plan["parts_per_step"]) == (2, 12, 2)
    assert plan["batch_shape"] == [2, 4, 32, 32, 3]
    assert [rate for _, rate in plan["rates"]] == pytest.approx([0.1, 0.01, 0.001, 0.001])
    assert [epoch for epoch, _ in plan["rates"]] == [0, 3, 5, 5.5]
    assert plan["loader_bytes"] == (2 * 3 + 2) * 2 * 4 * 32 * 32 * 3
    assert plan["checkpoint_bytes"] == 2 * plan["weight_bytes"] == 8 * plan["num_weights"]
    text = train("plan", "--recipe", "demo_tsm", *overrides).stdout
    assert "2 x 4 x 32 x 32 x 3, 2 of them a step" in text
    assert "steps each" not in text, "without data the number of steps is not known"


def test_the_work_of_a_convolution_by_hand() -> None:
    """A plain net of our own: 2 x 2 outputs of 3 x 3 x 3 -> 4, and a classifier of 4 -> 5, over 2 frames."""

    class Net(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.conv = paddle.nn.Conv2D(3, 4, 3, stride=8, padding=1)
            self.fc = paddle.nn.Linear(4, 5)

        def forward(self, clips_NTCHW: paddle.Tensor) -> paddle.Tensor:
            return self.fc(self.conv(clips_NTCHW.flatten(0, 1)).mean([2, 3]))

    num_bytes, multiply_adds = cost_of_a_clip(Net(), 2, 16)
    assert multiply_adds == 2 * (2 * 2 * 4 * 27 + 4 * 5)
    assert num_bytes == 4 * 2 * (2 * 2 * 4 + 5)


@pytest.mark.parametrize(("name", "expected_g"), [("tsn_ucf101", 12), ("tsm_k400", 33), ("slowfast_k400", 28)])
def test_costs_that_the_recipes_tell(name: str, expected_g: int) -> None:
    plan = json.loads(train("plan", "--recipe", name, "--json").stdout)
    assert round(plan["multiply_adds"] / 1e9) == expected_g
    assert f"{expected_g} G multiply-adds" in recipe_file(name).read_text()


def test_sizes_of_views() -> None:
    recipe = TrainRecipe(views=Views(num_frames=25, crop_px=256, batch_size=2))
    assert recipe.view_shape == (2, 25, 256)
    assert TrainRecipe().view_shape == (16, 8, 224)
