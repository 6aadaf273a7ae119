"""Verify a prepared dataset: does the store hold what the manifest says? Nothing is written.

The quick level reads dataset.json, the manifest and frames.parquet; of a shard what it says about the frames (whose
they are, how many, of which sizes, at which positions), of a frame folder the names and sizes of its files. The deep
level reads every frame, compares its CRC-32, and decodes it.

A manifest or frames.parquet that is not the one that dataset.json tells of is not looked into.

Arrays: num_bytes_N int32 and crc32_N uint32, of the frames of one video.
"""

import itertools
import os
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import simplejpeg

from manifests.dataset import Dataset, read_manifest
from manifests.description import DESCRIPTION_FILE, hash_classes, hash_file, read_description
from manifests.errors import DamagedError
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE, read_parquet
from manifests.names import frame_file_name
from manifests.records import Placement
from manifests.stores import arrow, frames

Row = dict[str, Any]
"""What is looked at of a row of the manifest, by column name, and its `position` there."""

_COLUMNS = (
    *("video_id", "label", "class_name", "subsets", "status", "failure", "num_frames", "width", "height"),
    *("location", "row", "offsets_at", "data_at", "num_bytes", "content_crc32"),
)


@dataclass(frozen=True)
class _FrameTable:
    """The row of frames.parquet for one video; views, since Python numbers for every frame would fill the memory."""

    num_bytes_N: npt.NDArray[np.int32]
    crc32_N: npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong: in which file, and where known in which video and frame (0-based)."""

    file: str
    problem: str
    video_id: str | None = None
    frame: int | None = None


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was looked at, and what is wrong. `num_frames` is 0 unless the frames themselves were read."""

    num_videos: int
    num_frames: int
    problems: tuple[Problem, ...]


def verify(folder: Path, *, deep: bool, num_jobs: int) -> Verification:
    """Raises UsageError where `folder` is no prepared dataset; all that is wrong with one is a Problem."""
    try:
        description = read_description(folder)
    except DamagedError as error:
        return _unreadable(DESCRIPTION_FILE, error)
    try:
        manifest = read_manifest(folder, description.manifest_sha256)
    except DamagedError as error:
        return _unreadable(MANIFEST_FILE, error)
    with Dataset(folder, description, manifest) as dataset:
        rows = [{**row, "position": position} for position, row in enumerate(manifest.select(_COLUMNS).to_pylist())]
        ok = [row for row in rows if row["status"] == "ok"]
        tables, problems = _frame_tables(dataset, ok)
        problems += _counts(dataset, rows)
        problems += _shards(dataset, [row for row in ok if row["row"] >= 0], tables)
        problems += _folders(dataset, [row for row in ok if row["row"] < 0], tables)
        readable = _not_named(ok, problems) if deep else []
        known = {(problem.file, problem.video_id, problem.frame) for problem in problems}
        found = joblib.Parallel(n_jobs=num_jobs, backend="threading", return_as="generator")(
            joblib.delayed(_frames_of)(dataset, row, tables.get(row["video_id"])) for row in readable
        )
        for problem in itertools.chain.from_iterable(found):
            if (problem.file, problem.video_id, problem.frame) not in known:
                problems.append(problem)
    num_frames = sum(row["num_frames"] for row in readable)
    return Verification(num_videos=len(ok), num_frames=num_frames, problems=tuple(problems))


def _unreadable(name: str, error: DamagedError) -> Verification:
    return Verification(num_videos=0, num_frames=0, problems=(Problem(file=name, problem=str(error)),))


def _not_named(rows: list[Row], problems: list[Problem]) -> list[Row]:
    """The rows without those that are known to be missing or misplaced as a whole."""
    named = {(problem.file, problem.video_id) for problem in problems if problem.frame is None}
    return [row for row in rows if not {(row["location"], row["video_id"]), (row["location"], None)} & named]


def _counts(dataset: Dataset, rows: list[Row]) -> Iterator[Problem]:
    """What dataset.json says, which no checksum guards, against the manifest."""
    description = dataset.description
    found = {
        "subsets": Counter(subset for row in rows for subset in ("all", *row["subsets"])),
        "counts": Counter(row["status"] for row in rows),
        "failures": Counter(row["failure"] for row in rows if row["failure"]),
        "num_frames": sum(row["num_frames"] for row in rows),
        "num_bytes": sum(row["num_bytes"] for row in rows),
    }
    for name, value in found.items():
        said = getattr(description, name)
        if value != (said if isinstance(said, int) else Counter(said)):
            shown = dict(value) if isinstance(value, Counter) else value
            yield Problem(file=DESCRIPTION_FILE, problem=f"says {name} {said}, the manifest has {shown}")
    if hash_classes(description.classes) != description.classes_sha256:
        yield Problem(file=DESCRIPTION_FILE, problem="the hash of its classes is not its classes_sha256")


