"""UCF-101: class folders, `classInd.txt`, and the lists of the official splits.

    classInd.txt     1 ApplyEyeMakeup                          label = number - 1
    trainlist01.txt  ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1
    testlist01.txt   ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01.avi     (officially without the number)

Every trainlistNN.txt and testlistNN.txt is the subset trainNN or testNN; the number may be left out. A video's class is
the folder that the list puts it in, never its file name: HandstandPushups holds files named v_HandStandPushups_... A
folder in a list that is a class but for upper and lower case is that class. A video that no list names has the class
of its folder on disk, if that is one.

Which file a line means is settled by the rules of `match`. A video that a list names and the disk lacks is a failed
source (`missing`); one that no list names is excluded, unless there are no lists at all.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.records import Source
from manifests.wording import count, quote, quote_some
from prep.datasets import Scan
from prep.datasets.annotation_files import annotation_files, likely_places, read_lines
from prep.datasets.listed import Line, gather
from prep.datasets.match import class_of_folder, match, match_again, near_names, require_matches, with_one_name
from prep.datasets.rows import make_rows
from prep.datasets.walk import find_videos, is_video_name, left_out, num_left_out

CLASS_FILE = "classInd.txt"
LIST_FOLDER = "ucfTrainTestlist"
_LIST_NAME = re.compile(r"(?P<kind>train|test)list(?P<split>[0-9]+)\.txt")
_CLASS_LINE = re.compile(r"(?P<number>[0-9]{1,9})\s+(?P<name>\S.*)")
_LIST_LINE = re.compile(r"(?P<path>\S.*?)(?:\s+(?P<number>[0-9]{1,9}))?")
_NAMES = f"{CLASS_FILE}, trainlist01.txt, testlist01.txt, ..."


def scan(root: Path, annotations: Sequence[Path] = ()) -> Scan:
    """Read the videos under `root` with the classes and subsets of the annotation files.

    `annotations` are the files themselves or folders that hold them; without any, they are looked for in `root`, in
    its folder ucfTrainTestlist, and in a folder of that name beside `root`.
    Raises UsageError for what `find_videos` and `match` refuse, where classInd.txt is lacking, for a line that is
    malformed or contradicts another (naming file and line), and where the disk has nothing that the lists name.
    """
    files = {file.name: file for file in annotation_files(root, annotations, [LIST_FOLDER], _is_annotation, _NAMES)}
    if CLASS_FILE not in files:
        places = annotations or likely_places(root, [LIST_FOLDER])
        shown = ", ".join(quote(str(place)) for place in places)
        raise UsageError(f"no {CLASS_FILE} at {shown}: name it, or the folder that has it, with --annotations")
    labels = read_classes(files[CLASS_FILE])
    lines = [line for name, file in files.items() if name != CLASS_FILE for line in read_list(file, labels)]
    listed = gather(lines)
    found = find_videos(root, expected=frozenset(files))
    matches, by_name = match([video.path for video in found.videos], listed.items, labels)
    if lines:
        require_matches(root, matches, lines[0])
    again, _ = match_again(matches, listed.items.keys() - set(matches.values()))
    listed = gather(with_one_name(lines, matches, again))
    sources = make_rows(
        found.videos, listed.items, matches, labels, folder_class=lambda path: class_of_folder(path, labels)
    )
    return Scan(
        dataset="ucf101",
        sources=sources,
        classes=tuple(escape_name(name) for name in labels),
        notes=(*left_out(found), *_doubts(sources, bool(lines))),
        num_lines=listed.num_lines,
        near=near_names(matches, by_name),
        num_left_out=num_left_out(found),
    )


def read_classes(file: Path) -> dict[str, int]:
    """classInd.txt -> label of each class, in label order.

    Raises UsageError, naming the line, where it is malformed or its numbers are not 1, 2, ... in some order.
    """
    names: dict[int, str] = {}
    for where, line in read_lines(file):
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


def read_list(file: Path, labels: Mapping[str, int]) -> list[Line]:
    """Read a trainlistNN.txt or testlistNN.txt; its lines may end in the class number.

    Raises UsageError, naming the line, where it is malformed or its class is not that of classInd.txt.
    """
    name = _LIST_NAME.fullmatch(file.name)
    assert name is not None, file
    class_of = {label_name.casefold(): label_name for label_name in labels}
    lines = []
    for where, line in read_lines(file):
        parts = _LIST_LINE.fullmatch(line)
        if parts is None or not _is_video_path(parts["path"]):
            raise UsageError(f"{where}: expected Class/video.avi, with or without a number, got {quote(line)}")
        folder = PurePosixPath(parts["path"]).parent.name
        class_name = folder if folder in labels else class_of.get(folder.casefold())
        if class_name is None:
            raise UsageError(f"{where}: {quote(folder)} is not a class of {CLASS_FILE}: {quote(line)}")
        number = labels[class_name] + 1
        if parts["number"] is not None and int(parts["number"]) != number:
            raise UsageError(
                f"{where}: class number {parts['number']} disagrees with {CLASS_FILE}, where {quote(folder)} "
                f"is {number}: {quote(line)}"
            )
        path = str(PurePosixPath(parts["path"]))
        lines.append(Line(name=path, class_name=class_name, subset=name["kind"] + name["split"], file=file.name))
    if not lines:
        raise UsageError(f"{quote(str(file))} names no video")
    return lines


def _is_annotation(path: Path) -> bool:
    return path.name == CLASS_FILE or _LIST_NAME.fullmatch(path.name) is not None


def _is_video_path(path: str) -> bool:
    """Whether a line's path is a video's in a class folder, under the root."""
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[0] != "/" and ".." not in parts and "\0" not in path and is_video_name(path)


def _doubts(sources: Sequence[Source], have_lists: bool) -> list[str]:
    notes = []
    if not have_lists:
        notes.append("no trainlistNN.txt or testlistNN.txt beside classInd.txt: all videos are taken, without subsets")
    unlabelled = [source.source for source in sources if source.label < 0 and source.status != "excluded"]
    if unlabelled:
        notes.append(
            f"no label for {count(len(unlabelled), 'video')} whose folder is not a class of {CLASS_FILE}: "
            f"{quote_some(unlabelled)}"
        )
    return notes
