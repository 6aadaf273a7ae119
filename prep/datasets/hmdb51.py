"""HMDB-51: class folders, and a file for each class and split that sorts its videos.

    brush_hair_test_split1.txt    April_09_brush_hair_u_nm_np1_ba_goo_0.avi 1       (officially with a blank at the end)

The number is 1 for the subset trainNN, 2 for testNN, and 0 for neither, NN being the number of the split. The class is
what stands before `_test_splitN.txt`; classes are sorted by code point. Names may hold any character, blanks and those
of the shell included: only the number at the end is cut off.

Which file a line means is settled by the rules of `match`. A video with 0 in every split is taken, without a subset.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.wording import count, quote, quote_some
from prep.datasets import Scan
from prep.datasets.annotation_files import annotation_files, read_lines
from prep.datasets.listed import Line, gather
from prep.datasets.match import class_of_folder, match, near_names, require_matches
from prep.datasets.rows import make_rows
from prep.datasets.walk import find_videos, left_out, num_left_out

LIST_FOLDERS = ("testTrainMulti_7030_splits", "test_train_splits", "splits", "annotations")
_LIST_NAME = re.compile(r"(?P<class_name>.+)_test_split(?P<split>[0-9]+)\.txt", re.DOTALL)
_LIST_LINE = re.compile(r"(?P<name>\S.*?)\s+(?P<value>[012])")
_KINDS = {"0": None, "1": "train", "2": "test"}
_NAMES = "brush_hair_test_split1.txt, ..."


def scan(root: Path, annotations: Sequence[Path] = ()) -> Scan:
    """Read the videos under `root` with the classes and subsets of the annotation files.

    `annotations` are the files themselves or folders that hold them; without any, they are looked for in `root`, and in
    or beside it in one of LIST_FOLDERS.
    Raises UsageError for what `find_videos` and `match` refuse, for a line that is malformed or contradicts another of
    its file (naming file and line), and where the disk has nothing that the lists name.
    """
    files = annotation_files(root, annotations, LIST_FOLDERS, _is_annotation, _NAMES)
    lines = [line for file in files for line in read_list(file)]
    listed = gather(lines)
    classes = sorted({_parts(file)[0] for file in files}, key=escape_name)
    labels = {name: label for label, name in enumerate(classes)}
    found = find_videos(root, expected=frozenset(file.name for file in files))
    matches, by_name = match([video.path for video in found.videos], listed.items, labels)
    require_matches(root, matches, lines[0])
    sources = make_rows(
        found.videos, listed.items, matches, labels, folder_class=lambda path: class_of_folder(path, labels)
    )
    return Scan(
        dataset="hmdb51",
        sources=sources,
        classes=tuple(escape_name(name) for name in classes),
        notes=(*left_out(found), *_gaps(files, classes), *_unused(lines)),
        num_lines=listed.num_lines,
        near=near_names(matches, by_name),
        num_left_out=num_left_out(found),
    )


def read_list(file: Path) -> list[Line]:
    """Read one `<class>_test_splitN.txt`. Raises UsageError, naming the line."""
    class_name, split = _parts(file)
    values: dict[str, str] = {}
    lines = []
    for where, line in read_lines(file):
        parts = _LIST_LINE.fullmatch(line)
        if parts is None or "/" in parts["name"] or "\0" in parts["name"]:
            raise UsageError(f"{where}: expected a file name and 0, 1 or 2, got {quote(line)}")
        value = values.setdefault(parts["name"], parts["value"])
        if value != parts["value"]:
            raise UsageError(f"{where}: {quote(parts['name'])} has {value} on an earlier line: {quote(line)}")
        kind = _KINDS[value]
        subset = None if kind is None else f"{kind}{split:02d}"
        lines.append(Line(name=f"{class_name}/{parts['name']}", class_name=class_name, subset=subset, file=file.name))
    if not lines:
        raise UsageError(f"{quote(str(file))} names no video")
    return lines


def _is_annotation(path: Path) -> bool:
    return _LIST_NAME.fullmatch(path.name) is not None


def _parts(file: Path) -> tuple[str, int]:
    """Class and number of the split, by the name of a list."""
    parts = _LIST_NAME.fullmatch(file.name)
    assert parts is not None, file
    return parts["class_name"], int(parts["split"])


def _gaps(files: Iterable[Path], classes: Sequence[str]) -> list[str]:
    """Sentences about splits that not every class has a list of."""
    classes_of: dict[int, set[str]] = {}
    for file in files:
        class_name, split = _parts(file)
        classes_of.setdefault(split, set()).add(class_name)
    notes = []
    for split, present in sorted(classes_of.items()):
        absent = [name for name in classes if name not in present]
        if absent:
            notes.append(
                f"split {split} has no list for {count(len(absent), 'class', 'classes')}: {quote_some(absent)}"
            )
    return notes


def _unused(lines: Iterable[Line]) -> list[str]:
    """Sentences about the videos that a split uses for nothing."""
    unused: dict[int, set[str]] = {}
    for line in lines:
        if line.subset is None:
            unused.setdefault(_parts(Path(line.file))[1], set()).add(line.name)
    return [
        f"split {split} uses {count(len(names), 'listed video')} neither for training nor for testing (0)"
        for split, names in sorted(unused.items())
    ]
