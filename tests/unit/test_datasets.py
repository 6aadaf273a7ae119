"""What a scan makes of a tree: which files are videos, their classes and subsets, and what is said about the rest."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from manifests.errors import UsageError
from manifests.records import Source
from prep.datasets import DATASETS, Scan, scan
from prep.datasets.match import match, match_again
from prep.datasets.walk import find_videos, is_video_name, left_out


def _make(root: Path, files: Iterable[str], content: bytes = b"video") -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def _message(call: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    return str(caught.value)


def _by_source(result: Scan) -> dict[str, Source]:
    return {source.source: source for source in result.sources}


# --- which files are videos ---


def test_every_dataset_has_a_module_with_scan(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi"])
    (tmp_path / "classInd.txt").write_text("1 A\n")
    (tmp_path / "A_test_split1.txt").write_text("x.avi 1\n")
    (tmp_path / "train.csv").write_text("label,youtube_id\nA,x\n")
    (tmp_path / "labels.json").write_text('{"A": "0"}')
    (tmp_path / "train.json").write_text('[{"id": "x", "template": "[A]"}]')
    (tmp_path / "train.list").write_text("A/x.avi 0\n")
    lists = {"list": [tmp_path / "train.list"]}
    found = [scan(name, tmp_path, lists.get(name, ())) for name in DATASETS]
    assert [result.dataset for result in found] == list(DATASETS)
    assert [[source.source for source in result.sources] for result in found] == [["A/x.avi"]] * len(DATASETS)


def test_a_separator_is_for_lists(tmp_path: Path) -> None:
    assert _message(lambda: scan("folder", tmp_path, separator="tab")) == (
        "--separator is for --dataset list, not for 'folder'"
    )


def test_an_unknown_dataset_is_refused(tmp_path: Path) -> None:
    assert (
        _message(lambda: scan("ucf", tmp_path))
        == "unknown dataset 'ucf': choose one of folder, ucf101, hmdb51, kinetics, ssv2, list"
    )


@pytest.mark.parametrize("name", ["x.avi", "x.MP4", "a b.WebM", "x.tar.mkv", "-x.3gp", "A/x.m2ts"])
def test_video_names(name: str) -> None:
    assert is_video_name(name)


@pytest.mark.parametrize("name", ["x", "avi", ".avi", "x.avi.part", "x.jpg", "x.", "x.avi/y", "x.avi@eaDir"])
def test_other_names(name: str) -> None:
    assert not is_video_name(name)


def test_videos_are_sorted_by_code_point_with_their_size(tmp_path: Path) -> None:
    _make(tmp_path, ["b.avi", "B.avi", "a/z.mp4", "é.avi", "a.avi"], content=b"12345")
    _make(tmp_path, ["a/empty.mkv"], content=b"")
    found = find_videos(tmp_path)
    assert [(video.path, video.num_bytes) for video in found.videos] == [
        ("B.avi", 5),
        ("a.avi", 5),
        ("a/empty.mkv", 0),
        ("a/z.mp4", 5),
        ("b.avi", 5),
        ("é.avi", 5),
    ]
    assert all(video.problem is None for video in found.videos)
    assert left_out(found) == []


def test_hidden_apple_double_and_other_files_are_counted(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi", "A/._x.avi", "__MACOSX/A/._x.avi", ".cache/y.avi", ".cache/z.avi", "A/.y.avi"])
    _make(tmp_path, ["notes.TXT", "A/list.txt", "A/x.jpg", "README"])
    found = find_videos(tmp_path)
    assert [video.path for video in found.videos] == ["A/x.avi"]
    assert (found.num_hidden, found.num_apple_double) == (2, 2)
    assert found.others == (("txt", 2), ("", 1), ("jpg", 1))
    assert left_out(found) == [
        "left out 2 hidden files and folders and 2 AppleDouble files (._*)",
        "left out 4 files whose suffix is not a video's (2 '.txt', 1 without any, 1 '.jpg')",
    ]


def test_one_of_each_is_in_the_singular(tmp_path: Path) -> None:
    _make(tmp_path, ["x.avi", ".y.avi", "._x.avi", "x.jpg"])
    assert left_out(find_videos(tmp_path)) == [
        "left out 1 hidden file or folder and 1 AppleDouble file (._*)",
        "left out 1 file whose suffix is not a video's (1 '.jpg')",
    ]


def test_links_are_followed_and_loops_noticed(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    _make(root, ["A/x.avi", "B/C/y.avi"])
    _make(elsewhere, ["D/z.avi", "w.avi"])
    (root / "linked").symlink_to(elsewhere)
    (root / "A" / "w.avi").symlink_to(elsewhere / "w.avi")
    (root / "A" / "up").symlink_to(root)
    (root / "B" / "C" / "here").symlink_to(".")
    (elsewhere / "D" / "back").symlink_to(root)
    found = find_videos(root)
    assert [video.path for video in found.videos] == [
        "A/w.avi",
        "A/x.avi",
        "B/C/y.avi",
        "linked/D/z.avi",
        "linked/w.avi",
    ]
    assert found.loops == ("A/up", "B/C/here", "linked/D/back")
    assert left_out(found) == ["did not follow 3 links to a folder above the link: 'A/up', 'B/C/here', 'linked/D/back'"]


def test_folders_that_link_to_each_other_end(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi", "B/y.avi"])
    (tmp_path / "A" / "b").symlink_to("../B")
    (tmp_path / "B" / "a").symlink_to("../A")
    found = find_videos(tmp_path)
    assert [video.path for video in found.videos] == ["A/b/y.avi", "A/x.avi", "B/a/x.avi", "B/y.avi"]
    assert found.loops == ("A/b/a", "B/a/b")


def test_find_agrees(tmp_path: Path) -> None:
    program = shutil.which("find")
    if program is None:
        pytest.skip("the find program, which is the oracle here, is not installed")
    _make(tmp_path / "other", ["deep/er/a.mp4", "b.avi"])
    _make(tmp_path / "root", ["x.avi", "A/y.AVI", "A/B/C/z.avi", "A/no.txt", "names/a\nb.avi", "names/%41.avi"])
    _make(tmp_path / "root", [os.fsdecode(b"names/\xff\xfe.avi")], content=b"four")
    (tmp_path / "root" / "link").symlink_to("../other")
    (tmp_path / "root" / "A" / "one.avi").symlink_to("../../other/b.avi")
    command = [program, "-L", ".", "-type", "f", "(", "-iname", "*.avi", "-o", "-iname", "*.mp4", ")"]
    run = subprocess.run(
        [*command, "-printf", r"%P\t%s\0"],
        cwd=tmp_path / "root",
        env={"LC_ALL": "C"},
        capture_output=True,
        check=True,
    )
    expected = sorted(os.fsdecode(item).split("\t") for item in run.stdout.split(b"\0") if item)
    assert [[video.path, str(video.num_bytes)] for video in find_videos(tmp_path / "root").videos] == expected
    assert len(expected) == 9


def test_videos_that_cannot_be_read_are_listed_with_the_reason(tmp_path: Path) -> None:
    _make(tmp_path, ["A/good.avi"])
    (tmp_path / "A" / "dangling.avi").symlink_to("nowhere.avi")
    (tmp_path / "A" / "itself.avi").symlink_to("itself.avi")
    os.mkfifo(tmp_path / "A" / "pipe.avi")
    found = find_videos(tmp_path)
    assert [(video.path, video.num_bytes, video.problem) for video in found.videos] == [
        ("A/dangling.avi", None, "a symbolic link to a file that does not exist"),
        ("A/good.avi", 5, None),
        ("A/itself.avi", None, "Too many levels of symbolic links"),
        ("A/pipe.avi", None, "not a regular file"),
    ]
    assert left_out(found) == [
        "listed as failed, since they cannot be read: 3 videos ('A/dangling.avi', 'A/itself.avi', 'A/pipe.avi')"
    ]


def test_a_broken_link_that_may_be_a_class_folder_is_named(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi"])
    (tmp_path / "Archery").symlink_to("/nowhere/Archery")
    found = find_videos(tmp_path)
    assert found.broken_links == ("Archery",)
    assert left_out(found) == ["left out 1 broken link, which may have been folders: 'Archery'"]


def _deny(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make one folder unlistable, also for the user root, whom permissions do not stop."""
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(tmp_path, ["A/x.avi", "B/y.avi"])
    _deny(monkeypatch, tmp_path / "B")
    assert _message(lambda: find_videos(tmp_path)) == (
        f"cannot read '{tmp_path}/B' (Permission denied): make it readable, or move it away"
    )


