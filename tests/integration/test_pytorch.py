"""The PyTorch example reads what is in the dataset, where torch is installed.

Arrays: clip_THWC, clips_NTHWC uint8 RGB.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import simplejpeg
from conftest import ROOT

from manifests import open_dataset

torch = pytest.importorskip("torch", reason="torch is not installed")

EXAMPLE = ROOT / "examples" / "pytorch.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pytorch_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pickled to workers by this name
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("store", ["arrow", "frames"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_have_the_middle_frames(
    prepared: dict[str, Path], example: ModuleType, store: str, num_workers: int
) -> None:
    clips = example.Clips(prepared[store], "test01", 4)
    loader = torch.utils.data.DataLoader(clips, batch_size=3, num_workers=num_workers)
    batches = [(clips_NTHWC.numpy(), labels_N.tolist()) for clips_NTHWC, labels_N in loader]
    read_NTHWC = np.concatenate([clips_NTHWC for clips_NTHWC, _ in batches])
    labels = [label for _, labels in batches for label in labels]
    with open_dataset(prepared[store]) as dataset:
        rows = dataset.rows("test01")
        assert len(rows) == len(read_NTHWC) == 8
        assert labels == dataset.labels[rows].tolist()
        for clip_THWC, row in zip(read_NTHWC, rows, strict=True):
            num_frames = int(dataset.num_frames[row])
            jpegs = dataset.read_frames(row, [(2 * part + 1) * num_frames // 8 for part in range(4)])
            np.testing.assert_array_equal(clip_THWC, [simplejpeg.decode_jpeg(jpeg) for jpeg in jpegs])


def test_training_draws_anew_in_every_epoch(prepared: dict[str, Path], example: ModuleType) -> None:
    loader = torch.utils.data.DataLoader(
        example.Clips(prepared["arrow"], "train01", training=True), batch_size=8, num_workers=1
    )
    first, second = (next(iter(loader))[0] for _ in range(2))
    assert first.shape == (8, 8, 72, 96, 3)
    assert not torch.equal(first, second)


def test_clips_are_normalised(example: ModuleType) -> None:
    clips = example.normalise(torch.full((1, 2, 3, 4, 3), 255, dtype=torch.uint8))
    assert clips.shape == (1, 2, 3, 3, 4)
    assert clips[0, 0, 1].unique().item() == pytest.approx((1 - 0.456) / 0.224)


def test_the_example_runs(prepared: dict[str, Path]) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, prepared["frames"], "train01"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "clips (8, 8, 3, 72, 96), labels " in done.stdout
