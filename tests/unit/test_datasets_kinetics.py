"""Kinetics in miniature: official tables, label folders and flat mirrors, odd ids, copies, replacements, links."""

from collections.abc import Callable
from pathlib import Path

import pytest
from layouts import by_source, make_files, refusal, summary, write_texts

from prep.datasets import scan
from prep.reconcile import reconcile

# label, id, start, end, subset; ids of 11 characters that begin with -, _ and a digit
CLIPS = [
    ("abseiling", "-3B32lodo2M", 59, 69, "train"),
    ("air drumming", "_dbcJuKJQNs", 40, 50, "train"),
    ("massaging person's head", "0123456789a", 0, 10, "train"),
    ("air drumming", "--nQbRBEz2s", 104, 114, "val"),
    ("passing American football (in game)", "A_b-C_d-E_f", 7, 17, "val"),
    (None, "testtesttes", 3, 13, "test"),
]
CLASSES = ("abseiling", "air drumming", "massaging person's head", "passing American football (in game)")


def name_of(clip: tuple[str | None, str, int, int, str]) -> str:
    _, youtube_id, start, end, _ = clip
    return f"{youtube_id}_{start:06d}_{end:06d}"


def tables(*, is_cc: bool, quoted: bool = True, words: dict[str, str] | None = None) -> dict[str, str]:
    """The official tables: six columns (Kinetics-400) or five, the test table without labels."""
    head = "label,youtube_id,time_start,time_end,split" + (",is_cc" if is_cc else "")
    texts = {"train.csv": head, "val.csv": head, "test.csv": "youtube_id,time_start,time_end,split"}
    for label, youtube_id, start, end, subset in CLIPS:
        word = (words or {}).get(subset, subset)
        label_field = f'"{label}",' if quoted and label and " " in label else f"{label}," if label else ""
        row = f"{label_field}{youtube_id},{start},{end},{word}"
        texts[f"{subset}.csv"] += f"\r\n{row}" + (",0" if is_cc and label else "")
    return {name: f"{text}\r\n" for name, text in texts.items()}


def underscored(label: str) -> str:
    """The rule of a common script: blanks to underscores, quotes and brackets dropped."""
    return label.replace(" ", "_").translate({ord(c): None for c in "'\"()"})


def in_label_folders(fold: Callable[[str], str]) -> Callable[..., str]:
    return lambda clip: f"{clip[4]}/{fold(clip[0])}/{name_of(clip)}.mp4" if clip[0] else f"test/{name_of(clip)}.mp4"