def test_the_lost_and_found_of_a_disk_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(tmp_path, ["A/x.avi", "lost+found/y.avi"])
    _deny(monkeypatch, tmp_path / "lost+found")
    assert [video.path for video in find_videos(tmp_path).videos] == ["A/x.avi"]


def test_roots_without_videos_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert _message(lambda: find_videos(root)) == f"no such folder: '{root}'"
    root.mkdir()
    assert _message(lambda: find_videos(root)) == f"no videos under '{root}': nothing there could be one"
    _make(root, [f"img_{index:05d}.jpg" for index in range(11)] + ["a/notes"])
    files = "12 files, none with a suffix that is a video's (avi, mp4, m4v, mkv, webm, ...)"
    assert _message(lambda: find_videos(root)) == f"no videos under '{root}': {files}"
    _make(root, ["._x.avi", ".y.avi", ".z.avi"])
    (root / "A").symlink_to("/nowhere")
    hidden = "2 hidden files and folders and 1 AppleDouble file (._*), which are left out"
    assert _message(lambda: find_videos(root)) == f"no videos under '{root}': {files}; {hidden}; 1 broken link"


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    _make(tmp_path, ["x.avi"])
    path = tmp_path / "x.avi"
    assert _message(lambda: find_videos(path)) == f"'{path}' is a file: give the folder that holds the videos"
    assert _message(lambda: find_videos(path / "A")) == f"cannot read the folder '{path}/A': Not a directory"


