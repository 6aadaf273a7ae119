"""Read a prepared dataset: videos by row, frames by index. Other programs need nothing else of this project.

    with open_dataset("OUT") as dataset:
        for row in dataset.rows("train01"):
            jpegs = dataset.read_frames(row, [0, 8, 16])
            label = dataset.labels[row]

A row is a position in the manifest, which has one row a source video, in source order. Nothing is listed and no
count is guessed: all comes from dataset.json, the manifest and the store.

Arrays: labels_V int32, num_frames_V int64 over the V videos of the manifest; rows_R int64.
"""

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from manifests.closing import Closing
from manifests.description import BEFORE_FOLDER, DESCRIPTION_FILE, Description, read_description
from manifests.errors import DamagedError, UsageError
from manifests.hold import Hold
from manifests.manifest import FRAMES_FILE, MANIFEST_FILE, MANIFEST_SCHEMA, parse_parquet
from manifests.stores import arrow, frames

_MAX_OPEN_SHARDS = 64

_PLACE_COLUMNS = ["video_id", "num_frames", "location", "row", "offsets_at", "data_at"]

_MEND = {
    MANIFEST_FILE: "restore it, or extract into a new --out",
    FRAMES_FILE: "prep extract --retry damaged makes it anew",
}


class _OpenShard:
    """A shard's file descriptor, closed when nobody reads from it any more."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class Dataset(Closing):
    """A prepared dataset open for reading.

    Positioned reads only, so threads and forked processes may share it; a pickled copy opens the files anew.
    An update of the dataset deletes nothing that is read here before `close`; a pickled copy relies on the original.
    """

    def __init__(self, folder: Path, description: Description, manifest: pa.Table, hold: Hold | None = None) -> None:
        self._hold = hold
        self.folder = folder
        self.description = description
        self.classes = description.classes
        self.manifest = manifest
        self.labels: npt.NDArray[np.int32] = manifest.column("label").to_numpy()
        self.num_frames: npt.NDArray[np.int64] = manifest.column("num_frames").to_numpy()
        self._places = manifest.select(_PLACE_COLUMNS)  # a dict of all columns takes as long as decoding part of one
        self._shard = lru_cache(_MAX_OPEN_SHARDS)(lambda location: _OpenShard(folder / location))

    def __len__(self) -> int:
        """The number of source videos, whatever became of them."""
        return int(self.manifest.num_rows)

    def rows(self, subset: str = "all") -> npt.NDArray[np.int64]:
        """The rows (int64, ascending) of the ok videos of a subset. Raises UsageError for an unknown subset."""
        if subset not in self.description.subsets:
            known = ", ".join(self.description.subsets)
            raise UsageError(f"the dataset has no subset {subset!r}; it has {known}")
        chosen = pc.equal(self.manifest.column("status"), "ok").to_numpy(zero_copy_only=False)
        if subset != "all":
            chosen &= np.array([subset in names for names in self.manifest.column("subsets").to_pylist()], bool)
        return np.flatnonzero(chosen)

    def video(self, row: int) -> dict[str, Any]:
        """The manifest row as a dict, by column name."""
        record: dict[str, Any] = self.manifest.slice(row, 1).to_pylist()[0]
        return record

    def read_frames(self, row: int, indices: Sequence[int]) -> list[bytes]:
        """The JPEG bytes of the frames at `indices` (0-based, in any order) of the video at `row`.

        Raises IndexError for a frame that the video does not have, and DamagedError, naming video, file and row,
        where the store does not give what the manifest promises.
        """
        video = self._places.slice(row, 1).to_pylist()[0]
        num_frames = video["num_frames"]
        for index in indices:
            if not 0 <= index < num_frames:
                raise IndexError(f"video {video['video_id']} has frames [0, {num_frames}), not {index}")
        location = video["location"]
        try:
            if video["row"] < 0:
                return frames.read_frames(self.folder / location, indices)
            shard = self._shard(location)  # held here, since another thread may make it leave the cache
            return arrow.read_frames(shard.descriptor, num_frames, video["offsets_at"], video["data_at"], indices)
        except OSError as error:
            where = f"{location} row {video['row']}" if video["row"] >= 0 else location
            raise DamagedError(f"cannot read frames of video {video['video_id']} in {where}: {error}") from error

    def is_current(self) -> bool:
        """Whether no update has replaced the dataset since it was opened."""
        return self._hold is None or self._hold.is_current()

    def close(self) -> None:
        self._shard.cache_clear()
        if self._hold is not None:
            self._hold.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.folder, self.description, self.manifest)


def open_dataset(folder: str | os.PathLike[str]) -> Dataset:
    """Open a prepared dataset. Raises UsageError where there is none, DamagedError where it is not readable."""
    path = Path(os.path.abspath(folder))  # shards are opened later, wherever the program is by then
    while True:  # until no update replaces it just now
        hold = Hold(path / DESCRIPTION_FILE)
        try:
            description = read_description(path)
            manifest = read_manifest(path, description.manifest_sha256)
        except DamagedError:
            if hold.is_current():
                raise
        else:
            if hold.is_current():
                return Dataset(path, description, manifest, hold)
        hold.close()


def read_manifest(folder: Path, sha256: str) -> pa.Table:
    """manifest.parquet as a table. Raises DamagedError where it is missing, has another SHA-256 or other columns."""
    with open_table(folder, MANIFEST_FILE, sha256) as file:
        try:
            manifest = parse_parquet(file)
        except (OSError, pa.ArrowException) as error:
            raise DamagedError(f"cannot read {folder / MANIFEST_FILE}: {error}") from error
    if not manifest.schema.equals(MANIFEST_SCHEMA):
        raise DamagedError(f"{folder / MANIFEST_FILE} does not have the columns of a manifest")
    return manifest


def open_table(folder: Path, name: str, sha256: str) -> BinaryIO:
    """Open the manifest.parquet or frames.parquet (`name`) that has this SHA-256: the one in `folder`, or the one that
    an update is replacing. The caller closes it. Raises DamagedError where there is none.

    The hash is looked at before pyarrow sees the file, which damage can crash.
    """
    path = folder / name
    try:
        for place in (path, folder / BEFORE_FOLDER / name):
            if place == path or place.exists():
                file = open(place, "rb")  # noqa: SIM115 - closed by the caller
                if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                    file.seek(0)
                    return file
                file.close()
    except OSError as error:
        raise DamagedError(f"cannot read {path}: {error.strerror}; {_MEND[name]}") from error
    raise DamagedError(f"{path} is not the one that {DESCRIPTION_FILE} tells of: its SHA-256 differs; {_MEND[name]}")
