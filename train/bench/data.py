"""What the tables measure on: a prepared dataset, or some videos, which are prepared for the purpose and go again."""

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from manifests.atomic import disk_errors
from manifests.dataset import open_dataset
from manifests.description import DESCRIPTION_FILE
from manifests.errors import UsageError
from manifests.sources import SourceList, read_sources, write_sources
from manifests.stores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_VIDEOS = 32
_CLASS = "bench"
_STORED = ("frames.quality=95", "frames.short_side_px=0")
"""Videos are stored in native size, at the quality where a JPEG is as good as the frame."""


@dataclass(frozen=True)
class Data:
    """`folders`: datasets by store, of the same frames; `sources`: the list of their videos, if they were given;
    `note` says where they come from."""

    folders: Mapping[str, Path]
    sources: Path | None
    note: str


@contextmanager
def measured_data(data: Path, stores: Sequence[str]) -> Iterator[Data]:
    """`data`: a prepared dataset, which is taken as it is; or a source list or a folder of videos, up to MAX_VIDEOS of
    which are prepared into each of `stores`, in a temporary folder.

    Raises UsageError where it is none of them, or no video can be prepared.
    """
    if (data / DESCRIPTION_FILE).exists():
        yield Data(MappingProxyType({_store_of(data): data}), None, f"{data}")
        return
    with tempfile.TemporaryDirectory(prefix="decode-once-bench-") as name:
        folder = Path(name)
        sources = folder / "sources.parquet"
        source_list = some_videos(_scanned(data, folder), MAX_VIDEOS)
        with disk_errors(sources):
            write_sources(sources, source_list)
        for store in stores:
            settings = [word for setting in _STORED for word in ("--set", setting)]
            run_prep("extract", sources, "--out", folder / store, "--store", store, "--quiet", *settings)
        note = f"{len(source_list.sources)} videos of {data}, stored in native size at quality 95"
        yield Data({store: folder / store for store in stores}, sources, note)


def some_videos(source_list: SourceList, num_most: int) -> SourceList:
    """Of the videos that are to be decoded, so many at most, evenly spread, without their labels: all are of one class.
    Raises UsageError where there are none."""
    candidates = [source for source in source_list.sources if source.status is None]
    if not candidates:
        raise UsageError(f"no video to measure in {source_list.root}")
    step = max(1.0, len(candidates) / num_most)
    chosen = [candidates[int(number * step)] for number in range(min(num_most, len(candidates)))]
    sources = tuple(dataclasses.replace(source, label=0, class_name=_CLASS, subsets=()) for source in chosen)
    return dataclasses.replace(source_list, classes=(_CLASS,), sources=sources)


def _scanned(data: Path, folder: Path) -> SourceList:
    if data.is_dir():
        scan = folder / "scan.parquet"
        run_prep("scan", os.path.abspath(data), "--dataset", "folder", "--out", scan, "--quiet")
        return read_sources(scan)
    if not data.exists():
        raise UsageError(f"--data {data} is not there: give a prepared dataset, a source list, or a folder of videos")
    return read_sources(data)


def run_prep(*arguments: object) -> None:
    """Raises UsageError with what it has to say, unless there is something to measure then."""
    command = [sys.executable, "-P", "-m", "prep", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        lines: Iterable[str] = done.stderr.strip().splitlines() or [f"prep ended with exit code {done.returncode}"]
        raise UsageError(f"the videos cannot be prepared: {list(lines)[-1]}")


def _store_of(folder: Path) -> str:
    with open_dataset(folder) as dataset:
        rows = dataset.rows()
        if len(rows) == 0:
            raise UsageError(f"{folder} has no ok video to measure")
        return STORES[dataset.video(int(rows[0]))["row"] < 0]
