"""OpenCV (FFmpeg's libraries, of its own): BGR pictures.

Arrays: picture_HWC uint8 BGR.
"""

import itertools
import os
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
from av.video.frame import VideoFrame

# Both are read once, when the library is loaded or first used: it would write to stderr.
os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

import cv2

from prep.decoders.checked import CheckedDecoder, path_by_descriptor
from prep.geometry import UPRIGHT, Orientation

VERSION = cv2.__version__

if tuple(map(int, VERSION.split(".")[:2])) < (4, 13):
    raise ImportError(f"OpenCV {VERSION} converts colour without regard to matrix and range, 4.13 does not")


def open_video(path: Path) -> CheckedDecoder:
    """Raises VideoError for a video that cannot be opened."""
    return CheckedDecoder(path, "opencv", VERSION, read_pictures)


def read_pictures(
    path: Path, orientation: Orientation = UPRIGHT, numbers: Sequence[int] | None = None
) -> Generator[VideoFrame, None, None]:
    """See prep.decoders.checked.ReadPictures. One that cannot be opened has none. With `numbers`, only those pictures;
    others are decoded, but not made RGB."""
    # A name that is not UTF-8 would end the process in a segmentation fault.
    with path_by_descriptor(path) as name:
        capture = cv2.VideoCapture(name, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    try:
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        for number in itertools.count() if numbers is None else range(max(numbers) + 1):
            if not capture.grab():
                return
            if numbers is not None and number not in numbers:
                continue
            is_read, picture_HWC = capture.retrieve()
            if not is_read:
                return
            yield VideoFrame.from_ndarray(picture_HWC.view(np.uint8), format="bgr24")
    finally:
        capture.release()
