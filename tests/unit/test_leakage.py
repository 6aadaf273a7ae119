"""What subsets of one split share: videos, UCF-101 groups, YouTube videos, bytes."""

import pytest

from prep.leakage import Leak, Member, find_leaks, leak_lines


def member(source: str, *subsets: str, content: str | None = None) -> Member:
    return Member(source=source, subsets=subsets, content=content)


def test_one_video_in_both_subsets_of_a_split() -> None:
    videos = [member("a.avi", "test01", "train01"), member("b.avi", "test02", "train01"), member("c.avi", "train01")]
    assert find_leaks("ucf101", videos) == [Leak(kind="video", subsets=("test01", "train01"), shared=(("a.avi",),))]


def test_groups_of_ucf101() -> None:
    videos = [
        member("YoYo/v_YoYo_g01_c01.avi", "train01"),
        member("YoYo/v_YoYo_g01_c02.avi", "train01"),
        member("YoYo/v_YoYo_g01_c03.avi", "test01"),
        member("Biking/v_Biking_g01_c01.avi", "test01"),  # g01 of another class is another scene
        member("YoYo/v_YoYo_g02_c01.avi", "test02"),
        member("YoYo/v_YoYo_g02_c02.avi", "train01"),  # of another split
        member("HandstandPushups/v_HandStandPushups_g01_c01.avi", "test01"),
        member("HandstandPushups/v_HandstandPushups_g01_c02.avi", "train01"),  # the same class in other case
    ]
    (leak,) = find_leaks("ucf101", videos)
    assert (leak.kind, leak.subsets) == ("group", ("test01", "train01"))
    assert leak.shared == (
        ("HandstandPushups/v_HandStandPushups_g01_c01.avi", "HandstandPushups/v_HandstandPushups_g01_c02.avi"),
        ("YoYo/v_YoYo_g01_c03.avi", "YoYo/v_YoYo_g01_c01.avi", "YoYo/v_YoYo_g01_c02.avi"),
    )


def test_clips_of_one_youtube_video() -> None:
    videos = [
        member("train/a/-_345678901_000000_000010.mp4", "train"),
        member("val/a/-_345678901_000020_000030.mp4", "val"),
        member("test/-_345678901.mp4", "test"),
        member("train/a/-_345678902_000000_000010.mp4", "train"),
    ]
    leaks = find_leaks("kinetics", videos)
    assert [(leak.kind, leak.subsets, len(leak.shared)) for leak in leaks] == [
        ("youtube", ("test", "train"), 1),
        ("youtube", ("test", "val"), 1),
        ("youtube", ("train", "val"), 1),
    ]
    # Elsewhere a name of eleven characters alone is no YouTube id.
    assert [leak.subsets for leak in find_leaks("folder", videos)] == [("train", "val")]


def test_the_same_bytes() -> None:
    videos = [
        member("a.avi", "train", content="1"),
        member("b.avi", "val", content="1"),
        member("c.avi", "val", content="2"),
        member("d.avi", "val", content="2"),
        member("e.avi", "train"),
        member("f.avi", "val"),
    ]
    assert find_leaks("folder", videos) == [Leak(kind="bytes", subsets=("train", "val"), shared=(("a.avi", "b.avi"),))]


@pytest.mark.parametrize("subsets", [("train01", "test02"), ("train", "test01"), ("train01", "train01")])
def test_subsets_of_different_splits_are_not_compared(subsets: tuple[str, str]) -> None:
    videos = [member(f"v_A_g01_c0{n}.avi", subset, content="same") for n, subset in enumerate(subsets)]
    assert find_leaks("ucf101", [*videos, member("x.avi", *sorted(set(subsets)))]) == []


def test_lines() -> None:
    leaks = [
        Leak(kind="video", subsets=("test", "train"), shared=(("a.avi",),)),
        Leak(
            kind="bytes", subsets=("test", "train"), shared=tuple((f"{n}.avi", "x.avi", f"{n}b.avi") for n in range(4))
        ),
    ]
    assert leak_lines(leaks) == [
        "leak: test and train share 1 video that is in both: 'a.avi'",
        "leak: test and train share 4 sets of files that are the same byte for byte: '0.avi' and '0b.avi'; "
        "'1.avi' and '1b.avi'; '2.avi' and '2b.avi'; ...",
    ]
    assert leak_lines([]) == []


def test_parts_of_one_file() -> None:
    """Not told again as bytes, group or YouTube video; the whole and a part of it are shared too."""
    videos = [
        member("a.mp4#t=0,1", "train", content="1"),
        member("a.mp4#t=1,2", "val", content="1"),
        member("b.mp4", "train", content="2"),
        member("b.mp4#t=5", "val", content="2"),
        member("c.mp4#t=1", "train", content="3"),
        member("c.mp4#t=2", "train", content="3"),
        member("d.mp4#t=2", "val", content="3"),
        member("v_A_g01_c01.avi#t=0,1", "train"),
        member("v_A_g01_c01.avi#t=1,2", "val"),
        member("-_345678901_000000_000300.mp4#t=0,1", "train"),
        member("-_345678901_000000_000300.mp4#t=1,2", "val"),
        member("-_345678902_000000_000300.mp4#t=0,1", "train"),
        member("-_345678902_000300_000400.mp4#t=0,1", "val"),
    ]
    leaks = {leak.kind: leak.shared for leak in find_leaks("list", videos)}
    assert leaks == {
        "file": (
            ("-_345678901_000000_000300.mp4#t=0,1", "-_345678901_000000_000300.mp4#t=1,2"),
            ("a.mp4#t=0,1", "a.mp4#t=1,2"),
            ("b.mp4", "b.mp4#t=5"),
            ("v_A_g01_c01.avi#t=0,1", "v_A_g01_c01.avi#t=1,2"),
        ),
        "youtube": (("-_345678902_000000_000300.mp4#t=0,1", "-_345678902_000300_000400.mp4#t=0,1"),),
        "bytes": (("c.mp4#t=1", "c.mp4#t=2", "d.mp4#t=2"),),
    }
