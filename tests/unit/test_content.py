"""Which files are the same byte for byte."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import make_files

from manifests.records import Source
from prep.content import identical_files
from prep.datasets import scan


def test_size_piece_and_whole(tmp_path: Path) -> None:
    """Same size is not enough, nor the same piece in the middle."""
    body = bytes(range(256)) * 100
    make_files(
        tmp_path,
        {
            "a.avi": body,
            "b.avi": body,
            "A/c.avi": body,
            "end.avi": body[:-1] + b"!",
            "start.avi": b"!" + body[1:],
            "middle.avi": body[:12800] + b"!" + body[12801:],
            "twin 1.avi": b"xy",
            "twin 2.avi": b"xy",
            "other.avi": b"yx",
            "empty 1.avi": b"",
            "empty 2.avi": b"",
        },
    )
    assert identical_files(tmp_path, scan("folder", tmp_path).sources) == [
        ("A/c.avi", "a.avi", "b.avi"),
        ("twin 1.avi", "twin 2.avi"),
    ]


def test_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    make_files(tmp_path, {"a.avi": b"x", "b.avi": b"x", "c.avi": b"x"})
    sources = scan("folder", tmp_path).sources
    (tmp_path / "b.avi").unlink()
    assert identical_files(tmp_path, sources) == [("a.avi", "c.avi")]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=3), min_size=1, max_size=8))
def test_groups_are_those_of_equal_contents(tmp_path_factory, contents: list[bytes]) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path_factory.mktemp("content")
    names = [f"{number}.avi" for number in range(len(contents))]
    make_files(root, dict(zip(names, contents, strict=True)))
    sources = [
        Source(video_id=name, source=name, source_bytes=len(content))
        for name, content in zip(names, contents, strict=True)
    ]
    expected = sorted(
        tuple(name for name, other in zip(names, contents, strict=True) if other == content)
        for content in {content for content in contents if content and contents.count(content) > 1}
    )
    assert identical_files(root, sources) == expected
