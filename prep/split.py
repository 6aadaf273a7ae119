"""Subsets of one's own: `--split 0.8,0.1,0.1 --seed S [--group REGEX]`. Windows of one file stay together.

Which video goes where is a function of the sources, the shares, the seed and the groups; order comes from SHA-256, and
arithmetic is exact, so it is the same on every machine. Each class is divided by the shares as evenly as whole groups
allow:

1. groups, the larger first and those of one size in the order of their hashes, go to the subset that lacks most of
   their class, as long as that lacks the whole group;
2. the others go, of the subsets that lack something of their class, to the one that lacks most of all classes together.

So without groups (or windows) no class of a subset is a whole video away from its share.
"""

import dataclasses
import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from manifests.errors import UsageError
from manifests.records import Source
from manifests.windows import file_of
from manifests.wording import count, quote, quote_some
from prep.datasets import Scan

NAMES = {2: ("train", "val"), 3: ("train", "val", "test")}
"""The subsets that so many shares make."""

_SHARE = re.compile(r"[0-9]*\.?[0-9]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Split:
    """`shares` by subset, which sum to 1. `group` finds, in the path of a source, what tells its group: the first
    group of the pattern if it has any, else all that it matches; None keeps only the windows of a file together."""

    shares: Mapping[str, Fraction]
    seed: int = 0
    group: re.Pattern[str] | None = None


def parse_split(shares: str, seed: int | None, group: str | None) -> Split:
    """The values of --split, --seed and --group. Raises UsageError."""
    texts = [text.strip() for text in shares.split(",")]
    if len(texts) not in NAMES or not all(_SHARE.fullmatch(text) for text in texts):
        raise UsageError(f"--split takes two shares (train, val) or three (train, val, test), not {shares!r}")
    numbers = [Fraction(text) for text in texts]
    if sum(numbers) != 1 or 0 in numbers:
        raise UsageError(f"--split takes shares above 0 that sum to 1, not {shares!r}")
    try:
        pattern = None if group is None else re.compile(group)
    except re.error as error:
        raise UsageError(f"--group takes a regular expression, not {group!r}: {error}") from error
    return Split(shares=dict(zip(NAMES[len(numbers)], numbers, strict=True)), seed=seed or 0, group=pattern)


def split_videos(found: Scan, split: Split) -> Scan:
    """The same scan with the subsets of `split` besides those that the videos have; videos that are settled already
    (missing, excluded, ...) are in none of them.

    Raises UsageError where the set has a subset of such a name, where no path has a group, or where a subset would
    have no video. Videos without a group are each a group of their own; a note tells how many.
    """
    taken = sorted({subset for source in found.sources for subset in source.subsets}.intersection(split.shares))
    if taken:
        raise UsageError(f"--split would make subsets that are there already: {', '.join(taken)}")
    videos = [source for source in found.sources if source.status is None]
    groups, loose = _groups(videos, split)
    subset_of_group = assign(groups, split.shares, split.seed)
    subset_of = {source: subset_of_group[key] for key, members in groups.items() for source, _ in members}
    empty = [subset for subset in split.shares if subset not in subset_of.values()]
    if empty:
        raise UsageError(
            f"--split leaves no video for {' and '.join(empty)}: {count(len(videos), 'video')} in "
            f"{count(len(groups), 'group')} are too few"
        )
    sources = tuple(
        dataclasses.replace(source, subsets=tuple(sorted((*source.subsets, subset_of[source.source]))))
        if source.source in subset_of
        else source
        for source in found.sources
    )
    notes = list(found.notes)
    if loose:
        notes.append(f"--group finds nothing in the path of {count(len(loose), 'video')}: {quote_some(loose)}")
    return dataclasses.replace(found, sources=sources, notes=tuple(notes))


Members = list[tuple[str, int]]
"""Source and label of each video of a group."""


def _groups(videos: Sequence[Source], split: Split) -> tuple[dict[str, Members], list[str]]:
    """The videos by group, and the sources without one."""
    groups: dict[str, Members] = defaultdict(list)
    loose = []
    for video in videos:
        file = file_of(video.source)
        match = None if split.group is None else split.group.search(file)
        found = None if match is None else match[1] if match.re.groups else match[0]
        if split.group is not None and found is None:
            loose.append(video.source)
        # A slash before, which no path begins with, keeps a path from being taken for a group.
        groups[f"/{found}" if found is not None else file].append((video.source, video.label))
    if split.group is not None and len(loose) == len(videos):
        shown = quote(split.group.pattern)
        raise UsageError(f"--group {shown} finds nothing in any path, such as {quote_some([v.source for v in videos])}")
    return dict(groups), loose


def assign(groups: Mapping[str, Members], shares: Mapping[str, Fraction], seed: int) -> dict[str, str]:
    """The subset of each group."""
    scale = math.lcm(*(share.denominator for share in shares.values()))
    parts = {subset: int(share * scale) for subset, share in shares.items()}
    totals = Counter(label for members in groups.values() for _, label in members)
    # What each subset lacks of each class, and of all, times `scale`: whole numbers.
    lacks = {subset: Counter({label: part * n for label, n in totals.items()}) for subset, part in parts.items()}
    lacks_of_all = {subset: part * totals.total() for subset, part in parts.items()}
    sizes = {key: Counter(label for _, label in members) for key, members in groups.items()}
    chosen: dict[str, str] = {}

    def put(key: str, subset: str) -> None:
        chosen[key] = subset
        lacks[subset].subtract({label: number * scale for label, number in sizes[key].items()})
        lacks_of_all[subset] -= sizes[key].total() * scale

    def need(key: str, subset: str) -> int:
        return sum(number * lacks[subset][label] for label, number in sizes[key].items())

    left = []
    for key in sorted(groups, key=lambda key: (-sizes[key].total(), _hash(seed, key))):
        fits = [s for s in parts if all(lacks[s][label] >= number * scale for label, number in sizes[key].items())]
        if fits:
            put(key, max(fits, key=lambda subset: need(key, subset)))
        else:
            left.append(key)
    for key in left:
        lacking = [subset for subset in parts if need(key, subset) > 0]
        put(key, max(lacking or parts, key=lambda subset: lacks_of_all[subset]))
    return chosen


def _hash(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}\n{key}".encode()).digest()
