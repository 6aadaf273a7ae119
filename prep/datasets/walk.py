"""Finds the video files under a folder, and counts everything else that is there."""

import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import UsageError
from manifests.wording import count, quote, quote_some

VIDEO_SUFFIXES = (
    *("avi", "mp4", "m4v", "mkv", "webm", "mov", "qt", "mpg", "mpeg", "mpe", "m1v", "m2v", "mpv"),
    *("ts", "mts", "m2t", "m2ts", "vob", "flv", "f4v", "wmv", "asf", "3gp", "3g2", "ogv", "ogm"),
    *("rm", "rmvb", "divx", "xvid", "mxf", "dv", "mjpg", "mjpeg", "y4m", "ivf", "h264", "264", "h265"),
    *("265", "hevc"),
)
"""What comes after the last dot of a video's file name, in lower case; the names on disk may be in any case."""


@dataclass(frozen=True, kw_only=True)
class VideoFile:
    """One file whose name says that it is a video.

    `path` is the POSIX path relative to the root as os gives it (bytes that are not UTF-8 as lone surrogates).
    Either `num_bytes` is known, or `problem` says in a few words why the file cannot be read.
    """

    path: str
    num_bytes: int | None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Found:
    """The videos under a root, sorted by code point of the path, and what else is there.

    `num_hidden` counts files and folders whose name begins with a dot (a hidden folder counts once, whatever is in
    it), without the AppleDouble files `._*`, which have their own number. `others` are the suffixes of the other
    files, in lower case without dot, with their number, the most frequent first. `loops` are folders that are also
    a folder above themselves, by way of a link; `broken_links` are links without a video's suffix whose target
    cannot be reached; both as paths like those of the videos.
    """

    videos: tuple[VideoFile, ...]
    num_hidden: int = 0
    num_apple_double: int = 0
    others: tuple[tuple[str, int], ...] = ()
    loops: tuple[str, ...] = ()
    broken_links: tuple[str, ...] = ()


def is_video_name(name: str) -> bool:
    """Whether a file name or path ends in one of VIDEO_SUFFIXES, in any case."""
    return _suffix(name) in VIDEO_SUFFIXES


def find_videos(root: Path, expected: frozenset[str] = frozenset()) -> Found:
    """Walk `root`, following symbolic links, and return its videos.

    `expected` are names of files that belong there without being videos; they are not counted among the others.
    A video that is a link to nowhere, or no regular file, is among them, with a `problem`: it is not dropped.
    Raises UsageError where `root` is no folder or has no videos, and where a folder under it cannot be listed: what
    it holds cannot be known, and the labels of all other classes may hang on it.
    """
    found = _walk(root, identity_of(require_folder(root)), expected)
    shown = quote(str(root))
    if not found.videos:
        raise UsageError(_no_videos(shown, found))
    return found


def require_folder(root: Path) -> os.stat_result:
    """Raises UsageError where `root` is no folder."""
    shown = quote(str(root))
    try:
        status = os.stat(root)
    except FileNotFoundError as error:
        raise UsageError(f"no such folder: {shown}") from error
    except OSError as error:
        raise UsageError(f"cannot read the folder {shown}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{shown} is a file: give the folder that holds the videos")
    return status


def num_left_out(found: Found) -> dict[str, int]:
    """How much `find_videos` left out, by kind; without kinds of which there is none."""
    numbers = {
        "hidden": found.num_hidden,
        "apple_double": found.num_apple_double,
        "other_files": sum(number for _, number in found.others),
        "looping_links": len(found.loops),
        "broken_links": len(found.broken_links),
    }
    return {kind: number for kind, number in numbers.items() if number}


def left_out(found: Found) -> list[str]:
    """Sentences about what `find_videos` left out, and about videos that cannot be read; none for none."""
    notes = []
    if found.num_hidden or found.num_apple_double:
        notes.append(f"left out {_hidden(found)}")
    if found.others:
        suffixes = ", ".join(
            f"{number} {quote('.' + suffix) if suffix else 'without any'}" for suffix, number in found.others[:5]
        )
        more = ", ..." if len(found.others) > 5 else ""
        number = sum(number for _, number in found.others)
        notes.append(f"left out {count(number, 'file')} whose suffix is not a video's ({suffixes}{more})")
    if found.loops:
        links = count(len(found.loops), "link")
        notes.append(f"did not follow {links} to a folder above the link: {quote_some(found.loops)}")
    if found.broken_links:
        links = count(len(found.broken_links), "broken link")
        notes.append(f"left out {links}, which may have been folders: {quote_some(found.broken_links)}")
    broken = [video.path for video in found.videos if video.problem is not None]
    if broken:
        notes.append(f"listed as failed, since they cannot be read: {_videos(broken)}")
    return notes


