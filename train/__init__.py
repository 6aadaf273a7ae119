"""Uses a prepared dataset: clips, transforms, loader, models, one training loop, evaluation."""

from importlib.metadata import version

__version__ = version("decode-once")
