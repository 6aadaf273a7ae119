"""What a run does with each source: decode it, store its frames again as they are, or leave them where they are.

A new dataset decodes every source. A run over a finished dataset (`--retry`, `--update`) leaves what it can; and of a
shard that loses a video, it stores the others again in a new one, so that a shard never holds what no manifest names.
What changed and what is damaged is found out by prep.changes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from manifests.atomic import atomic_write
from manifests.records import Source
from manifests.sources import SourceList
from prep.run_folder import Places

Row = Mapping[str, Any]
"""A row of the manifest of the dataset before, by the names of ROW_COLUMNS."""

ROW_COLUMNS = (
    *("video_id", "source", "source_bytes", "source_sha256", "label", "class_name", "subsets"),
    *("status", "failure", "detail", "location"),
)


@dataclass(frozen=True)
class Plan:
    """`sources` are those of the dataset to be. `copied` and `kept` tell, by row there, the row in the dataset before:
    of those that are stored again, and of those that stay where they are. All others are decoded. `places` say where
    frames are stored."""

    sources: SourceList
    copied: Mapping[int, int]
    kept: Mapping[int, int]
    places: Places = field(default_factory=Places)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The rows that the run has to store or to settle, in order: all that are not kept."""
        if not self.kept:
            return tuple(range(len(self.sources.sources)))
        return tuple(row for row in range(len(self.sources.sources)) if row not in self.kept)

    @cached_property
    def work(self) -> SourceList:
        """The sources of `rows`."""
        if not self.kept:
            return self.sources
        sources = tuple(self.sources.sources[row] for row in self.rows)
        return SourceList(
            dataset=self.sources.dataset, root=self.sources.root, classes=self.sources.classes, sources=sources
        )

    def changes(self, before: Sequence[Row], classes: Sequence[str]) -> bool:
        """Whether the dataset will have other rows than `before`, or other classes than these."""
        if tuple(classes) != self.sources.classes:
            return True
        same_place = len(self.sources.sources) == len(before) and dict(self.kept) == {i: i for i in range(len(before))}
        return not same_place or any(
            (source.label, source.class_name, list(source.subsets)) != (row["label"], row["class_name"], row["subsets"])
            for source, row in zip(self.sources.sources, before, strict=True)
        )

    def spans(self) -> Iterator[tuple[bool, list[int]]]:
        """(whether kept, rows) over all rows in order, as many at a time as are of one kind, and no more than bound the
        memory that their frame tables take."""
        for is_kept, rows in groupby(range(len(self.sources.sources)), key=self.kept.__contains__):
            while span := list(islice(rows, _MAX_SPAN)):
                yield is_kept, span


_MAX_SPAN = 512


def plan_new(sources: SourceList) -> Plan:
    """Decode everything."""
    return Plan(sources, copied={}, kept={})


def plan_again(sources: SourceList, before: Sequence[Row], redo: Set[int], store: str) -> Plan:
    """Go on from the dataset with the rows `before`, but do not use its rows `redo`. A source and a row belong together
    by the path of the source."""
    row_of = {row["source"]: index for index, row in enumerate(before)}
    copied: dict[int, int] = {}
    kept: dict[int, int] = {}
    for index, source in enumerate(sources.sources):
        old = row_of.get(source.source)
        if old is None or not _still_stands(source, before[old]) or (old in redo and source.status is None):
            continue
        rows = kept if _may_stay(source, before[old], store) else copied
        rows[index] = old
    if store == "arrow":
        stay = set(kept.values())
        losing = {row["location"] for index, row in enumerate(before) if row["location"] and index not in stay}
        for index, old in list(kept.items()):
            if before[old]["location"] in losing:
                copied[index] = kept.pop(index)
    return Plan(sources, copied, kept)


@dataclass(frozen=True)
class Changes:
    """How many videos of a dataset are new, are gone, and are decoded or stored again."""

    num_new: int
    num_gone: int
    num_decoded_again: int
    num_copied: int

    def sentence(self, out: Path) -> str:
        return (
            f"{out}: {self.num_new:,} new, {self.num_gone:,} gone (their frames are deleted), "
            f"{self.num_decoded_again:,} decoded again, {self.num_copied:,} stored again as they are"
        )


def count_changes(plan: Plan, before: Sequence[Row]) -> Changes:
    was_there = {row["source"] for row in before}
    is_there = {source.source for source in plan.sources.sources}
    num_new = len(is_there - was_there)
    num_again = len(plan.rows) - len(plan.copied) - num_new
    return Changes(num_new, len(was_there - is_there), num_again, len(plan.copied))


def write_plan(path: Path, plan: Plan) -> None:
    """Write all but the sources, and the places that are taken. Raises StoreError."""
    places = plan.places
    table = {
        "copied": list(plan.copied.items()),
        "kept": list(plan.kept.items()),
        "first_shard": places.first_shard,
        "spare": places.spare,
        "only_spare": places.only_spare,
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(table), encoding="ascii")


def read_plan(path: Path, sources: SourceList, taken: frozenset[str]) -> Plan | None:
    """What `write_plan` wrote for the same sources, None where that cannot be read."""
    try:
        table = json.loads(path.read_text(encoding="ascii"))
        places = Places(int(table["first_shard"]), taken, int(table["spare"]), bool(table["only_spare"]))
        return Plan(sources, dict(table["copied"]), dict(table["kept"]), places)
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _still_stands(source: Source, row: Row) -> bool:
    """Whether a row tells what would become of the source: settled by the scan in the same way, or not at all."""
    if source.status is not None:
        return (source.status, source.failure, source.detail) == (row["status"], row["failure"], row["detail"])
    return not _was_settled(row)


def _was_settled(row: Row) -> bool:
    """Whether the scan settled a row, so that nobody looked at the video: it is missing or has the id of another, or no
    annotation names it."""
    return row["failure"] in ("missing", "duplicate_id") or (row["status"] == "excluded" and row["failure"] is None)


def _may_stay(source: Source, row: Row, store: str) -> bool:
    """A shard names its videos and their classes, a frame folder has the name of its video."""
    if row["status"] != "ok":
        return True
    same_id = source.video_id == row["video_id"]
    same_class = (source.label, source.class_name) == (row["label"], row["class_name"])
    return same_id and (same_class or store == "frames")