LAYOUTS: dict[str, Callable[..., str]] = {
    "blanks": in_label_folders(str),
    "underscores": in_label_folders(underscored),
    "flat mirror": lambda clip: f"{clip[4]}/{name_of(clip)}.mp4",
    "one folder": lambda clip: f"{name_of(clip)}.mp4",
    "without times": lambda clip: f"videos_{clip[4]}/{clip[1]}.mp4",
    "times not padded": lambda clip: f"{clip[1]}_{clip[2]}_{clip[3]}.webm",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_cc", [True, False], ids=["six columns", "five columns"])
def test_layouts(layout: str, is_cc: bool, tmp_path: Path) -> None:
    place = LAYOUTS[layout]
    make_files(tmp_path, [place(clip) for clip in CLIPS])
    write_texts(tmp_path / "annotations", tables(is_cc=is_cc))
    result = scan("kinetics", tmp_path)
    assert result.classes == CLASSES
    assert summary(result) == {place(clip): (clip[0], clip[4]) for clip in sorted(CLIPS, key=place)}
    assert result.num_lines == {"test": 1, "train": 3, "val": 2}
    assert result.notes == ()
    assert result.disagreements == ()
    assert result.suggestions == ()
    is_near = layout in ("without times", "times not padded")
    assert result.near == (tuple((name_of(c), place(c)) for c in sorted(CLIPS, key=place)) if is_near else ())


@pytest.mark.parametrize("place", [".", "annotations", "../annotations"])
def test_where_tables_lie_and_how_they_are_called(place: str, tmp_path: Path) -> None:
    root = tmp_path / "k700"
    make_files(root, [f"{name_of(clip)}.mp4" for clip in CLIPS])
    renamed = {f"kinetics-700_{name}": text for name, text in tables(is_cc=False, words={"val": "validate"}).items()}
    write_texts(root / place, {**renamed, "classes.csv": "id,name\n0,abseiling\n", "README.txt": "read me"})
    result = scan("kinetics", root)
    assert {source.subsets for source in result.sources} == {("train",), ("val",), ("test",)}
    assert result.num_left_out == ({"other_files": 2} if place != "../annotations" else {})


def test_a_table_and_a_list_in_text_are_read_together(tmp_path: Path) -> None:
    """The table may lack rows that the text file has."""
    make_files(tmp_path, [f"{name_of(clip)}.mp4" for clip in CLIPS])
    texts = tables(is_cc=False)
    texts["val.txt"] = texts["val.csv"]
    texts["val.csv"] = "\r\n".join(texts["val.csv"].split("\r\n")[:2])
    write_texts(tmp_path, texts)
    result = scan("kinetics", tmp_path)
    assert result.num_lines["val"] == 3
    assert reconcile(result).counts["val"].num_repeated == 1
    assert reconcile(result).counts["val"].num_videos == 2


def test_subset_by_the_name_of_a_table_without_the_column(tmp_path: Path) -> None:
    make_files(tmp_path, ["x.mp4", "y.mp4"])
    write_texts(tmp_path, {"kinetics_validate.csv": "label,youtube_id\na,x\n", "mine.csv": "label,youtube_id\na,y\n"})
    assert summary(scan("kinetics", tmp_path)) == {"x.mp4": ("a", "val"), "y.mp4": ("a", "mine")}


def test_labels_in_two_spellings_are_one_class(tmp_path: Path) -> None:
    make_files(tmp_path, [f"{name_of(clip)}.mp4" for clip in CLIPS])
    texts = tables(is_cc=False)
    texts["val.csv"] = texts["val.csv"].replace('"air drumming"', "air_drumming")
    write_texts(tmp_path, texts)
    result = scan("kinetics", tmp_path)
    assert result.classes == CLASSES
    assert result.notes == ("took the label 'air_drumming' for 'air drumming'",)


def test_the_whole_table(tmp_path: Path) -> None:
    """Of each quirk one: missing, unlisted, empty, AppleDouble, replaced, copied, wrong folders, two labels, links."""
    clips = {clip[1]: name_of(clip) for clip in CLIPS}
    elsewhere = tmp_path / "elsewhere"
    root = tmp_path / "root"
    make_files(
        root,
        {
            f"train/{clips['_dbcJuKJQNs']}.mp4": b"corrupt",
            f"replacement/replacement_for_corrupted_k400/{clips['_dbcJuKJQNs']}.mp4": b"whole",
            f"train/abseiling/{clips['0123456789a']}.mp4": b"in the folder of another class",
            f"train/{clips['--nQbRBEz2s']}.mp4": b"in the folder of another subset",
            f"val/{clips['A_b-C_d-E_f']}.mp4": b"",
            f"val/._{clips['A_b-C_d-E_f']}.mp4": b"AppleDouble",
            "train/unlisted_id_000001_000011.mp4": b"unlisted",
            "train/-3B32lodo2M_000060_000070.mp4": b"other times",
            "val/air_drumming/two_labels1_000000_000010.mp4": b"two labels",
        },
    )
    make_files(elsewhere, {"t.mp4": b"test"})
    (root / "test").mkdir()
    (root / f"test/{clips['testtesttes']}.mp4").symlink_to(elsewhere / "t.mp4")
    texts = tables(is_cc=True)
    texts["val.csv"] += "abseiling,two_labels1,0,10,val,0\r\nair drumming,two_labels1,0,10,val,0\r\n"
    write_texts(root / "annotations", texts)
    result = scan("kinetics", root)
    made = reconcile(result)
    replacement = f"replacement/replacement_for_corrupted_k400/{clips['_dbcJuKJQNs']}.mp4"
    wrong_class, wrong_subset = f"train/abseiling/{clips['0123456789a']}.mp4", f"train/{clips['--nQbRBEz2s']}.mp4"
    two_labels = "val/air_drumming/two_labels1_000000_000010.mp4"
    assert summary(result) == {
        f"{clips['-3B32lodo2M']}.mp4": ("abseiling", "train"),
        replacement: ("air drumming", "train"),
        f"test/{clips['testtesttes']}.mp4": (None, "test"),
        "train/-3B32lodo2M_000060_000070.mp4": (None, "excluded"),
        wrong_subset: ("air drumming", "val"),
        f"train/{clips['_dbcJuKJQNs']}.mp4": ("air drumming", "duplicate_id"),
        wrong_class: ("massaging person's head", "train"),
        "train/unlisted_id_000001_000011.mp4": (None, "excluded"),
        f"val/{clips['A_b-C_d-E_f']}.mp4": ("passing American football (in game)", "val"),
        two_labels: (None, "val"),
    }
    rows = {
        name: (c.num_lines, c.num_repeated, c.num_videos, c.num_missing, c.num_on_disk, c.num_empty, c.num_disagree,
               c.num_duplicate, c.num_excluded, c.num_to_decode, c.num_classes)
        for name, c in made.counts.items()
    }  # fmt: skip
    assert rows == {
        "all": (None, 0, 10, 1, 9, 1, 3, 2, 2, 5, 3),
        "test": (1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0),
        "train": (3, 0, 3, 1, 2, 0, 1, 0, 0, 2, 2),
        "val": (4, 1, 3, 0, 3, 1, 2, 1, 0, 2, 2),
        "(none)": (None, 0, 3, 0, 3, 0, 0, 1, 2, 0, 0),
    }
    assert made.missing == (f"{clips['-3B32lodo2M']}.mp4",)
    assert made.suggestions == ((f"{clips['-3B32lodo2M']}.mp4", "train/-3B32lodo2M_000060_000070.mp4"),)
    assert made.duplicate_ids == (
        (f"train/{clips['_dbcJuKJQNs']}.mp4", f"has the id of {replacement}, which is taken"),
        (two_labels, "has different labels in val.csv: 'abseiling', 'air drumming'"),
    )
    assert made.disagreements == (
        (wrong_subset, "lies in a folder train, is in val by the tables"),
        (wrong_class, "lies in the folder of 'abseiling', is \"massaging person's head\" by the tables"),
        (two_labels, "has different labels in val.csv: 'abseiling', 'air drumming'"),
    )
    assert made.empty == (f"val/{clips['A_b-C_d-E_f']}.mp4",)
    assert made.num_left_out == {"apple_double": 1}
    assert made.classes_without_video == {
        "all": ("abseiling",),
        "train": ("abseiling", "passing American football (in game)"),
        "val": ("abseiling", "massaging person's head"),
    }
    assert by_source(result)[f"{clips['-3B32lodo2M']}.mp4"].detail == "named in train.csv, not on disk"


def test_a_tree_of_links_beside_the_files_themselves(tmp_path: Path) -> None:
    """The tree that a common script makes for flat files: each clip is there twice, and taken once."""
    for clip in CLIPS[:5]:
        make_files(tmp_path, [f"{clip[4]}/{name_of(clip)}.mp4"])
        folder = tmp_path / "videos" / clip[4] / str(clip[0])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name_of(clip)}.mp4").symlink_to(tmp_path / clip[4] / f"{name_of(clip)}.mp4")
    write_texts(tmp_path / "annotations", tables(is_cc=True))
    result = scan("kinetics", tmp_path)
    taken = {source.source for source in result.sources if source.status is None}
    assert taken == {f"videos/{clip[4]}/{clip[0]}/{name_of(clip)}.mp4" for clip in CLIPS[:5]}
    assert sum(source.failure == "duplicate_id" for source in result.sources) == 5
    linked = scan("kinetics", tmp_path / "videos", [tmp_path / "annotations"])
    assert [source.failure for source in linked.sources if source.status] == ["missing"]


