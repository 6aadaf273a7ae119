"""How the lines of a list file are to be read: what separates the fields, and what each of them is.

    A/x.avi 3                 path, label
    3 A/x.avi                 label, path
    A/x 97 3                  path, number of frames, label
    A/x.avi                   path
    path,label,split          a table whose first line names its columns (`list_columns`)

Fields stand between commas, tabs or semicolons, in double quotes where they hold such; or between blanks, and then a
path may hold blanks itself, or stand in double or single quotes. A double quote within double quotes may be doubled.
Without a header, a last column that is empty in every line is none.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import UsageError
from manifests.wording import quote
from prep.datasets.annotation_files import read_lines, read_rows, where
from prep.datasets.list_columns import KNOWN, kind_of_header, roles_of, seem_columns
from prep.datasets.walk import is_video_name

SEPARATORS = {"comma": ",", "tab": "\t", "semicolon": ";", "blank": " "}
_NAME_OF = {character: name for name, character in SEPARATORS.items()}

_FRAME_LIST = "original_vido_id"  # so spelled in the lists of frames that SlowFast reads
_PATH = r"""(?:"(?P<double>.+)"|'(?P<single>.+)'|(?P<plain>\S.*?))"""
_NUMBER = re.compile(r"[0-9]{1,9}")
_SECOND_PATH = re.compile(r"""[^"'].*[\s,;](?:/|[A-Za-z]:[/\\]).*""")
"""More than a path: an absolute one, and something before it."""

