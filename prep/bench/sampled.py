"""The comparison of the PaddleVideo tutorial, decord against OpenCV: frames for one training clip straight from a
video, evenly spread, scaled to a short side of 256 and cropped to 224.

decord is asked for the frames by number; OpenCV reads the video in order and keeps them. Both believe the header's
number of frames. Whether they are the frames that were asked for is found out afterwards, by a sequential decode.

Arrays: picture_HWC uint8 RGB or BGR; sample_HW uint8 luma of a grid of single pixels.
"""

import importlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from prep.decoders.checked import MAX_DISTANCE, MIN_NEARER, SAMPLE, mean_difference, path_by_descriptor
from prep.decoders.interface import VideoError
from prep.decoders.pyav import PyavDecoder, PyavFrame
from prep.geometry import Size, UInt8Array

SHORT_SIDE_PX = 256
CROP_PX = 224

_MAX_FRAMES = 10**7


class Pictures:
    """What a reader gave: the pictures as decoded, and what was made of them."""

    def __init__(self, pixel_format: str) -> None:
        self.pixel_format = pixel_format
        self.decoded: list[UInt8Array] = []
        self.clip: list[UInt8Array] = []


def read_by_decord(path: Path, num_wanted: int) -> tuple[list[int], Pictures]:
    """The indices asked for, and the pictures that came. Raises VideoError."""
    ours = importlib.import_module("prep.decoders.decord")
    decord = ours.decord
    pictures = Pictures("rgb24")
    with path_by_descriptor(path) as name:
        try:
            reader = decord.VideoReader(name, ctx=decord.cpu(0), num_threads=1)
            asked = _spread(len(reader), num_wanted)
            pictures.decoded.extend(reader.get_batch(asked).asnumpy())
        except (decord.DECORDError, RuntimeError) as error:
            raise VideoError("unsupported", ours.without_place(error)) from error
    _scale_and_crop(pictures)
    return asked, pictures


def read_by_opencv(path: Path, num_wanted: int) -> tuple[list[int], Pictures]:
    """The indices asked for, and the pictures that came. Raises VideoError."""
    cv2 = importlib.import_module("prep.decoders.opencv").cv2
    pictures = Pictures("bgr24")
    with path_by_descriptor(path) as name:
        capture = cv2.VideoCapture(name, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        num_frames = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        if not 0 < num_frames < _MAX_FRAMES:
            raise VideoError("unsupported", f"OpenCV tells of {num_frames} frames")
        asked = _spread(num_frames, num_wanted)
        kept: dict[int, UInt8Array] = {}
        for index in range(asked[-1] + 1):
            is_read, picture_HWC = capture.read()
            if not is_read:
                break
            if index in asked:
                kept[index] = picture_HWC
        capture.release()
    pictures.decoded.extend(kept[index] for index in asked if index in kept)
    _scale_and_crop(pictures)
    return asked, pictures


READERS = {"decord": read_by_decord, "opencv": read_by_opencv}


def _spread(num_frames: int, num_wanted: int) -> list[int]:
    """The middles of equal parts of the video; some twice where there are too few."""
    return [(2 * part + 1) * num_frames // (2 * num_wanted) for part in range(num_wanted)]


def _scale_and_crop(pictures: Pictures) -> None:
    cv2 = importlib.import_module("prep.decoders.opencv").cv2
    cv2.setNumThreads(1)
    for picture_HWC in pictures.decoded:
        height, width = picture_HWC.shape[:2]
        scale = SHORT_SIDE_PX / min(height, width)
        size = max(CROP_PX, round(width * scale)), max(CROP_PX, round(height * scale))
        scaled_HWC = cv2.resize(picture_HWC, size, interpolation=cv2.INTER_LINEAR)
        top, left = (size[1] - CROP_PX) // 2, (size[0] - CROP_PX) // 2
        pictures.clip.append(scaled_HWC[top : top + CROP_PX, left : left + CROP_PX].copy())


@lru_cache(maxsize=64)
def reference(path: Path) -> tuple[tuple[UInt8Array, ...], int]:
    """A sample of each frame of the video, in order, and the matrix of its colours. Raises VideoError."""
    reformatter, samples, matrix = VideoReformatter(), [], 2
    with PyavDecoder(path) as decoder:
        for frame in decoder.frames():
            matrix = frame.native.colorspace
            # Through RGB, as the pictures come, where colours beyond it are clipped.
            native = VideoFrame.from_ndarray(PyavFrame(frame.native, None, reformatter).rgb(matrix), format="rgb24")
            samples.append(_sample(native, reformatter, matrix))
    return tuple(samples), matrix


def num_wrong(expected: tuple[tuple[UInt8Array, ...], int], asked: Sequence[int], pictures: Pictures) -> int:
    """How many frames that were asked for did not come: the picture is another by far, or nearer to a neighbour."""
    samples, matrix = expected
    reformatter, wrong = VideoReformatter(), len(asked) - len(pictures.decoded)
    for index, picture_HWC in zip(asked, pictures.decoded, strict=False):  # what is missing is missing at the end
        native = VideoFrame.from_ndarray(np.ascontiguousarray(picture_HWC), format=pictures.pixel_format)
        sample_HW = _sample(native, reformatter, matrix)
        wrong += not _is_right(sample_HW, samples, index)
    return wrong


def _is_right(sample_HW: UInt8Array, samples: Sequence[UInt8Array], index: int) -> bool:
    if index >= len(samples) or samples[index].shape != sample_HW.shape:
        return False
    distance = mean_difference(sample_HW, samples[index])
    neighbours = [samples[near] for near in (index - 1, index + 1) if 0 <= near < len(samples)]
    return distance <= MAX_DISTANCE and all(
        mean_difference(sample_HW, near) >= distance - MIN_NEARER for near in neighbours
    )


def _sample(native: VideoFrame, reformatter: VideoReformatter, matrix: int) -> UInt8Array:
    grid = Size(min(SAMPLE.width, native.width), min(SAMPLE.height, native.height))
    return PyavFrame(native, None, reformatter).sample(grid, matrix).copy()
