"""HMDB-51 in miniature: 3 files a class, blanks at line ends, values 0, 1, 2, names full of shell characters."""

import os
from pathlib import Path

import pytest
from layouts import by_source, make_files, refusal, summary, write_texts

from prep.datasets import Scan, scan
from prep.reconcile import Counts, reconcile

# The characters of real names: ( ) ! # & + ; @ [ ] ~, and blanks and quotes for good measure.
WAVE = ["#20_Rhythm_wave_u_cm_np1_fr_goo_0.avi", "(A)&[B];+@~!_wave_f_nm_np1_fr_bad_1.avi", "it's $(a) `wave` 1 2.avi"]
BRUSH = ["April_09_brush_hair_u_nm_np1_ba_goo_0.avi", "Haarek\u00e4mmen_brush_hair_h_cm_np1_fr_goo_0.avi", "-rf.avi"]
FILES = [*(f"wave/{name}" for name in WAVE), *(f"brush_hair/{name}" for name in BRUSH)]


def lists(values: dict[int, tuple[int, int, int]], end: str = " \n") -> dict[str, str]:
    """The lists of both classes by split; officially each line ends in a blank."""
    return {
        f"{name}_test_split{split}.txt": "".join(
            f"{video} {value}{end}" for video, value in zip(videos, row, strict=True)
        )
        for split, row in values.items()
        for name, videos in (("wave", WAVE), ("brush_hair", BRUSH))
    }


OFFICIAL = lists({1: (1, 2, 0), 2: (2, 1, 0), 3: (1, 1, 0)})
SUBSETS = ["test02 train01 train03", "test01 train02 train03", "-"]


def expected() -> dict[str, tuple[str | None, str]]:
    rows = [(f"wave/{name}", "wave", subsets) for name, subsets in zip(WAVE, SUBSETS, strict=True)]
    rows += [(f"brush_hair/{name}", "brush_hair", subsets) for name, subsets in zip(BRUSH, SUBSETS, strict=True)]
    return {path: (class_name, subsets) for path, class_name, subsets in sorted(rows)}


@pytest.mark.parametrize("place", [".", "testTrainMulti_7030_splits", "../testTrainMulti_7030_splits", "../splits"])
@pytest.mark.parametrize("end", [" \n", "\r\n", " \r\n", "\n"])
def test_splits(place: str, end: str, tmp_path: Path) -> None:
    root = tmp_path / "videos"
    make_files(root, FILES)
    write_texts(root / place, lists({1: (1, 2, 0), 2: (2, 1, 0), 3: (1, 1, 0)}, end))
    result = scan("hmdb51", root)
    assert result.classes == ("brush_hair", "wave")
    assert summary(result) == expected()
    assert result.notes == tuple(
        f"split {split} uses 2 listed videos neither for training nor for testing (0)" for split in (1, 2, 3)
    )
    assert result.num_lines == {"test01": 2, "test02": 2, "train01": 2, "train02": 2, "train03": 4}
    assert result.num_left_out == {}
    assert all(source.label == result.classes.index(source.class_name or "") for source in result.sources)


def test_flat_and_under_another_folder(tmp_path: Path) -> None:
    make_files(tmp_path / "flat", WAVE + BRUSH)
    make_files(tmp_path / "deep", [f"hmdb51_org/{name}" for name in FILES])
    for layout in ("flat", "deep"):
        write_texts(tmp_path / "lists", OFFICIAL)
        result = scan("hmdb51", tmp_path / layout, [tmp_path / "lists"])
        assert sorted((s.class_name, s.subsets) for s in result.sources) == sorted(
            (class_name, () if subsets == "-" else tuple(subsets.split()))
            for class_name, subsets in expected().values()
        )
        assert len(result.near) == (6 if layout == "flat" else 0)


