"""Links under plain names: unique, stable, and never in the place of anything else."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import refusal

from prep.links import make_links, plain_path

_PARTS = st.one_of(st.binary(min_size=1, max_size=255), st.lists(st.sampled_from(b" ab.~_\xe9"), min_size=1).map(bytes))
_PATHS = (
    st.lists(_PARTS.filter(lambda part: not {0, 47} & set(part) and part not in (b".", b"..")), min_size=1, max_size=3)
    .map(b"/".join)
    .map(os.fsdecode)
)


@given(_PATHS)
def test_names_are_plain(path: str) -> None:
    plain = plain_path(path)
    parts = plain.split("/")
    assert len(parts) == len(path.split("/"))
    assert all(re.fullmatch(r"[A-Za-z0-9_+~-][A-Za-z0-9._+~-]{0,254}", part) for part in parts)


@given(_PATHS, _PATHS)
def test_different_paths_stay_different(one: str, other: str) -> None:
    assert (plain_path(one) == plain_path(other)) == (one == other)


@given(st.text("abcXYZ019._+-", min_size=1).filter(lambda name: name[0] != "."))
def test_plain_names_stay(name: str) -> None:
    assert plain_path(f"{name}/{name}") == f"{name}/{name}"


def test_names_by_example() -> None:
    """Pinned, since lists from before must find the links of later exports."""
    assert plain_path("brush hair/x.avi") == "brush_hair~6db77437d20f1769/x.avi"
    assert plain_path("a/#20 a b!.c d.mp4") == "a/_20_a_b_.c_d~3384d5c5af5cc46c.mp4"
    assert plain_path("-3B32lodo2M_000059_000069.mp4") == "-3B32lodo2M_000059_000069.mp4"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name in ("frames/A b/x", "frames/y", "frames-2/y", "frames/z"):
        (tmp_path / "out" / name).mkdir(parents=True)
    return tmp_path / "out"


def targets(out: Path, *locations: str) -> dict[str, str]:
    return {location.partition("/")[2]: f"{out}/{location}" for location in locations}


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): os.readlink(path) for path in folder.rglob("*") if path.is_symlink()}


def test_made_once_kept_and_mended(out: Path, tmp_path: Path) -> None:
    links = tmp_path / "deep" / "links"
    wanted = targets(out, "frames/A b/x", "frames/y")
    assert make_links(str(links), wanted, str(out)) == 2
    made = tree(links)
    assert made == {plain_path("A b/x"): f"{out}/frames/A b/x", "y": f"{out}/frames/y"}
    inodes = {name: (links / name).lstat().st_ino for name in made}
    assert make_links(str(links), wanted, str(out)) == 0
    assert {name: (links / name).lstat().st_ino for name in made} == inodes

    assert make_links(str(links), targets(out, "frames-2/y", "frames/z"), str(out)) == 2  # an update moved y
    assert tree(links) == {**made, "y": f"{out}/frames-2/y", "z": f"{out}/frames/z"}

    moved = out.rename(tmp_path / "moved")
    assert make_links(str(links), targets(moved, "frames/z"), str(moved)) == 1  # the old one leads nowhere
    assert tree(links)["z"] == f"{moved}/frames/z"
    assert not list(links.rglob(".tmp-*"))


def test_nothing_else_is_replaced(out: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    wanted = targets(out, "frames/A b/x", "frames/y", "frames/z")
    (links / "z").write_text("mine")
    in_the_way = f"'{links}/z' is no link that an export made: choose another --link, or move it away"
    assert refusal(lambda: make_links(str(links), wanted, str(out))) == in_the_way
    assert [path.name for path in links.iterdir()] == ["z"]
    assert (links / "z").read_text() == "mine"
    (links / "z").unlink()
    (links / "z").mkdir()
    assert refusal(lambda: make_links(str(links), wanted, str(out))) == in_the_way
    (links / "z").rmdir()

    other = tmp_path / "other" / "frames" / "z"
    other.mkdir(parents=True)
    for target in (other, tmp_path, out / "frames" / "y"):
        (links / "z").symlink_to(target)
        assert refusal(lambda: make_links(str(links), wanted, str(out))) == (
            f"the link '{links}/z' points to '{target}': choose another --link, one for each dataset"
        )
        assert tree(links) == {"z": str(target)}
        (links / "z").unlink()


def test_no_link_goes_into_a_folder_behind_a_link(out: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    make_links(str(links), targets(out, "frames/y"), str(out))
    (tmp_path / "out2" / "frames" / "y" / "z").mkdir(parents=True)
    wanted = targets(tmp_path / "out2", "frames/y/z")
    assert refusal(lambda: make_links(str(links), wanted, str(tmp_path / "out2"))) == (
        f"'{links}/y' is in the way of a folder of links: choose another --link"
    )
    assert list((out / "frames" / "y").iterdir()) == []


def test_the_folder_of_links_is_a_file(out: Path, tmp_path: Path) -> None:
    (tmp_path / "links").write_text("")
    assert refusal(lambda: make_links(str(tmp_path / "links"), targets(out, "frames/y"), str(out))) == (
        f"--link '{tmp_path}/links' is no folder: choose another name"
    )
