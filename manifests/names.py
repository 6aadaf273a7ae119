"""Names: of videos in the manifest, and of files on disk."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
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

    Two ids clash where they are equal, or where one would lie inside the other's frame folder. Both then take
    their whole path, which cannot clash, since a path is either a file or a folder.
    """
    ids = [str(PurePosixPath(source).with_suffix("")) for source in sources]
    while True:
        counts = Counter(ids)
        folders = {str(parent) for video_id in counts for parent in PurePosixPath(video_id).parents}
        clashing = [
            index
            for index, video_id in enumerate(ids)
            if video_id != sources[index] and (counts[video_id] > 1 or video_id in folders)
        ]
        if not clashing:
            return ids
        for index in clashing:
            ids[index] = sources[index]


def frame_file_name(index: int) -> str:
    """The file name of frame `index` (0-based): img_00001.jpg is frame 0."""
    return f"img_{index + 1:05d}.jpg"


def shard_file_name(index: int) -> str:
    """The file name of shard `index` (0-based)."""
    return f"shard-{index:05d}.arrow"
