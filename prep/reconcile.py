"""What the annotations and the disk have in common, counted by subset: nothing is left out without a number."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from manifests.records import Source
from manifests.table import table_lines
from manifests.wording import count, quote, quote_some
from prep.datasets import Scan
from prep.datasets.label_text import label_key

NO_SUBSET = "(none)"
"""The row of the videos in no subset."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The videos of one subset. `num_lines` is None where no annotation names videos.

    num_lines = num_repeated + num_videos, num_videos = num_missing + num_on_disk,
    num_on_disk = num_unreadable + num_duplicate + num_excluded + num_to_decode (those that a scan settles, and the
    others). Of the files on disk, `num_near` were found by a rule and not by path or id, `num_empty` have no bytes,
    `num_disagree` have annotations or folders that contradict each other, `num_identical` have a twin, byte for byte.
    `num_classes` counts the classes that have a video to decode.
    """

    num_lines: int | None
    num_repeated: int
    num_videos: int
    num_missing: int
    num_on_disk: int
    num_near: int
    num_empty: int
    num_disagree: int
    num_identical: int
    num_unreadable: int
    num_duplicate: int
    num_excluded: int
    num_to_decode: int
    num_classes: int


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """`counts` by subset, with `all` first and NO_SUBSET last. The lists behind the counts: sources in source order,
    with the reason where there is one; `near` and `suggestions` as in `Scan`. `classes_without_video` names, for each
    subset that has labels, the classes of which there is none to decode."""

    counts: dict[str, Counts]
    missing: tuple[str, ...]
    not_listed: tuple[str, ...]
    empty: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...]
    duplicate_ids: tuple[tuple[str, str], ...]
    disagreements: tuple[tuple[str, str], ...]
    near: tuple[tuple[str, str], ...]
    suggestions: tuple[tuple[str, str], ...]
    identical: tuple[tuple[str, ...], ...]
    classes_without_video: dict[str, tuple[str, ...]]
    num_left_out: dict[str, int]


def reconcile(found: Scan, identical: Sequence[tuple[str, ...]] = ()) -> Reconciliation:
    """Count what a scan found. `identical` are the groups of sources that are byte-identical."""
    sources = found.sources
    conflicts = [(s.source, s.detail or "") for s in sources if s.failure == "duplicate_id" and s.subsets]
    disagreements = tuple(sorted({*found.disagreements, *conflicts}))
    marks = _Marks(
        near=frozenset(source for _, source in found.near),
        disagree=frozenset(source for source, _ in disagreements),
        identical=frozenset(source for group in identical for source in group),
    )
    subsets = sorted({subset for source in sources for subset in source.subsets} | found.num_lines.keys())
    members: dict[str, list[Source]] = {"all": list(sources), **{subset: [] for subset in subsets}}
    for source in sources:
        for subset in source.subsets or (NO_SUBSET,):
            members.setdefault(subset, []).append(source)
    return Reconciliation(
        counts={name: _count(group, _num_lines(found, name), marks) for name, group in members.items()},
        missing=_names(sources, lambda s: s.failure == "missing"),
        not_listed=_names(sources, lambda s: s.status == "excluded" and s.failure is None),
        empty=_names(sources, lambda s: s.source_bytes == 0),
        unreadable=tuple((s.source, s.detail or "") for s in sources if s.failure == "unreadable"),
        duplicate_ids=tuple((s.source, s.detail or "") for s in sources if s.failure == "duplicate_id"),
        disagreements=disagreements,
        near=found.near,
        suggestions=_suggestions(found),
        identical=tuple(identical),
        classes_without_video={
            name: absent
            for name, group in members.items()
            if name != NO_SUBSET and any(s.label >= 0 for s in group) and (absent := _absent(group, found.classes))
        },
        num_left_out=dict(found.num_left_out),
    )


@dataclass(frozen=True)
class _Marks:
    near: frozenset[str]
    disagree: frozenset[str]
    identical: frozenset[str]


def _count(sources: Sequence[Source], num_lines: int | None, marks: _Marks) -> Counts:
    missing = sum(s.failure == "missing" for s in sources)
    duplicate = sum(s.failure == "duplicate_id" for s in sources)
    return Counts(
        num_lines=num_lines,
        num_repeated=max(0, (num_lines or 0) - len(sources)),
        num_videos=len(sources),
        num_missing=missing,
        num_on_disk=len(sources) - missing,
        num_near=sum(s.source in marks.near for s in sources),
        num_empty=sum(s.source_bytes == 0 for s in sources),
        num_disagree=sum(s.source in marks.disagree for s in sources),
        num_identical=sum(s.source in marks.identical for s in sources),
        num_unreadable=sum(s.failure == "unreadable" for s in sources),
        num_duplicate=duplicate,
        num_excluded=sum(s.status == "excluded" for s in sources) - duplicate,
        num_to_decode=sum(s.status is None for s in sources),
        num_classes=len({s.label for s in sources if s.status is None and s.label >= 0}),
    )


def _num_lines(found: Scan, subset: str) -> int | None:
    """The lines of a subset that annotations have; the subsets together have no number, since they overlap."""
    return found.num_lines.get(subset)


def _names(sources: Sequence[Source], chosen: Callable[[Source], bool]) -> tuple[str, ...]:
    return tuple(source.source for source in sources if chosen(source))


def _absent(sources: Sequence[Source], classes: Sequence[str]) -> tuple[str, ...]:
    present = {source.label for source in sources if source.status is None}
    return tuple(name for label, name in enumerate(classes) if label not in present)


def _suggestions(found: Scan) -> tuple[tuple[str, str], ...]:
    """Those of the scan, and files that no annotation names with the name of a missing one but for case, blanks,
    underscores, quotes, brackets and the suffix."""
    others: dict[str, list[str]] = defaultdict(list)
    for source in found.sources:
        if source.status == "excluded" and source.failure is None:
            others[_name_key(source.source)].append(source.source)
    alike = {
        (source.source, other)
        for source in found.sources
        if source.failure == "missing"
        for other in others.get(_name_key(source.source), [])
    }
    return tuple(sorted(alike.union(found.suggestions)))


def _name_key(source: str) -> str:
    name = source.rpartition("/")[2]
    return label_key(name.rpartition(".")[0] or name)


_COLUMNS = {
    "num_lines": "lines",
    "num_repeated": "repeated",
    "num_videos": "videos",
    "num_missing": "missing",
    "num_on_disk": "on disk",
    "num_near": "near",
    "num_empty": "empty",
    "num_disagree": "disagree",
    "num_identical": "identical",
    "num_unreadable": "unreadable",
    "num_duplicate": "duplicate",
    "num_excluded": "excluded",
    "num_to_decode": "to decode",
    "num_classes": "classes",
}
_ALWAYS = ("num_videos", "num_on_disk", "num_to_decode", "num_classes")


def reconciliation_lines(made: Reconciliation) -> list[str]:
    """The table, without columns that are nothing but zeros, and sentences about what is in it."""
    shown = [
        field.name
        for field in fields(Counts)
        if field.name in _ALWAYS or any(getattr(counts, field.name) for counts in made.counts.values())
    ]
    lines = table_lines(
        ["subset", *(_COLUMNS[name] for name in shown)],
        [[name, *(_cell(getattr(counts, field)) for field in shown)] for name, counts in made.counts.items()],
    )
    return [*lines, *_sentences(made)]


def _cell(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _sentences(made: Reconciliation) -> list[str]:
    lines = []
    for names, words in (
        (made.missing, "that annotations name and the disk lacks"),
        (made.not_listed, "that no annotation names"),
        (made.empty, "without a byte"),
    ):
        if names:
            lines.append(f"{count(len(names), 'video')} {words}: {quote_some(names)}")
    for pairs, words in (
        (made.duplicate_ids, "left out as duplicate_id"),
        (made.disagreements, "with labels or subsets that disagree"),
    ):
        if pairs:
            source, detail = pairs[0]
            lines.append(f"{count(len(pairs), 'video')} {words}, such as {quote(source)}: {detail}")
    if made.near:
        name, source = made.near[0]
        lines.append(
            f"{count(len(made.near), 'video')} found by a rule, not simply by path or id, such as {quote(source)} for "
            f"{quote(name)}"
        )
    for name, source in made.suggestions[:3]:
        lines.append(f"is {quote(source)}, which no annotation names, the missing {quote(name)}? then rename it")
    if len(made.suggestions) > 3:
        lines.append(f"and {len(made.suggestions) - 3:,} more suggestions of that kind; --json has all")
    if made.identical:
        number = count(len(made.identical), "set")
        lines.append(f"{number} of files that are the same byte for byte, such as {quote_some(made.identical[0])}")
    for subset, names in made.classes_without_video.items():
        lines.append(f"{subset}: no video to decode of {count(len(names), 'class', 'classes')}: {quote_some(names)}")
    return lines


def num_settled(sources: Sequence[Source]) -> dict[str, int]:
    """How many videos the scan settled, by failure or status."""
    return dict(sorted(Counter(s.failure or s.status for s in sources if s.status is not None).items()))
