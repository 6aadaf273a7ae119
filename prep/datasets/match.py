"""Which file on disk a line of a list means, when the tree is not quite the one that the list was made for."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.wording import quote, quote_some
from prep.datasets.listed import Line


def match(files: Iterable[str], listed: Iterable[str], labels: Mapping[str, int]) -> tuple[dict[str, str], set[str]]:
    """Find the file that each listed path means. All paths are relative to the root, and distinct.

    The first of these rules that finds a file for a listed path settles it:
    1. the file has just that path;
    2. the listed path ends in the whole path of the file, folders included (a list of the same tree elsewhere), and of
       no longer one;
    3. its path ends in the folder and file name of the listed one (a tree under another folder, such as UCF-101/);
    4. it has that file name (a tree without class folders);
    5. it has that file name, upper and lower case aside.
    By rules 4 and 5 no file is taken that lies in the folder of another class; `labels` has the classes.

    Returns the files found with the listed path of each, and which of them rules 4 and 5 found. Raises UsageError
    where a rule finds several files for a listed path, or several listed paths for a file: nothing is guessed.
    """

    def another_class(file: str, path: str) -> bool:
        folder = PurePosixPath(file).parent.name
        listed_folder = PurePosixPath(path).parent.name
        if listed_folder not in labels and listed_folder.casefold() == folder.casefold():
            return False  # the class in other case: HandStandPushups, HandstandPushups
        return folder in labels and folder != listed_folder

    files_left, listed_left = list(files), list(listed)
    matches: dict[str, str] = {}
    by_path: set[str] = set()
    for number, rule in enumerate(_rules(files_left), start=1):
        files_of = _group((rule(file), file) for file in files_left)
        listed_of = _group((rule(path), path) for path in listed_left)
        for key in sorted(listed_of.keys() & files_of.keys()):
            pairs = [
                (file, path)
                for path in listed_of[key]
                for file in files_of[key]
                if number < 4 or not another_class(file, path)
            ]
            _refuse_several(pairs)
            matches.update(pairs)
        if number == 3:
            by_path = set(matches)
        taken = set(matches.values())
        files_left = [file for file in files_left if file not in matches]
        listed_left = [path for path in listed_left if path not in taken]
    return matches, matches.keys() - by_path


def match_again(matches: Mapping[str, str], listed: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """Find the file that each further listed path means among those that have one in `matches` (as of `match`).

    The same rules hold, and of the path and that of the file, or the other listed one, one has to end in the other,
    upper and lower case aside: beside a line about A/x.avi, x.avi is that file and B/x.avi is another, which the disk
    lacks. A path is left out where a rule finds several files for it.

    Returns the file of each path found, and which of these paths rules 4 and 5 found. Raises UsageError where listed
    paths put one file into different folders.
    """
    left = set(listed)
    found: dict[str, str] = {}
    by_name: set[str] = set()
    for number, rule in enumerate(_rules(matches), start=1):
        if not left:
            break
        files_of = _group((rule(file), file) for file in matches)
        for path in sorted(left):
            files = [
                file
                for file in files_of.get(rule(path), ())
                if any(_ends_in(path, name) or _ends_in(name, path) for name in (file, matches[file]))
            ]
            if len(files) == 1:
                found[path] = files[0]
                by_name.update([path] if number > 3 else [])
            left.difference_update([path] if files else [])
    for file, paths in _group((file, path) for path, file in found.items()).items():
        longer = [path for path in (*paths, matches[file]) if _ends_in(path, file) and not _ends_in(file, path)]
        deepest = max(longer, key=lambda path: path.count("/"), default="")
        if not all(_ends_in(deepest, path) for path in longer):
            raise UsageError(
                f"the file {quote(file)} may be any of the listed videos {quote_some(sorted(longer))}: write its path "
                "in one way"
            )
    return found, by_name


def with_one_name(lines: Iterable[Line], matches: Mapping[str, str], again: Mapping[str, str]) -> list[Line]:
    """The lines; what is a further name of a file (as of `match_again`) is replaced by the name in `matches`."""
    return [replace(line, name=matches[again[line.name]]) if line.name in again else line for line in lines]


def require_matches(root: Path, matches: Mapping[str, str], first: Line) -> None:
    """Raises UsageError where no file is one of the listed videos, of which `first` is one."""
    if not matches:
        raise UsageError(
            f"no video under {quote(str(root))} is one that {quote(first.file)} names "
            f"(such as {quote(first.name)}): give the folder that holds the videos of these lists"
        )


def near_names(matches: Mapping[str, str], by_name: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(listed path, file) of the files found `by_name`, as Scan.near has them."""
    return tuple((escape_name(matches[file]), escape_name(file)) for file in sorted(by_name))


def class_of_folder(path: str, labels: Mapping[str, int]) -> str | None:
    """The class whose name the folder of a file has."""
    folder = PurePosixPath(path).parent.name
    return folder if folder in labels else None


def _rules(files: Collection[str]) -> tuple[Callable[[str], str], ...]:
    """For each rule what a listed path and its file have in common."""
    nested = frozenset(file for file in files if "/" in file)
    return (
        lambda path: path,
        lambda path: _longest_end(path, nested),
        lambda path: "/".join(path.split("/")[-2:]),
        lambda path: path.rpartition("/")[2],
        lambda path: path.rpartition("/")[2].casefold(),
    )


def _ends_in(path: str, end: str) -> bool:
    """Whether the last folders and the file name of a path are those of another, upper and lower case aside."""
    return f"/{path}".casefold().endswith(f"/{end}".casefold())


def _longest_end(path: str, files: frozenset[str]) -> str:
    """The longest of `files` that `path` is, or ends in after a slash; the path itself where there is none."""
    parts = path.split("/")
    ends = ("/".join(parts[start:]) for start in range(len(parts) - 1))
    return next((end for end in ends if end in files), path)


def _group(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _refuse_several(pairs: Sequence[tuple[str, str]]) -> None:
    for path, files in _group((path, file) for file, path in pairs).items():
        if len(files) > 1:
            raise UsageError(
                f"the listed video {quote(path)} may be any of {quote_some(files)} on disk: give the folder that holds "
                "the class folders, or move the copies away"
            )
    for file, paths in _group(pairs).items():
        if len(paths) > 1:
            raise UsageError(
                f"the file {quote(file)} may be any of the listed videos {quote_some(paths)}: put the videos into "
                "their class folders"
            )
