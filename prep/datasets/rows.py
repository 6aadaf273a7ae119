"""From files on disk and videos that annotations name to the rows of a source list."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from manifests.errors import UsageError
from manifests.names import escape_name, folders_above, video_ids
from manifests.records import Source
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
    copies: Mapping[str, str] | None = None,
    folder_class: Callable[[str], str | None] = lambda path: None,
    missing_path: Callable[[Item], str] = lambda item: item.name,
    ids: Callable[[Sequence[str]], list[str]] = video_ids,
) -> tuple[Source, ...]:
    """One row for each file, and one for each item that has no file (failed as `missing`), in source order.

    `matches` tells the item of each file that annotations name, `copies` (excluded as `duplicate_id`) the file that
    was taken instead. Another file is excluded where there are items, and has the class that `folder_class` tells. An
    item on whose label the annotations disagree is excluded as `duplicate_id`, without a label. `labels` has the
    classes; all names and paths are as os gives them. `ids` makes the video ids of the escaped paths.

    Raises UsageError where an item without a file has the path of a folder.
    """
    copies = copies or {}
    on_disk = {video.path: video for video in videos}
    found = set(matches.values())
    missing = {missing_path(item): item for name, item in items.items() if name not in found}
    _refuse_folders(missing, on_disk)
    paths = {escape_name(path): path for path in [*on_disk, *missing]}
    names = sorted(paths)
    sources = []
    for name, video_id in zip(names, ids(names), strict=True):
        path = paths[name]
        video = on_disk.get(path)
        item = missing[path] if video is None else items[matches[path]] if path in matches else None
        twin = items[matches[copies[path]]] if path in copies else None
        class_name = folder_class(path) if item is None and twin is None else (item or twin).class_name  # type: ignore[union-attr]
        status, failure, detail = _settle(video, item, copies.get(path), bool(items))
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


def _refuse_folders(missing: Mapping[str, Item], on_disk: Iterable[str]) -> None:
    folders = folders_above([*on_disk, *missing])
    for path, item in missing.items():
        if path in folders:
            raise UsageError(f"{_names(item.files)}: {quote(path)} is named as a video, but it is a folder of such")
