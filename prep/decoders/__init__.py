"""Decoders, one file each, behind the interface of `prep.decoders.interface`."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from manifests.errors import UsageError

if TYPE_CHECKING:
    from prep.decoders.interface import Decoder

DECODERS = ("pyav", "opencv", "decord")

_REMEDIES = {
    "opencv": "install opencv-python and what it needs of the system (Debian: apt-get install libgl1 libglib2.0-0), or "
    "opencv-python-headless, which needs nothing",
    "decord": "pip install decord",
}


def open_decoder(name: str, path: Path) -> "Decoder":
    """Open a video with the decoder `name`, one of DECODERS. Raises `VideoError` for a video that is bad."""
    decoder: Decoder = importlib.import_module(f"prep.decoders.{name}").open_video(path)
    return decoder


def require_decoder(name: str) -> str:
    """Import a decoder and return its version. Raises UsageError where its libraries are missing."""
    try:
        version: str = importlib.import_module(f"prep.decoders.{name}").VERSION
    except (ImportError, OSError, RuntimeError) as error:  # what a library raises whose own libraries are missing
        if name not in _REMEDIES:
            raise
        reason = str(error).partition("\n")[0]
        raise UsageError(f"the decoder {name} cannot be loaded ({reason}); {_REMEDIES[name]}") from error
    return version
