"""Verify a prepared dataset: does the store hold what the manifest says? Nothing is written.

The quick level reads dataset.json, the manifest and frames.parquet; of a shard what it says about the frames (whose
they are, how many, of which sizes, at which positions), of a frame folder the names and sizes of its files. The deep
level reads every frame, compares its CRC-32, and decodes it.

What lies there and no manifest names is a problem, unless a run is open in OUT/.work: then it may be that run's, and is
a remark. A manifest or frames.parquet that is not the one that dataset.json tells of is not looked into.

Arrays: num_bytes_N int32 and crc32_N uint32, of the frames of one video.
"""

import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from manifests.dataset import Dataset, open_dataset, open_table
from manifests.description import DESCRIPTION_FILE, WORK_FOLDER, hash_classes, read_description
from manifests.errors import DamagedError
from manifests.manifest import FRAMES_FILE, FRAMES_SCHEMA, MANIFEST_FILE, parse_parquet
from manifests.names import frame_file_name
from manifests.records import Placement
from manifests.stores import arrow
from manifests.wording import count
from prep.clear import unnamed
from prep.jpeg import decoded_size

Row = dict[str, Any]
"""What is looked at of a row of the manifest, by column name, and its `position` there."""

_COLUMNS = (
    *("video_id", "label", "class_name", "subsets", "status", "failure", "num_frames", "width", "height"),
    *("location", "row", "offsets_at", "data_at", "num_bytes", "content_crc32"),
)

_FRAMES_AT_A_TIME = 64
"""So many frames of a video are read at once, which bounds the memory for a long one."""

_LOOKED_AT = {
    "arrow": "compared rows, positions, counts and sizes, frame contents not read (--deep does)",
    "frames": "compared names, counts and sizes of files, frame contents not read (--deep does)",
}
"""What the quick level can tell, by store."""


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
    """What was looked at, and what is wrong. `num_frames` is 0 unless the frames themselves were read; `looked_at` says
    what this level can tell of this store; `remarks` are no problems."""

    num_videos: int
    num_frames: int
    looked_at: str
    problems: tuple[Problem, ...]
    remarks: tuple[str, ...] = ()


def verify(folder: Path, *, deep: bool, num_jobs: int) -> Verification:
    """Raises UsageError where `folder` is no prepared dataset; all that is wrong with one is a Problem."""
    while True:
        found, is_current = _verify(folder, deep=deep, num_jobs=num_jobs)
        if is_current or not found.problems:
            return found


def _verify(folder: Path, *, deep: bool, num_jobs: int) -> tuple[Verification, bool]:
    """What is found, and whether the dataset is still the one that was looked at: an update may take its tables away
    while they are read."""
    try:
        read_description(folder)
    except DamagedError as error:
        return _unreadable(DESCRIPTION_FILE, error), True
    try:
        dataset = open_dataset(folder)
    except DamagedError as error:
        return _unreadable(MANIFEST_FILE, error), True
    with dataset:
        manifest = dataset.columns(_COLUMNS).to_pylist()
        rows = [{**row, "position": position} for position, row in enumerate(manifest)]
        ok = [row for row in rows if row["status"] == "ok"]
        tables, problems = _frame_tables(dataset, ok)
        problems += _counts(dataset, rows)
        in_shards, in_folders = [row for row in ok if row["row"] >= 0], [row for row in ok if row["row"] < 0]
        problems += _shards(dataset, in_shards, tables)
        problems += _folders(dataset, in_folders, tables, num_jobs)
        strays = [_stray(folder, path) for path in unnamed(folder, {row["location"] for row in ok})]
        remarks = []
        if (folder / WORK_FOLDER).exists():
            remarks.append(_open_run(folder, strays))
        else:
            problems += strays
        num_frames = 0
        if deep:
            readable = _not_named(ok, problems)
            problems += _not_known(_contents(dataset, readable, tables, num_jobs), problems)
            num_frames = sum(row["num_frames"] for row in readable)
        is_current = dataset.is_current()
    quick = _LOOKED_AT["frames" if in_folders else "arrow"]
    looked_at = f"read and decoded {count(num_frames, 'frame')}" if deep else quick
    found = Verification(
        num_videos=len(ok),
        num_frames=num_frames,
        looked_at=looked_at,
        problems=tuple(problems),
        remarks=tuple(remarks),
    )
    return found, is_current


def _unreadable(name: str, error: DamagedError) -> Verification:
    problem = Problem(file=name, problem=str(error))
    return Verification(num_videos=0, num_frames=0, looked_at="looked no further", problems=(problem,))


def _open_run(folder: Path, strays: Sequence[Problem]) -> str:
    """What is said of a dataset into which a run is open, or was killed."""
    left_out = f"; left out {count(len(strays), 'file or folder', 'files and folders')} that the manifest does not name"
    work = folder / WORK_FOLDER
    is_read = set(os.listdir(work)) == {"lock", "superseded"}
    state = "a program read what an update replaced" if is_read else "a run is open or was stopped"
    return f"{work} is there: {state}{left_out if strays else ''}"


def problem_lines(problems: Sequence[Problem], max_lines: int) -> list[str]:
    """The problems as a table, the first `max_lines` of them. Frames count from 0."""
    if not problems:
        return []
    rows = [("file", "video", "frame", "problem")]
    for problem in problems[:max_lines]:
        frame = "-" if problem.frame is None else str(problem.frame)
        rows.append((problem.file, problem.video_id or "-", frame, problem.problem))
    rows = [(_one_line(file), _one_line(video_id), frame, _one_line(text)) for file, video_id, frame, text in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*map(str.ljust, row[:3], widths), row[3]]) for row in rows]
    if len(problems) > max_lines:
        lines.append(f"and {len(problems) - max_lines:,} more; --json names all")
    return lines


