"""Read a prepared dataset: videos by row, frames by index. Other programs need nothing else of this project.

    with open_dataset("OUT") as dataset:
        for row in dataset.rows("train01"):
            jpegs = dataset.read_frames(row, [0, 8, 16])
            label = dataset.labels[row]

A row is a position in the manifest, which has one row a source video, in source order. Nothing is listed and no
count is guessed: all comes from dataset.json, the manifest and the store.

What reading takes is in memory as arrays, some 60 bytes a video, which forked processes share; the rest of the manifest
is read when it is asked for.

Arrays: labels_V int32, num_frames_V int64, is_ok_V bool over the V videos of the manifest; rows_R int64.
"""

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property, lru_cache
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
from manifests.manifest import FRAMES_FILE, MANIFEST_FILE
from manifests.manifest_file import ManifestFile
from manifests.stores import arrow, frames

_MAX_OPEN_SHARDS = 64

_COLUMNS = ("status", "label", "subsets", "num_frames", "location", "row", "offsets_at", "data_at")
"""What it takes to choose videos and to read their frames."""

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

    def __init__(
        self,
        folder: Path,
        description: Description,
        columns: pa.Table,
        manifest: ManifestFile | None = None,
        hold: Hold | None = None,
    ) -> None:
        self._hold = hold
        self._open_manifest = manifest
        self.folder = folder
        self.description = description
        self.classes = description.classes
        self._columns = columns
        self.labels: npt.NDArray[np.int32] = columns.column("label").to_numpy()
        self.num_frames: npt.NDArray[np.int64] = columns.column("num_frames").to_numpy()
        self.is_ok: npt.NDArray[np.bool_] = pc.equal(columns.column("status"), "ok").to_numpy()
        self._shard = lru_cache(_MAX_OPEN_SHARDS)(lambda location: _OpenShard(folder / location))

    def __len__(self) -> int:
        """The number of source videos, whatever became of them."""
        return int(self._columns.num_rows)

    def rows(self, subset: str = "all") -> npt.NDArray[np.int64]:
        """The rows (int64, ascending) of the ok videos of a subset. Raises UsageError for an unknown subset."""
        if subset not in self.description.subsets:
            known = ", ".join(self.description.subsets)
            raise UsageError(f"the dataset has no subset {subset!r}; it has {known}")
        return np.flatnonzero(self.is_ok & self.in_subset(subset))

    def in_subset(self, subset: str) -> npt.NDArray[np.bool_]:
        """Whether each video, ok or not, is in a subset. None is in one that the dataset does not have."""
        if subset == "all":
            return np.ones(len(self), bool)
        in_subset_V = np.zeros(len(self), bool)
        start = 0
        for names in self._columns.column("subsets").chunks:
            named = pc.list_parent_indices(names).filter(pc.equal(names.flatten(), subset))
            in_subset_V[start + named.to_numpy(zero_copy_only=False)] = True
            start += len(names)
        return in_subset_V

    @cached_property
    def manifest(self) -> pa.Table:
        """The whole manifest, which is kept from then on. A large one takes much memory: see `columns`."""
        return self._manifest_file().columns()

    def columns(self, names: Sequence[str]) -> pa.Table:
        """These columns of the manifest. Raises DamagedError."""
        return self._manifest_file().columns(names)

    def video(self, row: int) -> dict[str, Any]:
        """The manifest row as a dict, by column name. Raises IndexError, DamagedError."""
        return self._manifest_file().row(row)

    def _manifest_file(self) -> ManifestFile:
        if self._open_manifest is None:  # in a pickled copy
            self._open_manifest = open_manifest(self.folder, self.description.manifest_sha256)
        return self._open_manifest

    def read_frames(self, row: int, indices: Sequence[int]) -> list[bytes]:
        """The JPEG bytes of the frames at `indices` (0-based, in any order) of the video at `row`.

        Raises IndexError for a frame that the video does not have, and DamagedError, naming video, file and row,
        where the store does not give what the manifest promises.
        """
        num_frames = int(self.num_frames[row])
        for index in indices:
            if not 0 <= index < num_frames:
                raise IndexError(f"video {self.video(row)['video_id']} has frames [0, {num_frames}), not {index}")
        location, shard_row, offsets_at, data_at = (
            self._columns.column(name)[row].as_py() for name in ("location", "row", "offsets_at", "data_at")
        )
        try:
            if shard_row < 0:
                return frames.read_frames(self.folder / location, indices)
            shard = self._shard(location)  # held here, since another thread may make it leave the cache
            return arrow.read_frames(shard.descriptor, num_frames, offsets_at, data_at, indices)
        except OSError as error:
            where = f"{location} row {shard_row}" if shard_row >= 0 else location
            video_id = self.video(row)["video_id"]
            raise DamagedError(f"cannot read frames of video {video_id} in {where}: {error}") from error

    def is_current(self) -> bool:
        """Whether no update has replaced the dataset since it was opened."""
        return self._hold is None or self._hold.is_current()

    def close(self) -> None:
        self._shard.cache_clear()
        if self._open_manifest is not None:
            self._open_manifest.close()
        if self._hold is not None:
            self._hold.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.folder, self.description, self._columns)


def open_dataset(folder: str | os.PathLike[str]) -> Dataset:
    """Open a prepared dataset. Raises UsageError where there is none, DamagedError where it is not readable."""
    path = Path(os.path.abspath(folder))  # shards are opened later, wherever the program is by then
    while True:  # until no update replaces it just now
        hold = Hold(path / DESCRIPTION_FILE)
        try:
            description = read_description(path)
            manifest = open_manifest(path, description.manifest_sha256)
        except DamagedError:
            if hold.is_current():
                raise
        else:
            if hold.is_current():
                columns = manifest.columns(_COLUMNS).combine_chunks()
                return Dataset(path, description, columns, manifest, hold)
            manifest.close()
        hold.close()


def open_manifest(folder: Path, sha256: str) -> ManifestFile:
    """manifest.parquet. Raises DamagedError where it is missing, has another SHA-256 or other columns."""
    return ManifestFile(open_table(folder, MANIFEST_FILE, sha256), folder / MANIFEST_FILE)


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
