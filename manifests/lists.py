"""The lists that other projects train from, as lines of text.

    frame list    directory num_frames label          one line a video
    video list    path label                          one line a video
    slowfast's    original_vido_id video_id frame_id path labels    a header, then one line a frame

What reads them, and how it takes a line apart (PaddleVideo ed245e9, MMAction2 4d6c934, temporal-shift-module 1f6a834,
SlowFast 287ec00):

    paddlevideo   FrameDataset, VideoDataset                 at any blanks
    mmaction2     RawframeDataset                            at any blanks
                  VideoDataset                               at single spaces; a path alone has no label
    tsm           TSNDataSet, frames only                    at single spaces
    slowfast      Kinetics (videos)                          at every line end of Unicode, at single spaces
                  Charades, Ssv2 (frames)                    at any blanks

None of them has quotes or escapes, so that no path may hold a blank. Labels and frame numbers within a list begin at 0,
the numbers in the names of frame files at 1.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from manifests.names import frame_file_name

FORMATS = ("paddlevideo", "mmaction2", "tsm", "slowfast")

VIDEO_FORMATS = ("paddlevideo", "mmaction2", "slowfast")
"""Those whose projects read videos too, by a video list."""

UNLABELLED_VIDEO_FORMATS = ("mmaction2", "slowfast")
"""Those whose projects read a video list without labels."""

FRAME_HEADER = "original_vido_id video_id frame_id path labels"
"""The first line of slowfast's list of frames, so spelled."""


@dataclass(frozen=True, kw_only=True)
class ListedVideo:
    """A video as a list names it: by the `path` of its frame folder or file. `name` tells it from the others of the
    list; `label` is -1 where it has none."""

    name: str
    path: str
    num_frames: int
    label: int


def can_hold(path: str) -> bool:
    """Whether a line can hold `path`: it has no blank or line end of any kind, and is text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return path.split() == [path]


def frame_list(format_name: str, videos: Iterable[ListedVideo]) -> Iterator[str]:
    """The lines of a list of frame folders."""
    if format_name == "slowfast":
        yield FRAME_HEADER
        for number, video in enumerate(videos):
            for index in range(video.num_frames):
                path = f"{video.path}/{frame_file_name(index)}"
                yield f'{video.name} {number} {index} {path} "{video.label}"'
    else:
        for video in videos:
            yield f"{video.path} {video.num_frames} {video.label}"


def video_list(videos: Iterable[ListedVideo]) -> Iterator[str]:
    """The lines of a list of videos."""
    for video in videos:
        yield video.path if video.label < 0 else f"{video.path} {video.label}"


def names_only(lines: Iterable[str], folder: str) -> bool:
    """Whether `lines` are those of a list here whose paths all lie under `folder`."""
    for number, line in enumerate(lines):
        fields = line.rstrip("\n").split(" ")
        if number == 0 and " ".join(fields) == FRAME_HEADER:
            continue
        path = fields[3] if len(fields) == 5 else fields[0]
        if len(fields) not in (1, 2, 3, 5) or not path.startswith(f"{folder}/"):
            return False
    return True
