"""Write a list that another project reads: the frame folders of a dataset's ok videos, or the videos themselves."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manifests.atomic import atomic_write, disk_errors
from manifests.dataset import open_dataset
from manifests.errors import UsageError
from manifests.lists import (
    UNLABELLED_VIDEO_FORMATS,
    VIDEO_FORMATS,
    ListedVideo,
    can_hold,
    frame_list,
    names_only,
    video_list,
)
from manifests.names import unescape_name
from manifests.wording import count, quote
from prep.links import make_links, plain_path

_COLUMNS = ("video_id", "source", "label", "num_frames", "location", "row")
_TSM_MIN_FRAMES = 3
_SLOWFAST_NAMES = ("train.csv", "val.csv", "test.csv")


@dataclass(frozen=True, kw_only=True)
class Exported:
    """`num_left_out` are the videos of the subset that are not ok; `num_links` the links that were made or mended."""

    format: str
    kind: str
    subset: str
    num_videos: int
    num_frames: int
    num_left_out: int
    num_links: int
    notes: tuple[str, ...]


def export(
    folder: Path, file: Path, *, format_name: str, subset: str = "all", videos: Path | None, link: Path | None
) -> Exported:
    """Write `file`, a list of the ok videos of a subset of the dataset in `folder`, in source order.

    It names their frame folders; with `videos` the source files, which lie in that folder; with `link` the links to
    either that are made there, under plain names. Paths are absolute.

    Raises UsageError for what `format_name` cannot say or carry, a subset without ok videos, an unknown one, and where
    `file` or a link would replace something else; DamagedError and StoreError as reading and writing do.
    """
    _require_apart(folder, file, "--out")
    if link is not None:
        _require_apart(folder, link, "--link")
        _require_apart(link, file, "--out")
    if videos is not None:
        if format_name not in VIDEO_FORMATS:
            raise UsageError(f"{format_name} reads frame folders only: leave out --videos")
        if link is not None:
            _require_apart(videos, link, "--link")
    with open_dataset(folder) as dataset:
        chosen = dataset.rows(subset)
        num_left_out = dataset.description.subsets[subset] - len(chosen)
        rows = dataset.columns(_COLUMNS).take(chosen).to_pylist()
        dataset_name = dataset.description.dataset
        if not rows:
            raise UsageError(f"the subset {subset!r} has no ok video: there is nothing to list")
        listed, origin = _frames(rows, folder, format_name) if videos is None else _videos(rows, videos)
        _require_labels(listed, rows, format_name, videos is not None)
        targets = {video.name: video.path for video in listed}
        if link is not None:
            listed = _linked(listed, os.path.abspath(link))
        _require_plain(listed, format_name, link)
        _require_no_other_file(file, origin if link is None else os.path.abspath(link))
        num_links = 0 if link is None else make_links(os.path.abspath(link), targets, origin)
    _write(file, video_list(listed) if videos is not None else frame_list(format_name, listed))
    return Exported(
        format=format_name,
        kind="frames" if videos is None else "videos",
        subset=subset,
        num_videos=len(listed),
        num_frames=sum(video.num_frames for video in listed),
        num_left_out=num_left_out,
        num_links=num_links,
        notes=tuple(_notes(listed, format_name, dataset_name, file)),
    )


def export_lines(made: Exported, file: Path, link: Path | None) -> list[str]:
    """The same as text."""
    left_out = f"; left out {made.num_left_out:,} failed or excluded" if made.num_left_out else ""
    videos = f"{count(made.num_videos, 'video')} of {made.subset}"
    links = [] if link is None else [f"made {count(made.num_links, 'link')} in {link}"]
    return [
        *links,
        f"wrote {file}: a {made.kind[:-1]} list of {videos} for {made.format}{left_out}",
        *(f"note: {note}" for note in made.notes),
    ]


def _frames(rows: Sequence[dict[str, Any]], folder: Path, format_name: str) -> tuple[list[ListedVideo], str]:
    """The videos by their frame folders, and the folder that all of these lie in."""
    if any(row["row"] >= 0 for row in rows):
        instead = ", or list the source videos with --videos DIR" if format_name in VIDEO_FORMATS else ""
        raise UsageError(
            f"{folder} has shards, and a {format_name} list names frame folders: make those with 'prep extract --store "
            f"frames'{instead}"
        )
    origin = os.path.abspath(folder)
    listed = [
        ListedVideo(
            name=row["location"].partition("/")[2],
            path=f"{origin}/{row['location']}",
            num_frames=row["num_frames"],
            label=row["label"],
        )
        for row in rows
    ]
    return listed, origin


def _videos(rows: Sequence[dict[str, Any]], root: Path) -> tuple[list[ListedVideo], str]:
    """The videos by their files, and the folder that all of these lie in."""
    origin = os.path.abspath(root)
    listed = []
    for row in rows:
        source = unescape_name(row["source"])
        path = f"{origin}/{source}"
        listed.append(ListedVideo(name=source, path=path, num_frames=row["num_frames"], label=row["label"]))
    absent = [video.name for video in listed if not os.path.isfile(video.path)]
    if absent:
        raise UsageError(
            f"{quote(str(root))} lacks {len(absent):,} of {count(len(listed), 'video')}, the first of them "
            f"{quote(absent[0])}: give --videos the folder that the dataset was made from"
        )
    return listed, origin


def _linked(listed: Iterable[ListedVideo], folder: str) -> list[ListedVideo]:
    """The same by the links of `make_links`."""
    names = ((video, plain_path(video.name)) for video in listed)
    return [replace(video, name=name, path=f"{folder}/{name}") for video, name in names]


def _require_labels(
    listed: Sequence[ListedVideo], rows: Sequence[dict[str, Any]], format_name: str, are_videos: bool
) -> None:
    """Raises UsageError for videos without a label, unless there is none with one and the format has a way to say so:
    one among others would get a label that it does not have."""
    unlabelled = [row["video_id"] for row in rows if row["label"] < 0]
    if not unlabelled:
        return
    if len(unlabelled) == len(listed) and are_videos and format_name in UNLABELLED_VIDEO_FORMATS:
        return
    raise UsageError(
        f"a {format_name} list needs a label for every video, and there is none for {len(unlabelled):,} of "
        f"{count(len(listed), 'video')}, the first of them {quote(unlabelled[0])}: choose a --subset whose videos have "
        "one"
    )


def _require_plain(listed: Sequence[ListedVideo], format_name: str, link: Path | None) -> None:
    """Raises UsageError where the format cannot carry a path."""
    bad = [video.path for video in listed if not can_hold(video.path)]
    if not bad:
        return
    if link is not None:
        raise UsageError(f"--link {quote(os.path.abspath(link))} has a blank or is not UTF-8: choose another folder")
    raise UsageError(
        f"a {format_name} list cannot carry {len(bad):,} of {count(len(listed), 'path')}, for blanks or bytes that are "
        f"not UTF-8, the first of them {quote(bad[0])}: give --link DIR, where links with plain names are made"
    )


def _require_apart(folder: Path, path: Path, flag: str) -> None:
    """Raises UsageError where `path` is or lies in `folder`."""
    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise UsageError(f"{flag} {path} would lie in {folder}: choose a place outside of it")


def _require_no_other_file(file: Path, origin: str) -> None:
    """Raises UsageError where `file` is anything but an earlier list of the same folder, or empty."""
    if not os.path.lexists(file):
        return
    if not file.is_symlink() and file.is_file():
        try:
            with open(file, encoding="utf-8", newline="\n") as lines:
                if names_only(lines, origin):
                    return
        except (OSError, UnicodeDecodeError):
            pass
    raise UsageError(f"--out would replace {file}, which is no list of {origin}: choose another name, or remove it")


def _write(file: Path, lines: Iterable[str]) -> None:
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as text:
        text.writelines(f"{line}\n" for line in lines)


def _notes(listed: Sequence[ListedVideo], format_name: str, dataset: str, file: Path) -> list[str]:
    """What the reader of the list does with it that may surprise."""
    notes = []
    short = sum(video.num_frames < _TSM_MIN_FRAMES for video in listed)
    if format_name == "tsm" and short:
        notes.append(f"in training TSM leaves out {count(short, 'video')} of fewer than {_TSM_MIN_FRAMES} frames")
    if format_name == "tsm" and dataset == "ssv2":
        told = "has the prefix '{:06d}.jpg' for Something-Something: make it 'img_{:05d}.jpg'"
        notes.append(f"TSM's ops/dataset_config.py {told}")
    if format_name == "slowfast" and file.name not in _SLOWFAST_NAMES:
        notes.append(f"SlowFast looks for {', '.join(_SLOWFAST_NAMES)} in DATA.PATH_TO_DATA_DIR")
    return notes
