"""Lists of other tools: every separator and shape, quotes, blanks in paths, headers, and what is refused."""

import os
from pathlib import Path

import pytest
from layouts import make_files, refusal, summary, write_texts

from prep.datasets import Scan, scan
from prep.reconcile import reconcile

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
        "B/z.avi": (None, "all"),
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
        ("path,label,start,end\nA/x.avi,0,3.5,8\n",
         "{file}, line 2: names the clip from 3.5 to 8 inside 'A/x.avi', and only whole videos can be extracted: "
         "cut the clips into files of their own first"),
        ("path,label,end\nA/x.avi,0,10\n",
         "{file}, line 2: names the clip from 0 to 10 inside 'A/x.avi', and only whole videos can be extracted: "
         "cut the clips into files of their own first"),
        ("A 0\nA/x.avi 0\n", "train.txt: 'A' is named as a video, but it is a folder of such"),
    ],
)  # fmt: skip
def test_refused_lists(text: str, expected: str, tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    file = f"'{tmp_path}/train.txt'"
    assert refusal(lambda: scan_text(tmp_path, text)) == expected.format(file=file)


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
