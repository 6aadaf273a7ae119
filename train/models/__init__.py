"""Models, one file each, built by name."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from train.models.tiny import TinyNet

MODELS = ("tsn_tiny", "tsm_tiny")


def build_model(name: str, num_classes: int, dropout: float) -> "TinyNet":
    """A new model with random weights, drawn from Paddle's generator."""
    from train.models.tiny import TinyNet

    return TinyNet(num_classes, dropout=dropout, shifts=name == "tsm_tiny")
