"""Something-Something V2: `<id>.webm` in one folder, and JSON files.

    labels.json       {"Holding something next to something": "104", ...}       label = that number
    train.json        [{"id": "78687", "template": "Holding [something] next to [something]", ...}, ...]
    validation.json   the same
    test.json         [{"id": "1420"}, ...]                                     no labels

The files may also be called something-something-v2-labels.json and so on. A template without its brackets is a text of
labels.json. Subsets are train, val (of validation.json) and test. A video is told by the name of its file alone, in any
folder and with any video's suffix; where several files have one id, the one taken is the first that is neither empty
nor unreadable, then that is .webm, and last the first by code point; the others are excluded as `duplicate_id`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.wording import quote
from prep.datasets import Scan
from prep.datasets.annotation_files import annotation_files, read_json
from prep.datasets.copies import choose, is_bad, stems
from prep.datasets.listed import Line, gather
from prep.datasets.rows import make_rows
from prep.datasets.walk import find_videos, left_out, num_left_out

LIST_FOLDERS = ("labels", "annotations", "something-something-v2", "20bn-something-something-download-package-labels")
_FILE_NAME = re.compile(r"(?:.*-)?(?P<kind>labels|train|validation|test)\.json", re.DOTALL)
_SUBSETS = {"train": "train", "validation": "val", "test": "test"}
_BRACKETS = re.compile(r"[\[\]]")
_NAMES = "labels.json, train.json, validation.json, test.json"


def scan(root: Path, annotations: Sequence[Path] = ()) -> Scan:
    """Read the videos under `root` with the labels and subsets of the annotation files.

    `annotations` are the files themselves or folders that hold them; without any, they are looked for in `root`, and in
    or beside it in one of LIST_FOLDERS.
    Raises UsageError for what `find_videos` refuses, where labels.json is lacking, for files that are not as above
    (naming the video), and where the disk has nothing that they name.
    """
    files = annotation_files(root, annotations, LIST_FOLDERS, _is_annotation, _NAMES)
    by_kind: dict[str, list[Path]] = {}
    for file in files:
        by_kind.setdefault(_kind(file), []).append(file)
    label_files = by_kind.pop("labels", [])
    if len(label_files) != 1:
        shown = " and ".join(quote(str(file)) for file in label_files) or "none"
        raise UsageError(f"one labels.json is needed, there is {shown}: name the annotations with --annotations")
    labels = read_labels(label_files[0])
    lines = [line for files_of in by_kind.values() for file in files_of for line in read_entries(file, labels)]
    if not lines:
        raise UsageError(f"no train.json, validation.json or test.json beside {quote(str(label_files[0]))}")
    listed = gather(lines)
    found = find_videos(root, expected=frozenset(file.name for file in files))
    videos = {video.path: video for video in found.videos}
    names = {path: stem for path, stem in stems(found.videos).items() if stem in listed.items}
    chosen = choose(names, lambda file, name: (is_bad(videos[file]), not file.lower().endswith(".webm")))
    if not chosen.files:
        raise UsageError(
            f"no video under {quote(str(root))} has an id of {quote(lines[0].file)} (such as {lines[0].name}.webm): "
            "give the folder that holds these videos"
        )
    sources = make_rows(
        found.videos,
        listed.items,
        chosen.files,
        labels,
        copies=chosen.copies,
        missing_path=lambda item: f"{item.name}.webm",
    )
    return Scan(
        dataset="ssv2",
        sources=sources,
        classes=tuple(escape_name(name) for name in labels),
        notes=tuple(left_out(found)),
        num_lines=listed.num_lines,
        near=tuple(
            (f"{escape_name(name)}.webm", escape_name(file))
            for file, name in sorted(chosen.files.items())
            if not file.endswith(".webm")
        ),
        num_left_out=num_left_out(found),
    )


def read_labels(file: Path) -> dict[str, int]:
    """labels.json -> label of each class, in label order.

    Raises UsageError where it is malformed or its numbers are not 0, 1, ... in some order.
    """
    content = read_json(file)
    if not isinstance(content, dict) or not content:
        raise UsageError(f"{quote(str(file))}: expected an object of class names and numbers")
    labels: dict[str, int] = {}
    for name, number in content.items():
        if isinstance(number, bool) or not re.fullmatch(r"[0-9]{1,9}", str(number)):
            raise UsageError(f"{quote(str(file))}: the class {quote(name)} has no number: {quote(str(number))}")
        labels[name] = int(number)
    if sorted(labels.values()) != list(range(len(labels))):
        raise UsageError(f"{quote(str(file))}: class numbers must be 0 to {len(labels) - 1}, each once")
    return dict(sorted(labels.items(), key=lambda item: item[1]))


def read_entries(file: Path, labels: Mapping[str, int]) -> list[Line]:
    """Read train.json, validation.json or test.json. Raises UsageError, naming the entry or its id."""
    content = read_json(file)
    if not isinstance(content, list) or not content:
        raise UsageError(f"{quote(str(file))}: expected a list of videos, each with its id")
    lines = []
    for number, entry in enumerate(content, start=1):
        video_id = _text_of(entry, "id")
        if not re.fullmatch(r"[^/\0]+", video_id) or video_id in (".", ".."):
            raise UsageError(f"{quote(str(file))}: entry {number} has no id that a file could have: {quote(video_id)}")
        lines.append(
            Line(
                name=video_id,
                class_name=_class_of(entry, labels, f"{quote(str(file))}, id {quote(video_id)}"),
                subset=_SUBSETS[_kind(file)],
                file=file.name,
            )
        )
    return lines


def _text_of(entry: Any, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    return str(value) if isinstance(value, int | str) else ""


def _class_of(entry: Any, labels: Mapping[str, int], where: str) -> str | None:
    template = _text_of(entry, "template")
    if not template:
        return None
    name = _BRACKETS.sub("", template)
    if name not in labels:
        raise UsageError(f"{where}: its template is not in labels.json: {quote(name)}")
    return name


def _is_annotation(path: Path) -> bool:
    return _FILE_NAME.fullmatch(path.name) is not None


def _kind(file: Path) -> str:
    parts = _FILE_NAME.fullmatch(file.name)
    assert parts is not None, file
    return parts["kind"]
