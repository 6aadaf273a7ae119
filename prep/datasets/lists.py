"""Lists of videos such as other tools read: what they say of each file under the root.

How the lines are read is settled by `list_layout`: by the header if there is one, else by what every line of the file
allows, and where that is more than one reading, by which of them names the most files on disk. A path is relative to
the root, or absolute, or one of another machine, and may lack its suffix: the rules of `match` find its file.

A list is the subset that its column `split` or its name tells ("train.csv", "ucf101_val_split_1_videos.txt" is val01),
else the subset of its own name. Labels that are all numbers stay as they are, and their classes are called by their
numbers (until `--classes` names them), or by the column `class`; other labels are class names, sorted by code point; -1
or nothing is no label. Frame counts are not used, since frames are counted. A clip inside a longer video (`start`,
`end`) is refused, unless it begins at 0 and has no end.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.wording import quote, quote_some
from prep.datasets import Scan
from prep.datasets.annotation_files import annotation_files
from prep.datasets.list_layout import Reading, readings
from prep.datasets.listed import Line, gather
from prep.datasets.match import match
from prep.datasets.rows import make_rows
from prep.datasets.subset_names import subset_of_name, subset_of_word
from prep.datasets.walk import find_videos, is_video_name, left_out, num_left_out

_SUFFIXES = (".txt", ".csv", ".tsv", ".list", ".lst")
_NAMES = f"a file that ends in one of {', '.join(_SUFFIXES)}"
_NUMBER = re.compile(r"[0-9]{1,9}")
_NO_LABEL = ("", "-1")
_MAX_NUM_CLASSES = 100_000
"""A larger label is rather a number of frames, or an id."""


def scan_lists(root: Path, annotations: Sequence[Path] = (), separator: str | None = None) -> Scan:
    """Read the videos under `root` that the lists name; `separator` is what stands between fields, None finds out.

    Raises UsageError where no list is given, for what `find_videos` and `match` refuse, for a line that is malformed or
    names a clip inside a video (naming file and line), for a list that can be read in two ways, for labels that are
    numbers in one place and names in another, and where the disk has nothing that the lists name.
    """
    if not annotations:
        raise UsageError("--dataset list needs lists: name them with --annotations, once for each file")
    files = annotation_files(root, annotations, (), _is_list, _NAMES)
    found = find_videos(root, expected=frozenset(file.name for file in files))
    paths = [video.path for video in found.videos]
    known = ways_to_name(paths)
    rows = [(file, read) for file in files for read in [read_list(file, separator, root, known)]]
    names, numbered = classes_of(row for _, reading in rows for row in reading.rows)
    lines = [line_of(file, fields, names, root) for file, reading in rows for _, fields in reading.rows]
    listed = gather(lines)
    matches, near = _match(paths, listed.items)
    if not matches:
        raise UsageError(
            f"no video under {quote(str(root))} is one that {quote(files[0].name)} names (such as "
            f"{quote(lines[0].name)}): give the folder that its paths are relative to"
        )
    classes = list(dict.fromkeys(names.values()))
    labels = {name: label for label, name in enumerate(classes)}
    return Scan(
        dataset="list",
        sources=make_rows(found.videos, listed.items, matches, labels),
        classes=tuple(escape_name(name) for name in classes),
        notes=(*left_out(found), *_notes(rows)),
        num_lines=listed.num_lines,
        near=tuple((escape_name(matches[file]), escape_name(file)) for file in sorted(near)),
        num_left_out=num_left_out(found),
        numbered=numbered,
    )


def read_list(file: Path, separator: str | None, root: Path, known: frozenset[str]) -> Reading:
    """The reading that fits all lines of `file` and names the most files on disk (`known` has all ways to name one).

    Raises UsageError where none fits, naming the first line that doesn't, or where two fit equally well.
    """
    all_readings = readings(file, separator)
    fitting = [reading for reading in all_readings if reading.doubt is None and reading.rows]
    hits = [_num_hits(reading, root, known) for reading in fitting]
    if not any(hits):
        closest = max(all_readings, key=lambda reading: (_num_hits(reading, root, known), len(reading.rows)))
        if closest.doubt is not None or not closest.rows:
            raise UsageError(closest.doubt or f"{quote(str(file))} names no video")
    best = fitting[hits.index(max(hits))]
    for reading, number in zip(fitting, hits, strict=True):
        same = [row["path"] for _, row in reading.rows] == [row["path"] for _, row in best.rows]
        if number == max(hits) > 0 and not same:
            raise UsageError(
                f"{quote(str(file))} can be read as {best.shape} or as {reading.shape}, and both name videos on disk: "
                "put its paths in double quotes, or give --separator"
            )
    for place, row in best.rows:
        require_whole_video(place, row, root)
    return best


def _num_hits(reading: Reading, root: Path, known: frozenset[str]) -> int:
    return sum(not known.isdisjoint(_names_for(relative(row["path"], root))) for _, row in reading.rows)


def relative(path: str, root: Path) -> str:
    """A listed path, relative to `root` where it lies under that; else without what makes it absolute."""
    plain = PurePosixPath(path.replace("\\", "/") if "\\" in path and "/" not in path else path)
    if plain.is_absolute():
        absolute = PurePosixPath(root.absolute())
        plain = plain.relative_to(absolute) if plain.is_relative_to(absolute) else plain.relative_to("/")
    return str(plain)


def require_whole_video(place: str, row: Mapping[str, str], root: Path) -> None:
    """Raises UsageError, naming the `place` of a row, where it names no path under `root` or a clip inside a video."""
    parts = PurePosixPath(relative(row["path"], root)).parts
    if not parts or ".." in parts or "\0" in row["path"]:
        raise UsageError(f"{place}: {quote(row['path'])} is no path of a file under the root")
    start, end = row.get("start", ""), row.get("end", "")
    if start.strip("0.") or end:
        raise UsageError(
            f"{place}: names the clip from {start or '0'} to {end or 'the end'} inside {quote(row['path'])}, and only "
            "whole videos can be extracted: cut the clips into files of their own first"
        )


def classes_of(rows: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[dict[str, str], bool]:
    """The class of each label text, in label order, and whether classes are known by number only.

    Raises UsageError for numbers among names, and where a number has two names or a name two numbers.
    """
    numbers: dict[int, str] = {}
    texts: dict[str, str] = {}
    name_of: dict[int, str] = {}
    for place, row in rows:
        label, class_name = row.get("label", ""), row.get("class_name", "")
        if label in _NO_LABEL:
            label = class_name
        if label in _NO_LABEL:
            continue
        if not _NUMBER.fullmatch(label) or ("label" not in row or row["label"] in _NO_LABEL):
            texts.setdefault(label, place)
            continue
        number = int(label)
        if number >= _MAX_NUM_CLASSES:
            raise UsageError(f"{place}: the label {label} is too large to be the number of a class")
        numbers.setdefault(number, place)
        if class_name and name_of.setdefault(number, class_name) != class_name:
            raise UsageError(f"{place}: label {label} is {quote(class_name)} here and {quote(name_of[number])} before")
    if numbers and texts:
        text, place = next(iter(texts.items()))
        raise UsageError(
            f"{place}: the label {quote(text)} is a name, and that of {next(iter(numbers.values()))} a number"
        )
    if texts:
        return {text: text for text in sorted(texts, key=escape_name)}, False
    names = {number: name_of.get(number, str(number)) for number in range(max(numbers, default=-1) + 1)}
    if len(set(names.values())) < len(names):
        raise UsageError(f"the lists give one class name two numbers: {quote_some(_repeated(names.values()))}")
    return {str(number): name for number, name in names.items()}, not name_of


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def line_of(file: Path, row: Mapping[str, str], names: Mapping[str, str], root: Path) -> Line:
    """What a row of `file` says; `names` are as of `classes_of`."""
    label = row.get("label", "")
    if label in _NO_LABEL:
        label = row.get("class_name", "")
    if label not in _NO_LABEL and label not in names:
        label = str(int(label))  # a number with zeros before it
    told = row.get("subset", "")
    return Line(
        name=relative(row["path"], root),
        class_name=None if label in _NO_LABEL else names[label],
        subset=subset_of_word(told) or told or subset_of_name(file.stem) or file.stem,
        file=file.name,
    )


def ways_to_name(paths: Iterable[str]) -> frozenset[str]:
    """All that a list may call one of these."""
    return frozenset(name for path in paths for name in (*_names_for(path), *_names_for(_stem(path))))


def _names_for(path: str) -> set[str]:
    """A path, its folder and file name, and its file name."""
    return {path, "/".join(path.split("/")[-2:]), path.rpartition("/")[2]}


def _stem(path: str) -> str:
    """A path without the suffix of a video."""
    return path.rpartition(".")[0] if is_video_name(path) else path


def _match(files: Sequence[str], listed: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """The listed path of each file, and the files that were found by less than the path.

    Listed paths that find no file, or have no suffix of a video, are compared with the files left without theirs, by
    the same rules: clip.264 may be the name of clip.264.mp4.
    """
    names = list(listed)
    matches, near = match(files, [name for name in names if is_video_name(name)], {})
    stems: dict[str, list[str]] = {}
    for file in files:
        if file not in matches:
            stems.setdefault(_stem(file), []).append(file)
    taken = set(matches.values())
    by_stem, near_stems = match(stems, [name for name in names if name not in taken], {})
    for stem, name in by_stem.items():
        if len(stems[stem]) > 1:
            raise UsageError(
                f"the listed video {quote(name)} may be any of {quote_some(stems[stem])} on disk: move the copies away"
            )
        matches[stems[stem][0]] = name
    return matches, {*near, *(stems[stem][0] for stem in near_stems)}


def _is_list(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES and path.is_file()


def _notes(rows: Iterable[tuple[Path, Reading]]) -> list[str]:
    notes = []
    for file, reading in rows:
        notes.append(f"read {quote(file.name)} as {reading.shape}")
        if reading.unknown:
            notes.append(f"did not use the columns {quote_some(reading.unknown)} of {quote(file.name)}")
    return notes