# --- folder ---


def test_folder_reads_classes_and_subsets(tmp_path: Path) -> None:
    _make(tmp_path, ["train/run/a.avi", "train/jump/b.avi", "val/run/c.avi", "test/d.avi", "train/x/run/e.avi"])
    result = scan("folder", tmp_path)
    assert result == Scan(
        dataset="folder",
        classes=("jump", "run"),
        sources=(
            Source(video_id="test/d", source="test/d.avi", source_bytes=5, subsets=("test",)),
            Source(
                video_id="train/jump/b",
                source="train/jump/b.avi",
                source_bytes=5,
                label=0,
                class_name="jump",
                subsets=("train",),
            ),
            Source(
                video_id="train/run/a",
                source="train/run/a.avi",
                source_bytes=5,
                label=1,
                class_name="run",
                subsets=("train",),
            ),
            Source(
                video_id="train/x/run/e",
                source="train/x/run/e.avi",
                source_bytes=5,
                label=1,
                class_name="run",
                subsets=("train",),
            ),
            Source(
                video_id="val/run/c",
                source="val/run/c.avi",
                source_bytes=5,
                label=1,
                class_name="run",
                subsets=("val",),
            ),
        ),
        notes=("no label for 1 video outside of class folders",),
    )


@pytest.mark.parametrize("subset", ["train", "val", "valid", "validation", "test"])
def test_folder_knows_the_names_of_subsets(subset: str, tmp_path: Path) -> None:
    _make(tmp_path, [f"{subset}/A/x.avi"])
    (source,) = scan("folder", tmp_path).sources
    assert (source.subsets, source.class_name, source.label) == ((subset,), "A", 0)


def test_folder_has_no_notes_for_plain_class_folders(tmp_path: Path) -> None:
    _make(tmp_path, ["plane/x.avi", "group/ship/y.avi", "Zebra/z.avi", "10/a.avi", "9/a.avi"])
    result = scan("folder", tmp_path)
    assert result.classes == ("10", "9", "Zebra", "plane", "ship")
    assert {source.source: source.label for source in result.sources} == {
        "10/a.avi": 0,
        "9/a.avi": 1,
        "Zebra/z.avi": 2,
        "group/ship/y.avi": 4,
        "plane/x.avi": 3,
    }
    assert all(source.subsets == () and source.status is None for source in result.sources)
    assert result.notes == ()


def test_folder_of_loose_videos_has_no_labels(tmp_path: Path) -> None:
    _make(tmp_path, ["x.avi", "x.mp4"])
    result = scan("folder", tmp_path)
    assert result.classes == ()
    assert [(source.video_id, source.label, source.class_name) for source in result.sources] == [
        ("x.avi", -1, None),
        ("x.mp4", -1, None),
    ]
    assert result.notes == ("no label for 2 videos outside of class folders",)


def test_folder_says_how_it_read_a_class_that_is_called_train(tmp_path: Path) -> None:
    _make(tmp_path, ["train/x.avi", "plane/y.avi", "ship/z.avi"])
    result = scan("folder", tmp_path)
    assert result.classes == ("plane", "ship")
    assert result.notes == (
        "read 'train' at the top as subsets and 'plane', 'ship' as class folders: if all are classes, move them "
        "together into one folder under the root",
        "no label for 1 video outside of class folders",
    )
    for name in ("train", "plane", "ship"):
        (tmp_path / "all").mkdir(exist_ok=True)
        (tmp_path / name).rename(tmp_path / "all" / name)
    mended = scan("folder", tmp_path)
    assert mended.classes == ("plane", "ship", "train")
    assert mended.notes == ()


