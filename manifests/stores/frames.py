"""Frame folders: one folder a video, frames/<video_id>/img_00001.jpg onwards."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from manifests.atomic import sync_folder
from manifests.names import folder_path, frame_file_name

FOLDER = "frames"


def location_of(video_id: str) -> str:
    """Where a video's folder lies, relative to the dataset."""
    return f"{FOLDER}/{folder_path(video_id)}"


class FolderWriter:
    """Writes frames into a new folder, in order."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._num_frames = 0

    def add(self, jpeg: bytes) -> None:
        (self._folder / frame_file_name(self._num_frames)).write_bytes(jpeg)
        self._num_frames += 1

    def close(self) -> None:
        """Nothing is held open between frames."""


def publish_folder(folder: Path, target: Path) -> None:
    """Rename a finished and synced folder to its final place, replacing what an earlier run left there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        shutil.rmtree(target)
    os.rename(folder, target)
    sync_folder(target.parent)


def read_frames(folder: Path, indices: Sequence[int]) -> list[bytes]:
    """The JPEG bytes of the frames at `indices` (0-based). Raises OSError where a file is not there."""
    return [(folder / frame_file_name(index)).read_bytes() for index in indices]
