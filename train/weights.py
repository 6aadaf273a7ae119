"""First weights from a file: PaddleVideo's, a ResNet's that was trained on ImageNet, or a checkpoint of this program.

A file may lack the classifier, or have one for other classes. The backbone fits wholly, or nothing is loaded.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle

from manifests.errors import UsageError
from manifests.wording import count
from train.checkpoint import State, find_checkpoint, load_checkpoint
from train.models import family_of
from train.recipe_of_learning import Model
from train.weight_names import own_names

Weights = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Loaded:
    """What became of a file: `num_loaded` of its arrays are in the model; `left_out` is the file's, `reason` why;
    `random` are the model's that the file did not have."""

    path: Path
    num_loaded: int
    left_out: tuple[str, ...]
    reason: str
    random: tuple[str, ...]

    def __str__(self) -> str:
        text = f"began with {count(self.num_loaded, 'array')} of {self.path}"
        if self.left_out:
            text += f"; left out of it: {', '.join(self.left_out)} ({self.reason})"
        if self.random:
            text += f"; random: {', '.join(self.random)}"
        return text


def load_first_weights(model: paddle.nn.Layer, settings: Model, classes_sha256: str) -> Loaded:
    """Put what the file `settings.init` holds into the model, or the best checkpoint of the run folder that it names.

    The classifier of a checkpoint is loaded where its classes are those of the dataset in their order, that of another
    file, which does not say, where their number is the same. Raises UsageError where there is no such file, where it
    does not fit, and where it tells, by a checkpoint's recipe or by its name, that it is of another model whose keys
    would fit. Loading unpickles: only load files that you trust.
    """
    path = find_checkpoint(Path(settings.init))
    own = model.state_dict()
    content = _read(path)
    reason = ""
    if isinstance(content.get("header"), str):
        checkpoint = load_checkpoint(path)
        _require_same_model(checkpoint.state, settings, path)
        weights = {key: value.numpy() for key, value in checkpoint.scored.items()}
        if checkpoint.state.classes_sha256 != classes_sha256:
            reason = "other classes, or in another order"
    else:
        _require_family(path, settings.name)
        arrays = {key: np.asarray(value) for key, value in content.items() if hasattr(value, "shape")}
        weights = {name: arrays[key] for key, name in own_names(list(arrays), list(own)).items()}

    classifier = _classifier_keys(model)
    for key in classifier:
        if key in weights and list(weights[key].shape) != own[key].shape:
            reason = f"{weights[key].shape[-1]} classes, not {own[key].shape[-1]}"
    heads = [key for key in weights if key not in own and not key.startswith("backbone.")]
    left_out = [*heads, *(key for key in classifier if reason and key in weights)]
    fitting = {key: value for key, value in weights.items() if key not in left_out}
    random = tuple(key for key in classifier if key not in fitting)
    _require_fit(fitting, {key: value.shape for key, value in own.items() if key not in random}, settings.name, path)
    for key, value in fitting.items():
        own[key].set_value(value.astype(own[key].numpy().dtype, copy=False))
    return Loaded(path, len(fitting), tuple(left_out), reason or "no place for it", random)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"model.init: there is no file {path}")
    try:
        content = paddle.load(str(path), return_numpy=True)
    except Exception as error:
        raise UsageError(f"model.init: {path} cannot be read as weights ({type(error).__name__}: {error})") from error
    is_checkpoint = isinstance(content, dict) and isinstance(content.get("header"), str)
    if not is_checkpoint and not (
        isinstance(content, dict) and any(hasattr(value, "shape") for value in content.values())
    ):
        raise UsageError(f"model.init: {path} holds no weights by name")
    return content


def _require_same_model(state: State, settings: Model, path: Path) -> None:
    """A checkpoint knows its model."""
    before = {**vars(Model()), **state.recipe["model"]}
    keys = ["name", *(["shift_share", "shift_first"] if settings.shifts else [])]
    for key in keys:
        if before[key] != getattr(settings, key):
            raise UsageError(
                f"model.init: {path} was trained with model.{key} {before[key]!r}, not {getattr(settings, key)!r}: "
                "its weights would give wrong scores"
            )


def _require_family(path: Path, name: str) -> None:
    """A TSN fits into a TSM, and a ppTSN into a ppTSM: only the name of the file tells (TSM_k400.pdparams)."""
    named = {match[0].replace("-", "").replace("_", "") for match in _FAMILIES.finditer(path.stem.lower())}
    if named and family_of(name) not in named:
        raise UsageError(
            f"model.init: {path.name} seems to be of a {' or '.join(sorted(named))}, and the model is {name}: its "
            "weights would give wrong scores even where they fit; choose another model.name, or give the file another "
            "name if that is not so"
        )


_FAMILIES = re.compile(r"(pp[-_]?)?(tsn|tsm)|slowfast")


def _require_fit(weights: Weights, shapes: Mapping[str, Sequence[int]], name: str, path: Path) -> None:
    missing = [key for key in shapes if key not in weights]
    foreign = [key for key in weights if key not in shapes]
    differing = [key for key in weights if key in shapes and list(weights[key].shape) != list(shapes[key])]
    if not (missing or foreign or differing):
        return
    if differing:
        key = differing[0]
        where = f"{key} has the shape {list(weights[key].shape)} there, not {list(shapes[key])}"
    else:
        where = f"it lacks {missing[0]}" if missing else f"{foreign[0]} has no place in it"
    number = len(missing) + len(foreign) + len(differing)
    raise UsageError(
        f"model.init: {path} does not fit {name}: {where}" + (f", and {number - 1} more" if number > 1 else "")
    )


def _classifier_keys(model: paddle.nn.Layer) -> tuple[str, ...]:
    """Those of the one fully connected layer."""
    (name,) = (name for name, layer in model.named_sublayers() if isinstance(layer, paddle.nn.Linear))
    return f"{name}.weight", f"{name}.bias"
