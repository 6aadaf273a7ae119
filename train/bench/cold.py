"""Reading from the disk instead of from the memory that the kernel keeps of it."""

import ctypes
import mmap
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from manifests.dataset import Dataset, open_dataset
from manifests.names import frame_file_name
from train.bench.clips import Recorder, Stream
from train.recipe import TrainRecipe

_PAGE = mmap.PAGESIZE
_MAX_ROUNDS = 30
_MAX_CLIPS = 256
"""Of a round: a large dataset has more videos than a bench has time."""

_MOST_KEPT = 0.05
"""Of what is to be read from disk, so much may be in memory all the same."""


@dataclass
class _Rounds:
    """What was measured of a store: seconds of each round cold and warm, shares that stayed in memory, bytes."""

    dataset: Dataset
    recorder: Recorder
    stream: Stream
    num_clips: int
    num_files: int = 0
    cold_s: list[float] = field(default_factory=list)
    warm_s: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    num_wanted: int = 0
    num_from_disk: int = 0

    def measure(self) -> None:
        clips = [self.recorder.frames_of(item) for item in self.stream.next_items(self.num_clips)]
        files = _stored_files(self.dataset, sorted({row for row, _ in clips}))
        self.num_files = len(files)
        self.kept.append(drop_from_memory(files))
        before = bytes_from_disk() or 0
        seconds, num_bytes = _read_all(self.dataset, clips)
        self.cold_s.append(seconds)
        self.num_wanted += num_bytes
        self.num_from_disk += (bytes_from_disk() or 0) - before
        self.warm_s.append(_read_all(self.dataset, clips)[0])

    def row(self, store: str) -> dict[str, Any]:
        num_clips, share_kept = self.num_clips, statistics.mean(self.kept)
        is_cold = share_kept <= _MOST_KEPT and self.num_from_disk > 0
        return {
            "store": store,
            "num_files": self.num_files,
            "num_clips": num_clips,
            "num_rounds": len(self.kept),
            "is_cold": is_cold,
            "share_kept_in_memory": share_kept,
            "cold_clips_per_s": num_clips / statistics.median(self.cold_s) if is_cold else None,
            "warm_clips_per_s": num_clips / statistics.median(self.warm_s),
            "bytes_wanted": self.num_wanted,
            "bytes_from_disk": self.num_from_disk if is_cold else None,
            "read_amplification": self.num_from_disk / self.num_wanted if is_cold else None,
        }


def measure_cold(folders: Mapping[str, Path], recipe: TrainRecipe, budget_s: float) -> list[dict[str, Any]]:
    """Of datasets by store, in turn: reading the encoded frames of a clip of each video, of _MAX_CLIPS a round at
    most, from the disk, and then again from memory; nothing is decoded. `num_files`: what a round drops from memory.

    `bytes_from_disk` and what comes of it are None where nothing could be read from disk, or nobody counts.
    """
    with ExitStack() as stack:
        stores = {}
        for store, folder in folders.items():
            dataset, recorder = stack.enter_context(open_dataset(folder)), Recorder(folder, recipe)
            stores[store] = _Rounds(dataset, recorder, Stream(recorder, recipe), min(len(recorder), _MAX_CLIPS))
        started_s, num_rounds = time.monotonic(), 0
        while num_rounds == 0 or (time.monotonic() - started_s < budget_s and num_rounds < _MAX_ROUNDS):
            for rounds in stores.values():
                rounds.measure()
            num_rounds += 1
        return [rounds.row(store) for store, rounds in stores.items()]


def _read_all(dataset: Dataset, clips: Iterable[tuple[int, list[int]]]) -> tuple[float, int]:
    """Seconds, and bytes of frames."""
    begun_s = time.perf_counter()
    num_bytes = sum(len(jpeg) for row, numbers in clips for jpeg in dataset.read_frames(row, numbers))
    return time.perf_counter() - begun_s, num_bytes


def _stored_files(dataset: Dataset, chosen: Sequence[int]) -> list[Path]:
    """Whatever holds frames of these rows."""
    rows = dataset.columns(["location", "row", "num_frames"]).take(chosen).to_pylist()
    shards = {row["location"]: None for row in rows if row["row"] >= 0}
    frames = [
        dataset.folder / row["location"] / frame_file_name(number)
        for row in rows
        if row["row"] < 0
        for number in range(row["num_frames"])
    ]
    return [*(dataset.folder / location for location in shards), *frames]


def drop_from_memory(paths: Iterable[Path]) -> float:
    """Ask the kernel to forget the content of these files, which needs no rights, and return the share of it that it
    keeps all the same (1 in a file system that is memory). What it knows of folders and names stays."""
    paths = list(paths)
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)  # what is not written yet cannot be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    resident, whole = (sum(numbers) for numbers in zip(*map(_pages, paths), strict=True))
    return resident / max(1, whole)


def bytes_from_disk() -> int | None:
    """What this process has had read from disks so far, read-ahead included; None where the kernel does not count."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)


def _pages(path: Path) -> tuple[int, int]:
    """Of a file: pages in memory, all pages."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return 0, 0
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)  # private, which ctypes may point into
        address = ctypes.c_char.from_buffer(mapped)
        num_pages = -(-size // _PAGE)
        states = (ctypes.c_ubyte * num_pages)()
        failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(address)), ctypes.c_size_t(size), states)
        del address
        mapped.close()
    return (num_pages if failed else int((np.frombuffer(states, np.uint8) & 1).sum())), num_pages
