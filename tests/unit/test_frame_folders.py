"""Which folders of a tree are videos, and which of their files are the frames, in order."""

import os
import random
from pathlib import Path

import pytest
from frame_trees import SCRIPTS, names_like
from hypothesis import given
from hypothesis import strategies as st
from layouts import make_files, refusal

from prep.frame_folders import FolderProblem, Frames, find_frame_folders, frames_of


class Entry:
    """A regular file as os.scandir gives it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_file(self) -> bool:
        return True


def told(names: list[str]) -> Frames:
    return frames_of(map(Entry, names))  # type: ignore[arg-type]


def problem(names: list[str]) -> tuple[str, str]:
    with pytest.raises(FolderProblem) as caught:
        told(names)
    return caught.value.kind, caught.value.detail


@pytest.mark.parametrize("script", SCRIPTS)
def test_frames_come_in_the_order_of_their_numbers(script: str) -> None:
    names = names_like(SCRIPTS[script][0], 12, SCRIPTS[script][1])
    shuffled = random.Random(0).sample(names, len(names))
    assert told(shuffled) == Frames(tuple(names), ())


@given(st.integers(0, 1), st.integers(1, 40), st.sets(st.integers(0, 39)), st.integers(0, 4))
def test_a_gap_is_found_wherever_it_is(start: int, num_frames: int, lost: set[int], zeros: int) -> None:
    names = [f"img_{number:0{zeros}d}.jpg" for number in range(start, start + num_frames)]
    left = [name for index, name in enumerate(names) if index not in lost]
    # Frames lost from the end leave no gap, and one lost from 0, 1, ... leaves 1, 2, ...
    numbers = [start + index for index in range(num_frames) if index not in lost]
    whole = bool(numbers) and numbers[0] <= 1 and numbers[-1] - numbers[0] + 1 == len(numbers)
    if whole:
        assert told(left).names == tuple(left)
    else:
        assert problem(left)[0] == ("truncated" if left else "empty")


def test_what_is_wrong_is_said() -> None:
    assert problem(["img_00003.jpg", "img_00004.jpg"]) == ("truncated", "the first of 2 frames is 'img_00003.jpg'")
    holes = [f"img_{number:05d}.jpg" for number in (1, 2, 5, 6, 9)]
    assert problem(holes) == ("truncated", "4 frames missing up to 'img_00009.jpg', the first after 'img_00002.jpg'")
    assert problem([]) == ("empty", "the folder is empty")
    assert problem(["Thumbs.db", "a.png"]) == ("no_video", "no frame among 2 files ('Thumbs.db', 'a.png')")
    assert problem(["img_1.jpg", "img_01.jpg"]) == (
        "unreadable",
        "two frames have the number 1: 'img_01.jpg', 'img_1.jpg'",
    )
    assert problem(["img_1.jpg", "frame_1.jpg"]) == (
        "unreadable",
        "2 series of frames: 'frame_1.jpg', 'img_1.jpg'",
    )


def test_what_is_no_frame_is_left_out() -> None:
    others = [".DS_Store", "._img_00001.jpg", "cover.jpg", "flow_x_00001.jpg", "flow_y_00001.jpg", "list.txt"]
    assert told(["img_00001.jpg", *others]) == Frames(("img_00001.jpg",), tuple(sorted(others)))
    assert told(["img_00001.jpg", "part2.jpg", "x_00001.jpg"]).others == ("part2.jpg", "x_00001.jpg")


def test_levels_and_what_lies_between(tmp_path: Path) -> None:
    make_files(
        tmp_path,
        [
            *("A/a/img_00001.jpg", "A/b/img_00001.jpg", "B/c/img_00001.jpg", "B/d/readme.txt"),
            *("classInd.txt", "A/cover.jpg", "A/img_00001.jpg", ".cache/x/img_00001.jpg", "A/a/.thumbs/img_1.jpg"),
        ],
    )
    (tmp_path / "B" / "empty").mkdir()
    (tmp_path / "C").mkdir()
    found = find_frame_folders(tmp_path)
    assert found.videos == ("A/a", "A/b", "B/c", "B/d", "B/empty")
    assert found.notes == (
        "left out 3 files in folders that hold the folders of videos",
        "left out the frames right in 1 folder ('A'), since there are frame folders inside: if these are no videos, "
        "move them away",
        "left out 1 folder without frames ('C'), with 0 files, at another depth than the folders of videos",
        "left out 2 hidden folders: '.cache', 'A/a/.thumbs'",
    )


def test_a_flat_tree_and_links(tmp_path: Path) -> None:
    make_files(tmp_path / "elsewhere", ["v3/0.jpg"])
    make_files(tmp_path / "tree", ["v1/0.jpg", "v2/0.jpg"])
    os.symlink(tmp_path / "elsewhere" / "v3", tmp_path / "tree" / "v3")
    os.symlink(tmp_path / "tree", tmp_path / "tree" / "v1" / "loop")
    found = find_frame_folders(tmp_path / "tree")
    assert found.videos == ("v1", "v2", "v3")
    assert found.notes == ("did not follow 1 link to a folder above the link: 'v1/loop'",)


def test_links_in_circles(tmp_path: Path) -> None:
    make_files(tmp_path, ["A/a/0.jpg", "B/b/0.jpg"])
    os.symlink("../B", tmp_path / "A" / "of B")
    os.symlink("../A", tmp_path / "B" / "of A")
    os.symlink("itself", tmp_path / "A" / "itself")
    os.symlink("gone", tmp_path / "B" / "v9")
    found = find_frame_folders(tmp_path)
    assert found.videos == ("A/a", "A/of B/b", "B/b", "B/of A/a")
    assert found.notes == (
        "left out 4 broken links, which may have been folders: 'A/itself', 'A/of B/v9', 'B/of A/itself', ...",
        "did not follow 2 links to a folder above the link: 'A/of B/of A', 'B/of A/of B'",
    )


def test_a_frame_that_is_a_link_to_nothing_is_not_left_out(tmp_path: Path) -> None:
    make_files(tmp_path, ["a/img_1.jpg", "a/img_2.jpg", "a/x_1.jpg"])
    os.symlink("gone", tmp_path / "a" / "x_2.jpg")
    assert frames_of(os.scandir(tmp_path / "a")).names == ("img_1.jpg", "img_2.jpg")
    os.symlink("gone", tmp_path / "a" / "img_3.jpg")
    os.symlink("img_4.jpg", tmp_path / "a" / "img_4.jpg")
    with pytest.raises(FolderProblem, match=r"2 of 4 frames no file, or a link to none: 'img_3.jpg', 'img_4.jpg'"):
        frames_of(os.scandir(tmp_path / "a"))
    (tmp_path / "a" / "img_4.jpg").unlink()
    (tmp_path / "a" / "img_3.jpg").unlink()
    (tmp_path / "a" / "img_3.jpg").mkdir()
    assert frames_of(os.scandir(tmp_path / "a")).others == ("img_3.jpg", "x_1.jpg", "x_2.jpg")


def test_refusals(tmp_path: Path) -> None:
    make_files(tmp_path, ["video/img_1.jpg", "others/x.avi"])
    assert "holds frames itself" in refusal(lambda: find_frame_folders(tmp_path / "video"))
    assert "no frames under" in refusal(lambda: find_frame_folders(tmp_path / "others"))
    assert "no such folder" in refusal(lambda: find_frame_folders(tmp_path / "gone"))
