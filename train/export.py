"""A model for inference elsewhere: uint8 clips in, scores out, normalisation inside; the rest is written down.

Arrays: clips_NTHWC uint8 RGB in [0, 255]; scores_NK float32.
"""

import json
from pathlib import Path
from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional

from manifests.atomic import atomic_write, disk_errors
from manifests.errors import UsageError
from manifests.recipe import flat
from train.normalisation import NORMALISATIONS, Normalisation
from train.trained import Trained

MODEL = "model"
DESCRIPTION = "export.json"


class ScoresOfClips(nn.Layer):
    """The model between bytes and scores."""

    def __init__(self, model: nn.Layer, normalisation: Normalisation) -> None:
        super().__init__()
        self.model = model
        scale = [1 / (255 * std) for std in normalisation.std]
        shift = [mean / std for mean, std in zip(normalisation.mean, normalisation.std, strict=True)]
        self.register_buffer("scale", paddle.to_tensor(scale, "float32"))
        self.register_buffer("shift", paddle.to_tensor(shift, "float32"))

    def forward(self, clips_NTHWC: paddle.Tensor) -> paddle.Tensor:
        normalised = clips_NTHWC.astype("float32") * self.scale - self.shift
        return functional.softmax(self.model(normalised.transpose([0, 1, 4, 2, 3])), axis=1)


def export(trained: Trained, out: Path) -> dict[str, Any]:
    """Write the model into the new or empty folder `out`, its description last; returns the description.

    Takes clips of any number and size, of the number of frames that evaluations use. Raises UsageError where `out`
    holds something, StoreError.
    """
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise UsageError(f"{out} is not empty: --out takes a new folder")
    recipe, state = trained.recipe, trained.state
    _, num_frames, crop_px = recipe.view_shape
    numbers = NORMALISATIONS[recipe.normalisation]
    layer = ScoresOfClips(trained.model, numbers)
    layer.eval()
    spec = paddle.static.InputSpec([None, num_frames, None, None, 3], "uint8", name="clips_NTHWC")
    with disk_errors(out):
        paddle.jit.save(paddle.jit.to_static(layer, input_spec=[spec]), str(out / MODEL))
    description = {
        "model": recipe.model.name,
        "input": {
            "name": "clips_NTHWC",
            "shape": [None, num_frames, None, None, 3],
            "dtype": "uint8",
            "colours": "RGB",
        },
        "output": "scores in label order, adding up to 1",
        "normalised_inside": {"mean": numbers.mean, "std": numbers.std},
        "crop_px": crop_px,
        "clip": {key: value for key, value in flat(recipe).items() if key.startswith(("clip.", "views."))},
        "frames": state.data_recipe,
        "classes": state.classes,
        "classes_sha256": state.classes_sha256,
        "paddle": paddle.__version__,
    }
    with atomic_write(out / DESCRIPTION) as temporary:
        temporary.write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return description