def test_the_whole_table(tmp_path: Path) -> None:
    make_files(tmp_path, FILES)
    write_texts(tmp_path, OFFICIAL)
    gone, empty, extra = FILES[0], FILES[3], "wave/extra.avi"
    (tmp_path / gone).unlink()
    (tmp_path / empty).write_bytes(b"")
    make_files(tmp_path, [extra, "swim/other.avi", "wave/._x.avi"])
    result = scan("hmdb51", tmp_path)
    assert by_source(result)[gone].detail == (
        "named in wave_test_split1.txt, wave_test_split2.txt, wave_test_split3.txt, not on disk"
    )
    made = reconcile(result)
    assert {name: (c.num_lines, c.num_videos, c.num_missing, c.num_on_disk, c.num_empty, c.num_excluded,
                   c.num_to_decode, c.num_classes) for name, c in made.counts.items()} == {
        "all": (None, 8, 1, 7, 1, 2, 5, 2),
        "test01": (2, 2, 0, 2, 0, 0, 2, 2),
        "test02": (2, 2, 1, 1, 1, 0, 1, 1),
        "train01": (2, 2, 1, 1, 1, 0, 1, 1),
        "train02": (2, 2, 0, 2, 0, 0, 2, 2),
        "train03": (4, 4, 1, 3, 1, 0, 3, 2),
        "(none)": (None, 4, 0, 4, 0, 2, 2, 2),
    }  # fmt: skip
    assert made.missing == (gone,)
    assert made.not_listed == ("swim/other.avi", extra)
    assert made.empty == (empty,)
    assert made.num_left_out == {"apple_double": 1}
    assert made.classes_without_video == {"test02": ("wave",), "train01": ("wave",)}
    assert by_source(result)[extra].class_name == "wave"
    assert by_source(result)["swim/other.avi"].class_name is None
    _require_sums(made.counts)


def _require_sums(counts: dict[str, Counts]) -> None:
    for c in counts.values():
        assert c.num_videos == c.num_missing + c.num_on_disk
        assert c.num_on_disk == c.num_unreadable + c.num_duplicate + c.num_excluded + c.num_to_decode


def test_lists_that_lack_a_class(tmp_path: Path) -> None:
    make_files(tmp_path, FILES)
    write_texts(tmp_path, {name: text for name, text in OFFICIAL.items() if name != "wave_test_split2.txt"})
    assert "split 2 has no list for 1 class: 'wave'" in scan("hmdb51", tmp_path).notes


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 #1.avi")
    make_files(tmp_path, [f"wave/{name}"])
    write_texts(tmp_path, {"wave_test_split1.txt": f"{name} 1 \n"})
    (source,) = scan("hmdb51", tmp_path).sources
    assert (source.source, source.subsets) == ("wave/caf%E9 #1.avi", ("train01",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.avi 3", "{file}, line 1: expected a file name and 0, 1 or 2, got 'x.avi 3'"),
        ("x.avi", "{file}, line 1: expected a file name and 0, 1 or 2, got 'x.avi'"),
        ("wave/x.avi 1", "{file}, line 1: expected a file name and 0, 1 or 2, got 'wave/x.avi 1'"),
        ("\nx.avi 1\nx.avi 2", "{file}, line 3: 'x.avi' has 1 on an earlier line: 'x.avi 2'"),
        ("\n \n", "{file} names no video"),
    ],
)
def test_refused_lists(text: str, expected: str, tmp_path: Path) -> None:
    make_files(tmp_path, ["wave/x.avi"])
    write_texts(tmp_path, {"wave_test_split1.txt": text})
    file = f"'{tmp_path}/wave_test_split1.txt'"
    assert refusal(lambda: scan("hmdb51", tmp_path)) == expected.format(file=file)


def test_a_root_without_what_the_lists_name(tmp_path: Path) -> None:
    make_files(tmp_path, ["wave/y.avi"])
    write_texts(tmp_path, {"wave_test_split1.txt": "x.avi 1"})
    assert refusal(lambda: scan("hmdb51", tmp_path)) == (
        f"no video under '{tmp_path}' is one that 'wave_test_split1.txt' names (such as 'wave/x.avi'): give the "
        "folder that holds the videos of these lists"
    )


def test_an_empty_scan_has_no_fields_of_another(tmp_path: Path) -> None:
    make_files(tmp_path, ["wave/x.avi"])
    write_texts(tmp_path, {"wave_test_split1.txt": "x.avi 1 \n"})
    result = scan("hmdb51", tmp_path)
    assert result == Scan(dataset="hmdb51", sources=result.sources, classes=("wave",), num_lines={"train01": 1})
