"""dataset.json: what is written comes back, and what is not one is told apart from one that is damaged."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from manifests.description import (
    Description,
    hash_classes,
    hash_file,
    is_dataset,
    read_description,
    write_description,
)
from manifests.errors import DamagedError, UsageError

CLASSES = ("Apply Lipstick", "Zähne putzen", "日本", "")
DESCRIPTION = Description(
    dataset="ucf101",
    recipe={"decoder": "pyav", "frames": {"quality": 90}},
    classes=CLASSES,
    classes_sha256=hash_classes(CLASSES),
    subsets={"all": 6, "train01": 4},
    counts={"ok": 3, "failed": 2, "excluded": 1},
    failures={"decode": 2},
    num_frames=12,
    num_bytes=2**40,
    manifest_sha256="0" * 64,
    frames_sha256="1" * 64,
    libraries={"av": "1.2.3"},
)


def test_it_comes_back(tmp_path: Path) -> None:
    assert not is_dataset(tmp_path)
    write_description(tmp_path, DESCRIPTION)
    assert is_dataset(tmp_path)
    assert read_description(tmp_path) == DESCRIPTION


def test_what_other_programs_find_in_it(tmp_path: Path) -> None:
    write_description(tmp_path, DESCRIPTION)
    text = (tmp_path / "dataset.json").read_text(encoding="utf-8")
    assert "Zähne putzen" in text  # for people, too
    assert text.endswith("}\n")
    assert json.loads(text) == {
        "format": "decode-once.dataset",
        "format_version": 1,
        **dataclasses.asdict(DESCRIPTION),
        "classes": list(CLASSES),
    }


def test_the_hash_of_classes() -> None:
    joined = "Apply Lipstick\nZähne putzen\n日本\n".encode()
    assert hash_classes(CLASSES) == hashlib.sha256(joined).hexdigest()
    assert hash_classes(()) == hashlib.sha256(b"").hexdigest()
    assert len({hash_classes(names) for names in (["a", "b"], ["b", "a"], ["ab"], ["a"])}) == 4


def test_the_hash_of_a_file(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    (tmp_path / "x").write_bytes(content)
    assert hash_file(tmp_path / "x") == hashlib.sha256(content).hexdigest()
    with pytest.raises(FileNotFoundError):
        hash_file(tmp_path / "y")


def test_where_there_is_no_dataset(tmp_path: Path) -> None:
    for folder, end in ((tmp_path, ", which prep extract makes"), (tmp_path / "missing", ", and is not there at all")):
        with pytest.raises(UsageError) as caught:
            read_description(folder)
        assert str(caught.value) == f"{folder} is not a prepared dataset: it has no dataset.json{end}"
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file is not a prepared dataset"):
        read_description(tmp_path / "file")


def test_where_a_run_is_not_finished(tmp_path: Path) -> None:
    (tmp_path / ".work").mkdir()
    with pytest.raises(UsageError) as caught:
        read_description(tmp_path)
    assert str(caught.value) == f"{tmp_path} is not finished: run the command that makes it again, which resumes"


def test_a_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").mkdir()
    assert not is_dataset(tmp_path)
    with pytest.raises(DamagedError, match=r"cannot read .*dataset\.json: .*Is a directory"):
        read_description(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"\0" * 100, b'{"format": }'])
def test_what_is_no_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dataset.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"^cannot read .*/dataset\.json: "):
        read_description(tmp_path)


@pytest.mark.parametrize("content", ["[]", "3", "null", "{}", '{"format": "decode-once.sources"}'])
def test_other_json(tmp_path: Path, content: str) -> None:
    (tmp_path / "dataset.json").write_text(content)
    with pytest.raises(
        DamagedError, match=r"does not describe a prepared dataset: its format is not decode-once\.dataset"
    ):
        read_description(tmp_path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version(tmp_path: Path, version: object) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"format": "decode-once.dataset", "format_version": version}))
    with pytest.raises(DamagedError, match=f"has format version {version}; this program reads version 1"):
        read_description(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": 3},
        {"classes": [1, 2]},
        {"classes": None},
        {"counts": [3, 2, 1]},
        {"counts": {"ok": 6}},
        {"counts": {"ok": 3, "failed": 2, "excluded": "1"}},
        {"counts": {"ok": 3, "failed": 3, "excluded": 1}},
        {"counts": {"ok": 3, "failed": 4, "excluded": -1}},
        {"subsets": {"train01": 4}},
        {"subsets": None},
        {"failures": {"decode": None}},
        {"failures": "decode"},
        {"num_frames": 1.5},
        {"num_bytes": True},
        {"num_frames": None},
        {"recipe": []},
        {"libraries": {"av": 1}},
        {"manifest_sha256": None},
        {"dataset": 1},
        {"more": 1},
    ],
)
def test_fields_that_make_no_sense(tmp_path: Path, changes: dict[str, Any]) -> None:
    table = {"format": "decode-once.dataset", "format_version": 1, **dataclasses.asdict(DESCRIPTION), **changes}
    (tmp_path / "dataset.json").write_text(json.dumps(table))
    with pytest.raises(DamagedError, match=r"/dataset\.json has a field that is missing, unknown or makes no sense: "):
        read_description(tmp_path)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Description)])
def test_fields_that_are_missing(tmp_path: Path, name: str) -> None:
    table = {"format": "decode-once.dataset", "format_version": 1, **dataclasses.asdict(DESCRIPTION)}
    del table[name]
    (tmp_path / "dataset.json").write_text(json.dumps(table))
    with pytest.raises(DamagedError, match=f"missing.*'{name}'"):
        read_description(tmp_path)
