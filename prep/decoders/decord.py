"""decord (FFmpeg 4.1 inside): RGB pictures.

Arrays: picture_HWC uint8 RGB.
"""

import itertools
import os
import re
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
from av.video.frame import VideoFrame

# Read when pictures are repeated: it would write to stderr.
os.environ.setdefault("DECORD_DUPLICATE_WARNING_THRESHOLD", "1.0")

import decord

from prep.decoders.checked import CheckedDecoder, path_by_descriptor
from prep.decoders.interface import VideoError
from prep.geometry import UPRIGHT, Orientation, UInt8Array

VERSION = decord.__version__

decord.logging.set_level(decord.logging.QUIET)


def open_video(path: Path) -> CheckedDecoder:
    """Raises VideoError for a video that cannot be opened."""
    return CheckedDecoder(path, "decord", VERSION, read_pictures)


def read_pictures(
    path: Path, orientation: Orientation = UPRIGHT, numbers: Sequence[int] | None = None
) -> Generator[VideoFrame, None, None]:
    """See prep.decoders.checked.ReadPictures. With `numbers`, only those pictures."""
    # Names have to be UTF-8, and "a:b.avi" reads as a protocol.
    with path_by_descriptor(path) as name:
        try:
            reader = decord.VideoReader(name, ctx=decord.cpu(0), num_threads=1)
        except (decord.DECORDError, RuntimeError) as error:
            raise VideoError("unsupported", f"decord cannot open it: {without_place(error)}") from error
    for number in itertools.count() if numbers is None else range(max(numbers) + 1):
        try:
            picture = reader.next()
            if numbers is not None and number not in numbers:
                continue
            picture_HWC = picture.asnumpy()
        except StopIteration:
            return
        except (decord.DECORDError, RuntimeError) as error:
            raise VideoError("decode", f"decord stops: {without_place(error)}") from error
        if picture_HWC.ndim != 3 or picture_HWC.shape[2] != 3:
            raise VideoError("decode", f"decord gives an array of shape {picture_HWC.shape} for a picture")
        yield VideoFrame.from_ndarray(_as_coded(picture_HWC, orientation), format="rgb24")


def read_numbers(path: Path, numbers: Sequence[int], num_frames: int) -> list[VideoFrame]:
    """The pictures that decord gives for these numbers: of many kinds of video not the right ones. Raises VideoError,
    also where it counts other frames than `num_frames`."""
    with path_by_descriptor(path) as name:
        try:
            reader = decord.VideoReader(name, ctx=decord.cpu(0), num_threads=1)
            if len(reader) != num_frames:
                raise VideoError("decode", f"decord counts {len(reader)} frames, not {num_frames}")
            pictures_NHWC = reader.get_batch(list(numbers)).asnumpy()
        except (decord.DECORDError, RuntimeError) as error:
            raise VideoError("decode", f"decord stops: {without_place(error)}") from error
    return [VideoFrame.from_ndarray(picture_HWC, format="rgb24") for picture_HWC in pictures_NHWC]


def _as_coded(picture_HWC: UInt8Array, orientation: Orientation) -> UInt8Array:
    """Undo the turn that decord makes: of a matrix that mirrors it takes the turn of the x axis, and mirrors not."""
    turn_deg = 180 - orientation.rotation_deg if orientation.mirrored else orientation.rotation_deg
    return np.ascontiguousarray(np.rot90(picture_HWC, k=turn_deg // 90))


def without_place(error: Exception) -> str:
    """Its first line without times, lines of its source, and names of files."""
    return re.sub(r"\[[\d:]+\] \S+:\d+: |\[?/proc/self/fd/\d+\]?", "", str(error)).strip().partition("\n")[0]