def test_which_copy_is_taken(tmp_path: Path) -> None:
    name = f"{name_of(CLIPS[0])}.mp4"
    order = [f"replacement_x/{name}", f"val/abseiling/{name}", f"train/{name}", f"a/{name}", f"b/{name}"]
    make_files(tmp_path, order)
    make_files(tmp_path, {f"replacement_empty/{name}": b""})
    write_texts(tmp_path / "annotations", tables(is_cc=True))
    for path in order:
        (taken,) = (s.source for s in scan("kinetics", tmp_path).sources if s.status is None)
        assert taken == path
        (tmp_path / path).unlink()
    (last,) = (s.source for s in scan("kinetics", tmp_path).sources if s.status is None)
    assert last == f"replacement_empty/{name}"


def test_an_id_with_several_clips_needs_times(tmp_path: Path) -> None:
    make_files(tmp_path, ["x.mp4", "x_000010_000020.mp4"])
    write_texts(tmp_path, {"train.csv": "label,youtube_id,time_start,time_end\na,x,0,10\na,x,10.0,20.5\n"})
    result = scan("kinetics", tmp_path)
    assert summary(result) == {
        "x.mp4": (None, "excluded"),
        "x_000000_000010.mp4": ("a", "train"),
        "x_000010_000020.mp4": ("a", "train"),
    }
    assert result.suggestions == (("x_000000_000010.mp4", "x.mp4"),)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("a,x,0,10", "expected 5 fields, got 4: 'a,x,0,10'"),
        ("a,b,x,0,10,train", "expected 5 fields, got 6: 'a,b,x,0,10,train'"),
        ("a,x/y,0,10,train", "'x/y' is no YouTube id"),
        ("a,..,0,10,train", "'..' is no YouTube id"),
        ("a,,0,10,train", "'' is no YouTube id"),
        ("a,x,0:10,10,train", "expected times in seconds, got '0:10 and 10'"),
        ("a,x,,10,train", "expected times in seconds, got ' and 10'"),
        ('"a,x,0,10,train', "no table: unexpected end of data"),
    ],
)
def test_refused_rows(row: str, expected: str, tmp_path: Path) -> None:
    make_files(tmp_path, ["x.mp4"])
    write_texts(tmp_path, {"train.csv": f"label,youtube_id,time_start,time_end,split\na,y,0,10,train\n{row}"})
    assert refusal(lambda: scan("kinetics", tmp_path)) == f"'{tmp_path}/train.csv', line 3: {expected}"


def test_refused_annotations(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make_files(root, ["x.mp4"])
    names = "tables with a column youtube_id, such as train.csv"
    assert refusal(lambda: scan("kinetics", root)) == (
        f"no annotations at '{root}', '{root}/annotations', '{tmp_path}/annotations' ({names}): name them, or their "
        "folder, with --annotations"
    )
    write_texts(
        tmp_path, {"other.csv": "id,name\n", "train.csv": "label,youtube_id\n", "val.csv": "label,youtube_id\na,y"}
    )
    assert refusal(lambda: scan("kinetics", root, [tmp_path / "other.csv"])) == (
        f"'{tmp_path}/other.csv' is no annotation of this dataset, nor a folder of such ({names})"
    )
    assert refusal(lambda: scan("kinetics", root, [tmp_path / "train.csv"])) == (
        f"'{tmp_path}/train.csv' names no video"
    )
    assert refusal(lambda: scan("kinetics", root, [tmp_path / "val.csv"])) == (
        f"no video under '{root}' has the name of a clip of 'val.csv' (such as 'y'): give the folder that holds these "
        "videos"
    )
