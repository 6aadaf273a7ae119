"""Frame folders that others made: which folders of a tree are videos, and which of their files are the frames.

A frame is a .jpg or .jpeg file whose name ends in a number, counted from 0 or from 1, with zeros before it or without:
img_00001.jpg (mmaction2, PaddleVideo, TSM), image_00001.jpg (3D-ResNets), frame_000000000000.jpg, 000001.jpg, or any
other text before the number, if all frames have the same. Optical flow beside them (flow_x_00001.jpg) is no frame.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from manifests.errors import UsageError
from manifests.names import folders_above
from manifests.wording import count, quote, quote_some
from prep.datasets.walk import identity_of, require_folder

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
    """Walk `root`, following symbolic links. Hidden folders are left out, as are the files above frame folders: a
    folder that holds frames and frame folders is no video, and there is a note of it.

    Raises UsageError where `root` is no folder, holds frames itself, or has no frame folder, and for a folder that
    cannot be listed.
    """
    found, left_out = _walk(root, identity_of(require_folder(root)))
    with_frames = {folder.path for folder in found if folder.has_frames}
    if "" in with_frames:
        raise UsageError(
            f"{quote(str(root))} holds frames itself: give the folder that holds the folders of the videos"
        )
    above = folders_above(with_frames)
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
    if outer := sorted(with_frames & above):
        notes.append(
            f"left out the frames right in {count(len(outer), 'folder')} ({quote_some(outer)}), since there are frame "
            "folders inside: if these are no videos, move them away"
        )
    if empty:
        notes.append(
            f"left out {count(len(empty), 'folder')} without frames ({quote_some(empty)}), with "
            f"{count(num_files['elsewhere'], 'file')}, at another depth than the folders of videos"
        )
    if hidden := sorted(left_out["hidden"]):
        notes.append(f"left out {count(len(hidden), 'hidden folder')}: {quote_some(hidden)}")
    if broken := sorted(left_out["broken"]):
        links = count(len(broken), "broken link")
        notes.append(f"left out {links}, which may have been folders: {quote_some(broken)}")
    if loops := sorted(left_out["loop"]):
        notes.append(f"did not follow {count(len(loops), 'link')} to a folder above the link: {quote_some(loops)}")
    return Tree(videos=tuple(sorted(videos)), notes=tuple(notes))


def frames_of(entries: Iterable["os.DirEntry[str]"]) -> Frames:
    """Tell the frames of one folder. Raises FolderProblem where it has none, some are missing or no files, or it is not
    clear which they are."""
    series: dict[str, list[tuple[int, str]]] = {}
    others: list[str] = []
    no_files: set[str] = set()
    for entry in entries:
        match = _match_frame(entry.name)
        is_file = match is not None and _is(entry.is_file)
        if match is None or (not is_file and _is(entry.is_dir)):
            others.append(entry.name)
            continue
        series.setdefault(match["before"], []).append((int(match["number"]), entry.name))
        if not is_file:
            no_files.add(entry.name)
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
    if gone := [name for _, name in frames if name in no_files]:
        detail = f"{len(gone)} of {count(len(frames), 'frame')} no file, or a link to none: {quote_some(gone)}"
        raise FolderProblem("unreadable", detail)
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


def _match_frame(name: str) -> re.Match[str] | None:
    """What comes `before` the `number` of a frame, and that, by the name of a file; None for any other."""
    match = _FRAME.fullmatch(name)
    return None if match is None or name.startswith(".") or _FLOW.fullmatch(match["before"]) else match


def _is(kind: Callable[[], bool]) -> bool:
    """Whether an entry is of a kind; one that cannot be reached (a link to itself, or through a closed folder) is of
    none."""
    try:
        return kind()
    except OSError:
        return False


def _walk(root: Path, root_identity: tuple[int, int]) -> tuple[list[_Folder], dict[str, list[str]]]:
    """All folders, and the paths of what is left out, by kind."""
    found: list[_Folder] = []
    left_out: dict[str, list[str]] = {"hidden": [], "loop": [], "broken": []}
    # A folder waits with the (st_dev, st_ino) of itself and all folders above it, by which a loop is noticed.
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", (root_identity,))]
    while waiting:
        path, line = waiting.pop()
        has_frames, num_files, num_folders = False, 0, 0
        for entry in _list(root, path):
            inner = f"{path}/{entry.name}" if path else entry.name
            if _is(entry.is_dir):
                if entry.name.startswith("."):
                    left_out["hidden"].append(inner)
                elif (identity := _identity_of(entry)) in line:
                    left_out["loop"].append(inner)
                else:
                    waiting.append((inner, (*line, identity)))
                    num_folders += 1
            elif _match_frame(entry.name) is not None:
                num_files += 1
                has_frames = has_frames or _is(entry.is_file)
            elif entry.is_symlink() and not _is(entry.is_file):
                left_out["broken"].append(inner)
            else:
                num_files += 1
        found.append(_Folder(path, has_frames, num_files, num_folders))
    return found, left_out


def _identity_of(entry: "os.DirEntry[str]") -> tuple[int, int]:
    try:
        return identity_of(entry.stat())
    except OSError as error:
        raise _unreadable(entry.path, error) from error


def _list(root: Path, folder: str) -> list["os.DirEntry[str]"]:
    path = os.path.join(root, folder)
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(f"cannot read {quote(path)} ({error.strerror}): make it readable, or move it away")
