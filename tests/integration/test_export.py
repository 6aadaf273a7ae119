"""The real command: lists that other projects read, from both kinds of files; their way back; and what is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import list_readers as readers
import pytest
from clips import Clip, write_clip
from conftest import Prep
from datasets_made import draw_jpegs, make_dataset, ok_video, other_video, variety
from layouts import refusal

from manifests import open_dataset
from manifests.lists import FORMATS, VIDEO_FORMATS
from manifests.sources import read_sources
from prep.cli import build_parser
from prep.links import plain_path

FRAME_READERS: dict[str, Callable[[Path], list[readers.Frames]]] = {
    "paddlevideo": lambda file: readers.paddlevideo_frames(file, "/else"),
    "mmaction2": lambda file: readers.mmaction2_frames(file, "/else"),
    "tsm": lambda file: readers.tsm_frames(file, "/else", training=False),
}
VIDEO_READERS: dict[str, Callable[[Path], list[tuple[str, int]]]] = {
    "paddlevideo": lambda file: readers.paddlevideo_videos(file, "/else"),
    "mmaction2": lambda file: readers.mmaction2_videos(file, "/else"),
    "slowfast": lambda file: readers.slowfast_videos(file, "/else"),
}


BOTH = "there is none for 2 of 2 videos, the first of them 'b': choose a --subset whose videos have one"


def stored(out: Path, subset: str) -> list[tuple[str, list[bytes], int]]:
    """Of each ok video its source, frames and label, as the dataset has them."""
    with open_dataset(out) as dataset:
        return [
            (
                dataset.video(row)["source"],
                dataset.read_frames(row, range(dataset.num_frames[row])),
                int(dataset.labels[row]),
            )
            for row in dataset.rows(subset)
        ]


def refused(*arguments: object) -> str:
    """The sentence with which `prep export` refuses, in this process."""
    parsed = build_parser().parse_args(["export", *map(str, arguments)])
    return refusal(lambda: parsed.run(parsed))


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("format_name", FRAME_READERS)
def test_frame_lists(prep: Prep, prepared: dict[str, Path], format_name: str, linked: bool, tmp_path: Path) -> None:
    flags = ["--link", tmp_path / "links"] if linked else []
    done = prep(
        *("export", prepared["frames"], "--format", format_name, "--subset", "train01", "--out"),
        *(tmp_path / "lists" / "train.txt", *flags),
    )
    assert done.returncode == 0, done.stderr
    found = FRAME_READERS[format_name](tmp_path / "lists" / "train.txt")
    expected = stored(prepared["frames"], "train01")
    assert len(found) == len(expected) == 8
    for (folder, num_frames, label), (_, jpegs, stored_label) in zip(found, expected, strict=True):
        assert label == stored_label
        assert [Path(path).read_bytes() for path in readers.frame_paths(folder, num_frames)] == jpegs
        assert len(os.listdir(folder)) == num_frames
        assert folder.startswith(str(tmp_path / "links")) == linked


@pytest.mark.parametrize("linked", [False, True])
def test_slowfast_frame_list(prep: Prep, prepared: dict[str, Path], linked: bool, tmp_path: Path) -> None:
    flags = ["--link", tmp_path / "links"] if linked else []
    done = prep(
        *("export", prepared["frames"], "--format", "slowfast", "--subset", "test01", "--out", tmp_path / "val.csv"),
        *flags,
    )
    assert done.returncode == 0, done.stderr
    assert "note:" not in done.stdout
    found = readers.slowfast_frames(tmp_path / "val.csv", "")
    expected = stored(prepared["frames"], "test01")
    assert len(found) == len(expected) == 8
    for (name, rows), (source, jpegs, label) in zip(found.items(), expected, strict=True):
        assert name == source.removesuffix(".avi")
        assert [Path(path).read_bytes() for path, _ in rows] == jpegs
        assert all(labels == [label] for _, labels in rows)


@pytest.mark.parametrize("store", ["arrow", "frames"])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("format_name", VIDEO_FORMATS)
def test_video_lists(
    prep: Prep, prepared: dict[str, Path], synthetic: Path, store: str, format_name: str, linked: bool, tmp_path: Path
) -> None:
    flags = ["--link", tmp_path / "links"] if linked else []
    done = prep(
        *("export", prepared[store], "--format", format_name, "--videos", synthetic, "--out", tmp_path / "list.txt"),
        *(*flags, "--json"),
    )
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert (table["kind"], table["subset"], table["num_videos"], table["num_left_out"]) == ("videos", "all", 16, 0)
    assert table["num_links"] == (16 if linked else 0)
    found = VIDEO_READERS[format_name](tmp_path / "list.txt")
    expected = stored(prepared[store], "all")
    assert [(Path(path).read_bytes(), label) for path, label in found] == [
        ((synthetic / source).read_bytes(), label) for source, _, label in expected
    ]
    assert all(Path(path).suffix == ".avi" for path, _ in found)


@pytest.mark.parametrize("kind", ["frames", "videos"])
def test_round_trip(prep: Prep, prepared: dict[str, Path], synthetic: Path, kind: str, tmp_path: Path) -> None:
    """Scan, extraction, export, and a scan by the lists give the same table."""
    lists = []
    for subset in ("train01", "test01"):
        lists += ["--annotations", tmp_path / f"ucf101_{subset[:-2]}_split_1.txt"]
        flags = ["--videos", synthetic] if kind == "videos" else []
        done = prep(
            *("export", prepared["frames"], "--format", "paddlevideo", "--subset", subset, "--out", lists[-1], *flags)
        )
        assert done.returncode == 0, done.stderr
    with open_dataset(prepared["frames"]) as dataset:
        (tmp_path / "classes.json").write_text(json.dumps(dataset.classes))
    before = tmp_path / "before.parquet"
    after = tmp_path / "after.parquet"
    assert prep("scan", synthetic, "--dataset", "ucf101", "--out", before).returncode == 0
    flags = ["--classes", tmp_path / "classes.json", "--out", after, "--json"]
    done = prep("scan", synthetic, "--dataset", "list", *lists, *flags)
    assert done.returncode == 0, done.stderr
    assert read_sources(after).sources == read_sources(before).sources
    assert read_sources(after).classes == read_sources(before).classes
    counts = json.loads(done.stdout)["reconciliation"]["counts"]
    assert {name: (c["num_videos"], c["num_lines"], c["num_missing"], c["num_near"]) for name, c in counts.items()} == {
        "all": (16, None, 0, 0),
        "test01": (8, 8, 0, 0),
        "train01": (8, 8, 0, 0),
    }


def test_round_trip_of_names_that_other_names_end_in(prep: Prep, tmp_path: Path) -> None:
    """File names that every folder has, a suffix within a name, two videos with one name but the suffix."""
    clip = write_clip(tmp_path / "clip.avi", Clip(name="clip", codec="mpeg4", num_frames=2)).read_bytes()
    names = ["train/A/001", "train/B/001", "val/A/001", "val/B/001", "more/train/A/001", "val/B/clip.h264"]
    for name in [*names, "val/A/twin"]:
        (tmp_path / "videos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "videos" / f"{name}.avi").write_bytes(clip)
    (tmp_path / "videos" / "val" / "A" / "twin.mkv").write_bytes(clip)
    done = prep("extract", tmp_path / "videos", "--out", tmp_path / "out", "--store", "frames", "--quiet")
    assert done.returncode == 0, done.stderr
    done = prep("export", tmp_path / "out", "--format", "tsm", "--out", tmp_path / "all.txt")
    assert done.returncode == 0, done.stderr
    assert "note: in training TSM leaves out 8 videos of fewer than 3 frames" in done.stdout
    scan = ["scan", tmp_path / "videos", "--out", tmp_path / "s.parquet", "--json"]
    done = prep(*scan, "--dataset", "list", "--annotations", tmp_path / "all.txt")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["reconciliation"]["counts"]
    assert (counts["all"]["num_to_decode"], counts["all"]["num_excluded"]) == (8, 0)
    again = {source.source: source.label for source in read_sources(tmp_path / "s.parquet").sources}
    assert prep(*scan).returncode == 0
    assert again == {source.source: source.label for source in read_sources(tmp_path / "s.parquet").sources}


def test_an_updated_dataset(prep: Prep, tmp_path: Path) -> None:
    """Frames that moved to frames-2 are listed there, and their link follows."""
    videos, out, file = tmp_path / "videos", tmp_path / "out", tmp_path / "list.txt"
    for index, name in enumerate(("A/a", "A/b", "B/c")):
        (videos / name).parent.mkdir(parents=True, exist_ok=True)
        write_clip(videos / f"{name}.avi", Clip(name="clip", codec="mpeg4", num_frames=4 + index))
    extract = ["extract", videos, "--out", out, "--store", "frames", "--quiet"]
    export = ["export", out, "--format", "mmaction2", "--link", tmp_path / "links", "--out", file]
    assert prep(*extract).returncode == 0
    assert "made 3 links" in prep(*export).stdout
    first = file.read_text()
    assert "made 0 links" in prep(*export).stdout
    assert file.read_text() == first

    write_clip(videos / "A" / "b.avi", Clip(name="clip", codec="mpeg4", num_frames=9))
    assert prep(*extract, "--update").returncode == 0
    done = prep(*export)
    assert "made 1 link" in done.stdout, done.stderr
    found = readers.mmaction2_frames(file, "")
    assert [(num_frames, label) for _, num_frames, label in found] == [(4, 0), (9, 0), (6, 1)]
    for folder, num_frames, _ in found:
        assert all(os.path.isfile(path) for path in readers.frame_paths(folder, num_frames))
    assert os.path.realpath(found[1][0]) == str(out / "frames-2" / "A" / "b")


def test_awkward_names_and_other_rows(prep: Prep, tmp_path: Path) -> None:
    """Only ok videos of the subset are listed; a name with a blank is refused, or goes by a link."""
    out, file = tmp_path / "out", tmp_path / "list.txt"
    make_dataset(out, "frames", variety(), classes=("Juggling", "Zähne putzen", ""))
    export = [out, "--format", "paddlevideo", "--out", file]
    teeth = f"{out}/frames/Zähne putzen/日本 🎥"
    assert refused(*export, "--subset", "test01") == (
        "a paddlevideo list cannot carry 1 of 1 path, for blanks or bytes that are not UTF-8, the first of them "
        f"'{teeth}': give --link DIR, where links with plain names are made"
    )
    assert not file.exists()
    done = prep("export", *export, "--subset", "test01", "--link", tmp_path / "links", "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert (table["num_videos"], table["num_left_out"], table["num_links"]) == (1, 1, 1)
    ((folder, num_frames, label),) = readers.paddlevideo_frames(file, "")
    assert (os.path.realpath(folder), num_frames, label) == (teeth, 5, 1)
    assert folder == f"{tmp_path}/links/{plain_path('Zähne putzen/日本 🎥')}"
    text = prep("export", *export, "--subset", "test01", "--link", tmp_path / "links").stdout
    assert text == (
        f"made 0 links in {tmp_path}/links\n"
        f"wrote {file}: a frame list of 1 video of test01 for paddlevideo; left out 1 failed or excluded\n"
    )


def test_labels(prep: Prep, tmp_path: Path) -> None:
    """One without a label among others is refused; where none has one, the videos can be listed for some formats."""
    out, file, videos = tmp_path / "out", tmp_path / "list.txt", tmp_path / "videos"
    rows = [
        ok_video("a", draw_jpegs(0, 1), label=0, class_name="x", subsets=("train",)),
        ok_video("b", draw_jpegs(1, 1), subsets=("test", "train")),
        ok_video("c", draw_jpegs(2, 1), subsets=("test",)),
        other_video("d", "failed", "decode", subsets=("bad",)),
    ]
    make_dataset(out, "frames", rows, classes=("x",))
    videos.mkdir()
    for name in "abc":
        (videos / f"{name}.avi").write_bytes(name.encode())
    for format_name in FORMATS:
        sentence = (
            f"a {format_name} list needs a label for every video, and there is none for 1 of 2 videos, the first of "
            "them 'b': choose a --subset whose videos have one"
        )
        export = [out, "--format", format_name, "--out", file]
        assert refused(*export, "--subset", "train") == sentence
        assert refused(*export, "--subset", "test").endswith(BOTH)
        if format_name in VIDEO_FORMATS:
            assert refused(*export, "--subset", "train", "--videos", videos) == sentence
    assert refused(*export, "--subset", "bad") == ("the subset 'bad' has no ok video: there is nothing to list")
    assert refused(*export, "--subset", "nope").startswith("the dataset has no subset 'nope'; it has all, ")
    export = [out, "--subset", "test", "--videos", videos, "--out", file]
    assert refused(*export, "--format", "paddlevideo").endswith(BOTH)
    for format_name, label in (("mmaction2", -1), ("slowfast", 0)):
        assert prep("export", *export, "--format", format_name).returncode == 0
        assert VIDEO_READERS[format_name](file) == [(f"{videos}/b.avi", label), (f"{videos}/c.avi", label)]


def test_what_may_surprise_is_said(prep: Prep, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_dataset(out, "frames", [ok_video("1", draw_jpegs(0, 3), label=0, class_name="x")], classes=("x",))
    description = out / "dataset.json"
    description.write_text(description.read_text().replace('"dataset": "folder"', '"dataset": "ssv2"'))

    def notes(*flags: object) -> list[str]:
        table = json.loads(prep("export", out, "--json", *flags).stdout)
        return list(table["notes"])

    assert notes("--format", "tsm", "--out", tmp_path / "val.txt") == [
        "TSM's ops/dataset_config.py has the prefix '{:06d}.jpg' for Something-Something: make it 'img_{:05d}.jpg'"
    ]
    assert notes("--format", "slowfast", "--out", tmp_path / "val.txt") == [
        "SlowFast looks for train.csv, val.csv, test.csv in DATA.PATH_TO_DATA_DIR"
    ]
    assert notes("--format", "slowfast", "--out", tmp_path / "val.csv") == []


def test_refusals(prepared: dict[str, Path], synthetic: Path, tmp_path: Path) -> None:
    out, file = prepared["frames"], tmp_path / "list.txt"
    shards, plain = prepared["arrow"], ["--format", "mmaction2"]
    assert refused(shards, *plain, "--out", file) == (
        f"{shards} has shards, and a mmaction2 list names frame folders: make those with "
        "'prep extract --store frames', or list the source videos with --videos DIR"
    )
    assert refused(shards, "--format", "tsm", "--out", file) == (
        f"{shards} has shards, and a tsm list names frame folders: make those with 'prep extract --store frames'"
    )
    assert refused(out, "--format", "tsm", "--videos", synthetic, "--out", file) == (
        "tsm reads frame folders only: leave out --videos"
    )
    shutil.copytree(synthetic, tmp_path / "videos")
    first = min((tmp_path / "videos").rglob("*.avi"))
    first.unlink()
    assert refused(out, *plain, "--videos", tmp_path / "videos", "--out", file) == (
        f"'{tmp_path}/videos' lacks 1 of 16 videos, the first of them '{first.relative_to(tmp_path / 'videos')}': give "
        "--videos the folder that the dataset was made from"
    )
    assert refused(out, *plain, "--link", tmp_path / "my links", "--out", file) == (
        f"--link '{tmp_path}/my links' has a blank or is not UTF-8: choose another folder"
    )
    assert not (tmp_path / "my links").exists()
    assert refused(synthetic, *plain, "--out", file).startswith(f"{synthetic} is not a prepared dataset")
    for flag, path, folder in (
        ("--out", out / "dataset.json", out),
        ("--link", out / "frames", out),
        ("--link", synthetic / "links", synthetic),
    ):
        flags = ["--out", file] if flag == "--link" else []
        flags += ["--videos", synthetic] if folder == synthetic else []
        assert refused(out, *plain, flag, path, *flags) == (
            f"{flag} {path} would lie in {folder}: choose a place outside of it"
        )
    assert not file.exists()


def test_a_file_that_is_no_list_is_kept(prep: Prep, prepared: dict[str, Path], tmp_path: Path) -> None:
    out, file = prepared["frames"], tmp_path / "trainlist01.txt"
    export = [out, "--format", "mmaction2", "--out", file]
    for content in (b"YoYo/v_YoYo_g08_c01.avi 1\n", b"\xff\xfe\x00", b"/data/A/x 30 0\n", b"\n"):
        file.write_bytes(content)
        assert refused(*export) == (
            f"--out would replace {file}, which is no list of {out}: choose another name, or remove it"
        )
        assert file.read_bytes() == content
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert refused(*export).startswith(f"--out would replace {file}")
    file.unlink()
    file.mkdir()
    assert refused(*export).startswith(f"--out would replace {file}")
    file.rmdir()
    file.write_bytes(b"")
    assert prep("export", *export).returncode == 0
    whole = file.read_bytes()
    assert prep("export", *export, "--subset", "train01").returncode == 0
    assert prep("export", *export[:1], "--format", "slowfast", "--out", file).returncode == 0
    assert prep("export", *export).returncode == 0
    assert file.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
