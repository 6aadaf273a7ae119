"""From files on disk and videos that annotations name to the rows of a source list."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from manifests.errors import UsageError
from manifests.names import escape_name, folders_above, video_ids
from manifests.records import Source
from manifests.windows import with_window
from manifests.wording import quote
from prep.datasets.listed import Item
from prep.datasets.walk import VideoFile

Settled = tuple[str | None, str | None, str | None]
"""Status, failure and detail of a source before it is decoded; all None where it is to be decoded."""


def make_rows(
    videos: Iterable[VideoFile],
    items: Mapping[str, Item],
    matches: Mapping[str, str],
    labels: Mapping[str, int],
    *,
    windows: Mapping[str, Sequence[Item]] | None = None,
    copies: Mapping[str, str] | None = None,
    folder_class: Callable[[str], str | None] = lambda path: None,
    missing_path: Callable[[Item], str] = lambda item: item.name,
    ids: Callable[[Sequence[str]], list[str]] = video_ids,
) -> tuple[Source, ...]:
    """One row for each file, and one for each item that has no file (failed as `missing`), in source order; where
    annotations name windows of a file, one for each of these.

    `matches` tells the name of each file that annotations name, under which `items` has the whole and `windows` the
    others. `copies` (excluded as `duplicate_id`) tells the file that was taken instead. Another file is excluded where
    there are items, and has the class that `folder_class` tells. An item on whose label the annotations disagree is
    excluded as `duplicate_id`, without a label. `labels` has the classes; all names and paths are as os gives them.
    `ids` makes the video ids of the sources.

    Raises UsageError where an item without a file has the path of a folder.
    """
    copies = copies or {}
    on_disk = {video.path: video for video in videos}
    windows = windows or {}
    found = set(matches.values())
    listed = itertools.chain(items.values(), *windows.values())
    missing = [(missing_path(item), item) for item in listed if item.name not in found]
    _refuse_folders(missing, on_disk)
    rows: dict[str, tuple[str, Item | None]] = {_source(path, item): (path, item) for path, item in missing}
    for path in on_disk:
        name = matches.get(path)
        whole = items.get(name) if name is not None else None
        parts = windows.get(name, ()) if name is not None else ()
        if whole is not None or not parts:
            rows[escape_name(path)] = (path, whole)
        rows.update((_source(path, item), (path, item)) for item in parts)
    names = sorted(rows)
    sources = []
    for name, video_id in zip(names, ids(names), strict=True):
        path, item = rows[name]
        video = on_disk.get(path)
        twin = items[matches[copies[path]]] if path in copies else None
        class_name = folder_class(path) if item is None and twin is None else (item or twin).class_name  # type: ignore[union-attr]
        status, failure, detail = _settle(video, item, copies.get(path), bool(items or windows))
        sources.append(
            Source(
                video_id=video_id,
                source=name,
                source_bytes=None if video is None else video.num_bytes,
                label=-1 if class_name is None else labels[class_name],
                class_name=None if class_name is None else escape_name(class_name),
                subsets=() if item is None else item.subsets,
                status=status,
                failure=failure,
                detail=detail,
            )
        )
    return tuple(sources)


def _source(path: str, item: Item) -> str:
    return with_window(escape_name(path), item.window)


def _settle(video: VideoFile | None, item: Item | None, taken: str | None, have_items: bool) -> Settled:
    if video is None:
        assert item is not None
        return "failed", "missing", f"named in {_names(item.files)}, not on disk"
    if taken is not None:
        return "excluded", "duplicate_id", f"has the id of {escape_name(taken)}, which is taken"
    if item is None and have_items:
        return "excluded", None, "no annotation names it"
    if video.problem is not None:
        return "failed", "unreadable", video.problem
    if item is not None and len(item.class_names) > 1:
        classes = ", ".join(quote(name) for name in item.class_names)
        return "excluded", "duplicate_id", f"has different labels in {_names(item.files)}: {classes}"
    return None, None, None


def _names(files: Iterable[str]) -> str:
    return ", ".join(escape_name(file) for file in files)


def _refuse_folders(missing: Sequence[tuple[str, Item]], on_disk: Iterable[str]) -> None:
    folders = folders_above([*on_disk, *(path for path, _ in missing)])
    for path, item in missing:
        if path in folders:
            raise UsageError(f"{_names(item.files)}: {quote(path)} is named as a video, but it is a folder of such")
