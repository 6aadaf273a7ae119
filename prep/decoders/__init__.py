"""Decoders, one file each, behind the interface of `prep.decoders.interface`."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prep.decoders.interface import Decoder

DECODERS = ("pyav",)


def open_decoder(name: str, path: Path) -> "Decoder":
    """Open a video with the decoder `name`, one of DECODERS. Raises `VideoError` for a video that is bad."""
    decoder: Decoder = importlib.import_module(f"prep.decoders.{name}").open_video(path)
    return decoder
