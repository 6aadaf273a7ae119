"""The reconciliation table: every row and column of UCF-101 with every quirk, its text, and its sums for any tree."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import make_files, summary, write_texts

from manifests.sources import read_sources, write_sources
from prep.content import identical_files
from prep.datasets import scan, source_list
from prep.reconcile import NO_SUBSET, Counts, reconcile, reconciliation_lines

_CLASSES = "1 ApplyEyeMakeup\r\n2 HandstandPushups\r\n3 YoYo\r\n"
_EYE = "ApplyEyeMakeup/v_ApplyEyeMakeup_g{:02d}_c01.avi"
_HAND = "HandstandPushups/v_HandStandPushups_g{:02d}_c01.avi"
_YOYO = "YoYo/v_YoYo_g{:02d}_c01.avi"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_files(
        tmp_path,
        {
            _EYE.format(1): b"one",
            _EYE.format(2): b"one",  # the same bytes
            "HandStandPushups/v_HandStandPushups_g01_c01.avi": b"found by name",
            _HAND.format(2): b"",
            "YoYo/v_YoYo_g02_c01.mp4": b"another suffix",
            "YoYo/unlisted.avi": b"unlisted",
            "YoYo/._v_YoYo_g01_c01.avi": b"AppleDouble",
            "notes.doc": b"",
        },
    )
    (tmp_path / "YoYo" / "v_YoYo_g03_c01.avi").symlink_to("nowhere")
    train = [f"{_EYE.format(1)} 1", f"{_HAND.format(1)} 2", f"{_YOYO.format(2)} 3", f"{_EYE.format(1)} 1"]
    test = [_EYE.format(2), _HAND.format(2), _YOYO.format(1), _YOYO.format(3)]
    write_texts(
        tmp_path,
        {
            "classInd.txt": _CLASSES,
            "trainlist01.txt": "\r\n".join(train) + "\r\n",
            "testlist01.txt": "\r\n".join(test) + "\r\n",
        },
    )
    return tmp_path


def test_every_number(root: Path) -> None:
    found = scan("ucf101", root)
    made = reconcile(found, identical_files(root, found.sources))
    none = {"num_lines": None, "num_repeated": 0, "num_near": 0, "num_empty": 0, "num_disagree": 0, "num_duplicate": 0}
    assert made.counts == {
        "all": Counts(**{**none, "num_near": 1, "num_empty": 1}, num_videos=9, num_missing=2, num_on_disk=7,
                      num_identical=2, num_unreadable=1, num_excluded=2, num_to_decode=4, num_classes=2),
        "test01": Counts(**{**none, "num_lines": 4, "num_empty": 1}, num_videos=4, num_missing=1, num_on_disk=3,
                         num_identical=1, num_unreadable=1, num_excluded=0, num_to_decode=2, num_classes=2),
        "train01": Counts(**{**none, "num_lines": 4, "num_repeated": 1, "num_near": 1}, num_videos=3, num_missing=1,
                          num_on_disk=2, num_identical=1, num_unreadable=0, num_excluded=0, num_to_decode=2,
                          num_classes=2),
        NO_SUBSET: Counts(**none, num_videos=2, num_missing=0, num_on_disk=2, num_identical=0, num_unreadable=0,
                          num_excluded=2, num_to_decode=0, num_classes=0),
    }  # fmt: skip
    assert made.missing == (_YOYO.format(1), _YOYO.format(2))
    assert made.not_listed == ("YoYo/unlisted.avi", "YoYo/v_YoYo_g02_c01.mp4")
    assert made.empty == (_HAND.format(2),)
    assert made.unreadable == ((_YOYO.format(3), "a symbolic link to a file that does not exist"),)
    assert made.near == ((_HAND.format(1), "HandStandPushups/v_HandStandPushups_g01_c01.avi"),)
    assert made.suggestions == ((_YOYO.format(2), "YoYo/v_YoYo_g02_c01.mp4"),)
    assert made.identical == ((_EYE.format(1), _EYE.format(2)),)
    assert made.classes_without_video == {"all": ("YoYo",), "test01": ("YoYo",), "train01": ("YoYo",)}
    assert made.num_left_out == {"apple_double": 1, "other_files": 1}


def test_text(root: Path) -> None:
    found = scan("ucf101", root)
    assert reconciliation_lines(reconcile(found, identical_files(root, found.sources))) == [
        "subset   lines  repeated  videos  missing  on disk  near  empty  identical  unreadable  excluded  to decode"
        "  classes",
        "all          -         0       9        2        7     1      1          2           1         2          4"
        "        2",
        "test01       4         0       4        1        3     0      1          1           1         0          2"
        "        2",
        "train01      4         1       3        1        2     1      0          1           0         0          2"
        "        2",
        "(none)       -         0       2        0        2     0      0          0           0         2          0"
        "        0",
        f"2 videos that annotations name and the disk lacks: '{_YOYO.format(1)}', '{_YOYO.format(2)}'",
        "2 videos that no annotation names: 'YoYo/unlisted.avi', 'YoYo/v_YoYo_g02_c01.mp4'",
        f"1 video without a byte: '{_HAND.format(2)}'",
        "1 video found by a rule, not simply by path or id, such as 'HandStandPushups/v_HandStandPushups_g01_c01.avi' "
        f"for '{_HAND.format(1)}'",
        f"is 'YoYo/v_YoYo_g02_c01.mp4', which no annotation names, the missing '{_YOYO.format(2)}'? then rename it",
        f"1 set of files that are the same byte for byte, such as '{_EYE.format(1)}', '{_EYE.format(2)}'",
        "all: no video to decode of 1 class: 'YoYo'",
        "test01: no video to decode of 1 class: 'YoYo'",
        "train01: no video to decode of 1 class: 'YoYo'",
    ]


def test_plain_folders_have_a_short_table(tmp_path: Path) -> None:
    make_files(tmp_path, ["train/a/1.avi", "train/b/2.avi", "test/a/3.avi"])
    assert reconciliation_lines(reconcile(scan("folder", tmp_path))) == [
        "subset  videos  on disk  to decode  classes",
        "all          3        3          3        2",
        "test         1        1          1        1",
        "train        2        2          2        2",
        "test: no video to decode of 1 class: 'b'",
    ]


_NAME = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0") | st.sampled_from([chr(c) for c in range(0xDC80, 0xDD00)]),
    min_size=1,
    max_size=12,
).filter(lambda name: not name.startswith(".") and len(name.encode("utf-8", "surrogateescape")) < 200)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_NAME, _NAME, st.booleans()), min_size=1, max_size=6, unique_by=lambda entry: entry[:2]))
def test_any_file_name_is_counted_once_and_survives(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, str, bool]]
) -> None:
    """Whatever a file is called, it is a row that comes back from sources.parquet, with and without a list of files."""
    root = tmp_path_factory.mktemp("names")
    files = {f"{folder}.d/{name}.avi": b"x" for folder, name, _ in entries}
    make_files(root, files)
    found = scan("folder", root)
    written = source_list(found, root)
    write_sources(root / "sources.parquet", written)
    assert read_sources(root / "sources.parquet") == written
    assert len(found.sources) == len(files)
    made = reconcile(found, identical_files(root, found.sources))
    assert made.counts["all"].num_to_decode == len(files)
    assert made.counts["all"].num_identical == (len(files) if len(files) > 1 else 0)
    # A list can carry all but line ends, blanks at an end, and backslashes, which are another system's slashes.
    named = [path for path in files if not set(path).intersection("\r\n\\") and path == path.strip()]
    if named:
        list_file = root / "train.txt"
        lines = "".join(f'"{path.replace(chr(34), chr(34) * 2)}" 0\n' for path in named)
        list_file.write_bytes(lines.encode("utf-8", "surrogateescape"))
        listed = scan("list", root, [list_file])
        rows = summary(listed)
        assert len(rows) == len(files)
        assert sum(kind == "train" for _, kind in rows.values()) == len(named)
        assert reconcile(listed).counts["all"].num_excluded == len(files) - len(named)


@settings(max_examples=60, deadline=None)
@given(
    on_disk=st.sets(st.sampled_from("abcdef"), min_size=1),
    listed=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["0", "1"])), min_size=1, max_size=12),
)
def test_sums(tmp_path_factory: pytest.TempPathFactory, on_disk: set[str], listed: list[tuple[str, str]]) -> None:
    """Lines, files and rows add up whatever the list repeats, contradicts, or lacks."""
    root = tmp_path_factory.mktemp("sums")
    make_files(root, [f"{name}.avi" for name in on_disk | {"z"}])
    lines = [("z", "0"), *listed]
    write_texts(root, {"train.txt": "".join(f"{name}.avi {label}\n" for name, label in lines)})
    made = reconcile(scan("list", root, [root / "train.txt"]))
    train, everything = made.counts["train"], made.counts["all"]
    named = {name for name, _ in lines}
    assert train.num_lines == len(lines) == train.num_repeated + train.num_videos
    assert train.num_videos == len(named)
    assert train.num_missing == len(named - on_disk - {"z"})
    contradicted = {name for name in named if len({label for other, label in lines if other == name}) > 1}
    assert train.num_duplicate == len(contradicted & (on_disk | {"z"}))
    assert everything.num_excluded == len(on_disk - named)
    assert everything.num_on_disk == len(on_disk | {"z"})
    for c in made.counts.values():
        assert c.num_videos == c.num_missing + c.num_on_disk
        assert c.num_on_disk == c.num_unreadable + c.num_duplicate + c.num_excluded + c.num_to_decode
