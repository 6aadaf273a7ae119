"""`prep adopt`: frame folders that others made become a dataset.

No video is decoded and no frame copied: OUT/frames/<video_id>/img_00001.jpg and so on are hard links to the frames,
which take no space, whatever names those have. The tree itself is left as it is. What decoding would have told (codec,
times, ...) is not known: those columns are null, and times are NaN.
"""

import errno
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from manifests.atomic import disk_errors
from manifests.dataset import open_dataset
from manifests.description import is_dataset
from manifests.errors import StoreError, UsageError
from manifests.names import escape_name, folder_ids, frame_file_name, unescape_name
from manifests.records import Outcome, Source
from manifests.sources import SourceList
from manifests.stores import frames as frame_store
from manifests.wording import count, quote, quote_some
from prep import datasets, spool
from prep.child import Reply
from prep.classes import impose_order, read_class_file
from prep.datasets.annotation_files import annotation_files
from prep.datasets.folder import class_of, subset_of
from prep.datasets.listed import gather
from prep.datasets.lists import classes_of, line_of, ways_to_name
from prep.datasets.match import match
from prep.datasets.rows import make_rows
from prep.datasets.walk import VideoFile, is_video_name
from prep.extract import Extraction, clear_finished
from prep.frame_folders import FolderProblem, Frames, find_frame_folders, frames_of
from prep.frame_lists import read_frame_list
from prep.frame_table import FRAME_DTYPE, FrameTable, write_table
from prep.from_frames import Order, make_dataset, require_apart
from prep.jpeg import decoded_size
from prep.recipe import AdoptRecipe, Recipe, recipe_of
from prep.run_folder import RunFolder

_LIST_SUFFIXES = (".txt", ".csv", ".tsv", ".list", ".lst")


@dataclass(frozen=True)
class Adoptable:
    """The frame folders as a scan, each a source; `listed` has the number of frames that the lists give for some."""

    scan: datasets.Scan
    listed: Mapping[str, int]


def find_videos(root: Path, lists: Sequence[Path], form: str | None, class_file: Path | None) -> Adoptable:
    """The frame folders under `root`, with classes and subsets by the lists, or where there are none by the folders
    that they lie in, as `--dataset folder` does. Raises UsageError."""
    if is_dataset(root):
        raise UsageError(
            f"{quote(str(root))} is a prepared dataset already: give the folder of frame folders in it, or pack it"
        )
    tree = find_frame_folders(root)
    found = _by_lists(root, tree.videos, lists, form) if lists else Adoptable(_by_folders(tree.videos), {})
    scan = replace(found.scan, notes=(*tree.notes, *found.scan.notes))
    if class_file is not None:
        scan = impose_order(scan, read_class_file(class_file), class_file)
    return replace(found, scan=scan)


def _by_folders(videos: Sequence[str]) -> datasets.Scan:
    paths = sorted(map(escape_name, videos))
    ids = folder_ids(paths)
    classes = sorted({name for video_id in ids if (name := class_of(video_id)) is not None})
    labels = {name: label for label, name in enumerate(classes)}
    sources = []
    for path, video_id in zip(paths, ids, strict=True):
        class_name, subset = class_of(video_id), subset_of(video_id)
        sources.append(
            Source(
                video_id=video_id,
                source=path,
                source_bytes=None,
                label=-1 if class_name is None else labels[class_name],
                class_name=class_name,
                subsets=() if subset is None else (subset,),
            )
        )
    return datasets.Scan(dataset="folder", sources=tuple(sources), classes=tuple(classes))


def _by_lists(root: Path, videos: Sequence[str], lists: Sequence[Path], form: str | None) -> Adoptable:
    files = annotation_files(root, lists, (), _is_list, f"a file that ends in one of {', '.join(_LIST_SUFFIXES)}")
    known = ways_to_name(videos)
    readings = [(file, read_frame_list(file, form, root, known)) for file in files]
    names, numbered = classes_of(row for _, reading in readings for row in reading.rows)
    lines = [line_of(file, row, names, root) for file, reading in readings for _, row in reading.rows]
    listed = gather(lines)
    matches, near = _match(videos, list(listed.items))
    if not matches:
        raise UsageError(
            f"no folder under {quote(str(root))} is one that {quote(files[0].name)} names (such as "
            f"{quote(lines[0].name)}): give the folder that its paths are relative to"
        )
    classes = list(dict.fromkeys(names.values()))
    labels = {name: label for label, name in enumerate(classes)}
    files_there = [VideoFile(path=path, num_bytes=None) for path in videos]
    scan = datasets.Scan(
        dataset="list",
        sources=make_rows(files_there, listed.items, matches, labels, ids=folder_ids),
        classes=tuple(map(escape_name, classes)),
        notes=tuple(f"read {quote(file.name)} as {reading.shape}" for file, reading in readings),
        num_lines=listed.num_lines,
        near=tuple((escape_name(matches[path]), escape_name(path)) for path in sorted(near)),
        numbered=numbered,
    )
    counts: dict[str, set[int]] = {}
    for line, row in zip(lines, (row for _, reading in readings for _, row in reading.rows), strict=True):
        if row.get("num_frames", "").isdecimal():
            counts.setdefault(line.name, set()).add(int(row["num_frames"]))
    told = {escape_name(path): counts[name] for path, name in matches.items() if name in counts}
    return Adoptable(scan, {path: min(numbers) for path, numbers in told.items() if len(numbers) == 1})


