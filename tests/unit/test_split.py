"""Splits of one's own: a partition, groups whole, near the wanted shares, the same everywhere."""

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import refusal

from manifests.records import Source
from prep.datasets import Scan
from prep.split import Split, assign, parse_split, split_videos


def videos(paths: Sequence[str], **fields: object) -> Scan:
    """A scan of these paths; the class is the top folder."""
    classes = sorted({path.split("/")[0] for path in paths})
    sources = [
        Source(
            video_id=path, source=path, source_bytes=1, label=classes.index(path.split("/")[0]),
            class_name=path.split("/")[0], **fields,  # type: ignore[arg-type]
        )
        for path in sorted(paths)
    ]  # fmt: skip
    return Scan(dataset="folder", sources=tuple(sources), classes=tuple(classes))


def sizes(found: Scan) -> Counter[str]:
    return Counter(subset for source in found.sources for subset in source.subsets)


def test_shares_of_every_class_and_of_all() -> None:
    """Four videos a class cannot be divided 0.8 to 0.1 to 0.1, but all of them together can."""
    result = split_videos(
        videos([f"c{c:02d}/{n}" for c in range(50) for n in range(4)]), parse_split("0.8,.1,0.1", 1, None)
    )
    assert sizes(result) == {"train": 160, "val": 20, "test": 20}
    per_class = Counter((source.class_name, subset) for source in result.sources for subset in source.subsets)
    assert {per_class[class_name, "train"] for class_name in result.classes} <= {3, 4}


def test_two_shares() -> None:
    result = split_videos(videos([f"a/{n}" for n in range(8)]), parse_split("0.75,0.25", None, None))
    assert sizes(result) == {"train": 6, "val": 2}


def test_the_same_on_every_machine() -> None:
    """A split that was written down; and in processes that hash text differently, for any order of the sources."""
    paths = [f"{c}/v_{c}_g{g:02d}_c{n:02d}.avi" for c in "ab" for g in range(1, 7) for n in range(1, 4)]
    split = parse_split("0.5,0.25,0.25", 3, "v_(.*_g[0-9]+)_")
    result = split_videos(videos(paths), split)
    text = "\n".join(f"{source.source} {source.subsets}" for source in result.sources)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest == "d1a1a2f5c33cefb0e2171360400d0b35bc0289b60c3057f66ee941f81e3d801b"
    program = (
        "import hashlib, sys\n"
        "sys.path[:0] = sys.argv[1:]\n"
        "from test_split import videos, parse_split, split_videos\n"
        f"result = split_videos(videos({paths!r}), parse_split('0.5,0.25,0.25', 3, 'v_(.*_g[0-9]+)_'))\n"
        "text = '\\n'.join(f'{source.source} {source.subsets}' for source in result.sources)\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    for hash_seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program, *sys.path],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == digest


def test_another_seed_is_another_split() -> None:
    found = videos([f"a/{n}" for n in range(40)])
    splits = [split_videos(found, parse_split("0.5,0.5", seed, None)).sources for seed in (0, 1)]
    assert splits[0] != splits[1]


def test_what_is_settled_is_in_no_subset_and_others_are_kept() -> None:
    found = videos(["a/1", "a/2", "a/3", "a/4"], subsets=("mine",))
    gone = Source(video_id="x", source="x", source_bytes=None, status="failed", failure="missing")
    result = split_videos(
        Scan(dataset="folder", classes=("a",), sources=(*found.sources, gone)), parse_split("0.5,0.5", 0, None)
    )
    assert result.sources[-1] == gone
    assert {source.subsets for source in result.sources[:-1]} == {("mine", "train"), ("mine", "val")}


def test_videos_without_a_group_are_alone_and_told_of() -> None:
    found = videos(["a/g1_1", "a/g1_2", "a/other", "a/another"])
    result = split_videos(found, parse_split("0.5,0.5", 0, "g[0-9]"))
    assert result.notes == ("--group finds nothing in the path of 2 videos: 'a/another', 'a/other'",)
    subsets = {source.source: source.subsets for source in result.sources}
    assert subsets["a/g1_1"] == subsets["a/g1_2"]


@pytest.mark.parametrize("group", [None, r"([0-9]+)\.mp4"])
def test_windows_of_one_file_stay_together(group: str | None) -> None:
    found = videos([f"a/{n}.mp4#t={start},{start + 5}" for n in range(20) for start in range(0, 50, 5)])
    result = split_videos(found, parse_split("0.5,0.5", 0, group))
    of_file = {(source.source.partition("#")[0], source.subsets) for source in result.sources}
    assert len(of_file) == 20
    assert sizes(result) == {"train": 100, "val": 100}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("0.8", None, None), "--split takes two shares (train, val) or three (train, val, test), not '0.8'"),
        (("a,b", None, None), "--split takes two shares (train, val) or three (train, val, test), not 'a,b'"),
        (("1,-1,1", None, None), "--split takes two shares (train, val) or three (train, val, test), not '1,-1,1'"),
        (("0.8,0.1", None, None), "--split takes shares above 0 that sum to 1, not '0.8,0.1'"),
        (("1,0", None, None), "--split takes shares above 0 that sum to 1, not '1,0'"),
    ],
)
def test_refused_values(arguments: tuple[str, int | None, str | None], expected: str) -> None:
    assert refusal(lambda: parse_split(*arguments)) == expected