def _walk(root: Path, root_identity: tuple[int, int], expected: frozenset[str]) -> Found:
    videos: list[VideoFile] = []
    hidden: Counter[str] = Counter()
    others: Counter[str] = Counter()
    loops: list[str] = []
    broken_links: list[str] = []
    # A folder waits with the (st_dev, st_ino) of itself and all folders above it, by which a loop is noticed.
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", (root_identity,))]
    while waiting:
        folder, ancestors = waiting.pop()
        for entry in _list(root, folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith("."):
                hidden["._" if entry.name.startswith("._") else "."] += 1
                continue
            try:
                status = entry.stat()
            except OSError as error:
                if is_video_name(entry.name):
                    videos.append(VideoFile(path=path, num_bytes=None, problem=_problem(entry, error)))
                elif entry.is_symlink():
                    broken_links.append(path)
                else:
                    raise _unreadable(os.path.join(root, path), error) from error
                continue
            if stat.S_ISDIR(status.st_mode):
                identity = identity_of(status)
                if identity in ancestors:
                    loops.append(path)
                else:
                    waiting.append((path, (*ancestors, identity)))
            elif not is_video_name(entry.name):
                if entry.name not in expected:
                    others[_suffix(entry.name)] += 1
            elif stat.S_ISREG(status.st_mode):
                videos.append(VideoFile(path=path, num_bytes=status.st_size))
            else:
                # Opening a pipe would wait for ever.
                videos.append(VideoFile(path=path, num_bytes=None, problem="not a regular file"))
    return Found(
        videos=tuple(sorted(videos, key=lambda video: video.path)),
        num_hidden=hidden["."],
        num_apple_double=hidden["._"],
        others=tuple(sorted(others.items(), key=lambda item: (-item[1], item[0]))),
        loops=tuple(sorted(loops)),
        broken_links=tuple(sorted(broken_links)),
    )


def _list(root: Path, folder: str) -> list["os.DirEntry[str]"]:
    path = os.path.join(root, folder)
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        # The root of an ext4 disk has this one, which only the system's administrator may list.
        if folder == "lost+found":
            return []
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(f"cannot read {quote(path)} ({error.strerror}): make it readable, or move it away")


def _problem(entry: "os.DirEntry[str]", error: OSError) -> str:
    """Why a file has no size, without naming a path: the words end up in the manifest."""
    if entry.is_symlink() and isinstance(error, FileNotFoundError):
        return "a symbolic link to a file that does not exist"
    return error.strerror or type(error).__name__


def identity_of(status: os.stat_result) -> tuple[int, int]:
    """By which a folder is known again under another path."""
    return status.st_dev, status.st_ino


def _suffix(name: str) -> str:
    """What comes after the last dot, in lower case; empty where there is no dot, or only one at the start."""
    stem, _, suffix = name.rpartition("/")[2].rpartition(".")
    return suffix.lower() if stem else ""


def _hidden(found: Found) -> str:
    parts = []
    if found.num_hidden:
        parts.append(count(found.num_hidden, "hidden file or folder", "hidden files and folders"))
    if found.num_apple_double:
        parts.append(count(found.num_apple_double, "AppleDouble file (._*)", "AppleDouble files (._*)"))
    return " and ".join(parts)


def _videos(paths: Sequence[str]) -> str:
    return f"{count(len(paths), 'video')} ({quote_some(paths)})"


def _no_videos(root: str, found: Found) -> str:
    seen = []
    number = sum(number for _, number in found.others)
    if number:
        suffixes = ", ".join(VIDEO_SUFFIXES[:5])
        seen.append(f"{count(number, 'file')}, none with a suffix that is a video's ({suffixes}, ...)")
    if found.num_hidden or found.num_apple_double:
        seen.append(f"{_hidden(found)}, which are left out")
    if found.broken_links:
        seen.append(count(len(found.broken_links), "broken link"))
    return f"no videos under {root}: {'; '.join(seen) or 'nothing there could be one'}"
