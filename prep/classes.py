"""A class order from outside: `--classes FILE`.

brush hair                one name a line, in label order
0 brush hair              or with their numbers (0, 1, ... or 1, 2, ... in any order), as in classInd.txt
["brush hair", ...]       a .json file: the names in label order,
{"brush hair": 0, ...}    or names with their numbers
"""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from manifests.errors import UsageError
from manifests.names import escape_name
from manifests.wording import count, quote, quote_some
from prep.datasets import Scan
from prep.datasets.annotation_files import read_json, read_lines
from prep.datasets.label_text import by_label_key, label_key

_NUMBERED = re.compile(r"(?P<number>[0-9]{1,9})[\s,]+(?P<name>\S.*)")


def read_class_file(file: Path) -> list[str]:
    """The class names in label order, as `escape_name` gives them. Raises UsageError for what is not as above, and for
    a name that is there twice."""
    shown = quote(str(file))
    if file.suffix.lower() == ".json":
        content = read_json(file)
        if isinstance(content, dict):
            names = _by_number([(_number(number), name) for name, number in content.items()])
        else:
            names = content if isinstance(content, list) and all(isinstance(name, str) for name in content) else None
    else:
        lines = [line for _, line in read_lines(file)]
        numbered = [match for line in lines if (match := _NUMBERED.fullmatch(line)) is not None]
        by_number = _by_number([(int(match["number"]), match["name"]) for match in numbered])
        names = by_number if by_number is not None and len(numbered) == len(lines) else lines
    if not names:
        raise UsageError(f"{shown} is no list of classes: give one name a line, or a .json list or object")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UsageError(f"{shown} has a class twice: {quote_some(repeated)}")
    return [escape_name(name.strip().strip('"')) for name in names]


def impose_order(found: Scan, order: Sequence[str], file: Path) -> Scan:
    """The same scan with the labels of another class order; names are compared exactly, else as by `label_key`, and
    stay as they are. Classes that are known by number only take the names of `order`.

    Raises UsageError where `order` does not have just the classes of the set (or, for numbers, too few).
    """
    if found.numbered:
        return _name_numbers(found, order, file)
    by_key = by_label_key(found.classes)
    names = [name if name in found.classes else by_key.get(label_key(name)) for name in order]
    strange = [name for name, known in zip(order, names, strict=True) if known is None]
    absent = [name for name in found.classes if name not in names]
    if strange or absent or len(set(names)) < len(names):
        raise UsageError(
            f"{quote(str(file))} does not have the {count(len(found.classes), 'class', 'classes')} of the set: "
            f"{_difference(strange, absent)}"
        )
    classes = tuple(name for name in names if name is not None)
    return _relabel(found, classes, {name: name for name in classes})


def _name_numbers(found: Scan, order: Sequence[str], file: Path) -> Scan:
    if len(order) < len(found.classes):
        raise UsageError(
            f"{quote(str(file))} has {count(len(order), 'class', 'classes')}, and the lists have the label "
            f"{len(found.classes) - 1}"
        )
    names = dict(zip(found.classes, order, strict=False))
    return dataclasses.replace(_relabel(found, tuple(order), names), numbered=False)


def _relabel(found: Scan, classes: tuple[str, ...], names: dict[str, str]) -> Scan:
    labels = {name: label for label, name in enumerate(classes)}
    sources = tuple(
        source
        if source.class_name is None
        else dataclasses.replace(source, class_name=names[source.class_name], label=labels[names[source.class_name]])
        for source in found.sources
    )
    return dataclasses.replace(found, sources=sources, classes=classes)


def _difference(strange: Sequence[str], absent: Sequence[str]) -> str:
    parts = []
    if absent:
        parts.append(f"it lacks {len(absent)} ({quote_some(absent)})")
    if strange:
        parts.append(f"{len(strange)} of its own are unknown ({quote_some(strange)})")
    return " and ".join(parts) or "two of its names mean one class"


def _number(value: object) -> int:
    """A class number as JSON may have it; -1 for none."""
    return int(str(value)) if re.fullmatch(r"[0-9]{1,9}", str(value)) else -1


def _by_number(pairs: Sequence[tuple[int, str]]) -> list[str] | None:
    """The names in the order of their numbers; None unless those are 0, 1, ... or 1, 2, ..."""
    numbers = sorted(number for number, _ in pairs)
    if not numbers or numbers not in (list(range(len(numbers))), list(range(1, len(numbers) + 1))):
        return None
    return [name for _, name in sorted(pairs)]
