"""Lists of frame folders, as the trainers that made them read them.

    paddlevideo, mmaction2, tsm    path num_frames label
    slowfast                       original_vido_id video_id frame_id path labels: a header, then a line a frame

Without a format, what `--dataset list` reads is read here too, and a frame list is told by its header.
"""

import csv
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from manifests.errors import UsageError
from manifests.wording import quote
from prep.datasets.annotation_files import where
from prep.datasets.list_layout import Reading, readings
from prep.datasets.lists import read_list, require_whole_video

FORMATS = ("paddlevideo", "mmaction2", "tsm", "slowfast")
_FRAME_LIST_HEADER = ["original_vido_id", "video_id", "frame_id", "path", "labels"]
"""The misspelling is part of the format."""


def read_frame_list(file: Path, form: str | None, root: Path, known: frozenset[str]) -> Reading:
    """The rows of a list, with the fields path, label and num_frames, as far as it has them. `known` has all ways to
    name a folder under `root`. Raises UsageError for what cannot be read so."""
    if form is None and not _is_frame_list(file):
        return read_list(file, None, root, known)
    if form in (None, "slowfast"):
        reading = _read_frames(file)
    else:
        reading = next(r for r in readings(file, "blank") if r.shape == "blank-separated path, num_frames, label")
        if reading.doubt is not None:
            raise UsageError(f"{reading.doubt}; a list of {form} has them in each line")
    for place, row in reading.rows:
        require_whole_video(place, row, root)
    return reading


def _is_frame_list(file: Path) -> bool:
    try:
        _, fields = next(_lines(file), (1, []))
    except UsageError:
        return False  # who reads it next says what is wrong
    return fields[:1] == _FRAME_LIST_HEADER[:1]


def _read_frames(file: Path) -> Reading:
    """One row for each video of a frame list. Memory does not grow with the frames."""
    videos: dict[str, tuple[str, str, int, int]] = {}
    lines = _lines(file)
    number, fields = next(lines, (1, []))
    if fields != _FRAME_LIST_HEADER:
        raise UsageError(f"{where(file, number)}: expected {' '.join(_FRAME_LIST_HEADER)}")
    for number, fields in lines:
        if len(fields) != len(_FRAME_LIST_HEADER) or "/" not in fields[3]:
            raise UsageError(f"{where(file, number)}: expected the 5 fields of a frame, got {quote(' '.join(fields))}")
        video, _, _, path, labels = fields
        folder = str(PurePosixPath(path).parent)
        first = videos.setdefault(video, (folder, labels, 0, number))
        if "," in labels:
            raise UsageError(f"{where(file, number)}: more than one label ({labels}), of which a video here has one")
        if first[:2] != (folder, labels):
            raise UsageError(
                f"{where(file, number)}: another folder or label than in line {first[3]} for {quote(video)}"
            )
        videos[video] = (*first[:2], first[2] + 1, first[3])
    rows = tuple(
        (where(file, number), {"path": folder, "label": label, "num_frames": str(num_frames)})
        for folder, label, num_frames, number in videos.values()
    )
    if not rows:
        raise UsageError(f"{quote(str(file))} names no video")
    return Reading(shape="a list of frames", rows=rows, has_header=True)


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of the lines that are not blank, each with the number of its line. Raises UsageError."""
    try:
        with open(file, encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            reader = csv.reader(text, delimiter=" ", skipinitialspace=True, strict=True)
            try:
                for fields in reader:
                    if any(fields):
                        yield reader.line_num, fields
            except csv.Error as error:
                raise UsageError(f"{where(file, reader.line_num)}: no list of frames: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot read {quote(str(file))}: {error.strerror}") from error
