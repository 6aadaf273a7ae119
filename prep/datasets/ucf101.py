"""UCF-101: class folders, `classInd.txt`, and the lists of the official splits.

    classInd.txt     1 ApplyEyeMakeup                          label = number - 1
    trainlist01.txt  ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1
    testlist01.txt   ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01.avi     (officially without the number)

Every trainlistNN.txt and testlistNN.txt is the subset trainNN or testNN. A video's class is the folder that the
list puts it in, never its file name: HandstandPushups holds files named v_HandStandPushups_... A video that no list
names has the class of its folder on disk, if that is one.

Which file a line means is settled by the rules of `match`. A video that a list names and the disk lacks is a failed
source (`missing`); one that no list names is excluded, unless there are no lists at all.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from manifests.errors import UsageError
from manifests.names import escape_name, video_ids
from manifests.records import Source
from manifests.wording import count, quote, quote_some
from prep.datasets import Scan
from prep.datasets.match import match
from prep.datasets.walk import Found, VideoFile, find_videos, is_video_name, left_out

CLASS_FILE = "classInd.txt"
LIST_FOLDER = "ucfTrainTestlist"
OFFICIAL_FILES = frozenset(
    {CLASS_FILE, *(f"{kind}list0{split}.txt" for kind in ("train", "test") for split in (1, 2, 3))}
)
_LIST_NAME = re.compile(r"(?P<kind>train|test)list(?P<split>[0-9]+)\.txt")
_CLASS_LINE = re.compile(r"(?P<number>[0-9]{1,9})\s+(?P<name>\S.*)")
_LIST_LINE = re.compile(r"(?P<path>\S.*?)(?:\s+(?P<number>[0-9]{1,9}))?")


@dataclass(frozen=True, kw_only=True)
class SplitList:
    """One list of a split: its file, the subset that it is, and its paths in order, as `os` would give them."""

    file: Path
    subset: str
    paths: tuple[str, ...]


def scan(root: Path, annotations: Sequence[Path] = ()) -> Scan:
    """Read the videos under `root` with the classes and subsets of the annotation files.

    `annotations` are the files themselves or folders that hold them; without any, they are looked for in `root`, in
    its folder ucfTrainTestlist, and in a folder of that name beside `root`.
    Raises UsageError for what `find_videos` and `match` refuse, where classInd.txt is lacking, for a line that is
    malformed or contradicts another (naming file and line), and where the disk has nothing that the lists name.
    """
    found = find_videos(root, expected=OFFICIAL_FILES)
    class_file, list_files = _annotation_files(root, annotations)
    labels = read_classes(class_file)
    lists = [read_list(file, labels) for file in list_files]
    listed = tuple(dict.fromkeys(path for split in lists for path in split.paths))
    matches, num_by_name = match([video.path for video in found.videos], listed, labels)
    if lists and not matches:
        raise UsageError(
            f"no video under {quote(str(root))} is one that {quote(lists[0].file.name)} names "
            f"(such as {quote(listed[0])}): give the folder that holds the videos of these lists"
        )
    sources = _sources(found, lists, matches, labels)
    notes = [*left_out(found), *_counts(sources, lists, num_by_name), *_doubts(lists)]
    return Scan(
        dataset="ucf101",
        sources=sources,
        classes=tuple(escape_name(name) for name in labels),
        notes=tuple(notes),
    )


def read_classes(file: Path) -> dict[str, int]:
    """classInd.txt -> label of each class, in label order.

    Raises UsageError, naming the line, where it is malformed or its numbers are not 1, 2, ... in some order.
    """
    names: dict[int, str] = {}
    for where, line in _lines(file):
        parts = _CLASS_LINE.fullmatch(line)
        if parts is None or "/" in parts["name"]:
            raise UsageError(f"{where}: expected a number and a class name, got {quote(line)}")
        number, name = int(parts["number"]), parts["name"]
        if number in names:
            raise UsageError(f"{where}: number {number} stands for {quote(names[number])} already: {quote(line)}")
        if name in names.values():
            raise UsageError(f"{where}: the class {quote(name)} has a number already: {quote(line)}")
        names[number] = name
    if not names:
        raise UsageError(f"{quote(str(file))} names no class")
    for expected, number in enumerate(sorted(names), start=1):
        if number != expected:
            raise UsageError(
                f"{quote(str(file))}: class numbers must be 1 to {len(names)} without a gap, but there is no "
                f"{expected} and there is {number}"
            )
    return {names[number]: number - 1 for number in sorted(names)}


def read_list(file: Path, labels: Mapping[str, int]) -> SplitList:
    """Read a trainlistNN.txt, where each path needs its class number, or a testlistNN.txt, where it may have one.

    Raises UsageError, naming the line, where it is malformed or its class is not that of classInd.txt.
    """
    name = _LIST_NAME.fullmatch(file.name)
    assert name is not None, file
    numbered = name["kind"] == "train"
    paths = []
    for where, line in _lines(file):
        parts = _LIST_LINE.fullmatch(line)
        if parts is None or not _is_video_path(parts["path"]) or (numbered and parts["number"] is None):
            syntax = "Class/video.avi and a class number" if numbered else "Class/video.avi"
            raise UsageError(f"{where}: expected {syntax}, got {quote(line)}")
        folder = PurePosixPath(parts["path"]).parent.name
        if folder not in labels:
            raise UsageError(f"{where}: {quote(folder)} is not a class of {CLASS_FILE}: {quote(line)}")
        number = labels[folder] + 1
        if parts["number"] is not None and int(parts["number"]) != number:
            raise UsageError(
                f"{where}: class number {parts['number']} disagrees with {CLASS_FILE}, where {quote(folder)} "
                f"is {number}: {quote(line)}"
            )
        paths.append(str(PurePosixPath(parts["path"])))
    if not paths:
        raise UsageError(f"{quote(str(file))} names no video")
    return SplitList(file=file, subset=name["kind"] + name["split"], paths=tuple(paths))


def _annotation_files(root: Path, given: Sequence[Path]) -> tuple[Path, list[Path]]:
    """classInd.txt and the lists of the splits, by name: those given, or those of the first likely folder."""
    if given:
        files = [file for path in given for file in _annotations_at(path)]
        places = quote_some([str(path) for path in given])
    else:
        beside = Path(os.path.abspath(root)).parent
        folders = [root, root / LIST_FOLDER, beside / LIST_FOLDER]
        files = next((_annotations_in(folder) for folder in folders if os.path.isfile(folder / CLASS_FILE)), [])
        places = quote_some([str(folder) for folder in folders])
    by_name = {file.name: file for file in files}
    for file in files:
        other = by_name[file.name]
        if os.path.realpath(file) != os.path.realpath(other):
            raise UsageError(f"two annotations are called {file.name}: {quote(str(file))} and {quote(str(other))}")
    if CLASS_FILE not in by_name:
        raise UsageError(f"no {CLASS_FILE} at {places}: name it, or the folder that has it, with --annotations")
    class_file = by_name.pop(CLASS_FILE)
    return class_file, [by_name[name] for name in sorted(by_name)]


def _annotations_at(path: Path) -> list[Path]:
    if os.path.isdir(path):
        files = _annotations_in(path)
    elif not os.path.exists(path):
        raise UsageError(f"no such annotation: {quote(str(path))}")
    else:
        files = [path] if _is_annotation(path.name) else []
    if not files:
        raise UsageError(
            f"{quote(str(path))} is no annotation of UCF-101, nor a folder of such: they are called {CLASS_FILE}, "
            "trainlist01.txt, testlist01.txt, ..."
        )
    return files


def _annotations_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if _is_annotation(path.name))
    except OSError as error:
        raise UsageError(f"cannot read {quote(str(folder))}: {error.strerror}") from error


def _is_annotation(name: str) -> bool:
    return name == CLASS_FILE or _LIST_NAME.fullmatch(name) is not None


def _lines(file: Path) -> list[tuple[str, str]]:
    """The lines that are not blank, without surrounding blanks, each after the words that say where it is.

    Line ends may be of any system, and the file may begin with a byte-order mark.
    """
    try:
        text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read {quote(str(file))}: {error.strerror}") from error
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), start=1))
    return [(f"{quote(str(file))}, line {number}", line) for number, line in lines if line]


def _is_video_path(path: str) -> bool:
    """Whether a line's path is a video's in a class folder, under the root."""
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[0] != "/" and ".." not in parts and "\0" not in path and is_video_name(path)


def _sources(
    found: Found, lists: Sequence[SplitList], matches: Mapping[str, str], labels: Mapping[str, int]
) -> tuple[Source, ...]:
    lists_of: dict[str, list[SplitList]] = {}
    for split in lists:
        for path in dict.fromkeys(split.paths):
            lists_of.setdefault(path, []).append(split)
    on_disk: dict[str, VideoFile | None] = {video.path: video for video in found.videos}
    missing = dict.fromkeys(lists_of.keys() - set(matches.values()))
    paths = {escape_name(path): path for path in on_disk | missing}
    names = sorted(paths)
    sources = []
    for name, video_id in zip(names, video_ids(names), strict=True):
        video = on_disk.get(paths[name])
        listed = paths[name] if video is None else matches.get(video.path)
        named_in = [] if listed is None else lists_of[listed]
        folder = PurePosixPath(listed or paths[name]).parent.name
        status, failure, detail = _settled(video, named_in, bool(lists))
        sources.append(
            Source(
                video_id=video_id,
                source=name,
                source_bytes=None if video is None else video.num_bytes,
                label=labels.get(folder, -1),
                class_name=escape_name(folder) if folder in labels else None,
                subsets=tuple(split.subset for split in named_in),
                status=status,
                failure=failure,
                detail=detail,
            )
        )
    return tuple(sources)


def _settled(
    video: VideoFile | None, named_in: Sequence[SplitList], have_lists: bool
) -> tuple[str | None, str | None, str | None]:
    """Status, failure and detail of a source before it is decoded; `video` is None where the disk lacks it."""
    if video is None:
        return "failed", "missing", f"named in {', '.join(split.file.name for split in named_in)}, not on disk"
    if have_lists and not named_in:
        return "excluded", None, "no annotation names it"
    if video.problem is not None:
        return "failed", "unreadable", video.problem
    return None, None, None


def _counts(sources: Sequence[Source], lists: Sequence[SplitList], num_by_name: int) -> list[str]:
    """Sentences about what lists and disk do not have in common."""
    notes = []
    if not lists:
        notes.append("no trainlistNN.txt or testlistNN.txt beside classInd.txt: all videos are taken, without subsets")
    if num_by_name:
        notes.append(f"found {count(num_by_name, 'video')} by file name, not at the path that the lists give")
    for split in lists:
        missing = [
            source.source for source in sources if split.subset in source.subsets and source.failure == "missing"
        ]
        if missing:
            number = len(set(split.paths))
            notes.append(
                f"{split.subset}: {len(missing)} of {count(number, 'video')} not on disk: {quote_some(missing)}"
            )
    excluded = [source.source for source in sources if source.status == "excluded"]
    if excluded:
        notes.append(f"excluded {count(len(excluded), 'video')} that no list names: {quote_some(excluded)}")
    unlabelled = [source.source for source in sources if source.label < 0 and source.status != "excluded"]
    if unlabelled:
        notes.append(
            f"no label for {count(len(unlabelled), 'video')} whose folder is not a class of {CLASS_FILE}: "
            f"{quote_some(unlabelled)}"
        )
    return notes


def _doubts(lists: Sequence[SplitList]) -> list[str]:
    """Sentences about lists that repeat a video, or train on what they test on."""
    notes = []
    paths_of = {split.subset: set(split.paths) for split in lists}
    for split in lists:
        num_repeats = len(split.paths) - len(paths_of[split.subset])
        if num_repeats:
            notes.append(f"{split.subset}: {count(num_repeats, 'line')} repeating a video that an earlier line names")
        test = split.subset.replace("train", "test")
        both = sorted(paths_of[split.subset] & paths_of.get(test, set())) if test != split.subset else []
        if both:
            notes.append(f"{count(len(both), 'video')} in both {split.subset} and {test}: {quote_some(both)}")
    return notes
