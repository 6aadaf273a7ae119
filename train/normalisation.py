"""Means and standard deviations that models were trained with, of RGB in [0, 1]."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Normalisation:
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


NORMALISATIONS = {
    "imagenet": Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # TSN, TSM, ppTSM
    "kinetics": Normalisation((0.45, 0.45, 0.45), (0.225, 0.225, 0.225)),  # SlowFast, in both projects
}
