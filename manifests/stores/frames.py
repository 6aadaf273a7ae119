"""Frame folders: one folder a video, frames/<video_id>/img_00001.jpg onwards.

A video that an update stores anew lies in frames-2/, or the next that is free: the folder of before stays whole.
"""

import errno
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from manifests.atomic import sync_folder
from manifests.names import folder_path, frame_file_name

FOLDER = "frames"


def location_of(video_id: str, number: int = 1) -> str:
    """Where a video's folder lies, relative to the dataset: in frames/, or in frames-2/, frames-3/ ..."""
    root = FOLDER if number == 1 else f"{FOLDER}-{number}"
    return f"{root}/{folder_path(video_id)}"


def is_root(name: str) -> bool:
    """Whether frame folders lie in the folder of this name: frames, frames-2, frames-3 ..."""
    return re.fullmatch(rf"{FOLDER}(-[2-9]|-[1-9][0-9]+)?", name) is not None


class FolderWriter:
    """Writes frames into a new folder, in order."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = os.fspath(folder)
        self._num_frames = 0

    def add(self, jpeg: bytes) -> None:
        # Unbuffered, and no path objects: half of what a file costs otherwise.
        with open(f"{self._folder}/{frame_file_name(self._num_frames)}", "wb", buffering=0) as file:
            if file.write(jpeg) != len(jpeg):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._num_frames += 1

    def close(self) -> None:
        """Nothing is held open between frames."""


def publish_folder(folder: Path, target: Path) -> None:
    """Rename a finished and synced folder to its final place, replacing what an earlier run left there."""
    folder.stat()  # first, so that a dataset that has vanished is not made anew
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        shutil.rmtree(target)
    os.rename(folder, target)
    sync_folder(target.parent)


def read_frames(folder: Path, indices: Sequence[int]) -> list[bytes]:
    """The JPEG bytes of the frames at `indices` (0-based). Raises OSError where a file is not there."""
    return [(folder / frame_file_name(index)).read_bytes() for index in indices]