def _frame_tables(dataset: Dataset, rows: list[Row]) -> tuple[dict[str, _FrameTable], list[Problem]]:
    """frames.parquet by video_id, as far as it has as many frames as the manifest, and what is wrong with it."""
    path = dataset.folder / FRAMES_FILE
    try:
        if hash_file(path) != dataset.description.frames_sha256:
            return {}, [Problem(file=FRAMES_FILE, problem=f"its SHA-256 is not the one in {DESCRIPTION_FILE}")]
        table = read_parquet(path)
        if not table.schema.equals(FRAMES_SCHEMA):
            raise pa.ArrowInvalid("it does not have the columns of a frame table")
    except (OSError, pa.ArrowException) as error:
        return {}, [Problem(file=FRAMES_FILE, problem=f"cannot be read: {error}")]
    tables: dict[str, _FrameTable] = {}
    for batch in table.to_batches():
        num_bytes, crc32 = batch.column("num_bytes"), batch.column("crc32")
        sizes, sums = num_bytes.values.to_numpy(), crc32.values.to_numpy()
        starts, sum_starts = num_bytes.offsets.to_pylist(), crc32.offsets.to_pylist()
        for index, video_id in enumerate(batch.column("video_id").to_pylist()):
            tables[video_id] = _FrameTable(
                sizes[starts[index] : starts[index + 1]], sums[sum_starts[index] : sum_starts[index + 1]]
            )
    problems = []
    for row in rows:
        frame_table = tables.get(row["video_id"])
        num_frames = 0 if frame_table is None else len(frame_table.num_bytes_N)
        if num_frames != row["num_frames"]:
            problem = f"lists {num_frames} frames, the manifest {row['num_frames']}"
            problems.append(Problem(file=FRAMES_FILE, video_id=row["video_id"], problem=problem))
            tables.pop(row["video_id"], None)
    return tables, problems


def _shards(dataset: Dataset, rows: list[Row], tables: dict[str, _FrameTable]) -> Iterator[Problem]:
    by_shard: dict[str, list[Row]] = {}
    for row in rows:
        by_shard.setdefault(row["location"], []).append(row)
    for location, expected in by_shard.items():
        yield from _shard(dataset.folder / location, location, expected, tables)
    folder = dataset.folder / arrow.FOLDER
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if f"{arrow.FOLDER}/{path.name}" not in by_shard:
            yield Problem(file=f"{arrow.FOLDER}/{path.name}", problem="no video of the manifest lies in it")


def _shard(path: Path, location: str, rows: list[Row], tables: dict[str, _FrameTable]) -> Iterator[Problem]:
    try:
        parts = arrow.read_parts(path)
    except FileNotFoundError:
        yield Problem(file=location, problem=f"is missing, and with it {len(rows)} videos")
        return
    except (OSError, ValueError, pa.ArrowException) as error:
        yield Problem(file=location, problem=f"is not a whole shard: {error}")
        return
    placed = arrow.placements(location, parts)
    parts_of: dict[str, list[arrow.Part]] = {}
    for part in parts:
        parts_of.setdefault(part.video_id, []).append(part)
    for row in rows:
        video_id = row["video_id"]
        if video_id not in parts_of:
            yield Problem(file=location, video_id=video_id, problem="is not in its shard")
        else:
            yield from _placed_video(row, placed[video_id], parts_of[video_id], tables.get(video_id))
    for video_id in parts_of.keys() - {row["video_id"] for row in rows}:
        yield Problem(file=location, video_id=video_id, problem="is in the shard, but not in the manifest")