def _match(videos: Sequence[str], listed: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """The listed path of each folder, and the folders that were found by less than the path. A listed video file stands
    for the folder that has its name without the suffix."""
    matches, near = match(videos, listed, {})
    found = set(matches.values())
    stems = {name.rpartition(".")[0]: name for name in listed if name not in found and is_video_name(name)}
    more, more_near = match([path for path in videos if path not in matches], stems, {})
    return {**matches, **{path: stems[stem] for path, stem in more.items()}}, near | more_near


def _is_list(path: Path) -> bool:
    return path.suffix.lower() in _LIST_SUFFIXES and path.is_file()


def adopt(root: Path, found: Adoptable, out: Path, *, num_jobs: int, quiet: bool) -> Extraction:
    """Make the dataset, or go on with it, or find that it is done.

    Raises what prep.from_frames raises, and StoreError where no hard links to the frames can be made in OUT.
    """
    require_apart(root, out)
    sources = datasets.source_list(found.scan, root)
    order = Order(
        out=out,
        sources=sources,
        recipe=AdoptRecipe(),
        libraries={},
        frames=FrameTree(sources, found.listed),
        num_jobs=num_jobs,
        quiet=quiet,
        retry_failed=True,
    )
    return make_dataset(order) or clear_finished(RunFolder(out), _require_same(out, sources))


def _require_same(out: Path, sources: SourceList) -> Extraction:
    """Raises UsageError unless the dataset in `out` was adopted from just these folders, with the same labels."""
    with open_dataset(out) as dataset:
        description = dataset.description
        recipe: Recipe = recipe_of(description.recipe)
        if not isinstance(recipe, AdoptRecipe) or recipe.store.format != frame_store.FOLDER:
            raise UsageError(f"{out} is a dataset that was not made by prep adopt: use another --out")
        names = ("source", "video_id", "label", "class_name", "subsets")
        before = dataset.columns(names).to_pylist()
    same = description.classes == sources.classes and len(before) == len(sources.sources)
    if not same or any(
        (source.source, source.video_id, source.label, source.class_name, list(source.subsets)) != tuple(row.values())
        for source, row in zip(sources.sources, before, strict=True)
    ):
        raise UsageError(
            f"{out} was made of other folders, labels or subsets: use another --out, or remove it, which removes "
            "links and no frames"
        )
    return Extraction(description, was_sealed=True)


class FrameTree:
    """Takes frames over from a tree of folders (prep.taking.FrameSource)."""

    def __init__(self, sources: SourceList, listed: Mapping[str, int]) -> None:
        self._sources = sources
        self._listed = listed

    def take(self, row: int, frames: Path, table: Path) -> Reply:
        """Link the frames of a video, and measure, sum and decode each."""
        source = self._sources.sources[row]
        folder = self._sources.root / unescape_name(source.source)
        declared = self._listed.get(source.source)
        with disk_errors(frames):
            spool.remove(frames)
            try:
                try:
                    with os.scandir(folder) as entries:
                        found = frames_of(entries)
                except OSError as error:
                    raise FolderProblem("unreadable", error.strerror or str(error)) from error
                frames.mkdir()
                _link(folder, found.names, frames)
                outcome, table_N = _measure(found, frames)
            except FolderProblem as problem:
                spool.remove(frames)
                failed = Outcome(status="failed", failure=problem.kind, detail=problem.detail)
                return Reply(replace(failed, declared_num_frames=declared), 0)
            remarks = [outcome.detail] if outcome.detail else []
            if declared is not None and declared != outcome.num_frames:
                remarks.append(f"a list says {count(declared, 'frame')}")
            outcome = replace(outcome, declared_num_frames=declared, detail="; ".join(remarks) or None)
            return Reply(outcome, write_table(table, table_N))


def _link(folder: Path, names: Sequence[str], frames: Path) -> None:
    for index, name in enumerate(names):
        # Of a symbolic link the file that it leads to.
        path = os.path.realpath(folder / name) if os.path.islink(folder / name) else folder / name
        try:
            os.link(path, frames / frame_file_name(index))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise FolderProblem("unreadable", f"{quote(name)}: {error.strerror}") from error
            raise StoreError(
                f"cannot link {path} into {frames.parents[2]}: {error.strerror}; frames are taken over as hard links, "
                "so --out must be on their file system, and you may have to own them"
            ) from error


def _measure(found: Frames, frames: Path) -> tuple[Outcome, FrameTable]:
    """The outcome of a video, and table_N as in prep.frame_table. Raises FolderProblem."""
    entries: list[tuple[int, int, float]] = []
    bad: list[str] = []
    size, reason, content_crc32 = None, "", 0
    for index, name in enumerate(found.names):
        try:
            jpeg = (frames / frame_file_name(index)).read_bytes()
        except OSError as error:
            raise FolderProblem("unreadable", f"{quote(name)}: {error.strerror}") from error
        try:
            now = decoded_size(jpeg)
        except ValueError as error:
            bad.append(name)
            reason = reason or ("it has no bytes" if not jpeg else str(error))
            continue
        if size is not None and now != size:
            detail = f"{size.width}x{size.height} becomes {now.width}x{now.height} at frame {index} ({quote(name)})"
            raise FolderProblem("size_change", detail)
        size = now
        content_crc32 = zlib.crc32(jpeg, content_crc32)
        entries.append((len(jpeg), zlib.crc32(jpeg), np.nan))
    if size is None or bad:
        detail = f"{len(bad)} of {count(len(found.names), 'frame')} no valid JPEG: {quote_some(bad)} ({reason})"
        raise FolderProblem("decode", detail)
    remark = None
    if found.others:
        remark = f"left out {count(len(found.others), 'file')} that are no frames: {quote_some(found.others)}"
    table_N = np.array(entries, FRAME_DTYPE)
    outcome = Outcome(
        status="ok",
        detail=remark,
        num_frames=len(entries),
        width=size.width,
        height=size.height,
        num_bytes=int(table_N["num_bytes"].sum(dtype=np.int64)),
        content_crc32=content_crc32,
    )
    return outcome, table_N
