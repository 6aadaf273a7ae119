"""Any file name that the file system takes goes through scan, extraction, manifest and export, or gets its sentence."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import list_readers as readers
import pytest
from clips import Clip, write_clip
from conftest import Prep
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manifests import open_dataset
from manifests.names import unescape_name
from manifests.sources import read_sources

NUM_FRAMES = 3

# Bytes of all kinds, and few that mean something to somebody: separators, quotes, escapes, suffixes, broken UTF-8.
_NAMES = st.one_of(
    st.binary(min_size=1, max_size=240),
    st.lists(
        st.sampled_from(
            [b" ", b"\n", b"\t", b"\r", b",", b";", b'"', b"'", b"%", b"2", b"5", b"F", b"\xff",
             b"\xc3\xa9", b"\xe2\x80\xa8", b"~", b"-", b".", b".avi", b"$(x)", b"*", b"\\", b"#", b"#t=1",
             b"img_00001.jpg", b"frames"]
        ), min_size=1, max_size=8,
    ).map(b"".join),
).filter(lambda name: not {0, 47} & set(name) and not name.startswith(b"."))  # fmt: skip
_PATHS = st.lists(_NAMES, min_size=2, max_size=3).map(lambda parts: b"/".join([b"c" + parts[0], *parts[1:]]) + b".avi")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("clip") / "clip.avi"
    return write_clip(path, Clip(name="clip", codec="mpeg4", num_frames=NUM_FRAMES, width=32, height=32)).read_bytes()


@settings(max_examples=3, deadline=None)
@given(paths=st.sets(_PATHS, min_size=1, max_size=12))
@example(paths={b"c/x.avi", b"c/x.avi.avi", b"c/x/y.avi", b"c/caf\xe9.avi", b"c/caf%E9.avi", b"c/caf%25E9.avi"})
@example(
    paths={
        b"brush hair/a b.avi",
        b"brush hair/a\nb.avi",
        b"brush_hair/a_b.avi",
        b"c/a\xc2\xa0b.avi",
        b"c#t=1,2/a#t=1.avi",
    }
)
def test_any_file_name(prep: Prep, clip: bytes, paths: set[bytes]) -> None:
    folders = {path[:at] for path in paths for at in range(len(path)) if path[at] == ord("/")}
    paths = paths - folders
    names = sorted(os.fsdecode(path) for path in paths)
    with TemporaryDirectory() as scratch:
        root, work = Path(scratch) / "videos", Path(scratch)
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(clip)

        done = prep("scan", root, "--out", work / "sources.parquet", "--quiet")
        assert done.returncode == 0, done.stderr
        sources = read_sources(work / "sources.parquet").sources
        assert sorted(unescape_name(source.source) for source in sources) == names

        done = prep("extract", work / "sources.parquet", "--out", work / "out", "--store", "frames", "--quiet")
        assert done.returncode == 0, done.stderr
        with open_dataset(work / "out") as dataset:
            rows = dataset.manifest.to_pylist()
            assert all(len(dataset.read_frames(row, range(NUM_FRAMES))) == NUM_FRAMES for row in dataset.rows())
        assert [(row["status"], row["num_frames"]) for row in rows] == [("ok", NUM_FRAMES)] * len(names)
        assert sorted(unescape_name(row["source"]) for row in rows) == names
        assert all(unescape_name(row["class_name"]) == Path(unescape_name(row["source"])).parts[-2] for row in rows)
        assert prep("verify", work / "out", "--deep", "--quiet").returncode == 0

        check_links(prep, work, rows)
        check_plain(prep, work, rows)


def check_links(prep: Prep, work: Path, rows: list[dict[str, object]]) -> None:
    """By links every name can be listed, for frames and videos; a scan of the links by the list finds all again."""
    export = ["export", work / "out", "--format", "paddlevideo", "--quiet"]
    done = prep(*export, "--link", work / "links", "--out", work / "frames.txt")
    assert done.returncode == 0, done.stderr
    found = readers.paddlevideo_frames(work / "frames.txt", "")
    assert [(os.path.realpath(folder), label) for folder, _, label in found] == [
        (f"{work}/out/{row['location']}", row["label"]) for row in rows
    ]
    done = prep(*export, "--videos", work / "videos", "--link", work / "clips", "--out", work / "train.txt")
    assert done.returncode == 0, done.stderr
    videos = readers.paddlevideo_videos(work / "train.txt", "")
    assert [(os.path.realpath(path), label) for path, label in videos] == [
        (f"{work}/videos/{unescape_name(str(row['source']))}", row["label"]) for row in rows
    ]
    flags = ["--dataset", "list", "--annotations", work / "train.txt", "--out", work / "again.parquet", "--json"]
    done = prep("scan", work / "clips", *flags)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reconciliation"]["counts"]["train"]["num_to_decode"] == len(rows)
    again = {f"{work}/clips/{s.source}": s.label for s in read_sources(work / "again.parquet").sources}
    assert again == dict(videos)


def check_plain(prep: Prep, work: Path, rows: list[dict[str, object]]) -> None:
    """Without links every path stands in the list as it is, or one sentence counts those that cannot."""
    for flags, paths in (
        ([], [f"{work}/out/{row['location']}" for row in rows]),
        (["--videos", work / "videos"], [f"{work}/videos/{unescape_name(str(row['source']))}" for row in rows]),
    ):
        file = work / "plain.txt"
        file.unlink(missing_ok=True)
        done = prep("export", work / "out", "--format", "slowfast" if flags else "tsm", "--out", file, *flags)
        bad = [path for path in paths if any(c.isspace() or "\ud800" <= c <= "\udfff" for c in path)]
        if bad:
            assert done.returncode == 2, done.stdout
            assert f"list cannot carry {len(bad)} of {len(paths)} path" in done.stderr
            assert len(done.stderr.splitlines()) == 1
            assert not file.exists()
        else:
            assert done.returncode == 0, done.stderr
            read = readers.slowfast_videos(file, "") if flags else readers.tsm_frames(file, "", training=True)
            assert [row[0] for row in read] == paths
