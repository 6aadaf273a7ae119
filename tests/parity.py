"""Our models beside the recorded logits of PaddleVideo's own code, from the same weights and input.

The README beside the data says how weights and inputs are made. As a program it prints how far each case is off.
Arrays: clips_NTCHW float32; logits_NK float32, logits_NDHWK at each position of a pooling window.
"""

import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from paddle_import import paddle

from train.models import build_model
from train.recipe_of_learning import Model

PARITY = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "parity"
NAMES = {
    "tsn": "tsn_r50",
    "tsm": "tsm_r50",
    "pptsn": "pptsn_r50",
    "pptsm": "pptsm_r50",
    "slowfast_4x16": "slowfast_4x16",
    "slowfast_8x8": "slowfast_8x8",
}
"""Ours by the name of the data."""

Floats = npt.NDArray[np.float32]


class Recorded:
    """The data of one model. Its weights are asserted to be those of the recipe."""

    def __init__(self, name: str) -> None:
        self._is_slowfast = name.startswith("slowfast")
        self._name = NAMES[name]
        self._facts = json.loads((PARITY / f"{name}.json").read_text())
        with np.load(PARITY / f"{name}.npz") as file:
            self.arrays = dict(file)
        self.num_classes: int = self._facts["num_classes"]
        self.cases: list[str] = list(self._facts["cases"])
        self.weights = {entry["key"]: _rebuilt(entry) for entry in self._facts["state_dict"]}

    def model(self, shift_share: float = 1 / 8) -> paddle.nn.Layer:
        """Ours, with these weights and no other keys."""
        model = build_model(Model(name=self._name, shift_share=shift_share), self.num_classes)
        assert {key: tuple(value.shape) for key, value in model.state_dict().items()} == {
            key: value.shape for key, value in self.weights.items()
        }
        assert model.set_state_dict(self.weights) == ([], [])
        model.eval()
        return model

    def outputs(self) -> Iterator[tuple[str, Floats]]:
        """What ours gives for every recorded array of logits and scores, by its name."""
        model = self.model()
        for case in self.cases:
            clips = paddle.to_tensor(self._clips(case))
            if self._is_slowfast:
                model.pool_px = 64 if "conv" in case else None
                with _scaled(model.head.projection, 0.01 if "soft" in case else 1.0), paddle.no_grad():
                    logits = model.position_logits(clips)
                    yield case, (logits if "conv" in case else logits.flatten(1)).numpy()
                    if "soft" in case:
                        yield case.replace("logits", "probs"), paddle.nn.functional.softmax(model(clips)).numpy()
                continue
            with paddle.no_grad():
                # The reference shifts one over its number of segments.
                own = self.model(1 / 16) if case == "logits_seg16" else model
                yield case, own(clips).numpy()

    def distance(self, name: str, ours: Floats) -> float:
        """The largest difference, in terms of the largest value."""
        expected = self.arrays[name]
        assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
        return float(abs(ours - expected).max() / abs(expected).max())

    def _clips(self, case: str) -> Floats:
        shape = self.arrays[self._facts["cases"][case]].tolist()
        made = np.random.RandomState(7).standard_normal(shape).astype(np.float32)
        return made.transpose(0, 2, 1, 3, 4) if self._is_slowfast else made


def _rebuilt(entry: dict[str, Any]) -> Floats:
    """The weights of one key, by the recipe."""
    key, shape = entry["key"], entry["shape"]
    z = np.random.RandomState(zlib.crc32(key.encode()) & 0x7FFFFFFF).standard_normal(shape)
    match entry["kind"]:
        case "conv":
            z = z * np.sqrt(2 / np.prod(shape[1:]))
        case "fc_weight":
            z = z * np.sqrt(2 / shape[0])
        case "bn_weight":
            z = 1 + 0.1 * z
        case "bn_var":
            z = 1 + 0.1 * abs(z)
        case "bn_bias" | "bn_mean" | "fc_bias":
            z = 0.1 * z
    weights = z.astype(np.float32)
    assert weights.flat[0] == np.float32(entry["first"]), key
    assert abs(weights.sum(dtype=np.float64) - entry["sum"]) < 2e-6, key
    return weights


@contextmanager
def _scaled(layer: paddle.nn.Layer, factor: float) -> Iterator[None]:
    before = [parameter.clone() for parameter in layer.parameters()]
    for parameter in layer.parameters():
        parameter.set_value(parameter * np.float32(factor))
    yield
    for parameter, value in zip(layer.parameters(), before, strict=True):
        parameter.set_value(value)


def main() -> int:
    for name in NAMES:
        recorded = Recorded(name)
        for case, ours in recorded.outputs():
            print(f"{name:14} {case:18} {recorded.distance(case, ours):.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
