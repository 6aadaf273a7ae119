"""Checkpoints: all that a run needs to go on as if it had not stopped, in one file, written whole or not at all.

There is no generator state in them: order, augmentation and dropout are drawn anew from seed, epoch, sample and step.
"""

import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import paddle

from manifests.atomic import atomic_write
from manifests.errors import DamagedError, StoreError, UsageError

VERSION = 1
LAST = "last.ckpt"
BEST = "best.ckpt"


@dataclass(frozen=True, kw_only=True)
class State:
    """Where a run stands: `step` optimiser steps are done in all, `step_in_epoch` of them in `epoch`.

    `recipe` is nested tables, `classes` the names in label order; `best_top1` is None before the first evaluation.
    `data_recipe` is the recipe of the extraction as nested tables, or {"on_the_fly": {"decoder": name}}.
    `training_sha256` and `validation_sha256` are `ClipDataset.content_sha256` of what the run reads; `loader` is what
    makes its batches, paddle or dali, whose roundings differ.
    """

    recipe: dict[str, Any]
    classes: tuple[str, ...]
    classes_sha256: str
    training_sha256: str = ""
    validation_sha256: str = ""
    data_recipe: dict[str, Any] = field(default_factory=dict)
    loader: str = "paddle"
    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0
    best_top1: float | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A State with the weights and the optimiser's accumulators, as state dicts; `average` is the moving average of
    the weights, `scaler` the scale of the loss, both empty where there is none."""

    state: State
    model: dict[str, Any]
    optimizer: dict[str, Any]
    average: dict[str, Any] = field(default_factory=dict)
    scaler: dict[str, Any] = field(default_factory=dict)

    @property
    def scored(self) -> dict[str, Any]:
        """The weights that evaluations use."""
        return self.average or self.model


_PARTS = ("model", "optimizer", "average", "scaler")


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Raises StoreError; the file that was there stays, then."""
    buffer = io.BytesIO()
    header = json.dumps({"version": VERSION, **asdict(checkpoint.state)})
    parts = {name: getattr(checkpoint, name) for name in _PARTS}
    paddle.save({"header": header, **parts}, buffer)
    with atomic_write(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def load_checkpoint(path: Path) -> Checkpoint:
    """Raises UsageError where there is none, DamagedError where it is not one or of another version.

    Loading unpickles: only load files that you trust.
    """
    if not path.is_file():
        raise UsageError(f"no checkpoint at {path}")
    try:
        content = paddle.load(str(path))
        header = json.loads(content["header"])
        parts = [content[name] for name in _PARTS]
        version = header.pop("version")
        if version == VERSION:
            header["classes"] = tuple(header["classes"])
            return Checkpoint(State(**header), *parts)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise DamagedError(f"{path} is no checkpoint of this program: {type(error).__name__}: {error}") from error
    raise DamagedError(f"{path} has checkpoint version {version}; this program reads version {VERSION}")


def find_checkpoint(run_or_file: Path) -> Path:
    """The best checkpoint of a run folder (the last where none was evaluated), or the file itself."""
    if run_or_file.is_dir():
        best = run_or_file / BEST
        return best if best.is_file() else run_or_file / LAST
    return run_or_file


def require_same_classes(state: State, classes_sha256: str, path: Path, data: Path) -> None:
    """Raises DamagedError where a dataset's classes are not those the checkpoint was trained on."""
    if state.classes_sha256 != classes_sha256:
        raise DamagedError(
            f"{path} was trained on other classes than {data} has, or in another order "
            f"(hashes {state.classes_sha256[:12]} and {classes_sha256[:12]}): its labels would be wrong"
        )
