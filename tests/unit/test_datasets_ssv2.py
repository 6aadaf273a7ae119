"""Something-Something V2 in miniature: templates in brackets, ids, webm."""

import json
from pathlib import Path

import pytest
from layouts import make_files, refusal, summary, write_texts

from prep.datasets import scan
from prep.reconcile import reconcile

LABELS = {"Holding something next to something": "1", "Approaching something with your camera": "0"}
CLASSES = ("Approaching something with your camera", "Holding something next to something")


def entry(video_id: str, template: str) -> dict[str, object]:
    return {"id": video_id, "label": "holding it", "template": template, "placeholders": ["it"]}


FILES = {
    "labels": LABELS,
    "train": [
        entry("78687", "Holding [something] next to [something]"),
        entry("9", "Approaching [something] with your camera"),
    ],
    "validation": [entry("74225", "Holding [something] next to [something]")],
    "test": [{"id": "1420"}],
}  # fmt: skip


def write(folder: Path, prefix: str = "", **changes: object) -> None:
    files = {name: json.dumps(content) for name, content in {**FILES, **changes}.items()}
    write_texts(folder, {f"{prefix}{name}.json": text for name, text in files.items()})


VIDEOS = ["1420.webm", "74225.webm", "78687.webm", "9.webm"]
HOLDING, APPROACHING = CLASSES[1], CLASSES[0]
EXPECTED = {
    "1420.webm": (None, "test"),
    "74225.webm": (HOLDING, "val"),
    "78687.webm": (HOLDING, "train"),
    "9.webm": (APPROACHING, "train"),
}


@pytest.mark.parametrize("prefix", ["", "something-something-v2-"])
@pytest.mark.parametrize("place", [".", "labels", "../labels", "../annotations"])
def test_official_files(prefix: str, place: str, tmp_path: Path) -> None:
    root = tmp_path / "20bn-something-something-v2"
    make_files(root, VIDEOS)
    write(root / place, prefix)
    result = scan("ssv2", root)
    assert result.classes == CLASSES
    assert summary(result) == EXPECTED
    assert (result.notes, result.near, result.num_left_out) == ((), (), {})
    assert result.num_lines == {"test": 1, "train": 2, "val": 1}
    assert {source.label for source in result.sources} == {-1, 0, 1}


def test_the_whole_table(tmp_path: Path) -> None:
    """One missing, one in another container, one twice, one empty with a good copy, one that nobody names."""
    make_files(tmp_path, ["v/78687.mp4", "v/9.mp4", "v/9.webm", "w/1420.mp4", "v/8.webm", "v/._9.webm"])
    make_files(tmp_path, {"v/1420.webm": b""})
    write(tmp_path, train=[*FILES["train"], FILES["train"][0]])  # type: ignore[misc,index]
    result = scan("ssv2", tmp_path)
    assert summary(result) == {
        "74225.webm": (HOLDING, "val"),
        "v/1420.webm": (None, "duplicate_id"),
        "v/78687.mp4": (HOLDING, "train"),
        "v/8.webm": (None, "excluded"),
        "v/9.mp4": (APPROACHING, "duplicate_id"),
        "v/9.webm": (APPROACHING, "train"),
        "w/1420.mp4": (None, "test"),
    }
    made = reconcile(result)
    rows = {
        name: (c.num_lines, c.num_repeated, c.num_videos, c.num_missing, c.num_on_disk, c.num_near, c.num_empty,
               c.num_duplicate, c.num_excluded, c.num_to_decode, c.num_classes)
        for name, c in made.counts.items()
    }  # fmt: skip
    assert rows == {
        "all": (None, 0, 7, 1, 6, 2, 1, 2, 1, 3, 2),
        "test": (1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 0),
        "train": (3, 1, 2, 0, 2, 1, 0, 0, 0, 2, 2),
        "val": (1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0),
        "(none)": (None, 0, 3, 0, 3, 0, 1, 2, 1, 0, 0),
    }
    assert made.near == (("78687.webm", "v/78687.mp4"), ("1420.webm", "w/1420.mp4"))
    assert made.missing == ("74225.webm",)
    assert made.not_listed == ("v/8.webm",)
    assert made.classes_without_video == {"val": CLASSES}


def test_two_templates_for_one_video(tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    write(tmp_path, validation=[entry("9", "Holding [something] next to [something]")])
    result = scan("ssv2", tmp_path)
    (source,) = (source for source in result.sources if source.source == "9.webm")
    assert (source.status, source.failure, source.label) == ("excluded", "duplicate_id", -1)
    assert source.detail == f"has different labels in train.json, validation.json: '{APPROACHING}', '{HOLDING}'"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"labels": []}, "labels.json': expected an object of class names and numbers"),
        ({"labels": {"a": "x"}}, "labels.json': the class 'a' has no number: 'x'"),
        ({"labels": {"a": True}}, "labels.json': the class 'a' has no number: 'True'"),
        ({"labels": {"a": "0", "b": "2"}}, "labels.json': class numbers must be 0 to 1, each once"),
        ({"train": {}}, "train.json': expected a list of videos, each with its id"),
        ({"train": [{}]}, "train.json': entry 1 has no id that a file could have: ''"),
        ({"train": [3]}, "train.json': entry 1 has no id that a file could have: ''"),
        ({"train": [entry("../x", "a")]}, "train.json': entry 1 has no id that a file could have: '../x'"),
        ({"train": [entry("1", "Holding [it]")]},
         "train.json', id '1': its template is not in labels.json: 'Holding it'"),
    ],
)  # fmt: skip
def test_refused_files(changes: dict[str, object], expected: str, tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    write(tmp_path, **changes)
    assert refusal(lambda: scan("ssv2", tmp_path)) == f"'{tmp_path}/{expected}"


def test_refused_annotations(tmp_path: Path) -> None:
    make_files(tmp_path, VIDEOS)
    write_texts(tmp_path, {"train.json": "[]"})
    assert refusal(lambda: scan("ssv2", tmp_path)) == (
        "one labels.json is needed, there is none: name the annotations with --annotations"
    )
    write_texts(tmp_path, {"labels.json": '{"a": "0"}', "train.json": "{"})
    assert refusal(lambda: scan("ssv2", tmp_path)).startswith(f"'{tmp_path}/train.json' is no JSON file: ")
    (tmp_path / "train.json").write_text('[{"id": "\\ud800"}]')
    assert refusal(lambda: scan("ssv2", tmp_path)).startswith(f"'{tmp_path}/train.json' is no JSON file: ")
    (tmp_path / "train.json").unlink()
    assert refusal(lambda: scan("ssv2", tmp_path)) == (
        f"no train.json, validation.json or test.json beside '{tmp_path}/labels.json'"
    )
    (tmp_path / "test.json").write_text('[{"id": "5"}]')
    assert refusal(lambda: scan("ssv2", tmp_path)) == (
        f"no video under '{tmp_path}' has an id of 'test.json' (such as 5.webm): give the folder that holds these "
        "videos"
    )
