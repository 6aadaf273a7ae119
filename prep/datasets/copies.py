"""Files that are told by an id in their name: which file an id means where several have it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prep.datasets.walk import VideoFile


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """`files` tells the name (of an item) that each chosen file stands for, `copies` the chosen file for each file
    that has the same name and was not chosen; both by the path of the file."""

    files: dict[str, str]
    copies: dict[str, str]


def choose(names: Mapping[str, str], rank: Callable[[str, str], tuple[Any, ...]]) -> Chosen:
    """Choose one file for each name. `names` has the name of each file; the file with the lowest `rank(file, name)` is
    chosen, of equals the first by code point."""
    files_of: dict[str, list[str]] = {}
    for file, name in names.items():
        files_of.setdefault(name, []).append(file)
    files, copies = {}, {}
    for name, candidates in files_of.items():
        best, *others = candidates
        if others:
            best, *others = sorted(candidates, key=lambda file: (*rank(file, name), file))
        files[best] = name
        copies.update(dict.fromkeys(others, best))
    return Chosen(files=files, copies=copies)


def is_bad(video: VideoFile) -> bool:
    """Whether a file is known to be of no use before it is opened."""
    return video.problem is not None or video.num_bytes == 0


def stems(videos: Iterable[VideoFile]) -> dict[str, str]:
    """The file name without its suffix, by path."""
    return {video.path: video.path.rpartition("/")[2].rpartition(".")[0] for video in videos}
