"""Decoders, one file each, behind the interface of `prep.decoders.interface`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prep.decoders.interface import Decoder

DECODERS = ("pyav",)


def open_decoder(name: str, path: Path) -> "Decoder":
    """Open a video with the decoder `name` (`auto` is pyav). Raises `VideoError` for a video that is bad."""
    from prep.decoders import pyav

    return pyav.PyavDecoder(path)
