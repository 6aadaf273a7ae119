"""How the lines of a list file are to be read: what separates the fields, and what each of them is.

    A/x.avi 3                 path, label
    A/x 97 3                  path, number of frames, label
    A/x.avi                   path
    path,label,split          a table whose first line names its columns

Fields stand between commas, tabs or semicolons, in double quotes where they hold such; or between blanks, and then a
path may hold blanks itself, or stand in double or single quotes. A double quote within double quotes may be doubled.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import UsageError
from manifests.wording import quote
from prep.datasets.annotation_files import read_lines, read_rows, where

SEPARATORS = {"comma": ",", "tab": "\t", "semicolon": ";", "blank": " "}
_NAME_OF = {character: name for name, character in SEPARATORS.items()}

_ROLES = {
    "path": (
        "path",
        "video",
        "videos",
        "video_path",
        "file",
        "files",
        "file_name",
        "filename",
        "filepath",
        "file_path",
    ),
    "label": ("label", "labels", "label_id", "class_id", "class_index", "target"),
    "class_name": ("class", "class_name", "classname", "category", "action", "label_name"),
    "num_frames": ("num_frames", "n_frames", "nframes", "frames", "total_frames", "frame_count"),
    "subset": ("subset", "split"),
    "start": ("start", "start_s", "start_time", "time_start", "start_sec", "start_seconds", "clip_start"),
    "end": ("end", "end_s", "end_time", "time_end", "end_sec", "end_seconds", "clip_end"),
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names}
_FRAME_LIST = "original_vido_id"  # so spelled in the lists of frames that SlowFast reads
_PATH = r"""(?:"(?P<double>.+)"|'(?P<single>.+)'|(?P<plain>\S.*?))"""
_BLANK_SHAPES = {
    ("path", "num_frames", "label"): re.compile(_PATH + r"\s+(?P<num_frames>[0-9]{1,9})\s+(?P<label>\S+)"),
    ("path", "label"): re.compile(_PATH + r"\s+(?P<label>\S+)"),
    ("path",): re.compile(_PATH),
}
_SHAPES: dict[int, tuple[str, ...]] = {1: ("path",), 2: ("path", "label"), 3: ("path", "num_frames", "label")}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read a file: its rows, each with the words that say where it is, and its fields by role. `unknown` are
    columns of a header that say nothing to us. `doubt` is what is wrong with the first line that does not fit."""

    shape: str
    rows: tuple[tuple[str, dict[str, str]], ...]
    unknown: tuple[str, ...] = ()
    has_header: bool = False
    doubt: str | None = None


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
        found += [_blanks(file, shape) for shape in _BLANK_SHAPES]
    if chosen is not None and chosen != " " and not found:
        raise UsageError(f"{quote(str(file))} has no fields between {quote(chosen)}")
    return [reading for reading in found if reading.has_header] or found


def _separator(given: str | None) -> str | None:
    if given is None:
        return None
    character = SEPARATORS.get(given, given)
    if character not in SEPARATORS.values():
        raise UsageError(f"--separator {given!r} is unknown: choose one of {', '.join(SEPARATORS)}")
    return character


def _table(file: Path, separator: str) -> Iterator[Reading]:
    """The readings of a file as a table: one, or none where the quotes are wrong."""
    try:
        rows = list(read_rows(file, separator))
    except UsageError as error:
        yield Reading(shape="table", rows=(), doubt=str(error))
        return
    names = [re.sub(r"[\s\-]+", "_", name.lower()) for name in rows[0][1]]
    roles = tuple(_ROLE_OF.get(name, "") for name in names)
    has_header = "path" in roles and len(names) > 1
    if has_header:
        known = [role for role in roles if role]
        if len(set(known)) < len(known):
            raise UsageError(f"{where(file, rows[0][0])}: two columns for one thing: {quote(', '.join(rows[0][1]))}")
    elif len(names) not in _SHAPES:
        doubt = f"{where(file, rows[0][0])}: expected path and label, got {len(names)} fields"
        yield Reading(shape="table", rows=(), doubt=doubt)
        return
    else:
        roles = _SHAPES[len(names)]
    good, doubt_of_row = [], None
    for number, row in rows[1:] if has_header else rows:
        fields = {role: field for role, field in zip(roles, row, strict=False) if role}
        bad_count = not has_header and "num_frames" in fields and not re.fullmatch(r"[0-9]{1,9}", fields["num_frames"])
        if len(row) != len(roles) or bad_count or not fields["path"]:
            expected = ", ".join(rows[0][1]) if has_header else ""
            shown = expected or ", ".join(roles)
            doubt_of_row = f"{where(file, number)}: expected {shown}, got {quote(separator.join(row))}"
            break
        good.append((where(file, number), fields))
    yield Reading(
        shape=f"{_NAME_OF[separator]}-separated {', '.join(role or '-' for role in roles)}",
        rows=tuple(good),
        unknown=tuple(name for name, role in zip(rows[0][1], roles, strict=True) if not role) if has_header else (),
        has_header=has_header,
        doubt=doubt_of_row,
    )


def _blanks(file: Path, shape: tuple[str, ...]) -> Reading:
    good, doubt = [], None
    for place, line in read_lines(file):
        match = _BLANK_SHAPES[shape].fullmatch(line)
        if match is None:
            doubt = f"{place}: expected {' '.join(shape)}, got {quote(line)}"
            break
        parts = match.groupdict()
        double, single, plain = (parts.pop(kind) for kind in ("double", "single", "plain"))
        path = double.replace('""', '"') if double else single or plain
        good.append((place, {"path": path, **parts}))
    return Reading(shape=f"blank-separated {', '.join(shape)}", rows=tuple(good), doubt=doubt)
