"""What two subsets of one split have in common and should not: videos, groups of takes, source videos, bytes."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from manifests.wording import count, quote

_UCF_TAKE = re.compile(r"v_(?P<name>.+)_g(?P<group>[0-9]{2})_c[0-9]{2}", re.DOTALL)
_YOUTUBE_CLIP = re.compile(r"(?P<id>[A-Za-z0-9_-]{11})_[0-9]{6}_[0-9]{6}")
_YOUTUBE_ID = re.compile(r"[A-Za-z0-9_-]{11}")
_NUM_EXAMPLES = 3

KINDS = {
    "video": ("video that is in both", "videos that are in both"),
    "group": ("group of takes of one scene (gNN of UCF-101)", "groups of takes of one scene (gNN of UCF-101)"),
    "youtube": ("YouTube video with clips in both", "YouTube videos with clips in both"),
    "bytes": ("set of files that are the same byte for byte", "sets of files that are the same byte for byte"),
}
"""Kinds of leaks, each in words for one and for more."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A video that is used: its source, its subsets, and what tells its bytes (None where that is not known)."""

    source: str
    subsets: tuple[str, ...]
    content: str | None = None


@dataclass(frozen=True, kw_only=True)
class Leak:
    """What the two `subsets` share by `kind`: for each thing shared, the sources that have it, those of the first
    subset before the others."""

    kind: str
    subsets: tuple[str, str]
    shared: tuple[tuple[str, ...], ...]


def find_leaks(dataset: str, members: Iterable[Member]) -> list[Leak]:
    """Compare each pair of subsets of one split, in the order of their names and of KINDS.

    Subsets belong to one split when their names end in the same digits: train01 and test01, or train, val and test. A
    group, a YouTube video and bytes are shared where different videos have them.
    """
    videos = list(members)
    names = sorted({subset for video in videos for subset in video.subsets})
    by_key = _shared_keys(dataset, videos)
    leaks = []
    for first, second in combinations(names, 2):
        if _split_of(first) != _split_of(second):
            continue
        for kind in KINDS:
            shared = [
                (*_in_subset(group, first), *_in_subset(group, second, but_not=first))
                for group in by_key[kind]
                if _is_shared(kind, group, first, second)
            ]
            if shared:
                leaks.append(Leak(kind=kind, subsets=(first, second), shared=tuple(sorted(shared))))
    return leaks


def leak_lines(leaks: Sequence[Leak]) -> list[str]:
    """A line for each leak, with the first things that are shared."""
    lines = []
    for leak in leaks:
        pairs = [dict.fromkeys((sources[0], sources[-1])) for sources in leak.shared[:_NUM_EXAMPLES]]
        shown = [" and ".join(quote(source) for source in pair) for pair in pairs]
        more = "; ..." if len(leak.shared) > _NUM_EXAMPLES else ""
        what = count(len(leak.shared), *KINDS[leak.kind])
        lines.append(f"leak: {leak.subsets[0]} and {leak.subsets[1]} share {what}: {'; '.join(shown)}{more}")
    return lines


def _in_subset(group: Iterable[Member], subset: str, but_not: str = "") -> list[str]:
    return sorted(
        video.source for video in group if subset in video.subsets and (not but_not or but_not not in video.subsets)
    )


def _split_of(subset: str) -> str:
    return subset[len(subset.rstrip("0123456789")) :]


def _shared_keys(dataset: str, videos: Sequence[Member]) -> Mapping[str, list[list[Member]]]:
    """For each kind, the videos that have something in common; for `video`, each that is in several subsets."""
    groups: dict[str, dict[str, list[Member]]] = {kind: defaultdict(list) for kind in KINDS}
    for video in videos:
        stem = video.source.rpartition("/")[2].rpartition(".")[0]
        take = _UCF_TAKE.fullmatch(stem)
        clip = _YOUTUBE_CLIP.fullmatch(stem)
        if len(video.subsets) > 1:
            groups["video"][video.source].append(video)
        if take is not None:
            groups["group"][f"{take['name'].casefold()} {take['group']}"].append(video)
        if clip is not None:
            groups["youtube"][clip["id"]].append(video)
        elif dataset == "kinetics" and _YOUTUBE_ID.fullmatch(stem):
            groups["youtube"][stem].append(video)
        if video.content is not None:
            groups["bytes"][video.content].append(video)
    return {kind: [group for group in groups[kind].values() if kind == "video" or len(group) > 1] for kind in KINDS}


def _is_shared(kind: str, group: Sequence[Member], first: str, second: str) -> bool:
    one, other = set(_in_subset(group, first)), set(_in_subset(group, second))
    if kind == "video":
        return not one.isdisjoint(other)
    return bool(one) and bool(other) and len(one | other) > 1
