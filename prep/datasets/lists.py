"""Lists of videos such as other tools read: what they say of each file under the root.

How the lines are read is settled by `list_layout`: by the header if there is one, else by what every line of the file
allows, and where that is more than one reading, by which of them names the most files on disk. A path is relative to
the root, or absolute, or one of another machine, and may lack its suffix: the rules of `match` find its file.

A list is the subset that its column `split` or its name tells ("train.csv", "ucf101_val_split_1_videos.txt" is val01),
else the subset of its own name; none if that is "all", which every video is in. Labels that are all numbers stay as
they are, and their classes are called by their numbers (until `--classes` names them), or by the column `class`; other
labels are class names, sorted by code point; -1 or nothing is no label. Frame counts are not used: frames are counted.
Lines that name one file in different ways (A/x.avi, A/x, x.avi) are lines about one video.

The columns `start` and `end`, in seconds, make a line name a window of its file (`manifests.windows`): each is a video
of its own. Without a start it begins at 0, without an end it goes on to that of the file; without both, and from 0 on
without an end, it is the whole file. A column `duration` beside `start` gives the end, where no other does.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path, PurePosixPath

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.windows import Window, with_window
from manifests.wording import count, quote, quote_some
from prep.datasets import Scan
from prep.datasets.annotation_files import annotation_files
from prep.datasets.list_layout import Reading, readings, refuse_header
from prep.datasets.listed import Line, Listed, gather
from prep.datasets.match import match, match_again, with_one_name
from prep.datasets.rows import make_rows
from prep.datasets.subset_names import EVERY_VIDEO, subset_of_name, subset_of_word
from prep.datasets.walk import find_videos, is_video_name, left_out, num_left_out

_SUFFIXES = (".txt", ".csv", ".tsv", ".list", ".lst")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SECONDS = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_NO_LABEL = ("", "-1")
_MAX_NUM_CLASSES = 100_000
"""A larger label is rather a number of frames, or an id."""

Hits = tuple[int, int, bool]
"""How many rows of a reading name a file on disk, and how many by just its path; whether the reading is a usual one."""


def scan_lists(root: Path, annotations: Sequence[Path] = (), separator: str | None = None) -> Scan:
    """Read the videos under `root` that the lists name; `separator` is what stands between fields, None finds out.

    Raises UsageError where no list is given, for what `find_videos` and `match` refuse, for a line that is malformed or
    has times that are none (naming file and line), for a list that can be read in two ways, for labels that are numbers
    in one place and names in another, and where the disk has nothing that the lists name.
    """
    if not annotations:
        raise UsageError("--dataset list needs lists: name them with --annotations, once for each file")
    files = list_files(root, annotations)
    found = find_videos(root, expected=frozenset(file.name for file in files))
    paths = [video.path for video in found.videos]
    known = ways_to_name(paths)
    rows = [(file, read) for file in files for read in [read_list(file, separator, root, known)]]
    names, numbered = classes_of(row for _, reading in rows for row in reading.rows)
    lines = [line_of(file, fields, names, root) for file, reading in rows for _, fields in reading.rows]
    matches, again, near = _match(paths, dict.fromkeys(line.name for line in lines))
    if not matches:
        raise UsageError(
            f"no video under {quote(str(root))} is one that {quote(files[0].name)} names (such as "
            f"{quote(lines[0].name)}): give the folder that its paths are relative to"
        )
    file_of = {**{name: file for file, name in matches.items()}, **again}
    near_pairs = {
        (with_window(escape_name(line.name), line.window), with_window(escape_name(file_of[line.name]), line.window))
        for line in lines
        if line.name in near
    }
    listed = gather(with_one_name(lines, matches, again))
    classes = list(dict.fromkeys(names.values()))
    labels = {name: label for label, name in enumerate(classes)}
    return Scan(
        dataset="list",
        sources=make_rows(found.videos, listed.items, matches, labels, windows=listed.windows),
        classes=tuple(escape_name(name) for name in classes),
        notes=(*left_out(found), *_notes(rows), *_note_of_windows(listed)),
        num_lines=listed.num_lines,
        near=tuple(sorted(near_pairs, key=lambda pair: pair[::-1])),
        num_left_out=num_left_out(found),
        numbered=numbered,
    )


def list_files(root: Path, given: Sequence[Path]) -> list[Path]:
    """The lists among the `given` files and folders, sorted by name. Raises UsageError as `annotation_files` does."""
    return annotation_files(root, given, (), _is_list, f"a file that ends in one of {', '.join(_SUFFIXES)}")


def read_list(file: Path, separator: str | None, root: Path, known: frozenset[str]) -> Reading:
    """The reading that fits all lines of `file` and names the most files on disk (`known` has all ways to name one),
    and of those as good by that the one that names the most by just their paths.

    Raises UsageError where none fits, naming the first line that doesn't, where two fit equally well, and where the
    first line seems to be a header and is none that can be used.
    """
    all_readings = [(reading, _hits(reading, root, known)) for reading in readings(file, separator)]
    headed = _headed(all_readings, root, known)
    if not headed and not _names_a_file(all_readings, root, known):
        refuse_header(file, separator)
    tried = headed or [(reading, hits) for reading, hits in all_readings if reading.header == "no"]
    fitting = [(reading, hits) for reading, hits in tried if reading.doubt is None and reading.rows]
    if not any(num_hits for _, (num_hits, *_) in fitting):
        closest = max(tried, key=lambda pair: (pair[1], len(pair[0].rows)))[0]
        if closest.doubt is not None or not closest.rows:
            raise UsageError(closest.doubt or f"{quote(str(file))} names no video")
    best, most = max(fitting, key=lambda pair: pair[1])
    for reading, hits in fitting:
        same = [row["path"] for _, row in reading.rows] == [row["path"] for _, row in best.rows]
        if hits == most and most[0] > 0 and not same:
            raise UsageError(
                f"{quote(str(file))} can be read as {best.shape} or as {reading.shape}, and both name videos on disk: "
                "put its paths in double quotes, or give --separator"
            )
    for place, row in best.rows:
        require_sound(place, row, root)
    return best


def _hits(reading: Reading, root: Path, known: frozenset[str]) -> Hits:
    paths = [relative(row["path"], root) for _, row in reading.rows]
    num_hits = sum(not known.isdisjoint(_names_for(path)) for path in paths)
    return num_hits, sum(path in known for path in paths), not reading.is_unusual


def _headed(
    all_readings: Sequence[tuple[Reading, Hits]], root: Path, known: frozenset[str]
) -> list[tuple[Reading, Hits]]:
    """The readings by a header, if the first line is one."""
    if any(reading.header == "sure" for reading, _ in all_readings):
        return [(reading, hits) for reading, hits in all_readings if reading.header == "sure"]
    if _names_a_file(all_readings, root, known):
        return []
    plain = max(hits[0] for reading, hits in all_readings if reading.header == "no")
    return [(reading, hits) for reading, hits in all_readings if reading.header == "likely"] or [
        (reading, hits)
        for reading, hits in all_readings
        if reading.header == "maybe" and reading.doubt is None and hits[0] >= plain
    ]


def _names_a_file(all_readings: Iterable[tuple[Reading, Hits]], root: Path, known: frozenset[str]) -> bool:
    """Whether the first line names a file on disk, if it is no header."""
    first = [reading.rows[0][1]["path"] for reading, _ in all_readings if reading.header == "no" and reading.rows]
    return any(not known.isdisjoint(_names_for(relative(path, root))) for path in first)


def relative(path: str, root: Path) -> str:
    """A listed path, relative to `root` where it lies under that; else without what makes it absolute."""
    plain = PurePosixPath(path.replace("\\", "/") if "\\" in path and "/" not in path else path)
    if plain.is_absolute():
        absolute = PurePosixPath(root.absolute())
        plain = plain.relative_to(absolute) if plain.is_relative_to(absolute) else plain.relative_to("/")
    return str(plain)


def require_sound(place: str, row: Mapping[str, str], root: Path) -> None:
    """Raises UsageError, naming the `place` of a row, where its path is none under `root` or its times are none."""
    parts = PurePosixPath(relative(row["path"], root)).parts
    if not parts or ".." in parts or "\0" in row["path"]:
        raise UsageError(f"{place}: {quote(row['path'])} is no path of a file under the root")
    try:
        window_of(row)
    except ValueError as error:
        raise UsageError(f"{place}: {error}; times are seconds, such as 12.5, or empty") from error


def window_of(row: Mapping[str, str]) -> Window | None:
    """The window that a row names, None for the whole file. Raises ValueError for times that are none."""
    times: dict[str, Decimal] = {}
    for name in ("start", "end", "duration"):
        text = row.get(name, "")
        if text and not _SECONDS.fullmatch(text):
            raise ValueError(f"the {name} {quote(text)} is no time from 0 on")
        if text:
            times[name] = Decimal(text)
    start = times.get("start", Decimal(0))
    # As decimals 0.1 and 0.2 are 0.3, which as floats they are not.
    end = start + times["duration"] if "duration" in times else times.get("end")
    return Window(float(start), None if end is None else float(end)) if float(start) or end is not None else None


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
    subset = subset_of_word(told) or told or subset_of_name(file.stem) or file.stem
    return Line(
        name=relative(row["path"], root),
        class_name=None if label in _NO_LABEL else names[label],
        subset=None if subset == EVERY_VIDEO else subset,
        file=file.name,
        window=window_of(row),
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


def _match(files: Sequence[str], listed: Iterable[str]) -> tuple[dict[str, str], dict[str, str], set[str]]:
    """The listed path of each file, the file of each further path that means one of these, and the listed paths that
    were found by less than the path.

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
    near_names = {matches[file] for file in (*near, *(stems[stem][0] for stem in near_stems))}
    left = set(names) - set(matches.values())
    again, by_name = match_again(matches, left)
    files_of: dict[str, list[str]] = {}
    for file in matches:
        files_of.setdefault(_stem(file), []).append(file)
    by_stem_again, near_again = match_again(
        {stem: _stem(matches[with_stem[0]]) for stem, with_stem in files_of.items()}, left - again.keys()
    )
    more = {name: files_of[stem][0] for name, stem in by_stem_again.items() if len(files_of[stem]) == 1}
    return matches, {**again, **more}, {*near_names, *by_name, *(near_again & more.keys())}


def _is_list(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES and path.is_file()


def _notes(rows: Iterable[tuple[Path, Reading]]) -> list[str]:
    notes = []
    for file, reading in rows:
        notes.append(f"read {quote(file.name)} as {reading.shape}")
        if reading.unknown:
            notes.append(f"did not use the columns {quote_some(reading.unknown)} of {quote(file.name)}")
    return notes


def _note_of_windows(listed: Listed) -> list[str]:
    number = sum(map(len, listed.windows.values()))
    windows = count(number, "video is a window", "videos are windows")
    return [f"{windows} of {count(len(listed.windows), 'file')}"] if number else []