def test_refusals() -> None:
    assert refusal(lambda: parse_split("0.5,0.5", 0, "(")).startswith("--group takes a regular expression, not '(': ")
    found = videos(["a/1", "a/2", "a/3"])
    assert refusal(lambda: split_videos(found, parse_split("0.5,0.5", 0, "g[0-9]"))) == (
        "--group 'g[0-9]' finds nothing in any path, such as 'a/1', 'a/2', 'a/3'"
    )
    assert refusal(lambda: split_videos(found, parse_split("0.8,0.1,0.1", 0, "a"))) == (
        "--split leaves no video for val and test: 3 videos in 1 group are too few"
    )
    taken = videos(["a/1", "a/2"], subsets=("train",))
    assert refusal(lambda: split_videos(taken, parse_split("0.5,0.5", 0, None))) == (
        "--split would make subsets that are there already: train"
    )


_SHARES = st.lists(st.integers(1, 20), min_size=2, max_size=3).map(
    lambda parts: {f"s{i}": Fraction(part, sum(parts)) for i, part in enumerate(parts)}
)


@given(classes=st.lists(st.integers(1, 30), min_size=1, max_size=8), shares=_SHARES, seed=st.integers(0, 5))
def test_without_groups_no_class_is_a_video_off(classes: list[int], shares: dict[str, Fraction], seed: int) -> None:
    groups = {f"{label}/{n}": [(f"{label}/{n}", label)] for label, number in enumerate(classes) for n in range(number)}
    chosen = assign(groups, shares, seed)
    assert chosen.keys() == groups.keys()
    assert set(chosen.values()) <= shares.keys()
    counts = Counter((groups[key][0][1], subset) for key, subset in chosen.items())
    for label, number in enumerate(classes):
        for subset, share in shares.items():
            assert abs(counts[label, subset] - share * number) < 1
    assert assign(dict(reversed(groups.items())), shares, seed) == chosen


@given(
    groups=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=40),
    shares=_SHARES,
    seed=st.integers(0, 5),
)
def test_groups_of_one_class_stay_near_the_shares(
    groups: list[tuple[int, int]], shares: dict[str, Fraction], seed: int
) -> None:
    """No subset has more of a class than its share by a whole group, nor less by more than the others can have more."""
    members = {f"g{i}": [(f"g{i}/{n}", label) for n in range(size)] for i, (label, size) in enumerate(groups)}
    chosen = assign(members, shares, seed)
    assert chosen.keys() == members.keys()
    for label in {label for label, _ in groups}:
        total = sum(size for other, size in groups if other == label)
        largest = max(size for other, size in groups if other == label)
        for subset, share in shares.items():
            number = sum(size for i, (other, size) in enumerate(groups) if other == label and chosen[f"g{i}"] == subset)
            assert -(len(shares) - 1) * largest < number - share * total < largest


@given(
    paths=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 6), st.integers(0, 3)), min_size=12, max_size=40, unique=True
    ),
    seed=st.integers(0, 3),
)
def test_a_split_is_a_partition_that_keeps_groups(paths: list[tuple[str, int, int]], seed: int) -> None:
    """Groups that span classes, too."""
    found = videos([f"{name}/x_g{group}_{n}.avi" for name, group, n in paths])
    split = Split(
        shares={"train": Fraction(1, 2), "val": Fraction(1, 2)},
        seed=seed,
        group=parse_split("0.5,0.5", 0, "_g[0-9]").group,
    )
    if len({group for _, group, _ in paths}) < 2:
        assert refusal(lambda: split_videos(found, split)).startswith("--split leaves no video for ")
        return
    result = split_videos(found, split)
    assert all(len(source.subsets) == 1 for source in result.sources)
    by_group: dict[str, set[str]] = {}
    for source in result.sources:
        by_group.setdefault(source.source.split("_")[1], set()).update(source.subsets)
    assert all(len(subsets) == 1 for subsets in by_group.values())
