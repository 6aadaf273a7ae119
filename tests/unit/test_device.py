"""What models take of uint8 clips; and which PaddlePaddle computes.

Arrays: clips_NTHWC uint8 RGB; expected_NTHWC float64, normalised.
"""

import argparse
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import TRAIN
from paddle_import import paddle
from training_runs import assert_one_sentence

from train import setting_up
from train.device import normalise
from train.normalisation import NORMALISATIONS


@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize(("layout", "axes"), [("NTCHW", (0, 1, 4, 2, 3)), ("NCTHW", (0, 4, 1, 2, 3))])
def test_normalisation_by_the_letter(name: str, layout: str, axes: tuple[int, ...]) -> None:
    clips_NTHWC = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 7, 3), np.uint8)
    mean, std = {
        "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        "kinetics": ([0.45, 0.45, 0.45], [0.225, 0.225, 0.225]),
    }[name]
    expected_NTHWC = (clips_NTHWC / 255 - np.array(mean)) / np.array(std)
    found = normalise(paddle.to_tensor(clips_NTHWC, place=paddle.CPUPlace()), name, layout)
    assert found.dtype == paddle.float32
    np.testing.assert_allclose(found.numpy(), expected_NTHWC.transpose(axes), atol=2e-6)


def test_by_default_as_the_2d_models_take_them() -> None:
    clips_NTHWC = paddle.to_tensor(np.zeros((1, 2, 4, 5, 3), np.uint8))
    found = normalise(clips_NTHWC)
    assert found.shape == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        found.numpy()[0, 0, :, 0, 0], [-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225], rtol=1e-5
    )


def test_a_build_for_gpus_that_finds_none_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {}
    for is_for_gpus, device in ((True, "cpu"), (True, "gpu:0"), (False, "cpu")):
        monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda value=is_for_gpus: value)
        monkeypatch.setattr(paddle.device, "get_device", lambda value=device: value)
        setting_up.say_device(argparse.Namespace(quiet=False))
        told[is_for_gpus, device] = capsys.readouterr().err
    sentence = "PaddlePaddle for GPUs finds none here: computing on the CPU\n"
    assert told == {(True, "cpu"): sentence, (True, "gpu:0"): "", (False, "cpu"): ""}


def test_both_builds_together_are_refused(tmp_path: Path) -> None:
    """As pip leaves them, each with a folder of its own beside the one that they share."""
    for name in ("paddlepaddle", "paddlepaddle-gpu"):
        folder = tmp_path / f"{name.replace('-', '_')}-2.6.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.6.2\n")
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [TRAIN, "predict", "run", "video"], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert_one_sentence(done.stderr)
    assert "pip uninstall both, then install one" in done.stderr
