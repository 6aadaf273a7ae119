"""Trees of frame folders as the common scripts make them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from datasets_made import draw_jpegs


def write_frames(folder: Path, names: Sequence[str], seed: int = 0, width: int = 32, height: int = 24) -> list[bytes]:
    """One drawn frame for each name, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    jpegs = list(draw_jpegs(seed, len(names), width, height))
    for name, jpeg in zip(names, jpegs, strict=True):
        (folder / name).write_bytes(jpeg)
    return jpegs


def names_like(pattern: str, num_frames: int, start: int = 1) -> list[str]:
    """ "img_%05d.jpg", 2, 0 -> img_00000.jpg, img_00001.jpg"""
    return [pattern % number for number in range(start, start + num_frames)]


SCRIPTS: Mapping[str, tuple[str, int]] = {
    "mmaction2, PaddleVideo, TSM": ("img_%05d.jpg", 1),
    "denseflow": ("img_%05d.jpg", 0),
    "TSM for Something-Something": ("%06d.jpg", 1),
    "3D-ResNets": ("image_%05d.jpg", 1),
    "Video-Dataset-Loading": ("frame_%012d.jpg", 0),
    "video2frame": ("%08d.jpg", 0),
    "SlowFast for AVA": ("some-Video_07_%06d.jpg", 1),
    "no zeros": ("img_%d.jpg", 1),
    "no zeros, from 0": ("frame%d.jpeg", 0),
    "capitals": ("IMG_%03d.JPG", 1),
}
"""Names of frames and the first number, by who writes them."""


def inodes(folder: Path) -> list[int]:
    """Of the files of a folder, in the order of their names."""
    return [os.stat(folder / name).st_ino for name in sorted(os.listdir(folder))]
