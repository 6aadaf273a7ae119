"""Lists for other projects: each reads from its list what was written, and no path that one of them would garble."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import list_readers as readers
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manifests.lists import FORMATS, ListedVideo, can_hold, frame_list, names_only, video_list

# All that some reader may take for the end of a field or line, and what others might quote or comment with.
_AWKWARD = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u3000,;\"'#\\%é"
_PATHS = st.one_of(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1),
    st.text(st.sampled_from("ab" + _AWKWARD), min_size=1),
).map(lambda name: f"/data/{name}/x")


@st.composite
def _listed(draw: st.DrawFn) -> list[ListedVideo]:
    paths = draw(st.lists(_PATHS.filter(can_hold), min_size=1, max_size=5, unique=True))
    return [
        ListedVideo(
            name=path.removeprefix("/"), path=path, num_frames=draw(st.integers(1, 9)), label=draw(st.integers(0, 700))
        )
        for path in paths
    ]


def written(folder: str, lines: Iterable[str]) -> Path:
    file = Path(folder) / "list.txt"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return file


@given(_listed())
def test_frame_lists(videos: list[ListedVideo]) -> None:
    expected = [(video.path, video.num_frames, video.label) for video in videos]
    with TemporaryDirectory() as folder:
        assert readers.paddlevideo_frames(written(folder, frame_list("paddlevideo", videos)), "/else") == expected
        assert readers.mmaction2_frames(written(folder, frame_list("mmaction2", videos)), "") == expected
        file = written(folder, frame_list("tsm", videos))
        assert readers.tsm_frames(file, "/else", training=False) == expected
        assert readers.tsm_frames(file, "", training=True) == [row for row in expected if row[1] >= 3]
        found = readers.slowfast_frames(written(folder, frame_list("slowfast", videos)), "")
    assert found == {
        video.name: [(path, [video.label]) for path in readers.frame_paths(video.path, video.num_frames)]
        for video in videos
    }


@given(_listed(), st.booleans())
def test_video_lists(videos: list[ListedVideo], are_labelled: bool) -> None:
    expected = [(video.path, video.label) for video in videos]
    with TemporaryDirectory() as folder:
        file = written(folder, video_list(videos))
        assert readers.paddlevideo_videos(file, "/else") == expected
        assert readers.mmaction2_videos(file, "/else") == expected
        assert readers.slowfast_videos(file, "") == expected
        unlabelled = [ListedVideo(name=v.name, path=v.path, num_frames=1, label=-1) for v in videos]
        file = written(folder, video_list(unlabelled))
        assert readers.mmaction2_videos(file, "") == [(path, -1) for path, _ in expected]
        assert readers.slowfast_videos(file, "") == [(path, 0) for path, _ in expected]


@given(_PATHS.filter(lambda path: not can_hold(path)))
@example("/data/a b")
@example("/data/a\x1cb")
@example("/data/a\u3000")
def test_what_is_refused_would_be_garbled(path: str) -> None:
    video = ListedVideo(name="x", path=path, num_frames=3, label=1)
    with TemporaryDirectory() as folder:
        file = written(folder, frame_list("paddlevideo", [video]))
        try:
            found = readers.paddlevideo_frames(file, "")
        except ValueError:
            return
    assert found != [(path, 3, 1)]


def test_can_hold_by_example() -> None:
    assert all(can_hold(path) for path in ("/a/b.avi", "/a/Zähne,'\"#;(1)%20.mp4", "/日本/🎥"))
    assert not any(can_hold(path) for path in ("", "/a b", "/a\nb", "/a\u2028b", "/a\xa0", " /a", "/caf\udce9"))


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_list_is_known_by_its_folder(format_name: str) -> None:
    videos = [ListedVideo(name=name, path=f"/data/out/{name}", num_frames=2, label=1) for name in "ab"]
    for lines in (frame_list(format_name, videos), video_list(videos)):
        ours = [f"{line}\n" for line in lines]
        assert names_only(ours, "/data/out")
        assert not names_only(ours, "/data/ou")
        assert not names_only([*ours, "/data/other/c 2 1\n"], "/data/out")
        assert not names_only([*ours, "\n"], "/data/out")
    assert names_only([], "/data/out")
    assert not names_only(["YoYo/v_YoYo_g08_c01.avi 1\n"], "/data/out")


def test_lines_by_example() -> None:
    videos = [
        ListedVideo(name="A/x", path="/out/frames/A/x", num_frames=2, label=3),
        ListedVideo(name="y", path="/out/frames-2/y", num_frames=1, label=0),
    ]
    for format_name in ("paddlevideo", "mmaction2", "tsm"):
        assert list(frame_list(format_name, videos)) == ["/out/frames/A/x 2 3", "/out/frames-2/y 1 0"]
    assert list(frame_list("slowfast", videos)) == [
        "original_vido_id video_id frame_id path labels",
        'A/x 0 0 /out/frames/A/x/img_00001.jpg "3"',
        'A/x 0 1 /out/frames/A/x/img_00002.jpg "3"',
        'y 1 0 /out/frames-2/y/img_00001.jpg "0"',
    ]
    assert list(video_list(videos)) == ["/out/frames/A/x 3", "/out/frames-2/y 0"]
