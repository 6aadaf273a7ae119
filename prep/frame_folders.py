"""Frame folders that others made: which folders of a tree are videos, and which of their files are the frames.

A frame is a .jpg or .jpeg file whose name ends in a number, counted from 0 or from 1, with zeros before it or without:
img_00001.jpg (mmaction2, PaddleVideo, TSM), image_00001.jpg (3D-ResNets), frame_000000000000.jpg, 000001.jpg, or any
other text before the number, if all frames have the same. Optical flow beside them (flow_x_00001.jpg) is no frame.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from manifests.errors import UsageError
from manifests.wording import count, quote, quote_some
from prep.datasets.walk import require_folder

_FRAME = re.compile(r"(?P<before>.*?)(?P<number>[0-9]{1,18})\.jpe?g", re.IGNORECASE | re.DOTALL)
_FLOW = re.compile(r"(flow_?)?[xyiuv]_?", re.IGNORECASE)
_USUAL = ("img_", "image_", "frame_", "")


@dataclass(frozen=True, kw_only=True)
class Tree:
    """`videos` are the frame folders, by code point: those that hold frames, and those at the depth of such that hold
    none. All paths are relative to the root, as os gives them. `notes` tell what else is there."""

    videos: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Frames:
    """The frame files of a folder, in order, and its other files and folders."""

    names: tuple[str, ...]
    others: tuple[str, ...]


class FolderProblem(Exception):
    """Why a folder is no video: a failure kind, and what is wrong in words."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True)
class _Folder:
    path: str
    has_frames: bool
    num_files: int
    num_folders: int


def find_frame_folders(root: Path) -> Tree:
    """Walk `root`, following symbolic links. Hidden folders are left out, as are the files above frame folders.

    Raises UsageError where `root` is no folder, holds frames itself, or has no frame folder, and for a folder that
    cannot be listed.
    """
    require_folder(root)
    found, left_out = _walk(root)
    with_frames = {folder.path for folder in found if folder.has_frames}
    if "" in with_frames:
        raise UsageError(
            f"{quote(str(root))} holds frames itself: give the folder that holds the folders of the videos"
        )
    above = {parent for path in with_frames for parent in _parents(path)}
    depths = {path.count("/") for path in with_frames - above}
    videos, num_files = [], Counter[str]()
    empty: list[str] = []
    for folder in found:
        if folder.path in above or not folder.path:
            num_files["above"] += folder.num_files
        elif folder.has_frames or (not folder.num_folders and folder.path.count("/") in depths):
            videos.append(folder.path)
        elif not folder.num_folders:
            empty.append(folder.path)
            num_files["elsewhere"] += folder.num_files
        else:
            num_files["above"] += folder.num_files
    if not videos:
        raise UsageError(f"no frames under {quote(str(root))}: no .jpg or .jpeg file there has a number in its name")
    notes = []
    if num_files["above"]:
        notes.append(f"left out {count(num_files['above'], 'file')} in folders that hold the folders of videos")
    if empty:
        notes.append(
            f"left out {count(len(empty), 'folder')} without frames ({quote_some(empty)}), with "
            f"{count(num_files['elsewhere'], 'file')}, at another depth than the folders of videos"
        )
    if hidden := sorted(left_out["hidden"]):
        notes.append(f"left out {count(len(hidden), 'hidden folder')}: {quote_some(hidden)}")
    if loops := sorted(left_out["loop"]):
        notes.append(f"did not follow {count(len(loops), 'link')} to a folder above the link: {quote_some(loops)}")
    return Tree(videos=tuple(sorted(videos)), notes=tuple(notes))


def frames_of(entries: Iterable["os.DirEntry[str]"]) -> Frames:
    """Tell the frames of one folder. Raises FolderProblem where it has none, some are missing, or it is not clear which
    they are."""
    series: dict[str, list[tuple[int, str]]] = {}
    others: list[str] = []
    for entry in entries:
        match = _FRAME.fullmatch(entry.name)
        if match is None or _FLOW.fullmatch(match["before"]) or entry.name.startswith(".") or not entry.is_file():
            others.append(entry.name)
        else:
            series.setdefault(match["before"], []).append((int(match["number"]), entry.name))
    if not series:
        if not others:
            raise FolderProblem("empty", "the folder is empty")
        raise FolderProblem("no_video", f"no frame among {count(len(others), 'file')} ({quote_some(sorted(others))})")
    usual = [before for before in series if before in _USUAL]
    candidates = list(series) if len(series) == 1 else usual
    if len(candidates) != 1:
        shown = quote_some(sorted(min(names)[1] for names in series.values()))
        raise FolderProblem("unreadable", f"{len(series)} series of frames: {shown}")
    frames = sorted(series.pop(candidates[0]))
    others += [name for names in series.values() for _, name in names]
    _require_no_gap(frames)
    return Frames(tuple(name for _, name in frames), tuple(sorted(others)))


def _require_no_gap(frames: Sequence[tuple[int, str]]) -> None:
    """Raises FolderProblem unless the numbers are 0, 1, ... or 1, 2, ..."""
    for (number, name), (next_number, next_name) in pairwise(frames):
        if number == next_number:
            raise FolderProblem("unreadable", f"two frames have the number {number}: {quote_some([name, next_name])}")
    (first, first_name), (last, last_name) = frames[0], frames[-1]
    if first > 1:
        raise FolderProblem("truncated", f"the first of {count(len(frames), 'frame')} is {quote(first_name)}")
    num_missing = last - first + 1 - len(frames)
    if num_missing:
        before = next(name for (number, name), (after, _) in pairwise(frames) if after > number + 1)
        raise FolderProblem(
            "truncated",
            f"{count(num_missing, 'frame')} missing up to {quote(last_name)}, the first after {quote(before)}",
        )


def _walk(root: Path) -> tuple[list[_Folder], dict[str, list[str]]]:
    found: list[_Folder] = []
    left_out: dict[str, list[str]] = {"hidden": [], "loop": []}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        has_frames, num_files, folders = False, 0, []
        for entry in _list(root, path):
            inner = f"{path}/{entry.name}" if path else entry.name
            if entry.is_dir():
                if entry.name.startswith("."):
                    left_out["hidden"].append(inner)
                elif entry.is_symlink() and _is_loop(os.path.join(root, path), entry.path):
                    left_out["loop"].append(inner)
                else:
                    folders.append(inner)
            else:
                num_files += 1
                if not has_frames and not entry.name.startswith("."):
                    match = _FRAME.fullmatch(entry.name)
                    has_frames = match is not None and not _FLOW.fullmatch(match["before"]) and entry.is_file()
        found.append(_Folder(path, has_frames, num_files, len(folders)))
        waiting += folders
    return found, left_out


def _is_loop(folder: str, link: str) -> bool:
    here, target = os.path.realpath(folder), os.path.realpath(link)
    return here == target or here.startswith(target.rstrip("/") + "/")


def _list(root: Path, folder: str) -> list["os.DirEntry[str]"]:
    path = os.path.join(root, folder)
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        message = f"cannot read {quote(path)} ({error.strerror}): make it readable, or move it away"
        raise UsageError(message) from error


def _parents(path: str) -> list[str]:
    parents = []
    while path:
        path = path.rpartition("/")[0]
        parents.append(path)
    return parents
