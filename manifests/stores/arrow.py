"""Arrow shards: IPC files in which one record batch is one video, or one part of a long one.

A video of N frames in P parts keeps frames [N*p//P, N*(p+1)//P) in part p, so N and P alone say where a frame
lies. A part is one row: video_id, first_frame, label, class_name, frames. The reader does not map the file: it
reads the int32 offsets of the frames at `offsets_at` and the frames themselves at `data_at`, which for a failing
disk is an OSError and not a SIGBUS, and reads no more than was asked for.

Arrays: offsets_N1 int32 or int64, one more than frames; num_bytes_N int64, sizes of the frames.
"""

import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from manifests.manifest import FORMAT_VERSION
from manifests.records import Placement

FOLDER = "shards"
MAX_PART_BYTES = 16 * 1024 * 1024

_BUFFER_BYTES = 256 * 1024

SHARD_SCHEMA = pa.schema(
    [
        ("video_id", pa.string()),
        ("first_frame", pa.int64()),
        ("label", pa.int32()),
        ("class_name", pa.string()),
        ("frames", pa.list_(pa.binary())),
    ],
    metadata={"format": "decode-once.shard", "format_version": str(FORMAT_VERSION)},
)

Int64Array = npt.NDArray[np.int64]


class SpoolWriter:
    """Writes frames one after the other into a new file, in order, from which a shard is put together."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed by close()

    def add(self, jpeg: bytes) -> None:
        self._file.write(jpeg)

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, kw_only=True)
class SpooledVideo:
    """A decoded video on its way into a shard: `spool` holds its frames end to end, sizes in `num_bytes_N`."""

    video_id: str
    label: int
    class_name: str | None
    spool: Path
    num_bytes_N: Int64Array


@dataclass(frozen=True, kw_only=True)
class Part:
    """One row of a shard as found in the file.

    `num_bytes` are the sizes of its frames, and positions are bytes from the start of the file.
    """

    video_id: str
    first_frame: int
    label: int
    class_name: str | None
    num_bytes: tuple[int, ...]
    offsets_at: int
    data_at: int


def part_bounds(num_frames: int, num_parts: int) -> list[tuple[int, int]]:
    """The half-open frame ranges of the parts of a video."""
    return [(num_frames * part // num_parts, num_frames * (part + 1) // num_parts) for part in range(num_parts)]


def count_parts(num_bytes_N: Int64Array, max_part_bytes: int = MAX_PART_BYTES) -> int:
    """The smallest number of parts of which none is above `max_part_bytes`, or one frame a part."""
    offsets_N1 = np.concatenate([[0], np.cumsum(num_bytes_N)])
    num_frames = len(num_bytes_N)
    if num_bytes_N.max() > max_part_bytes:
        return num_frames
    num_parts = min(max(1, -(-int(offsets_N1[-1]) // max_part_bytes)), num_frames)
    while num_parts < num_frames and any(
        offsets_N1[stop] - offsets_N1[start] > max_part_bytes for start, stop in part_bounds(num_frames, num_parts)
    ):
        num_parts += 1
    return num_parts


def write_shard(path: Path, videos: Iterable[SpooledVideo]) -> None:
    """Write one shard to `path`. Memory stays at one part. Raises OSError."""
    # Opened here, since pyarrow takes no path that is not UTF-8.
    with open(path, "wb") as sink, pa.ipc.new_file(sink, SHARD_SCHEMA) as writer:
        for video in videos:
            _write_video(writer, video)


def _write_video(writer: Any, video: SpooledVideo) -> None:
    num_frames = len(video.num_bytes_N)
    with open(video.spool, "rb") as spool:
        for start, stop in part_bounds(num_frames, count_parts(video.num_bytes_N)):
            offsets_N1 = np.zeros(stop - start + 1, np.int32)
            np.cumsum(video.num_bytes_N[start:stop], out=offsets_N1[1:])
            data = spool.read(int(offsets_N1[-1]))
            buffers = [None, pa.py_buffer(offsets_N1), pa.py_buffer(data)]
            frames = pa.BinaryArray.from_buffers(pa.binary(), stop - start, buffers)
            columns = [
                pa.array([video.video_id], pa.string()),
                pa.array([start], pa.int64()),
                pa.array([video.label], pa.int32()),
                pa.array([video.class_name], pa.string()),
                pa.ListArray.from_arrays(pa.array([0, stop - start], pa.int32()), frames),
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SHARD_SCHEMA))


def read_parts(path: Path) -> list[Part]:
    """Where each row of a shard lies, read back from the file. Touches no frame bytes.

    Raises pa.ArrowException, ValueError (an empty file) or OSError for a file that is not a whole shard of this format.
    """
    # A private mapping, not pa.memory_map: that one asks the kernel to read every batch ahead, frames included.
    with open(path, "rb") as file:
        mapped = pa.py_buffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    with pa.ipc.open_file(pa.BufferReader(mapped)) as reader:
        if not reader.schema.equals(SHARD_SCHEMA, check_metadata=True):
            raise pa.ArrowInvalid(f"not a shard of format version {FORMAT_VERSION}")
        return [_part(reader.get_batch(index), mapped.address) for index in range(reader.num_record_batches)]


def _part(batch: Any, base: int) -> Part:
    batch.validate(full=True)  # looks at offsets and text, not at frame bytes; without it damage can crash pyarrow
    if batch.num_rows != 1:
        raise pa.ArrowInvalid(f"a record batch of a shard has one row, this one has {batch.num_rows}")
    frames = batch.column("frames").values
    if batch.column("frames").offsets.to_pylist() != [0, len(frames)]:
        raise pa.ArrowInvalid("a row of a shard does not hold all frames of its record batch")
    _, offsets, data = frames.buffers()
    offsets_N1 = np.frombuffer(offsets, np.int32, len(frames) + 1)
    return Part(
        video_id=batch.column("video_id")[0].as_py(),
        first_frame=batch.column("first_frame")[0].as_py(),
        label=batch.column("label")[0].as_py(),
        class_name=batch.column("class_name")[0].as_py(),
        num_bytes=tuple(np.diff(offsets_N1).tolist()),
        offsets_at=offsets.address - base,
        data_at=data.address - base,
    )


def placements(location: str, parts: Sequence[Part]) -> dict[str, Placement]:
    """Where each video of a shard lies, by video_id, for the manifest."""
    found: dict[str, Placement] = {}
    for row, part in enumerate(parts):
        before = found.get(part.video_id, Placement(location=location, row=row))
        found[part.video_id] = Placement(
            location=location,
            row=before.row,
            offsets_at=(*before.offsets_at, part.offsets_at),
            data_at=(*before.data_at, part.data_at),
        )
    return found


def read_frames(
    descriptor: int,
    num_frames: int,
    offsets_at: Sequence[int],
    data_at: Sequence[int],
    indices: Sequence[int],
) -> list[bytes]:
    """The JPEG bytes of the frames at `indices` (0-based) of one video, by positioned reads.

    One read for the offsets of each part that is touched, and one for each frame.
    Raises OSError where the file ends early or its offsets make no sense.
    """
    bounds = part_bounds(num_frames, len(offsets_at))
    offsets_of: dict[int, npt.NDArray[np.int32]] = {}
    frames = []
    for index in indices:
        part = next(p for p, (start, stop) in enumerate(bounds) if start <= index < stop)
        start, stop = bounds[part]
        if part not in offsets_of:
            raw = _read_exactly(descriptor, 4 * (stop - start + 1), offsets_at[part])
            offsets_of[part] = np.frombuffer(raw, np.int32)
        first, last = offsets_of[part][index - start : index - start + 2].tolist()
        if not 0 <= first <= last:
            raise OSError(f"frame {index} has no sensible offsets ({first}, {last})")
        frames.append(_read_exactly(descriptor, last - first, data_at[part] + first))
    return frames


def _read_exactly(descriptor: int, num_bytes: int, position: int) -> bytes:
    data = os.pread(descriptor, num_bytes, position)
    if len(data) != num_bytes:
        raise OSError(f"the file ends {num_bytes - len(data)} bytes early at position {position}")
    return data
