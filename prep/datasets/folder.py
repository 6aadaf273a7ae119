"""A folder of class folders: each video's class is the name of the folder that it lies in.

    DIR/<class>/<video>             class, no subset (folders between DIR and the class folder mean nothing)
    DIR/<subset>/<class>/<video>    the same with a subset, where <subset> is one of SUBSET_FOLDERS
    DIR/<subset>/<video>            a subset, no class
    DIR/<video>                     neither

Classes are sorted by code point, the label is the index; no class is label -1.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from manifests.errors import UsageError
from manifests.names import escape_name, video_ids
from manifests.records import Source
from manifests.wording import count, quote_some
from prep.datasets import Scan
from prep.datasets.walk import VideoFile, find_videos, left_out, num_left_out

SUBSET_FOLDERS = ("train", "val", "valid", "validation", "test")


def scan(root: Path, annotations: Sequence[Path] = ()) -> Scan:
    """Read classes and subsets from the folders under `root`.

    Raises UsageError where `annotations` are given, and for what `find_videos` refuses.
    """
    if annotations:
        raise UsageError("--annotations is not for the dataset 'folder', which reads classes from folder names")
    found = find_videos(root)
    videos = {escape_name(video.path): video for video in found.videos}
    paths = sorted(videos)
    classes = sorted({name for path in paths if (name := class_of(path)) is not None})
    labels = {name: label for label, name in enumerate(classes)}
    ids = video_ids(paths)
    sources = tuple(_source(path, video_id, videos[path], labels) for path, video_id in zip(paths, ids, strict=True))
    return Scan(
        dataset="folder",
        sources=sources,
        classes=tuple(classes),
        notes=(*left_out(found), *_doubts(sources)),
        num_left_out=num_left_out(found),
    )


def _source(path: str, video_id: str, video: VideoFile, labels: dict[str, int]) -> Source:
    class_name = class_of(path)
    subset = subset_of(path)
    return Source(
        video_id=video_id,
        source=path,
        source_bytes=video.num_bytes,
        label=-1 if class_name is None else labels[class_name],
        class_name=class_name,
        subsets=() if subset is None else (subset,),
        status=None if video.problem is None else "failed",
        failure=None if video.problem is None else "unreadable",
        detail=video.problem,
    )


def subset_of(path: str) -> str | None:
    """The subset that a path under the root tells, if any."""
    top = path.partition("/")[0]
    return top if top in SUBSET_FOLDERS else None


def class_of(path: str) -> str | None:
    """The class that a path under the root tells, if any."""
    folders = path.split("/")[:-1]
    within = folders[1:] if subset_of(path) is not None else folders
    return within[-1] if within else None


def _doubts(sources: Sequence[Source]) -> list[str]:
    """Sentences about readings of the tree that may not be what the user means."""
    notes = []
    tops = {PurePosixPath(source.source).parts[0] for source in sources if "/" in source.source}
    subsets = sorted(tops.intersection(SUBSET_FOLDERS))
    others = sorted(tops.difference(SUBSET_FOLDERS))
    if subsets and others:
        notes.append(
            f"read {quote_some(subsets)} at the top as subsets and {quote_some(others)} as class folders: "
            "if all are classes, move them together into one folder under the root"
        )
    num_unlabelled = sum(source.label < 0 for source in sources)
    if num_unlabelled:
        notes.append(f"no label for {count(num_unlabelled, 'video')} outside of class folders")
    return notes
