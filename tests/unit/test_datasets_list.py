"""Lists of other tools: every separator and shape, quotes, blanks in paths, headers, and what is refused."""

import os
from pathlib import Path

import pytest
from layouts import by_source, make_files, refusal, summary, write_texts

from manifests.sources import read_sources, write_sources
from prep.datasets import Scan, scan, source_list
from prep.reconcile import reconcile
from prep.scan import look_into, scan_table

VIDEOS = ["A/x.avi", "A/y 2.avi", "B/z.avi"]


def scan_text(root: Path, text: str, name: str = "train.txt", separator: str | None = None) -> Scan:
    write_texts(root, {name: text})
    return scan("list", root, [root / name], separator=separator)


NUMBERS = {"A/x.avi": ("0", "train"), "A/y 2.avi": ("0", "train"), "B/z.avi": ("1", "train")}


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("A/x.avi 0\nA/y 2.avi 0\nB/z.avi 1\n", "blank-separated path, label"),
        ("A/x.avi  0\r\n\r\n'A/y 2.avi'\t0\r\n\"B/z.avi\" 1", "blank-separated path, label"),
        ("A/x.avi 30 0\nA/y 2.avi 5 0\nB/z.avi 7 1\n", "blank-separated path, num_frames, label"),
        ("A/x.avi,0\n\"A/y 2.avi\",0\nB/z.avi,1\n", "comma-separated path, label"),
        ("A/x.avi, 30, 0\nA/y 2.avi, 5, 0\nB/z.avi, 7, 1\n", "comma-separated path, num_frames, label"),
        ("A/x.avi\t0\nA/y 2.avi\t0\nB/z.avi\t1\n", "tab-separated path, label"),
        ("A/x.avi;0\nA/y 2.avi;0\nB/z.avi;1\n", "semicolon-separated path, label"),
        ("path,label\nA/x.avi,0\nA/y 2.avi,0\nB/z.avi,1\n", "comma-separated path, label"),
        ("\ufeffLabel\tVideo Path\n0\tA/x.avi\n0\tA/y 2.avi\n1\tB/z.avi\n", "tab-separated label, path"),
        ("label,frames,path\n0,3,A/x.avi\n00,4,A/y 2.avi\n1,5,B/z.avi\n", "comma-separated label, num_frames, path"),
        ("A/x 0\nA/y 2 0\nB/z 1\n", "blank-separated path, label"),
        ("A/x 30 0\n\"A/y 2\" 5 0\nB/z 7 1\n", "blank-separated path, num_frames, label"),
        ("/home/else/A/x.avi 0\n/home/else/A/y 2.avi 0\n/home/else/B/z.avi 1\n", "blank-separated path, label"),
        ("./A/x.avi 0\nA//y 2.avi 0\nB/./z.avi 1\n", "blank-separated path, label"),
        ("A\\x.avi 0\nA\\y 2.avi 0\nB\\z.avi 1\n", "blank-separated path, label"),
    ],
)  # fmt: skip
def test_shapes(text: str, shape: str, tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    result = scan_text(tmp_path, text)
    assert summary(result) == NUMBERS
    assert result.classes == ("0", "1")
    assert result.numbered
    assert result.notes == (f"read 'train.txt' as {shape}",)
    assert result.num_lines == {"train": 3}


def test_a_list_called_all_makes_no_subset(tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    result = scan_text(tmp_path, "A/x.avi,0\nB/z.avi,1\n", name="all.csv")
    assert {source.source: (source.label, source.subsets) for source in result.sources if source.status is None} == {
        "A/x.avi": (0, ()),
        "B/z.avi": (1, ()),
    }


def test_absolute_paths_under_the_root(tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    result = scan_text(tmp_path, "".join(f"{tmp_path}/{name},{i // 2}\n" for i, name in enumerate(VIDEOS)))
    assert summary(result) == NUMBERS
    assert result.near == ()


def test_paths_of_another_machine_that_end_in_those_of_files(tmp_path: Path) -> None:
    """Told apart by all of their folders where the last one and the file name are the same."""
    names = ["train/A/1.avi", "val/A/1.avi", "old/val/A/1.avi", "1.avi"]
    make_files(tmp_path, names)
    result = scan_text(tmp_path, "".join(f"/else/frames/{name[:-4]} 9 {i}\n" for i, name in enumerate(names)))
    assert summary(result) == {name: (str(i), "train") for i, name in enumerate(names)}
    assert result.near == (("else/frames/1", "1.avi"),)


def test_names_without_suffix_that_look_as_if_they_had_one(tmp_path: Path) -> None:
    make_files(tmp_path, ["A/x.264.mp4", "A/y.mp4", "A/y.mp4.avi"])
    result = scan_text(tmp_path, "A/x.264 0\nA/y.mp4 1\nA/y.mp4.avi 2\n")
    assert summary(result) == {"A/x.264.mp4": ("0", "train"), "A/y.mp4": ("1", "train"), "A/y.mp4.avi": ("2", "train")}
    assert result.near == ()


def test_the_separator_can_be_given(tmp_path: Path) -> None:
    make_files(tmp_path, ["a,1.avi", "b,2.avi"])
    text = "a,1.avi 0\nb,2.avi 1\n"
    assert summary(scan_text(tmp_path, text)) == {"a,1.avi": ("0", "train"), "b,2.avi": ("1", "train")}
    for separator in ("blank", " "):
        assert len(scan_text(tmp_path, text, separator=separator).classes) == 2
    assert refusal(lambda: scan_text(tmp_path, text, separator="comma")).startswith("no video under")
    assert refusal(lambda: scan_text(tmp_path, text, separator="|")) == (
        "--separator '|' is unknown: choose one of comma, tab, semicolon, blank"
    )


def test_paths_only_and_names_of_classes(tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    unlabelled = scan_text(tmp_path, "A/x.avi\nA/y 2.avi\n", name="test.lst")
    assert summary(unlabelled) == {
        "A/x.avi": (None, "test"),
        "A/y 2.avi": (None, "test"),
        "B/z.avi": (None, "excluded"),
    }
    named = scan_text(tmp_path, "A/x.avi,walk\nA/y 2.avi,\nB/z.avi,brush hair\n", name="val.csv")
    assert named.classes == ("brush hair", "walk")
    assert not named.numbered
    assert summary(named) == {
        "A/x.avi": ("walk", "val"),
        "A/y 2.avi": (None, "val"),
        "B/z.avi": ("brush hair", "val"),
    }


def test_columns_of_a_header(tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    text = (
        "file,split,class_id,class,start,end,license\n"
        "A/x.avi,validation,1,walk,0,,CC\nA/y 2.avi,my part,0,run,,,CC\nB/z.avi,,-1,,0.0,,CC\n"
    )
    result = scan_text(tmp_path, text, name="all.csv")
    assert result.classes == ("run", "walk")
    assert summary(result) == {
        "A/x.avi": ("walk", "val"),
        "A/y 2.avi": ("run", "my part"),
        "B/z.avi": (None, "-"),
    }
    assert result.notes[-1] == "did not use the columns 'license' of 'all.csv'"
    assert not result.numbered


@pytest.mark.parametrize(
    ("name", "subset"),
    [
        ("train.csv", "train"),
        ("validation.txt", "val"),
        ("ucf101_val_split_1_videos.txt", "val01"),
        ("trainlist01.txt", "train01"),
        ("hmdb51_train_split_3_rawframes.txt", "train03"),
        ("kinetics-400_test.csv", "test"),
        ("train_small_videos.list", "train"),
        ("train_and_val.txt", "train_and_val"),
        ("trainees.txt", "trainees"),
        ("mine.txt", "mine"),
    ],
)
def test_subsets_by_the_name_of_the_list(name: str, subset: str, tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    result = scan_text(tmp_path, "A/x.avi 0\n", name=name)
    assert [source.subsets for source in result.sources if source.subsets] == [(subset,)]


def test_the_whole_table(tmp_path: Path) -> None:
    make_files(tmp_path, ["A/x.avi", "b/y.avi", "flat/Z.AVI", "A/alone.avi", "A/my_file.mp4", ".hidden.avi"])
    make_files(tmp_path, {"A/empty.avi": b""})
    write_texts(
        tmp_path,
        {
            "train.txt": "A/x.avi 0\nA/x.avi 0\nA/empty.avi 1\nA/y.avi 3\nb/y.avi 1\n",
            "val.txt": "C/z.avi 1\nA/my file.avi 0\nb/y.avi 2\n",
        },
    )
    result = scan("list", tmp_path, [tmp_path / "train.txt", tmp_path / "val.txt"])
    assert summary(result) == {
        "A/alone.avi": (None, "excluded"),
        "A/empty.avi": ("1", "train"),
        "A/my file.avi": ("0", "val"),
        "A/my_file.mp4": (None, "excluded"),
        "A/x.avi": ("0", "train"),
        "A/y.avi": ("3", "train"),
        "b/y.avi": (None, "train val"),
        "flat/Z.AVI": ("1", "val"),
    }
    made = reconcile(result)
    rows = {
        name: (c.num_lines, c.num_repeated, c.num_videos, c.num_missing, c.num_on_disk, c.num_near, c.num_empty,
               c.num_disagree, c.num_duplicate, c.num_excluded, c.num_to_decode, c.num_classes)
        for name, c in made.counts.items()
    }  # fmt: skip
    assert rows == {
        "all": (None, 0, 8, 2, 6, 1, 1, 1, 1, 2, 3, 2),
        "train": (5, 1, 4, 1, 3, 0, 1, 1, 1, 0, 2, 2),
        "val": (3, 0, 3, 1, 2, 1, 0, 1, 1, 0, 1, 1),
        "(none)": (None, 0, 2, 0, 2, 0, 0, 0, 0, 2, 0, 0),
    }
    assert made.missing == ("A/my file.avi", "A/y.avi")
    assert made.suggestions == (("A/my file.avi", "A/my_file.mp4"),)
    assert made.near == (("C/z.avi", "flat/Z.AVI"),)
    assert made.disagreements == (("b/y.avi", "has different labels in train.txt, val.txt: '1', '2'"),)
    assert made.num_left_out == {"hidden": 1}
    assert made.classes_without_video["all"] == ("2", "3")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9/100%41.avi")
    make_files(tmp_path, [name])
    assert summary(scan_text(tmp_path, f"{name} 0\n")) == {"caf%E9/100%2541.avi": ("0", "train")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A/x.avi,0\nB/z.avi,1,2\n", "{file}, line 2: expected path, label, got 'B/z.avi,1,2'"),
        ("A/x.avi,0\n../z.avi,1\n", "{file}, line 2: '../z.avi' is no path of a file under the root"),
        ("path,label\nA/x.avi,0\nB/z.avi\n", "{file}, line 3: expected path, label, got 'B/z.avi'"),
        ("path,label\n,0\n", "{file}, line 2: expected path, label, got ',0'"),
        ("path,file\na,b\n", "{file}, line 1: two columns for one thing: 'path, file'"),
        ("A/x.avi,0\nB/z.avi,walk\n",
         "{file}, line 2: the label 'walk' is a name, and that of {file}, line 1 a number"),
        ("A/x.avi,0\nB/z.avi,250000\n", "{file}, line 2: the label 250000 is too large to be the number of a class"),
        ("path,label,class\nA/x.avi,0,a\nB/z.avi,0,b\n", "{file}, line 3: label 0 is 'b' here and 'a' before"),
        ("path,label,class\nA/x.avi,0,a\nB/z.avi,1,a\n", "the lists give one class name two numbers: 'a'"),
        ("original_vido_id video_id frame_id path labels\nx 0 0 x/1.jpg \"1\"\n",
         "{file} lists frames, not videos: give a list with one line a video"),
        ("\n", "{file} names no video"),
        ("A 0\nA/x.avi 0\n", "train.txt: 'A' is named as a video, but it is a folder of such"),
    ],
)  # fmt: skip
def test_refused_lists(text: str, expected: str, tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    file = f"'{tmp_path}/train.txt'"
    assert refusal(lambda: scan_text(tmp_path, text)) == expected.format(file=file)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("-1", "2", "the start '-1' is no time from 0 on"),
        ("0", "-2.5", "the end '-2.5' is no time from 0 on"),
        ("nan", "2", "the start 'nan' is no time from 0 on"),
        ("", "inf", "the end 'inf' is no time from 0 on"),
        ("1e400", "", "inf is no time in seconds from the start of a video"),
        ("soon", "", "the start 'soon' is no time from 0 on"),
        ("1_0", "", "the start '1_0' is no time from 0 on"),
        ("\u0661", "", "the start '\u0661' is no time from 0 on"),
        ("00:01:30", "00:02:00", "the start '00:01:30' is no time from 0 on"),
        ("0", "0", "it ends at 0 s, not after its start at 0 s"),
        ("8", "3.50", "it ends at 3.5 s, not after its start at 8 s"),
        ("2", "2.0", "it ends at 2 s, not after its start at 2 s"),
    ],
)
def test_refused_times(start: str, end: str, expected: str, tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    text = f"path,start,end\nA/x.avi,,\nA/x.avi,{start},{end}\n"
    assert refusal(lambda: scan_text(tmp_path, text)) == (
        f"'{tmp_path}/train.txt', line 3: {expected}; times are seconds, such as 12.5, or empty"
    )


def test_windows_of_longer_videos(tmp_path: Path) -> None:
    """Each file and times once, whatever way these are written; the file itself only where it is named."""
    make_files(tmp_path, ["long/m 1.mp4", "long/other.mp4", "flat.mkv", "A/alone.mp4"])
    write_texts(
        tmp_path,
        {
            "train.csv": (
                "clip start,path,clip-end,label\n"
                "10.5,long/m 1.mp4,20,walk\n1.05e+1,long/m 1.mp4,20.0,walk\n,long/m 1.mp4,20,run\n"
                "0,long/m 1.mp4,.5,run\n010.50,long/m 1.mp4,,walk\n,long/other.mp4,,run\n0.0,long/other.mp4,,run\n"
                "3,B/flat.mkv,4,run\n0,B/flat.mkv,,\n5,gone.mp4,6,walk\n5,gone.mp4,7,walk\n"
            ),
            "val.csv": "path,start,end,label\nlong/m 1.mp4,10.5,20,walk\nlong/m 1.mp4,0,20,walk\n",
        },
    )
    result = scan("list", tmp_path, [tmp_path / "train.csv", tmp_path / "val.csv"])
    assert summary(result) == {
        "A/alone.mp4": (None, "excluded"),
        "flat.mkv": (None, "train"),
        "flat.mkv#t=3,4": ("run", "train"),
        "gone.mp4#t=5,6": ("walk", "train"),
        "gone.mp4#t=5,7": ("walk", "train"),
        "long/m 1.mp4#t=0,0.5": ("run", "train"),
        "long/m 1.mp4#t=0,20": (None, "train val"),
        "long/m 1.mp4#t=10.5": ("walk", "train"),
        "long/m 1.mp4#t=10.5,20": ("walk", "train val"),
        "long/other.mp4": ("run", "train"),
    }
    assert [source.source for source in result.sources] == sorted(source.source for source in result.sources)
    rows = by_source(result)
    assert rows["long/m 1.mp4#t=10.5,20"].video_id == "long/m 1_10.5_20"
    assert rows["long/m 1.mp4#t=10.5"].video_id == "long/m 1_10.5_end"
    assert rows["flat.mkv"].video_id == "flat"
    assert {source.source_bytes for source in result.sources if "m 1" in source.source} == {len("long/m 1.mp4")}
    assert (rows["gone.mp4#t=5,6"].status, rows["gone.mp4#t=5,6"].failure) == ("failed", "missing")
    assert rows["long/m 1.mp4#t=0,20"].detail == "has different labels in train.csv, val.csv: 'run', 'walk'"
    assert result.notes[-1] == "7 videos are windows of 3 files"
    made = reconcile(result)
    counts = {
        name: (
            c.num_lines,
            c.num_repeated,
            c.num_videos,
            c.num_missing,
            c.num_on_disk,
            c.num_duplicate,
            c.num_to_decode,
        )
        for name, c in made.counts.items()
    }
    assert counts == {
        "all": (None, 0, 10, 2, 8, 1, 6),
        "train": (11, 2, 9, 2, 7, 1, 6),
        "val": (2, 0, 2, 0, 2, 1, 1),
        "(none)": (None, 0, 1, 0, 1, 0, 0),
    }
    assert made.disagreements == (("long/m 1.mp4#t=0,20", rows["long/m 1.mp4#t=0,20"].detail),)
    listed = source_list(result, tmp_path)
    assert {listed.path_of(source).relative_to(tmp_path).as_posix() for source in result.sources} == {
        "A/alone.mp4", "flat.mkv", "gone.mp4", "long/m 1.mp4", "long/other.mp4",
    }  # fmt: skip
    write_sources(tmp_path / "s.parquet", listed)
    assert read_sources(tmp_path / "s.parquet") == listed


def test_windows_of_a_file_that_is_found_by_its_name(tmp_path: Path) -> None:
    make_files(tmp_path, ["flat/Z.MP4", "my_file.mp4"])
    text = "path,start,end\nC/z.mp4,1,2\nC/z.mp4,,\nC/z.mp4,2,3\nC/my file.mp4,1,2\nC/my file.mp4,2,3\n"
    result = scan_text(tmp_path, text)
    assert result.near == (
        ("C/z.mp4", "flat/Z.MP4"),
        ("C/z.mp4#t=1,2", "flat/Z.MP4#t=1,2"),
        ("C/z.mp4#t=2,3", "flat/Z.MP4#t=2,3"),
    )
    made = reconcile(result)
    assert made.counts["train"].num_near == 3
    assert made.suggestions == (("C/my file.mp4", "my_file.mp4"),)


def test_a_path_that_reads_as_a_window_is_a_path(tmp_path: Path) -> None:
    make_files(tmp_path, ["x.mp4", "a#t=1/x.mp4"])
    result = scan_text(tmp_path, 'path,start,end\nx.mp4,1,2\n"x.mp4#t=1,2",,\n"x.mp4#t=1,2",1,2\na#t=1/x.mp4,,1\n')
    assert summary(result) == {
        "a%23t=1/x.mp4#t=0,1": (None, "train"),
        "x.mp4#t=1,2": (None, "train"),
        "x.mp4%23t=1,2": (None, "train"),
        "x.mp4%23t=1,2#t=1,2": (None, "train"),
    }
    assert [source.failure for source in result.sources] == [None, None, "missing", "missing"]
    assert len({source.video_id for source in result.sources}) == 4


def test_bytes_and_leaks_of_windows(tmp_path: Path) -> None:
    """A file in parts is no copy of itself; what two subsets of a split have of one file is named."""
    make_files(tmp_path, {"a.mp4": b"same", "b.mp4": b"same", "c.mp4": b"else"})
    write_texts(
        tmp_path,
        {
            "train.csv": "path,start,end\na.mp4,0,1\na.mp4,1,2\nc.mp4,0,1\n",
            "val.csv": "path,start,end\na.mp4,5,\nb.mp4,3,4\nc.mp4,0,1\n",
        },
    )
    result = scan("list", tmp_path, [tmp_path / "train.csv", tmp_path / "val.csv"])
    made, leaks = look_into(result, tmp_path)
    assert made.identical == (("a.mp4", "b.mp4"),)
    assert made.counts["all"].num_identical == 4
    assert [(leak.kind, leak.subsets, leak.shared) for leak in leaks] == [
        ("video", ("train", "val"), (("c.mp4#t=0,1",),)),
        ("file", ("train", "val"), (("a.mp4#t=0,1", "a.mp4#t=1,2", "a.mp4#t=5"),)),
        ("bytes", ("train", "val"), (("a.mp4#t=0,1", "a.mp4#t=1,2", "a.mp4#t=5", "b.mp4#t=3,4"),)),
    ]
    assert scan_table(result, made, leaks)["num_bytes"] == 12


def test_a_list_that_can_be_read_in_two_ways(tmp_path: Path) -> None:
    make_files(tmp_path, ["a.avi", "a 3.avi"])
    assert refusal(lambda: scan_text(tmp_path, "a 3 5\n")) == (
        f"'{tmp_path}/train.txt' can be read as blank-separated path, num_frames, label or as blank-separated path, "
        "label, and both name videos on disk: put its paths in double quotes, or give --separator"
    )
    assert summary(scan_text(tmp_path, '"a 3" 5\n'))["a 3.avi"] == ("5", "train")


def test_refused_annotations(tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    assert refusal(lambda: scan("list", tmp_path)) == (
        "--dataset list needs lists: name them with --annotations, once for each file"
    )
    assert refusal(lambda: scan("list", tmp_path, [tmp_path / "A" / "x.avi"])) == (
        f"'{tmp_path}/A/x.avi' is no annotation of this dataset, nor a folder of such (a file that ends in one of "
        ".txt, .csv, .tsv, .list, .lst)"
    )
    assert refusal(lambda: scan_text(tmp_path, "C/no.avi 0\n")) == (
        f"no video under '{tmp_path}' is one that 'train.txt' names (such as 'C/no.avi'): give the folder that its "
        "paths are relative to"
    )
    make_files(tmp_path, ["A/x.mp4"])
    assert refusal(lambda: scan_text(tmp_path, "A/x 0\n")) == (
        "the listed video 'A/x' may be any of 'A/x.avi', 'A/x.mp4' on disk: move the copies away"
    )


def test_quotes_within_names(tmp_path: Path) -> None:
    names = ['it\'s "quoted" & 100%.avi', "'tis.avi", "'a' b.avi", '"c" d.avi']
    make_files(tmp_path, names)
    for quoted in (lambda name: f'"{name}"', lambda name: '"' + name.replace('"', '""') + '"', str):
        rows = summary(scan_text(tmp_path, "".join(f"{quoted(name)} 3\n" for name in names)))
        assert rows == dict.fromkeys(sorted(names), ("3", "train"))


# --- several names of one file ---


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("a.mp4", True),
        ("long/a", False),
        ("a", True),
        ("Long/A.MP4", True),
        ("Long/A", True),
        ("long/a.mp4", False),
        ("/else/where/long/a.mp4", False),
        ("where/long/a", False),
    ],
)
def test_another_name_of_a_file_that_a_list_names_exactly(name: str, near: bool, tmp_path: Path) -> None:
    make_files(tmp_path, ["long/a.mp4", "long/b.mp4"])
    texts = {"train.csv": "long/a.mp4,0\nlong/b.mp4,1\n", "val.csv": f"{name},0\n"}
    write_texts(tmp_path, texts)
    result = scan("list", tmp_path, [tmp_path / file for file in texts])
    assert summary(result) == {"long/a.mp4": ("0", "train val"), "long/b.mp4": ("1", "train")}
    assert result.near == (((name, "long/a.mp4"),) if near else ())
    made, leaks = look_into(result, tmp_path)
    assert [(leak.kind, leak.shared) for leak in leaks] == [("video", (("long/a.mp4",),))]
    assert (made.counts["all"].num_missing, made.counts["val"].num_near) == (0, int(near))


def test_names_of_one_file_in_one_list(tmp_path: Path) -> None:
    make_files(tmp_path, ["long/a.mp4", "long/b.mp4"])
    result = scan_text(tmp_path, "long/a.mp4,0\na.mp4,0\nlong/a,0\nlong/b.mp4,1\nb,0\n")
    assert summary(result) == {"long/a.mp4": ("0", "train"), "long/b.mp4": (None, "train")}
    assert by_source(result)["long/b.mp4"].detail == "has different labels in train.txt: '0', '1'"
    made = reconcile(result)
    assert (made.counts["train"].num_lines, made.counts["train"].num_repeated) == (5, 3)


def test_windows_of_a_file_under_several_names(tmp_path: Path) -> None:
    make_files(tmp_path, ["long/a.mp4"])
    write_texts(
        tmp_path,
        {
            "train.csv": "path,label,start,end\nlong/a.mp4,x,0,1\nlong/a,x,1,2\n",
            "val.csv": "path,label,start,end\na.mp4,y,0,1.0\na.mp4,y,5,\na.mp4,y,,\n",
        },
    )
    result = scan("list", tmp_path, [tmp_path / "train.csv", tmp_path / "val.csv"])
    assert summary(result) == {
        "long/a.mp4": ("y", "val"),
        "long/a.mp4#t=0,1": (None, "train val"),
        "long/a.mp4#t=1,2": ("x", "train"),
        "long/a.mp4#t=5": ("y", "val"),
    }
    assert result.near == (
        ("a.mp4", "long/a.mp4"),
        ("a.mp4#t=0,1", "long/a.mp4#t=0,1"),
        ("a.mp4#t=5", "long/a.mp4#t=5"),
    )
    assert [leak.kind for leak in look_into(result, tmp_path)[1]] == ["file"]


def test_several_names_of_a_file_that_has_none_of_them(tmp_path: Path) -> None:
    make_files(tmp_path, ["flat/a.mp4"])
    result = scan_text(tmp_path, "C/a.mp4 0\nC/a 0\n")
    assert summary(result) == {"flat/a.mp4": ("0", "train")}
    assert result.near == (("C/a", "flat/a.mp4"), ("C/a.mp4", "flat/a.mp4"))


def test_a_name_in_another_folder_is_another_file(tmp_path: Path) -> None:
    make_files(tmp_path, ["A/1.mp4", "B/2.mp4"])
    result = scan_text(tmp_path, "A/1.mp4 0\nB/1.mp4 1\nB/2.mp4 1\n")
    assert summary(result) == {"A/1.mp4": ("0", "train"), "B/1.mp4": ("1", "train"), "B/2.mp4": ("1", "train")}
    assert reconcile(result).missing == ("B/1.mp4",)


def test_a_name_that_several_files_may_have(tmp_path: Path) -> None:
    make_files(tmp_path, ["A/1.mp4", "B/1.mp4", "B/1.avi"])
    listed = "A/1.mp4 0\nB/1.mp4 0\nB/1.avi 0\n"
    assert reconcile(scan_text(tmp_path, f"{listed}1.mp4 0\nB/1 0\n")).missing == ("1.mp4", "B/1")
    make_files(tmp_path, ["x.avi"])
    assert refusal(lambda: scan_text(tmp_path, "x.avi 0\nC/x.avi 0\nD/x.avi 1\n")) == (
        "the file 'x.avi' may be any of the listed videos 'C/x.avi', 'D/x.avi': write its path in one way"
    )


# --- headers ---

HEADED = {"long/a.mp4": ("0", "train"), "long/b 2.mp4": ("1", "train")}


@pytest.mark.parametrize(
    "text",
    [
        "path label\nlong/a.mp4 0\nlong/b 2.mp4 1\n",
        "Video_Path Class-ID\n'long/a.mp4' 0\n\"long/b 2.mp4\" 1\n",
        "label path\n0 long/a.mp4\n1 long/b 2.mp4\n",
        "name label source\nlong/a 0 tv\nlong/b 2 1 web\n",
        "path num_frames label\nlong/a.mp4 3 0\nlong/b 2.mp4 4 1\n",
        "name,label\nlong/a.mp4,0\nlong/b 2.mp4,1\n",
        "clip;label\nlong/a.mp4;0\nlong/b 2.mp4;1\n",
        "filename\tname\tid\tlabel\nlong/a.mp4\tx\t1\t0\nlong/b 2.mp4\ty\t2\t1\n",
        "name,video_id,label\nlong/a.mp4,1,0\nlong/b 2.mp4,2,1\n",
        "video_id,label,comment\na,0,\nb 2,1,good\n",
        "class_id,id\n0,a\n1,b 2\n",
    ],
)
def test_headers(text: str, tmp_path: Path) -> None:
    make_files(tmp_path, list(HEADED))
    result = scan_text(tmp_path, text)
    assert summary(result) == HEADED
    assert result.classes == ("0", "1")


@pytest.mark.parametrize("word", ["path", "video", "clip", "Video_ID"])
def test_a_header_of_one_column(word: str, tmp_path: Path) -> None:
    make_files(tmp_path, list(HEADED))
    text = f"{word}\nlong/a.mp4\nlong/b 2.mp4\n"
    for separator in (None, "blank", "comma"):
        assert summary(scan_text(tmp_path, text, separator=separator)) == dict.fromkeys(HEADED, (None, "train"))


def test_a_header_when_the_separator_is_given(tmp_path: Path) -> None:
    make_files(tmp_path, list(HEADED))
    assert summary(scan_text(tmp_path, "path label\nlong/a.mp4 0\nlong/b 2.mp4 1\n", separator="blank")) == HEADED


def test_a_first_line_that_names_a_file_is_no_header(tmp_path: Path) -> None:
    make_files(tmp_path, ["clip.mp4", "name.mp4", "video of action.mp4"])
    assert summary(scan_text(tmp_path, "clip action\nname label\n")) == {
        "clip.mp4": ("action", "train"),
        "name.mp4": ("label", "train"),
        "video of action.mp4": (None, "excluded"),
    }
    assert summary(scan_text(tmp_path, "clip\nname\n"))["clip.mp4"] == (None, "train")
    assert summary(scan_text(tmp_path, "video of action walk\nname run\n"))["name.mp4"] == ("run", "train")


def test_a_missing_video_that_begins_with_words_of_columns(tmp_path: Path) -> None:
    make_files(tmp_path, ["some clip.mp4"])
    result = scan_text(tmp_path, "video of action walk\nsome clip run\n")
    assert summary(result) == {"some clip.mp4": ("run", "train"), "video of action": ("walk", "train")}


@pytest.mark.parametrize(
    "line", ["title label", "title,label", "my film\tclass", "label;title", "split;label", "a b class"]
)
def test_headers_that_cannot_be_used(line: str, tmp_path: Path) -> None:
    make_files(tmp_path, list(HEADED))
    separator = next((character for character in ",;\t" if character in line), " ")
    rows = "".join(f"{name}{separator}walk\n" for name in ("long/a.mp4", "long/b.mp4"))
    assert refusal(lambda: scan_text(tmp_path, f"{line}\n{rows}")) == (
        f"'{tmp_path}/train.txt', line 1: {line!r} seems to be a header, and cannot be used as one: name the columns "
        "path (or video, file, name, clip, video_id), label (or class_id), class (or category, action), split, "
        "num_frames, start, end, duration, or remove the line"
    )


def test_a_row_that_does_not_fit_its_header(tmp_path: Path) -> None:
    make_files(tmp_path, list(HEADED))
    assert refusal(lambda: scan_text(tmp_path, "path label\nlong/a.mp4 0\nlong/b\n")) == (
        f"'{tmp_path}/train.txt', line 3: expected path label, got 'long/b'"
    )


# --- columns of times ---


@pytest.mark.parametrize(
    "columns",
    [
        "start,end", "t_start,t_end", "tstart,tend", "start_time,end_time", "startTime,endTime", "starttime,endtime",
        "start_s,end_s", "start (s),end (s)", "begin,stop", "begin_time,end_time", "start_sec,stop_sec",
        "time_start,time_end", "Segment-Start,Segment-End", "clip start,clip end", "start_timestamp,end_timestamp",
        "end_seconds,start_seconds",
    ],
)  # fmt: skip
def test_names_of_columns_of_times(columns: str, tmp_path: Path) -> None:
    make_files(tmp_path, ["a.mp4"])
    times = "2,0.5" if columns.startswith("end") else "0.5,2"
    assert list(summary(scan_text(tmp_path, f"path,{columns}\na.mp4,{times}\n"))) == ["a.mp4#t=0.5,2"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("0.1,0.2", "a.mp4#t=0.1,0.3"),
        (",2", "a.mp4#t=0,2"),
        ("5,", "a.mp4#t=5"),
        (",", "a.mp4"),
        ("1e1,.5", "a.mp4#t=10,10.5"),
    ],
)
def test_a_start_and_a_duration(times: str, expected: str, tmp_path: Path) -> None:
    make_files(tmp_path, ["a.mp4"])
    assert list(summary(scan_text(tmp_path, f"path,start_time,duration\na.mp4,{times}\n"))) == [expected]


def test_a_duration_that_is_none(tmp_path: Path) -> None:
    make_files(tmp_path, ["a.mp4"])
    for duration, expected in {
        "-1": "the duration '-1' is no time from 0 on",
        "0": "it ends at 2 s, not after its start at 2 s",
    }.items():
        assert refusal(lambda text=f"path,start,duration\na.mp4,2,{duration}\n": scan_text(tmp_path, text)) == (  # type: ignore[misc]
            f"'{tmp_path}/train.txt', line 2: {expected}; times are seconds, such as 12.5, or empty"
        )


@pytest.mark.parametrize(
    ("columns", "odd"),
    [
        ("start_frame,end_frame", "'start_frame', 'end_frame'"),
        ("startFrame,endFrame", "'startFrame', 'endFrame'"),
        ("first_frame,last_frame", "'first_frame', 'last_frame'"),
        ("start_ms,end_ms", "'start_ms', 'end_ms'"),
        ("from,to", "'from', 'to'"),
        ("onset,offset", "'onset', 'offset'"),
        ("start,length", "'length'"),
        ("start,end_frame", "'end_frame'"),
        ("start_frame,end", "'start_frame'"),
        ("start,duration_ms", "'duration_ms'"),
    ],
)
def test_columns_that_may_tell_times(columns: str, odd: str, tmp_path: Path) -> None:
    make_files(tmp_path, ["a.mp4"])
    separators = {"": ",", "blank": " "}
    for name, character in separators.items():
        text = f"path,{columns}\na.mp4,1,2\n".replace(",", character)
        assert refusal(lambda text=text, name=name: scan_text(tmp_path, text, separator=name or None)) == (  # type: ignore[misc]
            f"'{tmp_path}/train.txt', line 1: {odd} may tell times or frames, and windows are told in seconds, by "
            "start and end, or by start and duration: name the columns so where they hold seconds, or remove them"
        )


@pytest.mark.parametrize(
    ("columns", "source"),
    [
        ("start,end,start_frame,end_frame,duration", "a.mp4#t=1,2"),
        ("duration,fps,time,end_date,trend", "a.mp4"),
        ("start,weight,x,y,z", "a.mp4#t=1"),
    ],
)
def test_columns_beside_times_that_are_not_used(columns: str, source: str, tmp_path: Path) -> None:
    make_files(tmp_path, ["a.mp4"])
    result = scan_text(tmp_path, f"path,{columns}\na.mp4,1,2,3,4,5\n")
    assert list(summary(result)) == [source]
    assert any("did not use the columns" in note for note in result.notes)


# --- labels in other places ---


@pytest.mark.parametrize(
    "text",
    [
        "0 long/a.mp4\n1 long/b 2.mp4\n",
        "0 /else/long/a.mp4\n1 '/else/long/b 2.mp4'\n",
        "0,long/a.mp4\n1,long/b 2.mp4\n",
        "0\tlong/a\n1\tlong/b 2\n",
        "0;/else/long/a.mp4\n1;/else/long/b 2.mp4\n",
        "0,long/a.mp4,\n1,long/b 2.mp4,\n",
        "long/a.mp4,30,0,\nlong/b 2.mp4,40,1,\n",
    ],
)
def test_labels_before_paths_and_separators_at_the_end(text: str, tmp_path: Path) -> None:
    make_files(tmp_path, list(HEADED))
    result = scan_text(tmp_path, text)
    assert summary(result) == HEADED
    assert result.near == ()


@pytest.mark.parametrize("separator", [" ", ",", "\t", ";"])
@pytest.mark.parametrize("prefix", ["", "/else/"])
def test_class_names_before_paths(separator: str, prefix: str, tmp_path: Path) -> None:
    make_files(tmp_path, ["long/a.mp4", "long/b.mp4"])
    text = f"walk{separator}{prefix}long/a.mp4\nrun{separator}{prefix}long/b.mp4\n"
    assert summary(scan_text(tmp_path, text)) == {"long/a.mp4": ("walk", "train"), "long/b.mp4": ("run", "train")}


def test_a_number_before_a_separator_at_the_end(tmp_path: Path) -> None:
    make_files(tmp_path, ["long/a.mp4", "long/b.mp4"])
    assert refusal(lambda: scan_text(tmp_path, "long/a.mp4,0,\nlong/b.mp4,1,\n")) == (
        f"'{tmp_path}/train.txt', line 1: every line ends in an empty field, and '0' may be a label or a number of "
        "frames: remove the separator at the end, or give the list a header"
    )
    named = scan_text(tmp_path, "long/a.mp4,walk,\nlong/b.mp4,run,\n")
    assert summary(named) == {"long/a.mp4": ("walk", "train"), "long/b.mp4": ("run", "train")}


def test_paths_that_begin_with_a_word_or_a_number(tmp_path: Path) -> None:
    make_files(tmp_path, ["my long/a.mp4", "1 b/b.mp4"])
    assert summary(scan_text(tmp_path, "my long/a.mp4\n1 b/b.mp4\n")) == {
        "1 b/b.mp4": (None, "train"),
        "my long/a.mp4": (None, "train"),
    }


def test_paths_of_another_tree_that_begin_with_a_word_or_a_number(tmp_path: Path) -> None:
    make_files(tmp_path, ["a.mp4", "b.mp4"])
    assert summary(scan_text(tmp_path, "my long/a.mp4\nmy b/b.mp4\n")) == dict.fromkeys(
        ["a.mp4", "b.mp4"], (None, "train")
    )
    assert refusal(lambda: scan_text(tmp_path, "0 long/a.mp4\n1 b/b.mp4\n")) == (
        f"'{tmp_path}/train.txt' can be read as blank-separated label, path or as blank-separated path, and both name "
        "videos on disk: put its paths in double quotes, or give --separator"
    )


def test_names_that_are_numbers_stand_before_labels(tmp_path: Path) -> None:
    make_files(tmp_path, ["3.mp4", "1.mp4"])
    assert summary(scan_text(tmp_path, "1 3\n3 1\n")) == {"1.mp4": ("3", "train"), "3.mp4": ("1", "train")}
