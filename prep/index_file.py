"""What was counted in videos, remembered: one file for a source list and a decoder, beside the list.

A count holds for a file of the same size and time of change, and for the same version of the decoder. The file may be
deleted at any time; one that cannot be read is made anew.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manifests.atomic import atomic_write
from manifests.errors import Interrupted, StoreError
from manifests.wording import quote
from prep.by_index import FrameIndex, index_video
from prep.decoders import require_decoder
from prep.decoders.interface import VideoError
from prep.geometry import Orientation

FORMAT = "decode-once.frame-index"
VERSION = 1

SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("source_bytes", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("failure", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("num_frames", pa.int64(), nullable=False),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("rotation_deg", pa.int32(), nullable=False),
        pa.field("mirrored", pa.bool_(), nullable=False),
        pa.field("fps", pa.float64()),
        pa.field("access", pa.string(), nullable=False),
        pa.field("ticks", pa.list_(pa.int64()), nullable=False),
        pa.field("keys", pa.list_(pa.int64()), nullable=False),
    ]
)

_SAVE_EVERY_S = 30.0


@dataclass(frozen=True, eq=False)
class Counted:
    """Of a video with `stamp` (see `stamp_of`): its index, or None and why there is none, as in a manifest row."""

    stamp: tuple[int, int]
    index: FrameIndex | None
    failure: str | None = None
    detail: str | None = None


def stamp_of(path: Path) -> tuple[int, int]:
    """Size in bytes and time of change in ns, by which a file that changed is told. Raises OSError."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def count_videos(
    file: Path, decoder: str, version: str, videos: Mapping[str, Path], *, num_threads: int, each: Callable[[], object]
) -> dict[str, Counted]:
    """What is counted in each video (a path by its source), from `file` as far as it holds, which is brought up to date
    on the way; `each` is called for each video. A file that cannot be written is done without. Raises Interrupted after
    a signal, whatever the threads do.
    """
    # PyAV has the last word on what the others give.
    header = json.dumps({"version": VERSION, "decoder": f"{decoder} {version}", "pyav": require_decoder("pyav")})
    known = read_index_file(file, header)
    counted, to_do = {}, []
    for source, path in videos.items():
        found = known.get(source)
        if found is not None and found.stamp == _stamp_or_none(path):
            counted[source] = found
            each()
        else:
            to_do.append(source)
    saved_s, num_unsaved = time.monotonic(), 0
    try:
        for source, found in _count_all({source: videos[source] for source in to_do}, decoder, num_threads):
            counted[source] = known[source] = found
            each()
            num_unsaved += 1
            if time.monotonic() - saved_s > _SAVE_EVERY_S:
                _save(file, header, known)
                saved_s, num_unsaved = time.monotonic(), 0
    finally:
        if num_unsaved:
            _save(file, header, known)
    return counted


def _count_all(videos: Mapping[str, Path], decoder: str, num_threads: int) -> Iterator[tuple[str, Counted]]:
    """In any order. Raises Interrupted, which names the videos in hand, and waits for none of them: one may hang."""
    waiting, in_hand = deque(videos), dict[str, None]()
    done: Queue[tuple[str, Counted | BaseException]] = Queue()

    def work() -> None:
        while waiting:
            try:
                source = waiting.popleft()
            except IndexError:  # another was faster
                return
            in_hand[source] = None
            try:
                found: Counted | BaseException = _count(videos[source], decoder)
            except BaseException as error:
                found = error
            del in_hand[source]
            done.put((source, found))

    # FFmpeg's libraries run without Python's lock. A pool would be waited for when the program ends.
    for _ in range(min(num_threads, len(videos))):
        Thread(target=work, daemon=True).start()
    try:
        for _ in videos:
            source, found = done.get()
            if isinstance(found, BaseException):
                raise found
            yield source, found
    except KeyboardInterrupt:
        names = ", ".join(map(quote, list(in_hand)))
        raise Interrupted(f"interrupted while the frames of {names} were counted; what is counted is kept") from None
    finally:
        waiting.clear()


def _stamp_or_none(path: Path) -> tuple[int, int] | None:
    try:
        return stamp_of(path)
    except OSError:
        return None


def _count(path: Path, decoder: str) -> Counted:
    stamp = (-1, -1)
    try:
        stamp = stamp_of(path)
        return Counted(stamp, index_video(path, decoder))
    except OSError as error:
        return Counted(stamp, None, "unreadable", error.strerror or str(error))
    except VideoError as error:
        return Counted(stamp, None, error.kind, error.detail)
    except MemoryError:  # what there is no room for now may have it another time
        raise
    except Exception as error:  # our fault, or a library's, which costs no more than this video
        return Counted(stamp, None, "crashed", f"unexpected {type(error).__name__}: {error}")


def read_index_file(file: Path, header: str) -> dict[str, Counted]:
    """By source; empty where there is no such file, or of another header."""
    try:
        with open(file, "rb") as opened:
            table = pq.ParquetFile(opened, pre_buffer=False).read(use_threads=False)
    except (pa.ArrowException, OSError):
        return {}
    is_ours = (table.schema.metadata or {}).get(FORMAT.encode()) == header.encode() and table.schema.equals(SCHEMA)
    if not is_ours:
        return {}
    lists = {name: table.column(name).combine_chunks() for name in ("ticks", "keys")}
    rows = table.drop_columns(list(lists)).to_pylist()
    return {row["source"]: _counted(row, lists, number) for number, row in enumerate(rows)}


def _counted(row: dict[str, Any], lists: Mapping[str, Any], number: int) -> Counted:
    stamp = row["source_bytes"], row["mtime_ns"]
    if row["failure"] is not None:
        return Counted(stamp, None, row["failure"], row["detail"])
    ticks_N, keys_K = (lists[name][number].values.to_numpy() for name in ("ticks", "keys"))
    orientation = Orientation(row["rotation_deg"], row["mirrored"])
    fields = {name: row[name] for name in ("num_frames", "width", "height", "fps", "access")}
    return Counted(stamp, FrameIndex(**fields, orientation=orientation, ticks_N=ticks_N, keys_K=keys_K))


def _save(file: Path, header: str, counted: Mapping[str, Counted]) -> None:
    rows = [_row(source, counted[source]) for source in sorted(counted)]
    table = pa.Table.from_pylist(rows, SCHEMA.with_metadata({FORMAT: header}))
    try:
        with atomic_write(file) as temporary, open(temporary, "wb") as opened:
            pq.write_table(table, opened, compression="zstd")
    except StoreError:
        return  # it only saves time


def _row(source: str, counted: Counted) -> dict[str, Any]:
    index = counted.index or FrameIndex(num_frames=0, width=0, height=0)
    lists: dict[str, Sequence[int]] = {"ticks": index.ticks_N.tolist(), "keys": index.keys_K.tolist()}
    return {
        "source": source,
        "source_bytes": counted.stamp[0],
        "mtime_ns": counted.stamp[1],
        "failure": counted.failure,
        "detail": counted.detail,
        "num_frames": index.num_frames,
        "width": index.width,
        "height": index.height,
        "rotation_deg": index.orientation.rotation_deg,
        "mirrored": index.orientation.mirrored,
        "fps": None if index.fps is None or np.isnan(index.fps) else index.fps,
        "access": index.access,
        **lists,
    }
