"""Checkpoints: bitwise round trips, and files that are none."""

import errno
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paddle_import import paddle

from manifests.errors import DamagedError, StoreError, UsageError
from train import checkpoint
from train.checkpoint import Checkpoint, State, find_checkpoint, load_checkpoint, require_same_classes, save_checkpoint

STATE = State(
    recipe={"model": {"name": "tsm_tiny", "dropout": 0.1}, "run": {"seed": 3}},
    classes=("Juggling", "Zähne putzen", ""),
    classes_sha256="ab" * 32,
    epoch=2,
    step_in_epoch=7,
    step=41,
    best_top1=1 / 3,
)


def numbers(seed: int = 0) -> dict[str, Any]:
    """Arrays of awkward values."""
    rng = np.random.default_rng(seed)
    awkward = np.array([0.0, -0.0, 1e-45, np.inf, -np.inf, np.nan, np.pi], np.float32)
    return {
        "classifier.weight": paddle.to_tensor(rng.standard_normal((5, 3), np.float32)),
        "classifier.bias": paddle.to_tensor(awkward),
        "norm._mean": paddle.to_tensor(rng.standard_normal(64, np.float32)),
    }


def made(state: State = STATE, seed: int = 0) -> Checkpoint:
    return Checkpoint(state, numbers(seed), {"velocity_0": numbers(seed + 1)["norm._mean"], "rate": 0.1})


