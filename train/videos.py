"""Frames for clips straight from the source videos of a `sources.parquet`: the baseline that a prepared dataset beats.

The file of the data path that knows `prep`: what its decoders can be trusted with (prep.by_index). Videos are
decoded once to count their frames, which is remembered beside the source list; what an extraction would not take is
left out, and counted.

Arrays: picture_HWC uint8 RGB in [0, 255], upright, in native size; labels int32, num_frames int64, is_ok, is_forward
and is_upright bool over the videos of the list; rows_R int64.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from manifests.errors import DamagedError, UsageError
from manifests.sources import SourceList
from manifests.windows import file_of
from manifests.wording import count, quote
from prep.decoders import DECODERS, require_decoder

if TYPE_CHECKING:
    from prep.bench.sampled import Pictures
    from prep.by_index import FrameIndex
    from prep.index_file import Counted

__all__ = ["DECODERS", "Videos", "open_videos"]

_MAX_NAMED = 3


class Videos:
    """The videos of a source list: those of some subsets are counted, the others are not ok. Picklable.

    `counted` is by source.
    """

    def __init__(self, path: Path, source_list: SourceList, decoder: str, counted: "dict[str, Counted]") -> None:
        self.folder = path
        self.decoder = decoder
        self.classes = source_list.classes
        self._list = source_list
        self._counted = counted
        self.labels: npt.NDArray[np.int32] = np.array([source.label for source in source_list.sources], np.int32)
        indices = [self._index(row) for row in range(len(source_list.sources))]
        self.is_ok = np.array([index is not None for index in indices], bool)
        self.num_frames = np.array([index.num_frames if index else 0 for index in indices], np.int64)
        self.is_upright = np.array([index is not None and index.is_upright for index in indices], bool)
        self.is_forward = np.array([index is not None and index.access == "forward" for index in indices], bool)

    def _index(self, row: int) -> "FrameIndex | None":
        counted = self._counted.get(self._list.sources[row].source)
        return counted.index if counted else None

    def rows(self, subset: str = "all") -> npt.NDArray[np.int64]:
        """The rows (int64, ascending) of the ok videos of a subset. Raises UsageError for an unknown subset."""
        return np.array([row for row in _rows_of(self._list, subset) if self.is_ok[row]], np.int64)

    def video(self, row: int) -> dict[str, Any]:
        """What a source list and a count tell of a video, by the names of a manifest."""
        source, index = self._list.sources[row], self._index(row)
        return {
            "video_id": source.video_id,
            "source": source.source,
            "source_bytes": source.source_bytes,
            "label": source.label,
            "num_frames": index.num_frames if index else 0,
            "fps": index.fps if index else None,
        }

    def path(self, row: int) -> Path:
        return self._list.path_of(self._list.sources[row])

    def size(self, row: int) -> tuple[int, int]:
        """(width, height) of its pictures."""
        index = self._index(row)
        assert index is not None, "not a row that `rows` gives"
        return index.width, index.height

    def read_frames(self, row: int, numbers: Sequence[int]) -> list[npt.NDArray[np.uint8]]:
        """picture_HWC of the frames of these numbers (0-based), which ascend.

        Raises DamagedError, naming the video, where it changed since it was counted, or does not give them.
        """
        from prep.by_index import read_pictures
        from prep.decoders.interface import VideoError
        from prep.index_file import stamp_of

        source = self._list.sources[row]
        path = self.path(row)
        try:
            if stamp_of(path) != self._counted[source.source].stamp:
                raise DamagedError(f"{path} changed since its frames were counted: run the same command again")
            index = self._index(row)
            assert index is not None, "not a row that `rows` gives"
            return read_pictures(path, self.decoder, index, numbers)
        except (OSError, VideoError) as error:
            raise DamagedError(f"cannot read frames of video {source.video_id} in {path}: {error}") from error

    def failed(self) -> dict[str, str]:
        """Why the videos that were counted, but cannot be used, cannot, by video_id."""
        told = {}
        for source in self._list.sources:
            counted = self._counted.get(source.source)
            if counted is not None and counted.index is None:
                told[source.video_id] = f"{counted.failure}: {counted.detail}"
        return told

    def summary(self) -> str:
        """What was found, in one line."""
        failed, num_ok, num_forward = self.failed(), int(self.is_ok.sum()), int(self.is_forward.sum())
        text = f"{count(num_ok, 'video')} decoded on the fly by {self.decoder}"
        if num_forward:
            text += f", {num_forward:,} of them from the beginning for every clip: no index access can be trusted there"
        if failed:
            named = [f"{video_id} ({why})" for video_id, why in list(failed.items())[:_MAX_NAMED]]
            more = ["..."] if len(failed) > _MAX_NAMED else []
            text += f"; {count(len(failed), 'video')} cannot be used: {', '.join(named + more)}"
        return text


def _rows_of(source_list: SourceList, subset: str) -> list[int]:
    """The rows of a subset, but for what the scan settled. Raises UsageError for an unknown subset."""
    if subset not in subset_names(source_list):
        raise UsageError(f"the source list has no subset {subset!r}; it has {', '.join(subset_names(source_list))}")
    return [
        row
        for row, source in enumerate(source_list.sources)
        if source.status is None and (subset == "all" or subset in source.subsets)
    ]


def subset_names(source_list: SourceList) -> list[str]:
    return ["all", *sorted({name for source in source_list.sources for name in source.subsets})]


def open_videos(
    path: Path, source_list: SourceList, decoder: str, subsets: Sequence[str], *, num_threads: int, quiet: bool
) -> Videos:
    """Count the frames of the videos of `subsets`, as far as it is not known. `decoder`: auto, or one of DECODERS.

    Raises UsageError for an unknown subset, a decoder whose libraries are missing, and windows of longer videos.
    """
    decoder = DECODERS[0] if decoder == "auto" else decoder
    version = require_decoder(decoder)
    from prep.index_file import count_videos

    rows = sorted({row for subset in subsets for row in _rows_of(source_list, subset)})
    windows = [name for row in rows if file_of(name := source_list.sources[row].source) != name]
    if windows:
        raise UsageError(
            f"{path} has {count(len(windows), 'window')} of longer videos, such as {quote(windows[0])}: they are not "
            "decoded on the fly, prepare them with prep extract"
        )
    paths = {source_list.sources[row].source: source_list.path_of(source_list.sources[row]) for row in rows}
    with tqdm(
        desc="counting frames", total=len(paths), unit="video", leave=False, disable=True if quiet else None
    ) as bar:
        counted = count_videos(
            index_path(path, decoder), decoder, version, paths, num_threads=num_threads, each=bar.update
        )
    return Videos(path, source_list, decoder, counted)


def index_path(path: Path, decoder: str) -> Path:
    """Where counts are remembered: sources.parquet has sources.pyav-index.parquet."""
    return Path(os.path.abspath(path)).with_name(f"{path.name.removesuffix('.parquet')}.{decoder}-index.parquet")


# --- As scripts read videos, for comparison ---


def read_plainly(decoder: str, path: Path, num_frames: int) -> tuple[list[int], "Pictures"]:
    """The numbers of frames that a reader as in many scripts asks `opencv` or `decord` for (prep.bench.sampled), and
    the pictures that come. Raises UsageError where the library is missing, DamagedError where nothing comes."""
    from prep.bench.sampled import READERS
    from prep.decoders.interface import VideoError

    require_decoder(decoder)
    try:
        return READERS[decoder](path, num_frames)
    except (OSError, VideoError) as error:
        raise DamagedError(f"cannot read frames of {path}: {error}") from error


def num_wrong(path: Path, numbers: Sequence[int], pictures: "Pictures | Sequence[npt.NDArray[np.uint8]]") -> int:
    """How many of the pictures (as above, or picture_HWC in RGB, as coded) are not those of these numbers, by a decode
    of all frames in order. Raises DamagedError."""
    from prep.bench import sampled
    from prep.decoders.interface import VideoError

    if not isinstance(pictures, sampled.Pictures):
        found = sampled.Pictures("rgb24")
        found.decoded.extend(pictures)
        pictures = found
    try:
        return sampled.num_wrong(sampled.reference(path), numbers, pictures)
    except VideoError as error:
        raise DamagedError(f"cannot read frames of {path}: {error}") from error
