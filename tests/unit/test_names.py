"""Names that go into the manifest: reversible, valid UTF-8, unique, and fit to be folders beside each other."""

import os
import random

from hypothesis import given
from hypothesis import strategies as st

from manifests.names import escape_name, folder_ids, unescape_name, video_ids

# Few distinct bytes, so that escapes, near-escapes and bytes that are not UTF-8 meet often.
_BYTES = st.one_of(
    st.binary(), st.lists(st.sampled_from([b"%", b"2", b"5", b"F", b"f", b"\xff", b"\xc3", b"\xa9"])).map(b"".join)
)
_NAMES = st.sampled_from(
    ["a", "b", "a.avi", "a.mp4", "a.avi.mp4", "a.mp4.avi", "b.avi", "..avi", "...avi", "a.", "é.x"]
)


@st.composite
def _trees(draw: st.DrawFn) -> list[str]:
    """Distinct file paths that one file system could hold: no file is a folder as well."""
    paths = draw(st.sets(st.lists(_NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=12))
    folders = {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}
    return sorted(paths - folders)


@given(_BYTES)
def test_escaping_is_reversed_byte_for_byte(raw: bytes) -> None:
    escaped = escape_name(os.fsdecode(raw))
    assert os.fsencode(unescape_name(escaped)) == raw


@given(_BYTES)
def test_escaped_names_are_valid_utf8(raw: bytes) -> None:
    escaped = escape_name(os.fsdecode(raw))
    assert escaped.encode("utf-8").decode("utf-8") == escaped


@given(_BYTES, _BYTES)
def test_different_names_stay_different(one: bytes, other: bytes) -> None:
    assert (escape_name(os.fsdecode(one)) == escape_name(os.fsdecode(other))) == (one == other)


@given(st.text(alphabet=st.characters(exclude_characters="%", exclude_categories=["Cs"])))
def test_ordinary_names_are_left_alone(name: str) -> None:
    assert escape_name(name) == name
    assert unescape_name(name) == name


def test_escapes_by_example() -> None:
    assert escape_name(os.fsdecode(b"caf\xe9.avi")) == "caf%E9.avi"
    assert escape_name("100% real.avi") == "100% real.avi"
    assert escape_name("a%E9.avi") == "a%25E9.avi"
    assert unescape_name("a%25E9.avi") == "a%E9.avi"
    assert escape_name("a%e9.avi") == "a%e9.avi"


@given(_trees())
def test_video_ids_are_unique_and_none_lies_in_another(paths: list[str]) -> None:
    ids = video_ids(paths)
    assert len(set(ids)) == len(paths)
    folders = {video_id[:at] for video_id in ids for at in range(len(video_id)) if video_id[at] == "/"}
    assert folders.isdisjoint(ids)


@given(_trees())
def test_video_ids_are_folder_names_beside_their_source(paths: list[str]) -> None:
    for path, video_id in zip(paths, video_ids(paths), strict=True):
        assert os.path.normpath(video_id) == video_id
        assert os.path.dirname(video_id) == os.path.dirname(path)
        assert path.startswith(video_id)


@given(_trees())
def test_video_id_is_the_path_without_suffix_where_nothing_clashes(paths: list[str]) -> None:
    # os.path.splitext takes leading dots for part of the name, like our rule.
    stems = [os.path.splitext(path)[0] for path in paths]
    folders = {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}
    for path, stem, video_id in zip(paths, stems, video_ids(paths), strict=True):
        if not path.endswith(".") and stems.count(stem) == 1 and stem not in folders and stem not in paths:
            assert video_id == stem
        else:
            assert video_id in (stem, path)


@given(_trees(), st.randoms(use_true_random=False))
def test_video_ids_do_not_depend_on_the_order_of_sources(paths: list[str], chance: random.Random) -> None:
    shuffled = paths.copy()
    chance.shuffle(shuffled)
    assert dict(zip(shuffled, video_ids(shuffled), strict=True)) == dict(zip(paths, video_ids(paths), strict=True))


def test_video_ids_by_example() -> None:
    assert video_ids(["a/x.avi", "a/y.avi"]) == ["a/x", "a/y"]
    assert video_ids(["a/x.avi", "a/x.mp4", "b/x.avi"]) == ["a/x.avi", "a/x.mp4", "b/x"]
    assert video_ids(["x.avi", "x/y.avi"]) == ["x.avi", "x/y"]
    assert video_ids(["x.avi", "x.mp4", "x.avi.mkv"]) == ["x.avi", "x.mp4", "x.avi.mkv"]
    assert video_ids(["v1.2/clip"]) == ["v1.2/clip"]
    assert video_ids(["a/..avi", "a/...avi"]) == ["a/..avi", "a/...avi"]


_FOLDER_NAMES = st.sampled_from([b"a", b"a.avi", b"%E9", b"%25E9", b"%2525E9", b"\xe9", b"\xc3\xa9", b"%"])


@given(st.sets(st.lists(_FOLDER_NAMES, min_size=1, max_size=3).map(b"/".join), min_size=1, max_size=12))
def test_ids_of_frame_folders_are_distinct_and_none_lies_in_another(raw: set[bytes]) -> None:
    inner = {path[:at] for path in raw for at in range(len(path)) if path[at : at + 1] == b"/"}
    paths = sorted(escape_name(os.fsdecode(path)) for path in raw - inner)
    ids = folder_ids(paths)
    assert len(set(ids)) == len(paths)
    above = {video_id[:at] for video_id in ids for at in range(len(video_id)) if video_id[at] == "/"}
    assert above.isdisjoint(ids)
    for video_id in ids:
        assert video_id.encode("utf-8").decode("utf-8") == video_id


def test_a_frame_folder_has_the_id_that_it_was_made_for() -> None:
    ids = ["A/a.b", "caf%E9/x", "100%25/y", "%2541"]
    assert folder_ids([escape_name(video_id) for video_id in ids]) == ids
    assert folder_ids(["caf%E9/x", "caf%25E9/x"]) == ["caf%E9/x", "caf%25E9/x"]
