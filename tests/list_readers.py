"""What other projects make of a list file: how each takes a line apart, written down from its source.

PaddleVideo ed245e9             paddlevideo/loader/dataset/frame.py, video.py
MMAction2 4d6c934               mmaction/datasets/rawframe_dataset.py, video_dataset.py
temporal-shift-module 1f6a834   ops/dataset.py
SlowFast 287ec00                slowfast/datasets/kinetics.py, utils.py (load_image_lists)

All open the file as text, with the line ends of any system, and join the path to a prefix. They raise ValueError (or
AssertionError) for a line that they cannot take apart.
"""

import os
from pathlib import Path

Frames = tuple[str, int, int]
"""Folder, number of frames, label."""


def frame_paths(folder: str, num_frames: int) -> list[str]:
    """The files that all of them open in a frame folder: five digits, from 1."""
    return [os.path.join(folder, f"img_{number:05d}.jpg") for number in range(1, num_frames + 1)]


def _lines(file: Path) -> list[str]:
    with open(file, encoding="utf-8") as text:
        return list(text)


def paddlevideo_frames(file: Path, prefix: str) -> list[Frames]:
    fields = [line.strip().split() for line in _lines(file)]
    return [(os.path.join(prefix, folder), int(number), int(label)) for folder, number, label in fields]


def paddlevideo_videos(file: Path, prefix: str, suffix: str = "") -> list[tuple[str, int]]:
    fields = [line.strip().split() for line in _lines(file)]
    return [(os.path.join(prefix, name + suffix), int(label)) for name, label in fields]


def mmaction2_frames(file: Path, prefix: str) -> list[Frames]:
    found = []
    for line in _lines(file):
        folder, number, *labels = line.strip().split()
        (label,) = map(int, labels)
        found.append((os.path.join(prefix, folder), int(number), label))
    return found


def mmaction2_videos(file: Path, prefix: str) -> list[tuple[str, int]]:
    found = []
    for line in _lines(file):
        fields = line.rstrip("\n\r").strip().split(" ")
        name, label = (fields[0], -1) if len(fields) == 1 else (fields[0], int(fields[1]))
        assert len(fields) <= 2
        found.append((os.path.join(prefix, name), label))
    return found


def tsm_frames(file: Path, prefix: str, *, training: bool) -> list[Frames]:
    fields = [line.strip().split(" ") for line in _lines(file)]
    if training:
        fields = [row for row in fields if int(row[1]) >= 3]
    return [(os.path.join(prefix, row[0]), int(row[1]), int(row[2])) for row in fields]


def slowfast_videos(file: Path, prefix: str) -> list[tuple[str, int]]:
    """A path alone gets the label 0."""
    found = []
    for line in "".join(_lines(file)).splitlines():
        fields = line.split(" ")
        assert len(fields) in (1, 2, 3)
        found.append((os.path.join(prefix, fields[0]), int(fields[-1]) if len(fields) > 1 else 0))
    return found


def slowfast_frames(file: Path, prefix: str) -> dict[str, list[tuple[str, list[int]]]]:
    """By the first field, the path and the labels of each frame, in the order of the lines."""
    head, *lines = _lines(file)
    assert head.startswith("original_vido_id")
    found: dict[str, list[tuple[str, list[int]]]] = {}
    for line in lines:
        name, _, _, path, labels = line.split()
        numbers = [int(label) for label in labels.replace('"', "").split(",")]
        found.setdefault(name, []).append((path if prefix == "" else os.path.join(prefix, path), numbers))
    return found