_BLANK_SHAPES = (("path", "num_frames", "label"), ("path", "label"), ("label", "path"), ("path",))
_SHAPES: dict[int, tuple[tuple[str, ...], ...]] = {
    1: (("path",),),
    2: (("path", "label"), ("label", "path")),
    3: (("path", "num_frames", "label"),),
}
Row = tuple[str, dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read a file: its rows, each with the words that say where it is, and its fields by role. `unknown` are
    columns of a header that say nothing to us. `doubt` is what is wrong with the first line that does not fit.

    `header` tells whether the first line is one: "no"; "sure"; "likely", unless it names a file; "maybe", if moreover
    the rows fit and name as many files as without. An `is_unusual` reading is right only where it names more files
    than any other."""

    shape: str
    rows: tuple[Row, ...]
    unknown: tuple[str, ...] = ()
    header: str = "no"
    doubt: str | None = None
    is_unusual: bool = False


def readings(file: Path, separator: str | None) -> list[Reading]:
    """The ways in which `file` may be read, with `separator` (a name or character of SEPARATORS) or with any; the more
    particular come first. Those that do not fit all lines have a `doubt`.

    Raises UsageError for an unknown separator, a file without lines, and one that lists frames instead of videos.
    """
    lines = read_lines(file)
    if not lines:
        raise UsageError(f"{quote(str(file))} names no video")
    if _FRAME_LIST in lines[0][1].split():
        raise UsageError(f"{quote(str(file))} lists frames, not videos: give a list with one line a video")
    chosen = _separator(separator)
    found: list[Reading] = []
    for character in SEPARATORS.values():
        if character == " " or (chosen is None and character not in lines[0][1]) or chosen not in (None, character):
            continue
        found += _table(file, character)
    if chosen in (None, " "):
        found += _blanks(lines)
    if chosen is not None and chosen != " " and not found:
        raise UsageError(f"{quote(str(file))} has no fields between {quote(chosen)}")
    return found


def refuse_header(file: Path, separator: str | None) -> None:
    """Raises UsageError where the first line, which is no header that can be used, seems to be one."""
    place, line = read_lines(file)[0]
    chosen = _separator(separator)
    characters = [character for character in SEPARATORS.values() if chosen in (None, character)]
    for character in characters:
        words = line.split() if character == " " else line.split(character)
        if seem_columns([word.strip(" \t\"'") for word in words]):
            raise UsageError(
                f"{place}: {quote(line)} seems to be a header, and cannot be used as one: name the columns "
                f"{KNOWN}, or remove the line"
            )


def _separator(given: str | None) -> str | None:
    if given is None:
        return None
    character = SEPARATORS.get(given, given)
    if character not in SEPARATORS.values():
        raise UsageError(f"--separator {given!r} is unknown: choose one of {', '.join(SEPARATORS)}")
    return character


def _table(file: Path, separator: str) -> Iterator[Reading]:
    """The readings of a file as a table: with its header, if it may have one, and without."""
    rows: list[tuple[int, list[str]]] = []
    broken = None
    try:
        for row in read_rows(file, separator):
            rows.append(row)
    except UsageError as error:
        broken = str(error)
    header = kind_of_header(rows[0][1], is_table=True) if rows else "no"
    if header != "no":
        yield _headed_table(file, rows, separator, header, broken)
    if broken is not None:
        yield Reading(shape="table", rows=(), doubt=broken)
        return
    num_fields = len(rows[0][1])
    is_cut = num_fields > 2 and all(len(row) == num_fields and not row[-1] for _, row in rows)
    if is_cut:
        rows, num_fields = [(number, row[:-1]) for number, row in rows], num_fields - 1
    if num_fields not in _SHAPES:
        doubt = f"{where(file, rows[0][0])}: expected path and label, got {num_fields} fields; a header may name others"
        yield Reading(shape="table", rows=(), doubt=doubt)
        return
    for shape in _SHAPES[num_fields]:
        reading = _plain_table(file, rows, separator, shape)
        if is_cut and shape == ("path", "label") and all(_NUMBER.fullmatch(row[1]) for _, row in rows):
            doubt = (
                f"{where(file, rows[0][0])}: every line ends in an empty field, and {quote(rows[0][1][1])} may be a "
                "label or a number of frames: remove the separator at the end, or give the list a header"
            )
            reading = Reading(shape=reading.shape, rows=reading.rows, doubt=doubt)
        yield reading


def _headed_table(
    file: Path, rows: Sequence[tuple[int, list[str]]], separator: str, header: str, broken: str | None
) -> Reading:
    names = rows[0][1]
    try:
        roles = roles_of(names)
    except ValueError as error:
        return Reading(shape="table", rows=(), header=header, doubt=f"{where(file, rows[0][0])}: {error}")
    good, doubt = [], broken
    for number, row in rows[1:]:
        fields = {role: field for role, field in zip(roles, row, strict=False) if role}
        if len(row) != len(roles) or not fields["path"]:
            doubt = f"{where(file, number)}: expected {', '.join(names)}, got {quote(separator.join(row))}"
            break
        good.append((where(file, number), fields))
    return Reading(
        shape=f"{_NAME_OF[separator]}-separated {', '.join(role or '-' for role in roles)}",
        rows=tuple(good),
        unknown=_unknown(names, roles),
        header=header,
        doubt=doubt,
    )


def _unknown(names: Sequence[str], roles: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name, role in zip(names, roles, strict=True) if not role)


def _plain_table(file: Path, rows: Sequence[tuple[int, list[str]]], separator: str, shape: tuple[str, ...]) -> Reading:
    good, doubt = [], None
    for number, row in rows:
        fields = dict(zip(shape, row, strict=False))
        if len(row) != len(shape) or not _is_plain(fields, shape):
            doubt = f"{where(file, number)}: expected {', '.join(shape)}, got {quote(separator.join(row))}"
            break
        good.append((where(file, number), fields))
    return Reading(shape=f"{_NAME_OF[separator]}-separated {', '.join(shape)}", rows=tuple(good), doubt=doubt)


def _is_plain(fields: dict[str, str], shape: tuple[str, ...]) -> bool:
    """Whether the fields of a line without a header may be what `shape` has: no label is called like a video."""
    path, label = fields["path"], fields.get("label", "")
    if not path or is_video_name(label) or not _NUMBER.fullmatch(fields.get("num_frames", "0")):
        return False
    is_path = "/" in path or "\\" in path or is_video_name(path)
    return shape[0] == "path" or (is_path and "/" not in label and "\\" not in label)


def _blanks(lines: Sequence[tuple[str, str]]) -> Iterator[Reading]:
    """The readings of lines with fields between blanks: with a header, if the first may be one, and without."""
    place, first = lines[0]
    names = [word.strip("\"'") for word in first.split()]
    header = kind_of_header(names, is_table=False)
    if header != "no":
        try:
            yield _headed_blanks(lines[1:], names, roles_of(names), header)
        except ValueError as error:
            yield Reading(shape="blank-separated", rows=(), header=header, doubt=f"{place}: {error}")
    for shape in _BLANK_SHAPES:
        yield _plain_blanks(lines, shape)


def _headed_blanks(
    lines: Sequence[tuple[str, str]], names: Sequence[str], roles: tuple[str, ...], header: str
) -> Reading:
    rows, doubt = _match_lines(lines, roles, " ".join(names))
    shape = f"blank-separated {', '.join(role or '-' for role in roles)}"
    return Reading(shape=shape, rows=rows, unknown=_unknown(names, roles), header=header, doubt=doubt)


def _plain_blanks(lines: Sequence[tuple[str, str]], shape: tuple[str, ...]) -> Reading:
    rows, doubt = _match_lines(lines, shape, " ".join(shape))
    for number, ((place, line), (_, fields)) in enumerate(zip(lines, rows, strict=False)):
        if not _is_plain(fields, shape) or (shape == ("path",) and _SECOND_PATH.fullmatch(line)):
            rows, doubt = rows[:number], f"{place}: expected {' '.join(shape)}, got {quote(line)}"
            break
    # A path of several words may begin with what looks like a class.
    is_unusual = shape[0] == "label" and not all(_NUMBER.fullmatch(fields["label"]) for _, fields in rows)
    shown = f"blank-separated {', '.join(shape)}"
    return Reading(shape=shown, rows=rows, doubt=doubt, is_unusual=is_unusual)


def _match_lines(
    lines: Sequence[tuple[str, str]], roles: tuple[str, ...], expected: str
) -> tuple[tuple[Row, ...], str | None]:
    """The fields of the lines up to the first that has not those of `roles`, and what is wrong with that."""
    pattern = re.compile(
        r"\s+".join(_PATH if role == "path" else rf"(?P<{role}>\S+)" if role else r"\S+" for role in roles)
    )
    good: list[Row] = []
    for place, line in lines:
        match = pattern.fullmatch(line)
        if match is None:
            return tuple(good), f"{place}: expected {expected}, got {quote(line)}"
        parts = match.groupdict()
        double, single, plain = (parts.pop(kind) for kind in ("double", "single", "plain"))
        path = double.replace('""', '"') if double else single or plain
        good.append((place, {"path": path, **parts}))
    return tuple(good), None
