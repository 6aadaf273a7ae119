"""Reading from the disk instead of from the memory that the kernel keeps of it."""

import ctypes
import mmap
import os
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from manifests.dataset import Dataset, open_dataset
from manifests.names import frame_file_name
from train.bench.clips import Recorder, Stream
from train.recipe import TrainRecipe

_PAGE = mmap.PAGESIZE
_MAX_ROUNDS = 10
_MOST_KEPT = 0.05
"""Of what is to be read from disk, so much may be in memory all the same."""


def measure_cold(store: str, folder: Path, recipe: TrainRecipe, budget_s: float) -> dict[str, Any]:
    """Reading the encoded frames of a clip of each video from the disk, and then again from memory; nothing is decoded.

    `bytes_from_disk` and what comes of it are None where nothing could be read from disk, or nobody counts.
    """
    recorder = Recorder(folder, recipe)
    stream = Stream(recorder, recipe)
    cold_s, warm_s, kept = [], [], []
    num_wanted = num_from_disk = 0
    with open_dataset(folder) as dataset:
        files = _stored_files(dataset)
        started_s = time.monotonic()
        while not kept or (time.monotonic() - started_s < budget_s and len(kept) < _MAX_ROUNDS):
            clips = [recorder.frames_of(item) for item in stream.next_items(len(recorder))]
            kept.append(drop_from_memory(files))
            before = bytes_from_disk() or 0
            seconds, num_bytes = _read_all(dataset, clips)
            cold_s.append(seconds)
            num_wanted += num_bytes
            num_from_disk += (bytes_from_disk() or 0) - before
            warm_s.append(_read_all(dataset, clips)[0])
    num_clips, share_kept = len(recorder), statistics.mean(kept)
    is_cold = share_kept <= _MOST_KEPT and num_from_disk > 0
    return {
        "store": store,
        "num_files": len(files),
        "num_clips": num_clips,
        "num_rounds": len(kept),
        "is_cold": is_cold,
        "share_kept_in_memory": share_kept,
        "cold_clips_per_s": num_clips / statistics.median(cold_s) if is_cold else None,
        "warm_clips_per_s": num_clips / statistics.median(warm_s),
        "bytes_wanted": num_wanted,
        "bytes_from_disk": num_from_disk if is_cold else None,
        "read_amplification": num_from_disk / num_wanted if is_cold else None,
    }


def _read_all(dataset: Dataset, clips: Iterable[tuple[int, list[int]]]) -> tuple[float, int]:
    """Seconds, and bytes of frames."""
    begun_s = time.perf_counter()
    num_bytes = sum(len(jpeg) for row, numbers in clips for jpeg in dataset.read_frames(row, numbers))
    return time.perf_counter() - begun_s, num_bytes


def _stored_files(dataset: Dataset) -> list[Path]:
    rows = dataset.columns(["location", "row", "num_frames"]).take(dataset.rows()).to_pylist()
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
