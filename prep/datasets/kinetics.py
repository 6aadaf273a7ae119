"""Kinetics-400, -600, -700 and -700-2020: the official tables, over whatever tree the videos have come in.

    label,youtube_id,time_start,time_end,split,is_cc     train.csv, kinetics-400_val.csv, ... (is_cc: Kinetics-400 only)
    youtube_id,time_start,time_end,split                 test.csv, which has no labels

A video is told by the name of its file alone: `<youtube_id>_<start:06d>_<end:06d>`, as the crawler and the common
mirror write it, or the YouTube id without times where the tables have one clip of it only. So the tree may have label
folders (with blanks, underscores or without quotes and brackets), subset folders, both or none, and may consist of
links. The subset is what the column `split` says ("validate" is val), else the name of the table; the label is the
table's.

Labels that differ in no more than blanks, underscores, case, quotes and brackets are one class, and it has the spelling
of most lines; classes are sorted by code point. Where several files have the name of one clip, the one taken is the
first that is neither empty nor unreadable, then that lies in a folder replacement..., in the folder of its label, in
the folder of its subset, and last the first by code point; the others are excluded as `duplicate_id`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.wording import quote
from prep.datasets import Scan
from prep.datasets.annotation_files import annotation_files, read_lines, read_rows, where
from prep.datasets.copies import choose, is_bad, stems
from prep.datasets.label_text import by_label_key, label_key
from prep.datasets.listed import Item, Line, Listed, gather
from prep.datasets.rows import make_rows
from prep.datasets.subset_names import subset_of_name, subset_of_word
from prep.datasets.walk import find_videos, left_out, num_left_out

LIST_FOLDERS = ("annotations",)
_NAMES = "tables with a column youtube_id, such as train.csv"
_TIMES = re.compile(r"(?P<id>.+)_(?P<start>[0-9]{1,9})_(?P<end>[0-9]{1,9})", re.DOTALL)
_SECONDS = re.compile(r"(?P<whole>[0-9]{1,9})(?:\.[0-9]*)?")
_ID = re.compile(r"[^/\0\s]+")
_ID_LENGTH = 11  # of YouTube's


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One row of a table. `name` is that of the file, without suffix."""

    youtube_id: str
    name: str


def scan(root: Path, annotations: Sequence[Path] = ()) -> Scan:
    """Read the videos under `root` with the labels and subsets of the tables.

    `annotations` are tables or folders of such; without any, they are looked for in `root`, and in the folder
    annotations in or beside it.
    Raises UsageError for what `find_videos` refuses, for a row that is malformed (naming file and line), and where the
    disk has nothing that the tables name.
    """
    files = annotation_files(root, annotations, LIST_FOLDERS, _is_table, _NAMES)
    clips: dict[str, Clip] = {}
    lines = [line for file in files for line in read_table(file, clips)]
    lines, spellings = _one_spelling(lines)
    listed = gather(lines)
    classes = sorted({line.class_name for line in lines if line.class_name is not None}, key=escape_name)
    labels = {name: label for label, name in enumerate(classes)}
    class_of = by_label_key(classes)
    found = find_videos(root, expected=frozenset(file.name for file in files))
    videos = {video.path: video for video in found.videos}
    names, suggestions = _names_of_files(stems(found.videos), clips)
    subsets = set(listed.num_lines)

    def rank(file: str, name: str) -> tuple[bool, ...]:
        item = listed.items[name]
        return (
            is_bad(videos[file]),
            not _is_replacement(file),
            class_of.get(_folder_key(file)) != item.class_name,
            not _subset_folders(file, subsets).intersection(item.subsets),
        )

    chosen = choose(names, rank)
    if not chosen.files:
        raise UsageError(
            f"no video under {quote(str(root))} has the name of a clip of {quote(files[0].name)} "
            f"(such as {quote(lines[0].name)}): give the folder that holds these videos"
        )
    sources = make_rows(
        found.videos,
        listed.items,
        chosen.files,
        labels,
        copies=chosen.copies,
        folder_class=lambda path: class_of.get(_folder_key(path)),
        missing_path=lambda item: f"{item.name}.mp4",
    )
    matched = set(names.values())
    return Scan(
        dataset="kinetics",
        sources=sources,
        classes=tuple(escape_name(name) for name in classes),
        notes=(*left_out(found), *spellings),
        num_lines=listed.num_lines,
        near=_near(chosen.files, videos),
        suggestions=tuple(
            (escape_name(f"{name}.mp4"), escape_name(file)) for name, file in suggestions if name not in matched
        ),
        disagreements=(
            *_label_disagreements(listed, chosen.files, class_of),
            *_subset_disagreements(listed, chosen.files),
        ),
        num_left_out=num_left_out(found),
    )


