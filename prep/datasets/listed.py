"""What annotations say: a line about a video in a subset, and all lines about one video together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from manifests.windows import Window


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line (or row, or entry) of an annotation file.

    `name` is what the annotations call the video: a path relative to the root, or an id. `class_name` is None where
    the line has no label, `subset` where it puts the video into none. `file` is the name of the annotation file. With a
    `window` it is a part of what has the name.
    """

    name: str
    class_name: str | None
    subset: str | None
    file: str
    window: Window | None = None


@dataclass(frozen=True, kw_only=True)
class Item:
    """One video that annotations name: the distinct class names and subsets of its lines, and where they stand."""

    name: str
    class_names: tuple[str, ...]
    subsets: tuple[str, ...]
    files: tuple[str, ...]
    window: Window | None = None

    @property
    def class_name(self) -> str | None:
        """The class, if the annotations agree on one."""
        return self.class_names[0] if len(self.class_names) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Listed:
    """All videos that the annotations name: whole ones by name, and by name all windows of it; and the number of lines
    that put a video into each subset."""

    items: dict[str, Item]
    windows: dict[str, list[Item]]
    num_lines: dict[str, int]


def gather(lines: Iterable[Line]) -> Listed:
    """One item for each name and window, in the order of the first line that has it; what an item lists is sorted."""
    groups: dict[str | tuple[str, Window], list[Line]] = {}
    for line in lines:
        groups.setdefault(line.name if line.window is None else (line.name, line.window), []).append(line)
    listed = Listed(items={}, windows={}, num_lines={})
    for group in groups.values():
        name, window = group[0].name, group[0].window
        item = Item(
            name=name,
            class_names=_distinct(line.class_name for line in group),
            subsets=_distinct(line.subset for line in group),
            files=_distinct(line.file for line in group),
            window=window,
        )
        if window is None:
            listed.items[name] = item
        else:
            listed.windows.setdefault(name, []).append(item)
    num_lines = Counter(line.subset for group in groups.values() for line in group if line.subset is not None)
    listed.num_lines.update(sorted(num_lines.items()))
    return listed


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value is not None}))