def _placed_video(
    row: Row, placement: Placement, parts: list[arrow.Part], table: _FrameTable | None
) -> Iterator[Problem]:
    location, video_id = row["location"], row["video_id"]
    num_bytes = [size for part in parts for size in part.num_bytes]
    starts = [start for start, _ in arrow.part_bounds(len(num_bytes), len(parts))]
    if len(num_bytes) != row["num_frames"]:
        problem = f"has {len(num_bytes)} frames in the shard, {row['num_frames']} in the manifest"
        yield Problem(file=location, video_id=video_id, problem=problem)
    elif (placement.row, list(placement.offsets_at), list(placement.data_at), [part.first_frame for part in parts]) != (
        row["row"],
        row["offsets_at"],
        row["data_at"],
        starts,
    ):
        yield Problem(file=location, video_id=video_id, problem="lies elsewhere in the shard than the manifest says")
    elif any((part.label, part.class_name) != (row["label"], row["class_name"]) for part in parts):
        yield Problem(file=location, video_id=video_id, problem="has another class in the shard than in the manifest")
    elif table is not None:
        for frame in np.flatnonzero(table.num_bytes_N != num_bytes).tolist():
            problem = f"has {num_bytes[frame]} bytes, not {table.num_bytes_N[frame]}"
            yield Problem(file=location, video_id=video_id, frame=frame, problem=problem)


def _folders(dataset: Dataset, rows: list[Row], tables: dict[str, _FrameTable]) -> Iterator[Problem]:
    expected_folders = set()
    for row in rows:
        expected_folders.add(row["location"])
        yield from _folder(dataset.folder / row["location"], row, tables.get(row["video_id"]))
    root = dataset.folder / frames.FOLDER
    above = {str(parent) for location in expected_folders for parent in Path(location).parents}
    for folder, subfolders, files in os.walk(root):
        location = Path(folder).relative_to(dataset.folder).as_posix()
        if location in expected_folders:
            subfolders.clear()
            continue
        for name in files:
            yield Problem(file=f"{location}/{name}", problem="no video of the manifest has this file")
        for name in list(subfolders):
            inner = f"{location}/{name}"
            if inner not in expected_folders and inner not in above:
                subfolders.remove(name)
                yield Problem(file=inner, problem="no video of the manifest lies in it")


def _folder(folder: Path, row: Row, table: _FrameTable | None) -> Iterator[Problem]:
    video_id = row["video_id"]
    expected = {frame_file_name(index): index for index in range(row["num_frames"])}
    if not folder.is_dir():
        yield Problem(file=row["location"], video_id=video_id, problem="its folder is missing")
        return
    sizes = {path.name: path.lstat().st_size for path in folder.iterdir()}
    for name in sorted(expected.keys() - sizes.keys()):
        file = f"{row['location']}/{name}"
        yield Problem(file=file, video_id=video_id, frame=expected[name], problem="is missing")
    for name in sorted(sizes.keys() - expected.keys()):
        yield Problem(file=f"{row['location']}/{name}", video_id=video_id, problem="is no frame of the video")
    if table is None:
        return
    for name, index in expected.items():
        if name in sizes and sizes[name] != table.num_bytes_N[index]:
            problem = f"has {sizes[name]} bytes, not {table.num_bytes_N[index]}"
            yield Problem(file=f"{row['location']}/{name}", video_id=video_id, frame=index, problem=problem)


def _frames_of(dataset: Dataset, row: Row, table: _FrameTable | None) -> list[Problem]:
    """Read, compare and decode the frames of one video."""
    problems = []
    content_crc32 = 0
    for index in range(row["num_frames"]):
        try:
            (jpeg,) = dataset.read_frames(row["position"], [index])
            content_crc32 = zlib.crc32(jpeg, content_crc32)
            problem = _wrong_with(jpeg, row, None if table is None else int(table.crc32_N[index]))
        except DamagedError as error:
            problem = f"cannot be read: {error.__cause__}"
        if problem:
            problems.append(Problem(file=_file_of(row, index), video_id=row["video_id"], frame=index, problem=problem))
    if not problems and content_crc32 != row["content_crc32"]:
        problem = "the CRC-32 of all its frames is not that of the manifest"
        problems.append(Problem(file=row["location"], video_id=row["video_id"], problem=problem))
    return problems


def _wrong_with(jpeg: bytes, row: Row, crc32: int | None) -> str | None:
    if crc32 is not None and zlib.crc32(jpeg) != crc32:
        return "its bytes have changed: the CRC-32 differs"
    try:
        height, width, _ = simplejpeg.decode_jpeg(jpeg, colorspace="GRAY").shape
    except ValueError as error:
        return f"is no valid JPEG: {error}"
    if (width, height) != (row["width"], row["height"]):
        return f"is {width}x{height}, the manifest says {row['width']}x{row['height']}"
    return None


def _file_of(row: Row, index: int) -> str:
    return row["location"] if row["row"] >= 0 else f"{row['location']}/{frame_file_name(index)}"