def read_table(file: Path, clips: dict[str, Clip]) -> list[Line]:
    """Read one table, and add its clips to `clips`, by name. Raises UsageError, naming the line."""
    rows = read_rows(file, ",")
    _, head = next(rows, (0, []))
    columns = {name.lower(): index for index, name in enumerate(head)}
    lines = []
    for number, row in rows:
        if len(row) != len(head):
            raise UsageError(
                f"{where(file, number)}: expected {len(head)} fields, got {len(row)}: {quote(','.join(row))}"
            )
        fields = {name: row[index] for name, index in columns.items()}
        if not _ID.fullmatch(fields["youtube_id"]) or fields["youtube_id"] in (".", ".."):
            raise UsageError(f"{where(file, number)}: {quote(fields['youtube_id'])} is no YouTube id")
        name = _clip_name(fields, file, number)
        clips[name] = Clip(youtube_id=fields["youtube_id"], name=name)
        subset = subset_of_word(fields.get("split", "")) or fields.get("split")
        lines.append(
            Line(
                name=name,
                class_name=fields.get("label") or None,
                subset=subset or subset_of_name(file.stem) or file.stem,
                file=file.name,
            )
        )
    if not lines:
        raise UsageError(f"{quote(str(file))} names no video")
    return lines


def _clip_name(fields: Mapping[str, str], file: Path, number: int) -> str:
    """The file name of a clip as the crawler makes it; fractions of a second are cut off."""
    times = [fields.get(column, "") for column in ("time_start", "time_end")]
    if times == ["", ""]:
        return fields["youtube_id"]
    seconds = [_SECONDS.fullmatch(time) for time in times]
    if None in seconds:
        raise UsageError(f"{where(file, number)}: expected times in seconds, got {quote(' and '.join(times))}")
    return "_".join([fields["youtube_id"], *(f"{int(match['whole']):06d}" for match in seconds if match is not None)])


def _is_table(path: Path) -> bool:
    """Whether a file is a table of clips, by its first line: folders of annotations hold other tables too."""
    if path.suffix.lower() not in (".csv", ".txt") or not path.is_file():
        return False
    lines = read_lines(path)
    return bool(lines) and "youtube_id" in [name.strip().strip('"').lower() for name in lines[0][1].split(",")]


def _one_spelling(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """The lines with one spelling for labels that are compared as equal, and sentences about the others."""
    numbers = Counter(line.class_name for line in lines if line.class_name is not None)
    spellings: dict[str, list[str]] = {}
    for name in sorted(numbers, key=lambda name: (-numbers[name], name)):
        spellings.setdefault(label_key(name), []).append(name)
    kept = {name: names[0] for names in spellings.values() for name in names}
    notes = [
        f"took the label {quote(name)} for {quote(names[0])}"
        for _, names in sorted(spellings.items())
        for name in names[1:]
    ]
    return [
        line if line.class_name is None else replace(line, class_name=kept[line.class_name]) for line in lines
    ], notes


def _names_of_files(
    stem_of: Mapping[str, str], clips: Mapping[str, Clip]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The clip that each file is, by path, and (clip, path) for files that may be one but are not named so."""
    clips_of: dict[str, list[str]] = {}
    for clip in clips.values():
        clips_of.setdefault(clip.youtube_id, []).append(clip.name)
    names: dict[str, str] = {}
    suggestions: list[tuple[str, str]] = []
    for path, stem in stem_of.items():
        times = _TIMES.fullmatch(stem)
        padded = f"{times['id']}_{int(times['start']):06d}_{int(times['end']):06d}" if times else stem
        if stem in clips:
            names[path] = stem
        elif padded in clips:
            names[path] = padded
        elif len(clips_of.get(stem, [])) == 1:
            names[path] = clips_of[stem][0]
        else:
            maybe = times["id"] if times and times["id"] in clips_of else stem[:_ID_LENGTH]
            suggestions += [(name, path) for name in clips_of.get(maybe, [])]
    return names, suggestions


def _near(files: Mapping[str, str], paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (escape_name(files[path]), escape_name(path))
        for path in paths
        if path in files and path.rpartition("/")[2].rpartition(".")[0] != files[path]
    )


def _is_replacement(path: str) -> bool:
    return any(part.lower().startswith("replacement") for part in path.split("/")[:-1])


def _folder_key(path: str) -> str:
    return label_key(path.rpartition("/")[0].rpartition("/")[2])


def _subset_folders(path: str, subsets: set[str]) -> set[str]:
    """The subsets that folders of the path are named for."""
    return {subset for part in path.split("/")[:-1] if (subset := subset_of_name(part)) in subsets and subset}


def _label_disagreements(
    listed: Listed, files: Mapping[str, str], class_of: Mapping[str, str]
) -> list[tuple[str, str]]:
    """What lies in the folder of one class and is of another by the tables."""
    found = []
    for path, name in files.items():
        folder, item = class_of.get(_folder_key(path)), listed.items[name]
        if folder is not None and item.class_names and folder not in item.class_names:
            found.append(
                (escape_name(path), f"lies in the folder of {quote(folder)}, is {_classes(item)} by the tables")
            )
    return sorted(found)


def _classes(item: Item) -> str:
    return " and ".join(quote(name) for name in item.class_names)


def _subset_disagreements(listed: Listed, files: Mapping[str, str]) -> list[tuple[str, str]]:
    """What lies in the folder of one subset and is in another by the tables."""
    found = []
    subsets = set(listed.num_lines)
    for path, name in files.items():
        folders, item = _subset_folders(path, subsets), listed.items[name]
        if folders and not folders.intersection(item.subsets):
            told = f"lies in a folder {' and '.join(sorted(folders))}, is in {', '.join(item.subsets)} by the tables"
            found.append((escape_name(path), told))
    return sorted(found)
