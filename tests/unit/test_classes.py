"""A class order from a file: read in every form, imposed, and refused where it is of another set."""

from dataclasses import replace
from pathlib import Path

import pytest
from layouts import make_files, refusal, write_texts

from prep.classes import impose_order, read_class_file
from prep.datasets import Scan, scan

FILE = Path("order.txt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.txt", "walk\nbrush hair\n3 point shot\n"),
        ("c.txt", "\ufeffwalk\r\n\r\n brush hair \r\n3 point shot"),
        ("c.txt", "2 brush hair\n1 walk\n3 3 point shot\n"),
        ("c.csv", "1,brush hair\n0,walk\n2,3 point shot\n"),
        ("c.json", '["walk", "brush hair", "3 point shot"]'),
        ("c.json", '{"brush hair": 1, "3 point shot": "2", "walk": 0}'),
        ("c.json", '{"\\"brush hair\\"": 2, "3 point shot": 3, "walk": 1}'),
    ],
)
def test_forms(name: str, text: str, tmp_path: Path) -> None:
    write_texts(tmp_path, {name: text})
    assert read_class_file(tmp_path / name) == ["walk", "brush hair", "3 point shot"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("c.txt", "\n", "is no list of classes: give one name a line, or a .json list or object"),
        ("c.json", "[1, 2]", "is no list of classes: give one name a line, or a .json list or object"),
        ("c.json", '{"a": 0, "b": 2}', "is no list of classes: give one name a line, or a .json list or object"),
        ("c.json", '{"a": null}', "is no list of classes: give one name a line, or a .json list or object"),
        ("c.txt", "a\nb\na\n", "has a class twice: 'a'"),
    ],
)
def test_refused_files(name: str, text: str, expected: str, tmp_path: Path) -> None:
    write_texts(tmp_path, {name: text})
    assert refusal(lambda: read_class_file(tmp_path / name)) == f"'{tmp_path / name}' {expected}"


@pytest.fixture
def found(tmp_path: Path) -> Scan:
    make_files(tmp_path, ["brush hair/1.avi", "walk/2.avi", "shooting goal (soccer)/3.avi", "4.avi"])
    return scan("folder", tmp_path)


def test_the_order_is_imposed(found: Scan) -> None:
    assert found.classes == ("brush hair", "shooting goal (soccer)", "walk")
    result = impose_order(found, ["walk", "Shooting_goal_soccer", "brush_hair"], FILE)
    assert result.classes == ("walk", "shooting goal (soccer)", "brush hair")
    assert {s.source: (s.label, s.class_name) for s in result.sources} == {
        "4.avi": (-1, None),
        "brush hair/1.avi": (2, "brush hair"),
        "shooting goal (soccer)/3.avi": (1, "shooting goal (soccer)"),
        "walk/2.avi": (0, "walk"),
    }
    assert replace(result, sources=(), classes=()) == replace(found, sources=(), classes=())


@pytest.mark.parametrize(
    ("order", "difference"),
    [
        (["walk", "brush hair"], "it lacks 1 ('shooting goal (soccer)')"),
        (
            ["walk", "brush hair", "run", "shooting goal (football)"],
            "it lacks 1 ('shooting goal (soccer)') and 2 of its own are unknown ('run', 'shooting goal (football)')",
        ),
        (["walk", "brush hair", "shooting goal (soccer)", "run"], "1 of its own are unknown ('run')"),
        (["walk", "Walk", "brush hair", "shooting goal (soccer)"], "two of its names mean one class"),
    ],
)
def test_a_file_of_another_set_is_refused(found: Scan, order: list[str], difference: str) -> None:
    assert refusal(lambda: impose_order(found, order, FILE)) == (
        f"'order.txt' does not have the 3 classes of the set: {difference}"
    )


def test_numbers_get_names(tmp_path: Path) -> None:
    make_files(tmp_path, ["a.avi", "b.avi"])
    write_texts(tmp_path, {"train.txt": "a.avi 0\nb.avi 2\n"})
    numbers = scan("list", tmp_path, [tmp_path / "train.txt"])
    assert numbers.classes == ("0", "1", "2")
    named = impose_order(numbers, ["walk", "run", "jump", "sit"], FILE)
    assert named.classes == ("walk", "run", "jump", "sit")
    assert [(s.label, s.class_name) for s in named.sources] == [(0, "walk"), (2, "jump")]
    assert not named.numbered
    assert refusal(lambda: impose_order(numbers, ["walk", "run"], FILE)) == (
        "'order.txt' has 2 classes, and the lists have the label 2"
    )
