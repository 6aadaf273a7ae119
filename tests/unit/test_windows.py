"""Windows in the names of sources: written in one way, told from names of files, and nothing else is one."""

import math
import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.names import escape_name, unescape_name, video_ids
from manifests.windows import Window, file_of, split_source, with_window

# W3C, Media Fragments URI 1.0, 4.2.1: npttimedef without the prefix, in seconds (npt-sec).
NPT_SEC = r"[0-9]+(\.[0-9]*)?"
FRAGMENT = re.compile(rf"#t=({NPT_SEC}(,{NPT_SEC})?|,{NPT_SEC})")

TIMES = st.one_of(
    st.floats(0, allow_infinity=False),
    st.floats(0, 10000),
    st.integers(0, 10**7).map(lambda ms: ms / 1000),
    st.integers(0, 5000),
)
WINDOWS = st.one_of(
    st.builds(Window, TIMES),
    st.tuples(TIMES, TIMES)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: Window(min(pair), max(pair))),
)  # fmt: skip
# Names that read as windows, as escapes, as both, and as neither.
_PIECES = [b"a", b".mp4", b"#", b"t=", b"#t=1", b"#t=1.5,2", b",2", b"%23t=1", b"%", b"23", b"\xff", b"\n", b"5", b"."]
NAMES = st.one_of(st.binary(min_size=1), st.lists(st.sampled_from(_PIECES), min_size=1, max_size=8).map(b"".join))


@pytest.mark.parametrize(
    ("window", "text", "suffix"),
    [
        (Window(10.5, 20), "#t=10.5,20", "_10.5_20"),
        (Window(10.5), "#t=10.5", "_10.5_end"),
        (Window(0, 20.0), "#t=0,20", "_0_20"),
        (Window(-0.0, 0.1), "#t=0,0.1", "_0_0.1"),
        (Window(1e-7, 1e16), "#t=0.0000001,10000000000000000", "_0.0000001_10000000000000000"),
        (Window(100, 1200), "#t=100,1200", "_100_1200"),
    ],
)
def test_how_it_is_written(window: Window, text: str, suffix: str) -> None:
    assert (str(window), window.suffix) == (text, suffix)


@given(WINDOWS)
def test_it_is_a_media_fragment_in_the_shortest_digits(window: Window) -> None:
    assert FRAGMENT.fullmatch(str(window))
    times = [time_s for time_s in (window.start_s, window.end_s) if time_s is not None]
    # numpy has its own algorithm for the shortest digits that are a number.
    assert str(window) == "#t=" + ",".join(np.format_float_positional(float(time_s), trim="-") for time_s in times)


@given(NAMES, st.none() | WINDOWS)
def test_name_and_window_come_back(raw: bytes, window: Window | None) -> None:
    name = os.fsdecode(raw)
    source = with_window(escape_name(name), window)
    found, found_window = split_source(source)
    assert (unescape_name(found), found_window) == (name, window)
    assert file_of(source) == escape_name(name)
    assert with_window(found, found_window) == source
    assert source.encode("utf-8").decode("utf-8") == source


@given(NAMES, NAMES, st.none() | WINDOWS, st.none() | WINDOWS)
def test_sources_are_equal_just_where_file_and_times_are(
    one: bytes, other: bytes, window: Window | None, other_window: Window | None
) -> None:
    sources = [
        with_window(escape_name(os.fsdecode(name)), part) for name, part in [(one, window), (other, other_window)]
    ]
    assert (sources[0] == sources[1]) == ((one, window) == (other, other_window))


@given(st.lists(NAMES.filter(lambda name: b"/" not in name), min_size=1, max_size=3))
def test_parts_of_a_path_are_escaped_each_for_itself(parts: list[bytes]) -> None:
    names = [os.fsdecode(part) for part in parts]
    assert escape_name("/".join(names)) == "/".join(map(escape_name, names))


def test_names_that_read_as_windows() -> None:
    assert escape_name("x.mp4#t=1,2") == "x.mp4%23t=1,2"
    assert escape_name("x.mp4%23t=1,2") == "x.mp4%2523t=1,2"
    assert escape_name("a#t=1/b#t=2") == "a%23t=1/b%23t=2"
    for plain in ("a#t=1.mp4", "a#t=", "a#t=1,", "a#t=,1", "a#t=-1", "a#t=1,2,3", "a#t=1\n", "#1", "a#t=1e5", "a#t=x"):
        assert escape_name(plain) == plain
        assert split_source(plain) == (plain, None)


@pytest.mark.parametrize(
    "times", [(-1, 2), (-0.1, None), (math.nan, None), (math.inf, None), (0, math.inf), (0, math.nan)]
)
def test_times_that_are_none(times: tuple[float, float | None]) -> None:
    with pytest.raises(ValueError, match="is no time in seconds from the start of a video"):
        Window(*times)


@pytest.mark.parametrize("times", [(2, 2), (2, 1), (0, 0)])
def test_an_end_that_is_not_after_the_start(times: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"it ends at . s, not after its start at . s"):
        Window(*times)
    with pytest.raises(ValueError, match="not after its start"):
        split_source(f"x.mp4#t={times[0]},{times[1]}")


# --- Video ids ---

_PATHS = ["a", "a.mp4", "a.avi", "a_1_2.mp4", "a_1_end", "a_1_2/x.mp4", "a.mp4#t=1,2.avi", "a.mp4%23t=1,2/x", "b/a.mp4"]
_PARTS = [None, Window(1, 2), Window(1), Window(0, 1.5)]


@given(st.sets(st.tuples(st.sampled_from(_PATHS), st.sampled_from(_PARTS)), min_size=1))
def test_ids_are_unique_and_none_lies_in_another(pairs: set[tuple[str, Window | None]]) -> None:
    sources = sorted(with_window(path, window) for path, window in pairs)
    folders = {path[:at] for path in sources for at in range(len(path)) if path[at] == "/"}
    sources = [source for source in sources if file_of(source) not in folders]
    ids = video_ids(sources)
    assert len(set(ids)) == len(sources)
    assert folders.isdisjoint(ids)
    for source, video_id in zip(sources, ids, strict=True):
        path, window = split_source(source)
        stem = os.path.splitext(path)[0]
        assert video_id in (source, stem + ("" if window is None else window.suffix))


def test_ids_by_example() -> None:
    assert video_ids(["long/video.mp4#t=10.5,20", "long/video.mp4#t=10.5", "long/video.mp4"]) == [
        "long/video_10.5_20",
        "long/video_10.5_end",
        "long/video",
    ]
    assert video_ids(["x.mp4#t=1,2", "x.avi#t=1,2"]) == ["x.mp4#t=1,2", "x.avi#t=1,2"]
    assert video_ids(["x.mp4#t=1,2", "x_1_2.mp4"]) == ["x.mp4#t=1,2", "x_1_2.mp4"]
    assert video_ids(["x.mp4#t=1,2", "x_1_2/y.mp4"]) == ["x.mp4#t=1,2", "x_1_2/y"]
