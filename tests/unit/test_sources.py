"""sources.parquet: what is written comes back, and what is not one is refused in one sentence."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import DamagedError, StoreError, UsageError
from manifests.records import Source
from manifests.sources import SourceList, read_sources, write_sources

_SOURCES = (
    Source(
        video_id="A/x", source="A/x.avi", source_bytes=2**40, label=0, class_name="A", subsets=("test02", "train01")
    ),
    Source(
        video_id="B/é",
        source="B/é.avi",
        source_bytes=None,
        label=1,
        class_name="B",
        subsets=("test01",),
        status="failed",
        failure="missing",
        detail="named in testlist01.txt, not on disk",
    ),
    Source(video_id="c%FF", source="c%FF.mp4", source_bytes=0, status="excluded", detail="no annotation names it"),
)


def _source_list(**changes: object) -> SourceList:
    fields: dict[str, object] = {
        "dataset": "ucf101",
        "root": Path("/data/UCF-101"),
        "classes": ("A", "B"),
        "sources": _SOURCES,
    }
    return SourceList(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source_list",
    [
        _source_list(),
        _source_list(
            root=Path(os.fsdecode(b"/data/caf\xe9/100%41")),
            classes=('"quoted"', "new\nline", "日本"),
            sources=(Source(video_id="x", source="x.avi", source_bytes=1, label=1, class_name="new\nline"),),
        ),
    ],
    ids=["typical", "awkward"],
)
def test_reads_what_was_written(source_list: SourceList, tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    write_sources(path, source_list)
    assert read_sources(path) == source_list
    assert os.listdir(tmp_path) == ["sources.parquet"]


@given(
    st.lists(
        st.builds(
            Source,
            video_id=st.text().filter(lambda text: "/" not in text and "\0" not in text),
            source=st.text().filter(lambda text: "/" not in text and "\0" not in text),
            source_bytes=st.none() | st.integers(0, 2**63 - 1),
            subsets=st.lists(st.text()).map(tuple),
            status=st.sampled_from([None, "failed", "excluded"]),
            failure=st.none() | st.text(),
            detail=st.none() | st.text(),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_source_survives(tmp_path_factory: pytest.TempPathFactory, sources: list[Source]) -> None:
    path = tmp_path_factory.mktemp("any") / "sources.parquet"
    named = [
        replace(source, video_id=f"{i}-{source.video_id}", source=f"{i}-{source.source}")
        for i, source in enumerate(sources)
    ]
    written = _source_list(sources=tuple(named))
    write_sources(path, written)
    assert read_sources(path) == written


def test_windows(tmp_path: Path) -> None:
    """Of one file, which has the path without them; a window is written in one way only."""
    names = ["a/x.mp4", "a/x.mp4#t=1,2", "a/x.mp4#t=1.5", "a/x.mp4%23t=1,2"]
    sources = tuple(Source(video_id=str(i), source=name, source_bytes=1) for i, name in enumerate(names))
    written = _source_list(sources=sources)
    write_sources(tmp_path / "s.parquet", written)
    assert read_sources(tmp_path / "s.parquet") == written
    paths = [str(written.path_of(source).relative_to(written.root)) for source in sources]
    assert paths == ["a/x.mp4", "a/x.mp4", "a/x.mp4", "a/x.mp4#t=1,2"]
    for text in ("#t=1.0", "#t=01", "#t=0,2.50", "#t=0.1000000000000000055511151231257827"):
        write_sources(tmp_path / "s.parquet", replace(written, sources=(replace(sources[0], source=f"x.mp4{text}"),)))
        with pytest.raises(DamagedError, match=re.escape(f"'x.mp4{text}' has a window that is written in another way")):
            read_sources(tmp_path / "s.parquet")
    write_sources(tmp_path / "s.parquet", replace(written, sources=(replace(sources[0], source="x.mp4#t=2,1"),)))
    with pytest.raises(DamagedError, match="it ends at 1 s, not after its start at 2 s; scan again"):
        read_sources(tmp_path / "s.parquet")


def test_plain_pyarrow_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    write_sources(path, _source_list())
    table = pq.read_table(path)
    assert {field.name: str(field.type).split("<")[0] for field in table.schema} == {
        "video_id": "string",
        "source": "string",
        "source_bytes": "int64",
        "label": "int32",
        "class_name": "string",
        "subsets": "list",
        "status": "string",
        "failure": "string",
        "detail": "string",
    }
    assert table.column("label").to_pylist() == [0, 1, -1]
    assert table.column("subsets").to_pylist() == [["test02", "train01"], ["test01"], []]
    assert json.loads(table.schema.metadata[b"decode-once.sources"]) == {
        "version": 1,
        "dataset": "ucf101",
        "root": "/data/UCF-101",
        "classes": ["A", "B"],
    }


def test_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_sources(tmp_path / name, _source_list())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("folder", [b"split=1 & 2", b"caf\xe9"])
def test_the_folder_may_have_any_name(folder: bytes, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(folder) / "sources.parquet"
    path.parent.mkdir()
    write_sources(path, _source_list())
    assert read_sources(path) == _source_list()


def test_a_relative_root_is_refused() -> None:
    with pytest.raises(ValueError, match="the source root must be absolute: videos"):
        _source_list(root=Path("videos"))


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    with pytest.raises(UsageError) as caught:
        read_sources(path)
    assert str(caught.value) == f"cannot read the source list {path}: No such file or directory"


@pytest.mark.parametrize("content", [b"", b"A/x.avi 1\n", b"PAR1" + b"\0" * 20 + b"PAR1"])
def test_a_file_of_another_kind_is_a_usage_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_sources(path)
    assert str(caught.value) == f"{path} is not a source list: write one with 'prep scan'"


def test_a_list_cut_short_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    write_sources(path, _source_list())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UsageError) as caught:
        read_sources(path)
    assert str(caught.value) == f"{path} is not a source list: write one with 'prep scan'"


def test_another_parquet_file_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"video_id": ["x"]}), path)
    with pytest.raises(UsageError) as caught:
        read_sources(path)
    assert str(caught.value) == f"{path} is a Parquet file but not a source list: write one with 'prep scan'"


def _rewrite(path: Path, table: pa.Table, **changes: object) -> None:
    header = json.loads(table.schema.metadata[b"decode-once.sources"])
    pq.write_table(table.replace_schema_metadata({"decode-once.sources": json.dumps({**header, **changes})}), path)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    write_sources(path, _source_list())
    _rewrite(path, pq.read_table(path), version=2)
    with pytest.raises(DamagedError) as caught:
        read_sources(path)
    assert str(caught.value) == (
        f"{path} has version 2 of the source list, and this program reads up to 1: upgrade decode-once, or scan again"
    )


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    write_sources(path, _source_list())
    _rewrite(path, pq.read_table(path).drop_columns(["label"]))
    with pytest.raises(DamagedError) as caught:
        read_sources(path)
    assert str(caught.value) == f"{path} has other columns than a source list has: scan again"


def test_a_folder_that_is_not_there_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "sources.parquet"
    with pytest.raises(StoreError, match=r"cannot write .*absent/sources\.parquet.*No such file or directory"):
        write_sources(path, _source_list())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"video_id": "../../victim"}, "'../../victim' is no path inside a folder"),
        ({"video_id": "/etc"}, "'/etc' is no path inside a folder"),
        ({"source": "A/../../x.avi"}, "'A/../../x.avi' is no path inside a folder"),
        ({"video_id": "B/é"}, "two sources have the same video_id"),
        ({"video_id": "B/é/x"}, "video 'B/é/x' would lie inside the frame folder of 'B/é'"),
        ({"label": 2}, "has label 2 and class"),
        ({"label": -2, "class_name": None}, "has label -2 and class None"),
        ({"label": 0, "class_name": "B"}, "has label 0 and class 'B'"),
    ],
)
def test_what_no_scan_gives_is_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    """Such a list would send frames outside of OUT, or under a wrong label."""
    path = tmp_path / "sources.parquet"
    changed = replace(_SOURCES[0], **change)  # type: ignore[arg-type]
    write_sources(path, _source_list(sources=(changed, *_SOURCES[1:])))
    with pytest.raises(DamagedError, match=re.escape(words)):
        read_sources(path)


def test_an_empty_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sources.parquet"
    write_sources(path, _source_list(sources=()))
    with pytest.raises(DamagedError, match="it has no sources; scan again"):
        read_sources(path)
