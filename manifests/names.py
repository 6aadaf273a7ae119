"""Names: of videos in the manifest, and of files on disk."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_SURROGATE = re.compile(r"[\udc80-\udcff]")
_LOOKS_ESCAPED = re.compile(r"%(?=[0-9A-F]{2})")


def escape_name(path: str) -> str:
    """A file name as os gives it (bytes that are not UTF-8 as lone surrogates) -> text that UTF-8 can hold.

    Bytes that are not UTF-8 become %XX, and a % that would read as such an escape becomes %25; every other name
    is unchanged. `unescape_name` reverses it.
    """
    plain = _LOOKS_ESCAPED.sub("%25", path)
    return "".join(f"%{ord(c) - 0xDC00:02X}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in plain)


def unescape_name(name: str) -> str:
    """The inverse of `escape_name`: a path that the os module can open."""
    raw = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), name.encode())
    return raw.decode("utf-8", "surrogateescape")


def video_ids(sources: Sequence[str]) -> list[str]:
    """Give each source path its video_id: the path without suffix, or the whole path where that would clash.

    `sources` are distinct POSIX paths, relative and without `.` or `..`, as a file system could hold them. Two
    ids clash where they are equal, or where one would be a folder that the other lies in. Whoever clashes takes
    its whole path, which cannot clash, since a path is either a file or a folder.
    """
    ids = [_without_suffix(source) for source in sources]
    folders = folders_above(sources)
    while True:
        counts = Counter(ids)
        clashing = [
            index
            for index, video_id in enumerate(ids)
            if video_id != sources[index] and (counts[video_id] > 1 or video_id in folders)
        ]
        if not clashing:
            return ids
        for index in clashing:
            ids[index] = sources[index]


def folder_ids(paths: Sequence[str]) -> list[str]:
    """The video_id of each frame folder: its path, since a frame folder is named after its video.

    `paths` are distinct, as `escape_name` gives them, none inside another. A name that looks escaped, as that of a
    folder for an id may be, is taken as it stands, unless that could clash with another.
    """
    taken = {*paths, *folders_above(paths)}
    ids = []
    for path in paths:
        plain = unescape_name(path)
        own = {path, *folders_above([path])}
        free = taken.isdisjoint({plain, *folders_above([plain])} - own)
        ids.append(plain if free and _SURROGATE.search(plain) is None else path)
    return ids


def _without_suffix(path: str) -> str:
    """Drop the last suffix of the file name, unless nothing but dots would be left of the name."""
    stem, dot, suffix = path.rpartition(".")
    if not dot or "/" in suffix or not stem.rpartition("/")[2].strip("."):
        return path
    return stem


def folders_above(paths: Iterable[str]) -> set[str]:
    """Every folder that some relative path lies in, directly or deeper."""
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def folder_path(video_id: str) -> str:
    """The frame folder of a video relative to frames/: its id, with parts that no file system would take cut.

    A name may have 255 bytes; escaping can make an id longer than the file name it came from.
    """
    return "/".join(
        part if len(part.encode()) <= 255 else f"{part[:40]}~{hashlib.sha256(part.encode()).hexdigest()}"
        for part in video_id.split("/")
    )


def frame_file_name(index: int) -> str:
    """The file name of frame `index` (0-based): img_00001.jpg is frame 0."""
    return f"img_{index + 1:05d}.jpg"


def shard_file_name(index: int) -> str:
    """The file name of shard `index` (0-based)."""
    return f"shard-{index:05d}.arrow"


def shard_number(location: str) -> int:
    """The number in the location of a shard, -1 for any other: the inverse of `shard_file_name`."""
    match = re.search(r"shard-([0-9]{5,})\.arrow$", location)
    return int(match[1]) if match else -1
