"""Pixels of a library that tells nothing else, each checked against PyAV's decode of the same video.

Such a library gives fewer, repeated, black or sheared pictures without an error, and says nothing of packets that
cannot be decoded, damage, mirroring, or times. So PyAV decodes alongside: header, times, sizes, orientation, damage and
tally are its own, and every picture has to be the one that PyAV shows.

Arrays: sample_HW uint8 luma of a grid of single pixels.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from manifests.closing import Closing
from prep.decoders.interface import Header, Planes, Tally, VideoError
from prep.decoders.pyav import PyavDecoder, PyavFrame
from prep.geometry import Orientation, Size, UInt8Array

ReadPictures = Callable[[Path, Orientation], Generator[VideoFrame, None, None]]
"""The RGB or BGR pictures of the video at a path, in order, as coded: not turned, though the library may do so by the
orientation given. Raises VideoError where the library stops with an error."""

SAMPLE = Size(32, 24)
"""The grid of pixels by which pictures are compared; smaller pictures have a smaller one."""

MAX_DISTANCE = 3.0
"""Mean absolute difference in levels between samples of one picture. The roundings of the libraries make 0 to 1.8 of
real clips, a picture that is black or sheared has 20 to 100."""

MIN_NEARER = 0.5
"""A picture that is nearer by so many levels to the frame before or after its own is that frame: in still scenes
neighbours differ by less than MAX_DISTANCE."""


class CheckedFrame:
    """See prep.decoders.interface.Frame: the pixels of the library, all else from PyAV."""

    def __init__(self, reference: PyavFrame, picture: PyavFrame) -> None:
        self._reference = reference
        self._picture = picture

    @property
    def time_s(self) -> float | None:
        return self._reference.time_s

    @property
    def size(self) -> Size:
        return self._reference.size

    @property
    def orientation(self) -> Orientation:
        return self._reference.orientation

    @property
    def is_damaged(self) -> bool:
        return self._reference.is_damaged

    def planes(self, size: Size) -> Planes:
        return self._picture.planes(size)


class CheckedDecoder(Closing):
    """See prep.decoders.interface.Decoder. `name` is that of the library, `version` its version."""

    def __init__(self, path: Path, name: str, version: str, read_pictures: ReadPictures) -> None:
        self._path = path
        self._name = name
        self._read_pictures = read_pictures
        self._reference = PyavDecoder(path)
        self._pictures: Generator[VideoFrame, None, None] | None = None
        self.version = f"{name} {version}"
        self.header: Header = self._reference.header

    @property
    def tally(self) -> Tally:
        return self._reference.tally

    def frames(self) -> Iterator[CheckedFrame]:
        """Raises VideoError where the library gives anything but the frames that PyAV gives."""
        reformatter, num_frames, coded = VideoReformatter(), 0, Size(0, 0)
        watch = _Watch()
        for reference in self._reference.frames():
            if self._pictures is None:
                coded = reference.size
                self._pictures = self._read_pictures(self._path, reference.orientation)
            if reference.size != coded:
                # No library tells of a change of size; it is for the caller to end here.
                yield CheckedFrame(reference, reference)
                return
            native = next(self._pictures, None)
            if native is None:
                raise self._fault(num_frames, "gives no more, though more follow")
            picture = PyavFrame(native, reference.time_s, reformatter)
            if picture.size != coded:
                size = f"{picture.size.width}x{picture.size.height}"
                raise self._fault(num_frames, f"gives a picture of {size} for one of {coded.width}x{coded.height}")
            if fault := watch.fault(reference, picture):
                raise self._fault(num_frames, fault)
            yield CheckedFrame(reference, picture)
            num_frames += 1
        if self._pictures is not None and next(self._pictures, None) is not None:
            raise self._fault(num_frames, "goes on, though the video ends")

    def num_damaged_ahead(self) -> int:
        return self._reference.num_damaged_ahead()

    def close(self) -> None:
        if self._pictures is not None:
            self._pictures.close()
        self._reference.close()

    def _fault(self, num_frames: int, what: str) -> VideoError:
        if num_frames == 0:
            return VideoError("unsupported", f"{self._name} cannot decode this {self.header.codec} video: it {what}")
        return VideoError("decode", f"after {num_frames} frames {self._name} {what}")


@contextmanager
def path_by_descriptor(path: Path) -> Iterator[str]:
    """A plain name of the file while the block lasts, for libraries that cannot open every name. Raises VideoError."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise VideoError("unreadable", error.strerror or str(error)) from error
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class _Watch:
    """Compares each picture with its own reference, and with that before and after."""

    def __init__(self) -> None:
        self._reformatters = VideoReformatter(), VideoReformatter()
        self._before: tuple[UInt8Array, UInt8Array, float] | None = None

    def fault(self, reference: PyavFrame, picture: PyavFrame) -> str | None:
        """Say how the picture, or the one before, is not that of its reference, or None."""
        size = Size(min(SAMPLE.width, reference.size.width), min(SAMPLE.height, reference.size.height))
        matrix = reference.native.colorspace
        expected_HW = PyavFrame(reference.native, None, self._reformatters[0]).sample(size, matrix)
        sample_HW = PyavFrame(picture.native, None, self._reformatters[1]).sample(size, matrix)
        distance = mean_difference(sample_HW, expected_HW)
        before, self._before = self._before, (expected_HW, sample_HW, distance)
        if distance > MAX_DISTANCE:
            # Luma also changes with colours that RGB cannot hold: libraries clip these as PyAV does.
            distance_rgb = mean_difference(picture.rgb(matrix), reference.rgb(matrix))
            return f"gives another picture, {distance_rgb:.0f} levels away" if distance_rgb > MAX_DISTANCE else None
        if before is not None:
            expected_before_HW, sample_before_HW, distance_before = before
            if mean_difference(sample_HW, expected_before_HW) < distance - MIN_NEARER:
                return "gives the last picture again"
            if mean_difference(sample_before_HW, expected_HW) < distance_before - MIN_NEARER:
                return "turns out to have left one out"
        return None


def mean_difference(one: UInt8Array, other: UInt8Array) -> float:
    """Mean absolute difference in levels."""
    return float(np.abs(one.astype(np.int16) - other).mean())
