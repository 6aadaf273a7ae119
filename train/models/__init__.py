"""Models, one file each family, built by name.

Arrays: all take clips_NTCHW float32 normalised and give logits_NK float32.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddle import nn

    from train.recipe_of_learning import Model

MODELS = (
    "tsn_tiny",
    "tsn_r18",
    "tsn_r34",
    "tsn_r50",
    "tsm_tiny",
    "tsm_r18",
    "tsm_r34",
    "tsm_r50",
    "pptsn_tiny",
    "pptsn_r50",
    "pptsm_tiny",
    "pptsm_r50",
    "slowfast_tiny",
    "slowfast_4x16",
    "slowfast_8x8",
)

_ALPHAS = {"slowfast_tiny": 4, "slowfast_4x16": 8, "slowfast_8x8": 4}


def family_of(name: str) -> str:
    """tsn, tsm, pptsn, pptsm or slowfast."""
    return name.partition("_")[0]


def frame_multiple(name: str) -> int:
    """A clip of this model has a multiple of so many frames."""
    return _ALPHAS.get(name, 1)


def build_model(settings: "Model", num_classes: int, window_px: int | None = None) -> "nn.Layer":
    """A new model with random weights, drawn from Paddle's generator. window_px: a SlowFast scores clips by windows of
    this side; None by all of the clip."""
    family, _, size = settings.name.partition("_")
    if family == "slowfast":
        return _build_slowfast(settings, num_classes, window_px)

    from train.ops.temporal_shift import Shift

    shift = Shift(settings.shift_share, settings.shift_first) if settings.shifts else None
    if settings.name in ("tsn_tiny", "tsm_tiny"):
        from train.models.tiny import TinyNet

        return TinyNet(num_classes, dropout=settings.dropout, shift=shift)

    from paddle.nn import functional

    from train.models.frames import FrameModel
    from train.models.resnet import NUM_BLOCKS, ResNet

    layers = 0 if size == "tiny" else int(size.removeprefix("r"))
    backbone = ResNet(
        NUM_BLOCKS.get(layers, (1, 1, 1)),
        width=64 if layers else 16,
        has_bottlenecks=layers >= 50,
        is_vd=family in ("pptsn", "pptsm"),
        activation=functional.leaky_relu if family == "pptsm" else functional.relu,
        shift=shift,
    )
    return FrameModel(
        backbone,
        num_classes,
        dropout=settings.dropout,
        drops_per_frame=family in ("tsm", "pptsm"),
        init_std=0.001 if family == "tsm" else 0.01,
    )


def _build_slowfast(settings: "Model", num_classes: int, window_px: int | None) -> "nn.Layer":
    from train.models.slowfast import SlowFast

    alpha = _ALPHAS[settings.name]
    if settings.name == "slowfast_tiny":
        sizes: dict[str, Any] = {"fusion_kernel": 5, "num_blocks": (1, 1, 1), "width": 16, "beta": 4}
    else:
        sizes = {"fusion_kernel": {8: 5, 4: 7}[alpha]}
    return SlowFast(num_classes, dropout=settings.dropout, alpha=alpha, pool_px=window_px, **sizes)