def _one_line(text: str) -> str:
    """A name may hold line ends and tabs, which would break a table."""
    return "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else repr(c)[1:-1] for c in text)


def _not_named(rows: list[Row], problems: list[Problem]) -> list[Row]:
    """The rows without those that are known to be missing or misplaced as a whole."""
    named = {(problem.file, problem.video_id) for problem in problems if problem.frame is None}
    return [row for row in rows if not {(row["location"], row["video_id"]), (row["location"], None)} & named]


def _not_known(found: Iterator[Problem], problems: Sequence[Problem]) -> list[Problem]:
    """What was found in a frame of which no problem is known."""
    known = {(problem.file, problem.video_id, problem.frame) for problem in problems}
    return [problem for problem in found if (problem.file, problem.video_id, problem.frame) not in known]


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
    try:
        with open_table(dataset.folder, FRAMES_FILE, dataset.description.frames_sha256) as file:
            if not pq.read_schema(file).equals(FRAMES_SCHEMA):
                raise pa.ArrowInvalid("it does not have the columns of a frame table")
            file.seek(0)
            table = parse_parquet(file, ["video_id", "num_bytes", "crc32"])
    except DamagedError as error:
        return {}, [Problem(file=FRAMES_FILE, problem=str(error))]
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


def _folders(dataset: Dataset, rows: list[Row], tables: dict[str, _FrameTable], num_jobs: int) -> Iterator[Problem]:
    found = joblib.Parallel(n_jobs=num_jobs, backend="threading", return_as="generator")(
        joblib.delayed(_folder)(dataset.folder / row["location"], row, tables.get(row["video_id"])) for row in rows
    )
    for problems in found:
        yield from problems


def _stray(folder: Path, path: Path) -> Problem:
    location = path.relative_to(folder).as_posix()
    is_frame = path.is_file() and not location.startswith(f"{arrow.FOLDER}/")
    what = "no video of the manifest has this file" if is_frame else "no video of the manifest lies in it"
    return Problem(file=location, problem=what)


def _folder(folder: Path, row: Row, table: _FrameTable | None) -> list[Problem]:
    video_id, location = row["video_id"], row["location"]
    try:
        with os.scandir(folder) as entries:
            sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        return [Problem(file=location, video_id=video_id, problem="its folder is missing")]
    except OSError as error:
        return [Problem(file=location, video_id=video_id, problem=f"cannot be read: {error.strerror}")]
    expected = {frame_file_name(index): index for index in range(row["num_frames"])}
    problems = []
    for name in sorted(expected.keys() - sizes.keys()):
        file = f"{location}/{name}"
        problems.append(Problem(file=file, video_id=video_id, frame=expected[name], problem="is missing"))
    for name in sorted(sizes.keys() - expected.keys()):
        problems.append(Problem(file=f"{location}/{name}", video_id=video_id, problem="is no frame of the video"))
    meant = [] if table is None else table.num_bytes_N.tolist()
    for (name, index), num_bytes in zip(expected.items(), meant, strict=False):
        if sizes.get(name, num_bytes) != num_bytes:
            problem = f"has {sizes[name]} bytes, not {num_bytes}"
            problems.append(Problem(file=f"{location}/{name}", video_id=video_id, frame=index, problem=problem))
    return problems


def _contents(dataset: Dataset, rows: list[Row], tables: dict[str, _FrameTable], num_jobs: int) -> Iterator[Problem]:
    found = joblib.Parallel(n_jobs=num_jobs, backend="threading", return_as="generator")(
        joblib.delayed(_frames_of)(dataset, row, tables.get(row["video_id"])) for row in rows
    )
    for problems in found:
        yield from problems


def _frames_of(dataset: Dataset, row: Row, table: _FrameTable | None) -> list[Problem]:
    """Read, compare and decode the frames of one video."""
    problems = []
    content_crc32 = 0
    for index, jpeg in enumerate(_read_all(dataset, row)):
        if isinstance(jpeg, DamagedError):
            problem: str | None = f"cannot be read: {jpeg.__cause__}"
        else:
            content_crc32 = zlib.crc32(jpeg, content_crc32)
            problem = _wrong_with(jpeg, row, None if table is None else int(table.crc32_N[index]))
        if problem:
            problems.append(Problem(file=_file_of(row, index), video_id=row["video_id"], frame=index, problem=problem))
    if not problems and content_crc32 != row["content_crc32"]:
        problem = "the CRC-32 of all its frames is not that of the manifest"
        problems.append(Problem(file=row["location"], video_id=row["video_id"], problem=problem))
    return problems


def _read_all(dataset: Dataset, row: Row) -> Iterator[bytes | DamagedError]:
    """Each frame of a video, or why it cannot be read."""
    for start in range(0, row["num_frames"], _FRAMES_AT_A_TIME):
        indices = range(start, min(start + _FRAMES_AT_A_TIME, row["num_frames"]))
        try:
            yield from dataset.read_frames(row["position"], indices)
        except DamagedError:
            for index in indices:
                try:
                    yield from dataset.read_frames(row["position"], [index])
                except DamagedError as error:
                    yield error


def _wrong_with(jpeg: bytes, row: Row, crc32: int | None) -> str | None:
    if crc32 is not None and zlib.crc32(jpeg) != crc32:
        return "its bytes have changed: the CRC-32 differs"
    try:
        size = decoded_size(jpeg)
    except ValueError as error:
        return f"is no valid JPEG: {error}"
    if (size.width, size.height) != (row["width"], row["height"]):
        return f"is {size.width}x{size.height}, the manifest says {row['width']}x{row['height']}"
    return None


def _file_of(row: Row, index: int) -> str:
    return row["location"] if row["row"] >= 0 else f"{row['location']}/{frame_file_name(index)}"
