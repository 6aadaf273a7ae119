"""The annotation files of a dataset: found by name, given by the user, and read as text."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from manifests.errors import UsageError
from manifests.wording import quote
from prep.datasets.walk import require_folder

Wanted = Callable[[Path], bool]
"""Whether a file is an annotation of the dataset, mostly by its name."""


def annotation_files(
    root: Path, given: Sequence[Path], folders: Sequence[str], wanted: Wanted, names: str
) -> list[Path]:
    """The annotations that were `given`, each a file or a folder of such; or those of the first likely folder that has
    any: `root`, or one of the `folders` in it or beside it. Sorted by name.

    Raises UsageError where `root` is no folder, where there are none (`names` says how they are called), where a given
    path is no annotation, and where two different files have one name.
    """
    require_folder(root)
    if given:
        files = [file for path in given for file in _annotations_at(path, wanted, names)]
    else:
        places = likely_places(root, folders)
        files = next((files for place in places if (files := annotations_in(place, wanted))), [])
        if not files:
            shown = ", ".join(quote(str(place)) for place in places)
            raise UsageError(f"no annotations at {shown} ({names}): name them, or their folder, with --annotations")
    by_name = {file.name: file for file in files}
    for file in files:
        other = by_name[file.name]
        if os.path.realpath(file) != os.path.realpath(other):
            raise UsageError(f"two annotations are called {file.name}: {quote(str(file))} and {quote(str(other))}")
    return [by_name[name] for name in sorted(by_name)]


def likely_places(root: Path, folders: Sequence[str]) -> list[Path]:
    """Where annotations usually lie: in `root`, and in `folders` in it and beside it."""
    beside = Path(os.path.abspath(root)).parent
    return [root, *(root / folder for folder in folders), *(beside / folder for folder in folders)]


def annotations_in(folder: Path, wanted: Wanted) -> list[Path]:
    """The annotations right in `folder`; none where it is no folder. Raises UsageError where it cannot be listed."""
    if not os.path.isdir(folder):
        return []
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and wanted(path))
    except OSError as error:
        raise UsageError(f"cannot read {quote(str(folder))}: {error.strerror}") from error


def _annotations_at(path: Path, wanted: Wanted, names: str) -> list[Path]:
    if not os.path.exists(path):
        raise UsageError(f"no such annotation: {quote(str(path))}")
    files = annotations_in(path, wanted) if os.path.isdir(path) else [path] if wanted(path) else []
    if not files:
        raise UsageError(f"{quote(str(path))} is no annotation of this dataset, nor a folder of such ({names})")
    return files


def read_text(file: Path) -> str:
    """The text of a file; bytes that are not UTF-8 become lone surrogates, as os does, and a byte-order mark goes.

    Line ends stay as they are. Raises UsageError.
    """
    try:
        return file.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read {quote(str(file))}: {error.strerror}") from error


def where(file: Path, line: int) -> str:
    """The words before a message about a line (counted from 1)."""
    return f"{quote(str(file))}, line {line}"


def read_lines(file: Path) -> list[tuple[str, str]]:
    """The lines that are not blank, without surrounding blanks, each after the words that say where it is.

    Line ends may be of any system. Raises UsageError.
    """
    text = read_text(file).replace("\r\n", "\n").replace("\r", "\n")
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), start=1))
    return [(where(file, number), line) for number, line in lines if line]


def read_rows(file: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table whose fields may be in double quotes, with the line that each ends on; blank rows are left
    out. Raises UsageError where the quotes are wrong."""
    reader = csv.reader(io.StringIO(read_text(file), newline=""), delimiter=separator, strict=True)
    try:
        for row in reader:
            if any(field.strip() for field in row):
                yield reader.line_num, [field.strip() for field in row]
    except csv.Error as error:
        raise UsageError(f"{where(file, reader.line_num)}: no table: {error}") from error


def read_json(file: Path) -> Any:
    """The content of a JSON file. Raises UsageError."""
    try:
        content = json.loads(read_text(file))
        json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape")
        return content
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{quote(str(file))} is no JSON file: {error}") from error