def bits(tensors: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    arrays = {key: np.asarray(value) for key, value in tensors.items()}
    return {key: (str(array.dtype), array.shape, array.tobytes()) for key, array in arrays.items()}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "last.ckpt"
    save_checkpoint(path, made())
    return path


# --- Round trips ---


@pytest.mark.parametrize(
    "state", [STATE, replace(STATE, best_top1=None), State(recipe={}, classes=(), classes_sha256="")]
)
def test_a_round_trip_is_bitwise(state: State, tmp_path: Path) -> None:
    expected = made(state)
    save_checkpoint(tmp_path / "a.ckpt", expected)
    found = load_checkpoint(tmp_path / "a.ckpt")
    assert found.state == expected.state
    assert bits(found.model) == bits(expected.model)
    assert bits(found.optimizer) == bits(expected.optimizer)


def test_a_model_and_its_optimizer_go_on_bitwise(tmp_path: Path) -> None:
    """Four steps with Nesterov momentum, saved after the second."""
    path = tmp_path / "a.ckpt"

    def train(steps: range, *, resume: bool) -> dict[str, Any]:
        with paddle.utils.unique_name.guard():  # the optimiser's accumulators are named after the parameters
            paddle.seed(1)
            layer = paddle.nn.Linear(3, 2)
            optimizer = paddle.optimizer.Momentum(0.1, 0.9, parameters=layer.parameters(), use_nesterov=True)
            if resume:
                found = load_checkpoint(path)
                layer.set_state_dict(found.model)
                optimizer.set_state_dict(found.optimizer)
            for step in steps:
                x = paddle.to_tensor(np.random.default_rng(step).standard_normal((4, 3), np.float32))
                (layer(x) ** 2).mean().backward()
                optimizer.step()
                optimizer.clear_grad()
            if not resume:
                save_checkpoint(path, Checkpoint(STATE, layer.state_dict(), optimizer.state_dict()))
            return bits(layer.state_dict())

    train(range(2), resume=False)
    resumed = train(range(2, 4), resume=True)
    assert resumed == train(range(4), resume=False)


def test_a_later_one_replaces_an_earlier_one(saved: Path) -> None:
    save_checkpoint(saved, made(replace(STATE, step=42), seed=9))
    found = load_checkpoint(saved)
    assert found.state.step == 42
    assert bits(found.model) == bits(numbers(9))
    assert os.listdir(saved.parent) == [saved.name]


# --- Files that are none ---


def refusal(path: Path) -> str:
    with pytest.raises(DamagedError) as caught:
        load_checkpoint(path)
    assert caught.value.exit_code == 4
    return str(caught.value)


def test_a_file_cut_anywhere(saved: Path) -> None:
    data = saved.read_bytes()
    for num_bytes in [*range(0, len(data) - 1, 97), len(data) - 1]:
        saved.write_bytes(data[:num_bytes])
        assert refusal(saved).startswith(f"{saved} is no checkpoint of this program: ")


@pytest.mark.parametrize("data", [b"", b"\0" * 5000, b"not a checkpoint\n" * 9, bytes(range(256)) * 20])
def test_garbage(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    path.write_bytes(data)
    assert refusal(path).startswith(f"{path} is no checkpoint of this program: ")


@pytest.mark.parametrize(
    "content",
    [
        {"weight": "of another program"},
        {"header": "no JSON", "model": {}, "optimizer": {}},
        {"header": "[1]", "model": {}, "optimizer": {}},
        {"header": "{}", "model": {}, "optimizer": {}},
        {"header": '{"version": 1}', "model": {}, "optimizer": {}},
        {"header": '{"version": 1, "classes": [], "colour": 3}', "model": {}, "optimizer": {}},
        {"header": '{"version": 1}', "model": {}},
        ["header", "model"],
    ],
)
def test_files_of_other_programs(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    paddle.save(content, str(path))
    assert refusal(path).startswith(f"{path} is no checkpoint of this program: ")


def test_another_version(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "VERSION", 2)
    assert refusal(saved) == f"{saved} has checkpoint version 1; this program reads version 2"
    save_checkpoint(saved, made())
    monkeypatch.undo()
    assert refusal(saved) == f"{saved} has checkpoint version 2; this program reads version 1"


@pytest.mark.parametrize("kind", ["nothing", "folder"])
def test_no_checkpoint(kind: str, tmp_path: Path) -> None:
    path = tmp_path if kind == "folder" else tmp_path / "a.ckpt"
    with pytest.raises(UsageError) as caught:
        load_checkpoint(path)
    assert str(caught.value) == f"no checkpoint at {path}"


def test_where_the_checkpoint_of_a_run_is(tmp_path: Path) -> None:
    assert find_checkpoint(tmp_path) == tmp_path / "last.ckpt"
    (tmp_path / "last.ckpt").touch()
    assert find_checkpoint(tmp_path) == tmp_path / "last.ckpt"
    (tmp_path / "best.ckpt").touch()
    assert find_checkpoint(tmp_path) == tmp_path / "best.ckpt"
    assert find_checkpoint(tmp_path / "last.ckpt") == tmp_path / "last.ckpt"


# --- A disk that refuses ---


def test_a_rename_that_fails_leaves_the_old_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(StoreError) as caught:
        save_checkpoint(saved, made(seed=9))
    assert caught.value.exit_code == 5
    assert str(caught.value).startswith(f"cannot write {saved}: No space left on device; ")
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


_SAVE_LARGER = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from pathlib import Path
from manifests.errors import StoreError
from train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
path = Path(sys.argv[1])
old = load_checkpoint(path)
try:
    save_checkpoint(path, Checkpoint(old.state, {"large": np.zeros(100_000)}, {}))
except StoreError as error:
    print(error)
"""


def _allow_small_files_only() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_a_file_that_may_not_grow_leaves_the_old_one(saved: Path) -> None:
    """EFBIG stands in for a full disk."""
    before = saved.read_bytes()
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SAVE_LARGER, os.fspath(saved)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=_allow_small_files_only,
    )
    assert done.stdout.startswith(f"cannot write {saved}: File too large; "), done.stderr
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


# --- Classes ---


def test_classes_must_be_the_same() -> None:
    path, data = Path("run/best.ckpt"), Path("out")
    require_same_classes(STATE, "ab" * 32, path, data)
    with pytest.raises(DamagedError) as caught:
        require_same_classes(STATE, "cd" * 32, path, data)
    assert str(caught.value) == (
        "run/best.ckpt was trained on other classes than out has, or in another order "
        "(hashes abababababab and cdcdcdcdcdcd): its labels would be wrong"
    )