def test_folder_escapes_names_that_are_not_utf8(tmp_path: Path) -> None:
    _make(tmp_path, [os.fsdecode(b"caf\xe9/\xff.avi"), "café/100%41.avi"])
    result = scan("folder", tmp_path)
    assert result.classes == ("caf%E9", "café")
    assert [(source.video_id, source.source, source.class_name) for source in result.sources] == [
        ("caf%E9/%FF", "caf%E9/%FF.avi", "caf%E9"),
        ("café/100%2541", "café/100%2541.avi", "café"),
    ]


def test_folder_keeps_what_cannot_be_read_as_a_failed_row(tmp_path: Path) -> None:
    _make(tmp_path, ["A/empty.avi"], content=b"")
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / "gone.avi").symlink_to("/nowhere.avi")
    result = scan("folder", tmp_path)
    assert result.sources == (
        Source(video_id="A/empty", source="A/empty.avi", source_bytes=0, label=0, class_name="A"),
        Source(
            video_id="B/gone",
            source="B/gone.avi",
            source_bytes=None,
            label=1,
            class_name="B",
            status="failed",
            failure="unreadable",
            detail="a symbolic link to a file that does not exist",
        ),
    )


def test_folder_takes_no_annotations(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi"])
    assert _message(lambda: scan("folder", tmp_path, [tmp_path])) == (
        "--annotations is not for the dataset 'folder', which reads classes from folder names"
    )


# --- ucf101 ---

_CLASSES = "1 ApplyEyeMakeup\r\n2 HandstandPushups\r\n3 YoYo\r\n"
_EYE = "ApplyEyeMakeup/v_ApplyEyeMakeup_g{:02d}_c01.avi"
_HAND = "HandstandPushups/v_HandStandPushups_g{:02d}_c01.avi"
_YOYO = "YoYo/v_YoYo_g{:02d}_c01.avi"
_VIDEOS = [name.format(group) for name in (_EYE, _HAND, _YOYO) for group in (1, 8)]


def _write(folder: Path, **texts: str) -> None:
    """Annotation files, byte for byte: classInd="..." becomes classInd.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode())


def _official(folder: Path) -> None:
    """Split 1 in the official syntax: CRLF, numbers in the train list only."""
    train = "".join(f"{name.format(8)} {number}\r\n" for number, name in enumerate((_EYE, _HAND, _YOYO), start=1))
    test = "".join(f"{name.format(1)}\r\n" for name in (_EYE, _HAND, _YOYO))
    _write(folder, classInd=_CLASSES, trainlist01=train, testlist01=test)


def _official_sources() -> tuple[Source, ...]:
    names = ["ApplyEyeMakeup", "HandstandPushups", "YoYo"]
    return tuple(
        Source(
            video_id=name.format(group).removesuffix(".avi"),
            source=name.format(group),
            source_bytes=5,
            label=label,
            class_name=names[label],
            subsets=("test01" if group == 1 else "train01",),
        )
        for label, name in enumerate((_EYE, _HAND, _YOYO))
        for group in (1, 8)
    )


@pytest.mark.parametrize("place", [".", "ucfTrainTestlist", "../ucfTrainTestlist"])
def test_ucf101_finds_the_annotations_where_they_usually_are(place: str, tmp_path: Path) -> None:
    root = tmp_path / "UCF-101"
    _make(root, _VIDEOS)
    _official(root / place)
    assert scan("ucf101", root) == Scan(
        dataset="ucf101",
        sources=_official_sources(),
        classes=("ApplyEyeMakeup", "HandstandPushups", "YoYo"),
        num_lines={"test01": 3, "train01": 3},
    )


def test_ucf101_takes_annotations_as_files_or_folders(tmp_path: Path) -> None:
    root, lists = tmp_path / "videos", tmp_path / "lists"
    _make(root, _VIDEOS)
    _official(lists)
    assert scan("ucf101", root, [lists]).sources == _official_sources()
    files = [lists / "testlist01.txt", lists / "classInd.txt"]
    result = scan("ucf101", root, files)
    assert {source.subsets for source in result.sources} == {("test01",), ()}
    assert scan("ucf101", root, [lists, *files]).sources == _official_sources()


def test_ucf101_does_not_mind_line_ends_blank_lines_marks_and_order(tmp_path: Path) -> None:
    _make(tmp_path, _VIDEOS)
    _write(
        tmp_path,
        classInd="\ufeff3 YoYo\n\n  1\tApplyEyeMakeup  \n2 HandstandPushups",
        trainlist01=f"\ufeff\n./{_YOYO.format(8)}   3\n\n{_EYE.format(8)}\t1\n{_HAND.format(8)} 2\n\n",
        testlist01="\r".join(name.format(1) for name in (_EYE, _HAND, _YOYO)),
    )
    result = scan("ucf101", tmp_path)
    assert result.sources == _official_sources()
    assert result.classes == ("ApplyEyeMakeup", "HandstandPushups", "YoYo")
    assert result.notes == ()


def test_ucf101_keeps_every_split(tmp_path: Path) -> None:
    _make(tmp_path, [_EYE.format(1), _EYE.format(8)])
    one, two = _EYE.format(1), _EYE.format(8)
    _write(tmp_path, classInd="1 ApplyEyeMakeup", trainlist01=f"{one} 1", testlist01=two)
    _write(tmp_path, trainlist02=f"{two} 1", testlist02=one)
    assert [source.subsets for source in scan("ucf101", tmp_path).sources] == [
        ("test02", "train01"),
        ("test01", "train02"),
    ]


def test_ucf101_test_lists_may_have_numbers(tmp_path: Path) -> None:
    _make(tmp_path, ["A B/x 1.avi"])
    _write(tmp_path, classInd="1 A B", testlist01="A B/x 1.avi 1")
    (source,) = scan("ucf101", tmp_path).sources
    assert (source.source, source.label, source.subsets) == ("A B/x 1.avi", 0, ("test01",))


def test_ucf101_rows_for_what_disk_or_lists_lack(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _make(root, [*_VIDEOS, "ApplyEyeMakeup/extra.avi", "Elsewhere/other.avi"])
    _official(root)
    (root / _YOYO.format(1)).unlink()
    (root / _YOYO.format(8)).unlink()
    (root / _HAND.format(8)).unlink()
    (root / _HAND.format(8)).symlink_to("nowhere")
    result = scan("ucf101", root)
    sources = _by_source(result)
    assert list(sources) == sorted([*_VIDEOS, "ApplyEyeMakeup/extra.avi", "Elsewhere/other.avi"])
    assert sources[_YOYO.format(1)] == Source(
        video_id="YoYo/v_YoYo_g01_c01",
        source="YoYo/v_YoYo_g01_c01.avi",
        source_bytes=None,
        label=2,
        class_name="YoYo",
        subsets=("test01",),
        status="failed",
        failure="missing",
        detail="named in testlist01.txt, not on disk",
    )
    assert sources["ApplyEyeMakeup/extra.avi"] == Source(
        video_id="ApplyEyeMakeup/extra",
        source="ApplyEyeMakeup/extra.avi",
        source_bytes=5,
        label=0,
        class_name="ApplyEyeMakeup",
        status="excluded",
        detail="no annotation names it",
    )
    assert sources["Elsewhere/other.avi"] == Source(
        video_id="Elsewhere/other",
        source="Elsewhere/other.avi",
        source_bytes=5,
        status="excluded",
        detail="no annotation names it",
    )
    broken = sources[_HAND.format(8)]
    assert (broken.status, broken.failure, broken.subsets) == ("failed", "unreadable", ("train01",))
    assert result.notes == (f"listed as failed, since they cannot be read: 1 video ('{_HAND.format(8)}')",)
    assert not any(str(tmp_path) in (source.detail or "") for source in result.sources)


def test_ucf101_names_every_list_that_has_a_missing_video(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi"])
    _write(tmp_path, classInd="1 A", trainlist01="A/x.avi 1\nA/y.avi 1", testlist02="A/y.avi")
    assert _by_source(scan("ucf101", tmp_path))["A/y.avi"].detail == (
        "named in testlist02.txt, trainlist01.txt, not on disk"
    )


def test_ucf101_without_lists_takes_all_videos(tmp_path: Path) -> None:
    _make(tmp_path, ["UCF-101/YoYo/x.avi", "other/y.avi"])
    _write(tmp_path, classInd=_CLASSES)
    result = scan("ucf101", tmp_path)
    assert result.sources == (
        Source(video_id="UCF-101/YoYo/x", source="UCF-101/YoYo/x.avi", source_bytes=5, label=2, class_name="YoYo"),
        Source(video_id="other/y", source="other/y.avi", source_bytes=5),
    )
    assert result.notes == (
        "no trainlistNN.txt or testlistNN.txt beside classInd.txt: all videos are taken, without subsets",
        "no label for 1 video whose folder is not a class of classInd.txt: 'other/y.avi'",
    )


def test_ucf101_under_another_folder(tmp_path: Path) -> None:
    _make(tmp_path / "UCF-101", _VIDEOS)
    _official(tmp_path / "ucfTrainTestlist")
    result = scan("ucf101", tmp_path)
    assert [source.source for source in result.sources] == [f"UCF-101/{name}" for name in _VIDEOS]
    assert [source.subsets for source in result.sources] == [source.subsets for source in _official_sources()]
    assert result.notes == ()


def test_ucf101_in_one_flat_folder(tmp_path: Path) -> None:
    flat = [name.rpartition("/")[2] for name in _VIDEOS]
    _make(tmp_path, flat)
    _official(tmp_path)
    result = scan("ucf101", tmp_path)
    assert [(source.source, source.label) for source in result.sources] == list(
        zip(flat, [0, 0, 1, 1, 2, 2], strict=True)
    )
    assert result.notes == ()
    assert result.near == tuple(zip(_VIDEOS, flat, strict=True))


def test_ucf101_label_is_that_of_the_list_where_a_folder_has_other_case(tmp_path: Path) -> None:
    _make(tmp_path, ["HandStandPushups/v_HandStandPushups_g01_c01.AVI"])
    _write(tmp_path, classInd=_CLASSES, testlist01=_HAND.format(1))
    (source,) = scan("ucf101", tmp_path).sources
    assert (source.label, source.class_name, source.subsets) == (1, "HandstandPushups", ("test01",))
    assert (source.source, source.status) == ("HandStandPushups/v_HandStandPushups_g01_c01.AVI", None)


def test_ucf101_names_that_are_not_utf8(tmp_path: Path) -> None:
    _make(tmp_path, [os.fsdecode(b"caf\xe9/\xff.avi"), "caf\u00e9/x.avi"])
    (tmp_path / "classInd.txt").write_bytes(b"1 caf\xe9\n2 caf\xc3\xa9\n")
    (tmp_path / "testlist01.txt").write_bytes(b"caf\xe9/\xff.avi\ncaf\xe9/\xfe.avi\n")
    result = scan("ucf101", tmp_path)
    assert result.classes == ("caf%E9", "café")
    assert [(source.source, source.label, source.class_name, source.status) for source in result.sources] == [
        ("caf%E9/%FE.avi", 0, "caf%E9", "failed"),
        ("caf%E9/%FF.avi", 0, "caf%E9", None),
        ("café/x.avi", 1, "café", "excluded"),
    ]
    assert result.num_lines == {"test01": 2}


def test_ucf101_counts_lines_and_needs_no_numbers(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi", "A/y.avi"])
    _write(tmp_path, classInd="1 A", trainlist01="A/x.avi\nA/y.avi\nA/x.avi 1", testlist01="A/x.avi")
    result = scan("ucf101", tmp_path)
    assert result.num_lines == {"test01": 1, "train01": 3}
    assert [source.subsets for source in result.sources] == [("test01", "train01"), ("train01",)]


def test_ucf101_class_of_a_list_in_other_case(tmp_path: Path) -> None:
    """Lists were written for the folder HandstandPushups as well as for HandStandPushups."""
    _make(tmp_path, [_HAND.format(1)])
    listed = _HAND.format(1).replace("Handstand", "HandStand")
    _write(tmp_path, classInd=_CLASSES, testlist01=f"{listed} 2")
    result = scan("ucf101", tmp_path)
    assert [(source.source, source.label, source.subsets) for source in result.sources] == [
        (_HAND.format(1), 1, ("test01",))
    ]
    assert result.near == ((listed, _HAND.format(1)),)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ("1 A\n2\n", "{file}, line 2: expected a number and a class name, got '2'"),
        ("\nA 1\n", "{file}, line 2: expected a number and a class name, got 'A 1'"),
        ("1 A/B\n", "{file}, line 1: expected a number and a class name, got '1 A/B'"),
        ("1 A\r\n1 B\r\n", "{file}, line 2: number 1 stands for 'A' already: '1 B'"),
        ("1 A\r\n2 A\r\n", "{file}, line 2: the class 'A' has a number already: '2 A'"),
        ("1 A\n3 B\n", "{file}: class numbers must be 1 to 2 without a gap, but there is no 2 and there is 3"),
        ("0 A\n1 B\n", "{file}: class numbers must be 1 to 2 without a gap, but there is no 1 and there is 0"),
        ("\r\n\r\n", "{file} names no class"),
    ],
)
def test_ucf101_refuses_a_class_file(classes: str, expected: str, tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi"])
    _write(tmp_path, classInd=classes)
    file = f"'{tmp_path}/classInd.txt'"
    assert _message(lambda: scan("ucf101", tmp_path)) == expected.format(file=file)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A/x.avi one", "expected Class/video.avi, with or without a number, got 'A/x.avi one'"),
        ("x.avi 1", "expected Class/video.avi, with or without a number, got 'x.avi 1'"),
        ("A/x 1", "expected Class/video.avi, with or without a number, got 'A/x 1'"),
        ("../A/x.avi 1", "expected Class/video.avi, with or without a number, got '../A/x.avi 1'"),
        ("/A/x.avi 1", "expected Class/video.avi, with or without a number, got '/A/x.avi 1'"),
        ("A/\0.avi 1", "expected Class/video.avi, with or without a number, got 'A/\\x00.avi 1'"),
        ("A/x.avi 2", "class number 2 disagrees with classInd.txt, where 'A' is 1: 'A/x.avi 2'"),
        ("C/x.avi 3", "'C' is not a class of classInd.txt: 'C/x.avi 3'"),
    ],
)
def test_ucf101_refuses_a_line_of_a_list(line: str, expected: str, tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi"])
    _write(tmp_path, classInd="1 A\n2 B\n", trainlist01=f"A/x.avi 1\r\n\r\n{line}\r\n")
    where = f"'{tmp_path}/trainlist01.txt', line 3"
    assert _message(lambda: scan("ucf101", tmp_path)) == f"{where}: {expected}"


def test_ucf101_refuses_lines_of_a_test_list(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi"])
    _write(tmp_path, classInd="1 A\n2 B\n", testlist01="A/x.avi 2")
    where = f"'{tmp_path}/testlist01.txt'"
    assert _message(lambda: scan("ucf101", tmp_path)) == (
        f"{where}, line 1: class number 2 disagrees with classInd.txt, where 'A' is 1: 'A/x.avi 2'"
    )
    _write(tmp_path, testlist01="A/x")
    assert (
        _message(lambda: scan("ucf101", tmp_path))
        == f"{where}, line 1: expected Class/video.avi, with or without a number, got 'A/x'"
    )
    _write(tmp_path, testlist01="\n")
    assert _message(lambda: scan("ucf101", tmp_path)) == f"{where} names no video"


def test_ucf101_refuses_annotations(tmp_path: Path) -> None:
    root, lists = tmp_path / "root", tmp_path / "lists"
    _make(root, ["A/x.avi"])
    assert _message(lambda: scan("ucf101", root)) == (
        f"no annotations at '{root}', '{root}/ucfTrainTestlist', '{tmp_path}/ucfTrainTestlist' (classInd.txt, "
        "trainlist01.txt, testlist01.txt, ...): name them, or their folder, with --annotations"
    )
    assert _message(lambda: scan("ucf101", root, [lists])) == f"no such annotation: '{lists}'"
    _write(lists, notes="1 A")
    for path in (lists, lists / "notes.txt"):
        assert _message(lambda path=path: scan("ucf101", root, [path])) == (  # type: ignore[misc]
            f"'{path}' is no annotation of this dataset, nor a folder of such (classInd.txt, trainlist01.txt, "
            "testlist01.txt, ...)"
        )
    _write(lists, testlist01="A/x.avi")
    assert _message(lambda: scan("ucf101", root, [lists])) == (
        f"no classInd.txt at '{lists}': name it, or the folder that has it, with --annotations"
    )
    _write(lists, classInd="1 A")
    _write(root, classInd="1 A")
    assert _message(lambda: scan("ucf101", root, [lists, root])) == (
        f"two annotations are called classInd.txt: '{lists}/classInd.txt' and '{root}/classInd.txt'"
    )
    (root / "classInd.txt").unlink()
    (root / "classInd.txt").mkdir()
    assert _message(lambda: scan("ucf101", root, [root])) == f"cannot read '{root}/classInd.txt': Is a directory"


def test_ucf101_refuses_a_root_that_has_nothing_of_the_lists(tmp_path: Path) -> None:
    _make(tmp_path, ["A/other.avi"])
    _write(tmp_path, classInd="1 A", trainlist01="A/x.avi 1\nA/y.avi 1")
    assert _message(lambda: scan("ucf101", tmp_path)) == (
        f"no video under '{tmp_path}' is one that 'trainlist01.txt' names (such as 'A/x.avi'): give the folder that "
        "holds the videos of these lists"
    )


def test_ucf101_lists_that_name_one_file_in_two_ways(tmp_path: Path) -> None:
    _make(tmp_path, ["A/x.avi", "A/y.avi"])
    _write(tmp_path, classInd="1 A\n2 B", trainlist01="A/x.avi 1", testlist01="UCF-101/A/x.avi\nA/Y.AVI\nB/x.avi")
    found = {source.source: (source.failure, source.subsets) for source in scan("ucf101", tmp_path).sources}
    assert found == {
        "A/x.avi": (None, ("test01", "train01")),
        "A/y.avi": (None, ("test01",)),
        "B/x.avi": ("missing", ("test01",)),
    }


# --- which file a listed path means ---

_LABELS = {"A": 0, "B": 1}


@pytest.mark.parametrize(
    ("files", "listed", "expected"),
    [
        (["A/x.avi", "old/A/x.avi"], ["A/x.avi"], {"A/x.avi": "A/x.avi"}),
        (["old/A/x.avi", "x.avi"], ["A/x.avi"], {"old/A/x.avi": "A/x.avi"}),
        (["u/A/x.avi", "u/B/x.avi"], ["A/x.avi", "B/x.avi"], {"u/A/x.avi": "A/x.avi", "u/B/x.avi": "B/x.avi"}),
        (["A/x.avi"], ["UCF-101/A/x.avi"], {"A/x.avi": "UCF-101/A/x.avi"}),
        (["c/x.avi", "c/X.avi"], ["A/x.avi"], {"c/x.avi": "A/x.avi"}),
        (["c/X.AVI"], ["A/x.avi"], {"c/X.AVI": "A/x.avi"}),
        (["A/X.avi", "B/X.avi"], ["A/x.avi", "B/x.avi"], {"A/X.avi": "A/x.avi", "B/X.avi": "B/x.avi"}),
        (["A/x.avi"], ["B/x.avi"], {}),
        (["A/x.avi"], ["A/x.avi", "B/x.avi"], {"A/x.avi": "A/x.avi"}),
        (["A/x.avi"], ["A/xx.avi", "A/x.mp4"], {}),
    ],
)
def test_match(files: list[str], listed: list[str], expected: dict[str, str]) -> None:
    assert match(files, listed, _LABELS)[0] == expected


def test_match_tells_what_it_found_by_file_name() -> None:
    files = ["A/a.avi", "u/A/b.avi", "c.avi", "D.avi"]
    assert match(files, [f"A/{letter}.avi" for letter in "abcd"], _LABELS)[1] == {"c.avi", "D.avi"}


@pytest.mark.parametrize(
    ("matches", "listed", "expected", "by_name"),
    [
        ({"A/x.avi": "A/x.avi"}, ["x.avi", "u/A/x.avi", "a/X.avi"],
         {"x.avi": "A/x.avi", "u/A/x.avi": "A/x.avi", "a/X.avi": "A/x.avi"}, {"x.avi", "a/X.avi"}),
        ({"A/x.avi": "A/x.avi"}, ["B/x.avi", "x.mp4", "xx.avi", "A"], {}, set()),
        ({"c/x.avi": "A/x.avi"}, ["u/A/x.avi", "B/x.avi"], {"u/A/x.avi": "c/x.avi"}, {"u/A/x.avi"}),
        ({"A/x.avi": "A/x.avi", "B/x.avi": "B/x.avi"}, ["x.avi", "u/B/x.avi"], {"u/B/x.avi": "B/x.avi"}, set()),
        ({"A/x.avi": "A/x.avi", "B/X.avi": "B/X.avi"}, ["x.avi", "X.AVI"], {"x.avi": "A/x.avi"}, {"x.avi"}),
    ],
)  # fmt: skip
def test_match_again(matches: dict[str, str], listed: list[str], expected: dict[str, str], by_name: set[str]) -> None:
    assert match_again(matches, listed) == (expected, by_name)


@pytest.mark.parametrize(
    ("files", "listed", "expected"),
    [
        (
            ["new/A/x.avi", "old/A/x.avi"],
            ["A/x.avi"],
            "the listed video 'A/x.avi' may be any of 'new/A/x.avi', 'old/A/x.avi' on disk: give the folder that "
            "holds the class folders, or move the copies away",
        ),
        (
            ["A/B/x.avi", "c/x.avi", "d/x.avi"],
            ["A/x.avi"],
            "the listed video 'A/x.avi' may be any of 'c/x.avi', 'd/x.avi' on disk: give the folder that holds the "
            "class folders, or move the copies away",
        ),
        (
            ["x.avi"],
            ["A/x.avi", "B/x.avi"],
            "the file 'x.avi' may be any of the listed videos 'A/x.avi', 'B/x.avi': put the videos into their class "
            "folders",
        ),
    ],
)
def test_match_does_not_guess(files: list[str], listed: list[str], expected: str) -> None:
    assert _message(lambda: match(files, listed, _LABELS)) == expected
