"""Verify a prepared dataset: does the store hold what the manifest says? Nothing is written.

The quick level reads dataset.json, the manifest, frames.parquet, and of a shard its footer, its positions and its
frame sizes; of a frame folder the names and sizes of its files. The deep level reads every frame, compares its CRC-32,
and decodes it.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import pyarrow as pa
import pyarrow.compute as pc
import simplejpeg

from manifests.dataset import Dataset, open_dataset
from manifests.description import hash_file
from manifests.errors import DamagedError
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE, read_parquet
from manifests.names import frame_file_name
from manifests.stores import arrow, frames

Row = dict[str, Any]


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
        dataset = open_dataset(folder)
    except DamagedError as error:
        return Verification(num_videos=0, num_frames=0, problems=(Problem(file=str(folder), problem=str(error)),))
    with dataset:
        rows = [row for row in dataset.manifest.to_pylist() if row["status"] == "ok"]
        problems = [*_sealed_files(dataset), *_counts(dataset, rows)]
        tables, table_problems = _frame_tables(dataset, rows)
        problems += table_problems
        if dataset.description.recipe["store"]["format"] == "arrow":
            problems += _shards(dataset, rows)
        else:
            problems += _folders(dataset, rows, tables)
        num_frames = 0
        if deep:
            num_frames = sum(row["num_frames"] for row in rows)
            positions = [
                index for index, status in enumerate(dataset.manifest.column("status").to_pylist()) if status == "ok"
            ]
            found = joblib.Parallel(n_jobs=num_jobs, backend="threading", return_as="generator")(
                joblib.delayed(_frames_of)(dataset, position, row, tables.get(row["video_id"]))
                for position, row in zip(positions, rows, strict=True)
            )
            problems += [problem for several in found for problem in several]
    return Verification(num_videos=len(rows), num_frames=num_frames, problems=tuple(_unique(problems)))


def _unique(problems: Iterable[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))


def _sealed_files(dataset: Dataset) -> Iterator[Problem]:
    description = dataset.description
    for name, expected in ((MANIFEST_FILE, description.manifest_sha256), (FRAMES_FILE, description.frames_sha256)):
        try:
            if hash_file(dataset.folder / name) != expected:
                yield Problem(file=name, problem="its SHA-256 is not the one in dataset.json")
        except OSError as error:
            yield Problem(file=name, problem=f"cannot be read: {error.strerror}")


def _counts(dataset: Dataset, rows: list[Row]) -> Iterator[Problem]:
    description = dataset.description
    statuses = pc.value_counts(dataset.manifest.column("status")).to_pylist()
    found = {entry["values"]: entry["counts"] for entry in statuses}
    expected = {status: count for status, count in description.counts.items() if count}
    if found != expected:
        yield Problem(file=MANIFEST_FILE, problem=f"has {found} videos by status, dataset.json says {expected}")
    for name, expected_sum in (("num_frames", description.num_frames), ("num_bytes", description.num_bytes)):
        if sum(row[name] for row in rows) != expected_sum:
            yield Problem(file=MANIFEST_FILE, problem=f"its {name} do not add up to the {expected_sum} of dataset.json")


def _frame_tables(dataset: Dataset, rows: list[Row]) -> tuple[dict[str, Row], list[Problem]]:
    """frames.parquet by video_id, and what is wrong with it."""
    try:
        table = read_parquet(dataset.folder / FRAMES_FILE)
        if not table.schema.equals(FRAMES_SCHEMA):
            raise pa.ArrowInvalid("it does not have the columns of a frame table")
    except (OSError, pa.ArrowException) as error:
        return {}, [Problem(file=FRAMES_FILE, problem=f"cannot be read: {error}")]
    tables = {row["video_id"]: row for row in table.drop_columns(["time_ms"]).to_pylist()}
    problems = []
    for row in rows:
        entry = tables.get(row["video_id"])
        if entry is None or len(entry["num_bytes"]) != row["num_frames"]:
            problem = f"lists {len(entry['num_bytes']) if entry else 0} frames, the manifest {row['num_frames']}"
            problems.append(Problem(file=FRAMES_FILE, video_id=row["video_id"], problem=problem))
    return tables, problems


def _shards(dataset: Dataset, rows: list[Row]) -> Iterator[Problem]:
    by_shard: dict[str, list[Row]] = {}
    for row in rows:
        by_shard.setdefault(row["location"], []).append(row)
    for location, expected in by_shard.items():
        yield from _shard(dataset.folder / location, location, expected)
    folder = dataset.folder / arrow.FOLDER
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if f"{arrow.FOLDER}/{path.name}" not in by_shard:
            yield Problem(file=f"{arrow.FOLDER}/{path.name}", problem="no video of the manifest lies in it")


def _shard(path: Path, location: str, rows: list[Row]) -> Iterator[Problem]:
    try:
        parts = arrow.read_parts(path)
    except FileNotFoundError:
        yield Problem(file=location, problem=f"is missing, and with it {len(rows)} videos")
        return
    except (OSError, ValueError, pa.ArrowException) as error:
        yield Problem(file=location, problem=f"is not a whole shard: {error}")
        return
    placed = arrow.placements(location, parts)
    num_frames: dict[str, int] = {}
    num_bytes: dict[str, int] = {}
    for part in parts:
        num_frames[part.video_id] = num_frames.get(part.video_id, 0) + part.num_frames
        num_bytes[part.video_id] = num_bytes.get(part.video_id, 0) + part.num_bytes
    for row in rows:
        video_id = row["video_id"]
        placement = placed.get(video_id)
        if placement is None:
            yield Problem(file=location, video_id=video_id, problem="is not in its shard")
        elif (num_frames[video_id], num_bytes[video_id]) != (row["num_frames"], row["num_bytes"]):
            problem = (
                f"has {num_frames[video_id]} frames of {num_bytes[video_id]} bytes in the shard, "
                f"{row['num_frames']} of {row['num_bytes']} in the manifest"
            )
            yield Problem(file=location, video_id=video_id, problem=problem)
        elif (placement.row, list(placement.offsets_at), list(placement.data_at)) != (
            row["row"],
            row["offsets_at"],
            row["data_at"],
        ):
            yield Problem(
                file=location, video_id=video_id, problem="lies elsewhere in the shard than the manifest says"
            )
    for video_id in placed.keys() - {row["video_id"] for row in rows}:
        yield Problem(file=location, video_id=video_id, problem="is in the shard, but not in the manifest")


def _folders(dataset: Dataset, rows: list[Row], tables: dict[str, Row]) -> Iterator[Problem]:
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


def _folder(folder: Path, row: Row, table: Row | None) -> Iterator[Problem]:
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
    if table is None or len(table["num_bytes"]) != row["num_frames"]:
        return
    for name, index in expected.items():
        if name in sizes and sizes[name] != table["num_bytes"][index]:
            problem = f"has {sizes[name]} bytes, not {table['num_bytes'][index]}"
            yield Problem(file=f"{row['location']}/{name}", video_id=video_id, frame=index, problem=problem)


def _frames_of(dataset: Dataset, position: int, row: Row, table: Row | None) -> list[Problem]:
    """Read, compare and decode the frames of one video."""
    if table is None or len(table["crc32"]) != row["num_frames"]:
        return []  # said by _frame_tables
    problems = []
    content_crc32 = 0
    for index in range(row["num_frames"]):
        problem, jpeg = None, b""
        try:
            (jpeg,) = dataset.read_frames(position, [index])
            content_crc32 = zlib.crc32(jpeg, content_crc32)
            problem = _wrong_with(jpeg, row, table["crc32"][index])
        except DamagedError as error:
            problem = f"cannot be read: {error.__cause__}"
        if problem:
            problems.append(Problem(file=_file_of(row, index), video_id=row["video_id"], frame=index, problem=problem))
    if not problems and content_crc32 != row["content_crc32"]:
        problem = "the CRC-32 of all its frames is not that of the manifest"
        problems.append(Problem(file=row["location"], video_id=row["video_id"], problem=problem))
    return problems


def _wrong_with(jpeg: bytes, row: Row, crc32: int) -> str | None:
    if zlib.crc32(jpeg) != crc32:
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
