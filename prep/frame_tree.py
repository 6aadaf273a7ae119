"""The frames of frame folders that others made, taken over one video at a time: linked, and each of them decoded.

Arrays: table_N as in prep.frame_table.
"""

import errno
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from manifests.atomic import disk_errors
from manifests.errors import StoreError
from manifests.names import frame_file_name
from manifests.records import Outcome
from manifests.sources import SourceList
from manifests.wording import count, quote, quote_some
from prep import spool
from prep.child import Reply
from prep.frame_folders import FolderProblem, Frames, frames_of
from prep.frame_table import FRAME_DTYPE, FrameTable, write_table
from prep.jpeg import decoded_size


class FrameTree:
    """Takes frames over from a tree of folders (prep.taking.FrameSource)."""

    def __init__(self, sources: SourceList, listed: Mapping[str, int]) -> None:
        self._sources = sources
        self._listed = listed

    def take(self, row: int, frames: Path, table: Path) -> Reply:
        """Link the frames of a video, and measure, sum and decode each."""
        source = self._sources.sources[row]
        folder = self._sources.path_of(source)
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
        except MemoryError as error:
            detail = f"no memory for the picture that the {count(len(jpeg), 'byte')} of {quote(name)} tell of"
            raise FolderProblem("out_of_memory", detail) from error
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
