"""What is decoded, copied or kept, against a literal reading of the rules; and the choice of what is done again."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import UsageError
from manifests.records import Source
from manifests.sources import SourceList
from prep.changes import UPDATE, Again, parse_retry, rows_to_redo
from prep.plan import Changes, Plan, Row, count_changes, plan_again, plan_new, read_plan, write_plan
from prep.run_folder import Places, free_places

CLASSES = ("A", "B")


def source(name: str, label: int = 0, **fields: Any) -> Source:
    return Source(
        **{"video_id": name, "source": f"{name}.avi", "source_bytes": 9, "label": label, "class_name": CLASSES[label]}
        | fields
    )


def row(name: str, location: str | None = "shards/shard-00000.arrow", label: int = 0, **fields: Any) -> Row:
    status = {"status": "ok" if location else "failed", "failure": None if location else "decode", "detail": None}
    known = {"video_id": name, "source": f"{name}.avi", "source_bytes": 9, "source_sha256": name, "subsets": []}
    return {**known, "label": label, "class_name": CLASSES[label], **status, "location": location, **fields}


def listed(*sources: Source) -> SourceList:
    return SourceList(dataset="folder", root=Path("/videos"), classes=CLASSES, sources=sources)


def plan(sources: SourceList, before: list[Row], redo: set[int] = frozenset(), store: str = "arrow") -> Plan:  # type: ignore[assignment]
    return plan_again(sources, before, redo, store)


def test_a_new_dataset_decodes_everything() -> None:
    made = plan_new(listed(source("a"), source("b")))
    assert (made.rows, made.work) == ((0, 1), made.sources)


def test_nothing_changed() -> None:
    before = [row("a"), row("b"), row("c", None)]
    made = plan(listed(source("a"), source("b"), source("c")), before)
    assert (made.kept, made.copied, made.rows) == ({0: 0, 1: 1, 2: 2}, {}, ())
    assert not made.changes(before, CLASSES)
    assert made.changes(before, (*CLASSES, "one more, without a video"))
    assert count_changes(made, before) == Changes(0, 0, 0, 0)


@pytest.mark.parametrize("store", ["arrow", "frames"])
def test_a_video_that_is_done_again_takes_its_shard_along(store: str) -> None:
    if store == "arrow":
        places = ["shards/shard-00000.arrow", "shards/shard-00000.arrow", "shards/shard-00001.arrow"]
    else:
        places = ["frames/a", "frames/b", "frames/c"]
    before = [row(name, place) for name, place in zip("abc", places, strict=True)]
    made = plan(listed(*map(source, "abc")), before, {0}, store)
    assert made.kept == ({2: 2} if store == "arrow" else {1: 1, 2: 2})
    assert made.copied == ({1: 1} if store == "arrow" else {})
    assert made.rows == ((0, 1) if store == "arrow" else (0,))


def test_a_failed_video_touches_no_shard() -> None:
    made = plan(listed(*map(source, "abc")), [row("a"), row("b", None), row("c")], {1})
    assert (made.rows, made.kept, made.copied) == ((1,), {0: 0, 2: 2}, {})


def test_new_and_removed_videos() -> None:
    before = [row("b", "shards/shard-00000.arrow"), row("c", "shards/shard-00000.arrow"), row("d", "shards/s1")]
    made = plan(listed(*map(source, "acde")), before)
    assert (made.rows, made.copied, made.kept) == ((0, 1, 3), {1: 1}, {2: 2})
    assert count_changes(made, before) == Changes(num_new=2, num_gone=1, num_decoded_again=0, num_copied=1)
    assert made.changes(before, CLASSES)
    assert made.changes([*before, row("x", None)], CLASSES)


def test_another_class_is_stored_again_in_a_shard_only() -> None:
    before = [row("a", label=0)]
    assert plan(listed(source("a", 1)), before).copied == {0: 0}
    assert plan(listed(source("a", 1)), [row("a", "frames/a")], store="frames").kept == {0: 0}
    assert plan(listed(source("a", 1)), [row("a", "frames/a")], store="frames").changes([row("a", "frames/a")], CLASSES)


@pytest.mark.parametrize("store", ["arrow", "frames"])
def test_another_id_is_stored_again(store: str) -> None:
    renamed = listed(source("a", video_id="a.avi"))
    assert plan(renamed, [row("a")], store=store).copied == {0: 0}
    assert plan(renamed, [row("a", None)], store=store).kept == {0: 0}


def test_subsets_change_the_manifest_only() -> None:
    before = [row("a")]
    made = plan(listed(source("a", subsets=("train",))), before)
    assert (made.rows, made.changes(before, CLASSES)) == ((), True)


def test_what_the_scan_settles() -> None:
    """A row that the scan settled stands while the scan says the same, and no longer."""
    gone = {"status": "failed", "failure": "missing", "detail": "named in x.txt", "source_bytes": None}
    unlisted = {"status": "excluded", "failure": None, "detail": "no annotation names it"}
    before = [row("a", None, **gone), row("b", None, **unlisted), row("c")]
    same = listed(source("a", **gone), source("b", **unlisted), source("c"))
    assert plan(same, before, {0, 1}).rows == ()
    now = listed(source("a"), source("b"), source("c", **unlisted))
    assert plan(now, before).rows == (0, 1, 2)


names = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(old=names, new=names.filter(bool), redo=st.sets(st.integers(0, 7)), labels=st.integers(0, 255))
def test_every_row_has_one_fate_and_no_shard_keeps_a_part(
    old: list[str], new: list[str], redo: set[int], labels: int
) -> None:
    before = [row(name, f"shards/shard-{index // 3:05d}.arrow") for index, name in enumerate(old)]
    made = plan(listed(*(source(name, labels >> index & 1) for index, name in enumerate(new))), before, redo)
    assert made.kept.keys().isdisjoint(made.copied)
    for index, place in [*made.kept.items(), *made.copied.items()]:
        assert before[place]["source"] == made.sources.sources[index].source
        assert place not in redo
    whole = Counter(line["location"] for line in before)
    kept = Counter(before[place]["location"] for place in made.kept.values())
    assert all(whole[location] == number for location, number in kept.items())
    spans = list(made.spans())
    assert [index for _, rows in spans for index in rows] == list(range(len(new)))
    assert tuple(index for is_kept, rows in spans if not is_kept for index in rows) == made.rows


def test_a_plan_is_read_back(tmp_path: Path) -> None:
    places = Places(first_shard=7, taken=frozenset({"frames/a"}), spare=3, only_spare=True)
    made = Plan(listed(*map(source, "abcd")), copied={1: 5}, kept={0: 0, 3: 2}, places=places)
    write_plan(tmp_path / "plan.json", made)
    assert read_plan(tmp_path / "plan.json", made.sources, places.taken) == made
    for broken in (b"", b"{}", b"[]", b'{"copied": 1, "kept": []}', b"\xff"):
        (tmp_path / "plan.json").write_bytes(broken)
        assert read_plan(tmp_path / "plan.json", made.sources, places.taken) is None


def test_spans_are_short_enough_for_memory() -> None:
    made = Plan(listed(*(source(f"v{index}") for index in range(1500))), copied={}, kept={i: i for i in range(1400)})
    spans = list(made.spans())
    assert [(is_kept, len(rows)) for is_kept, rows in spans] == [(True, 512), (True, 512), (True, 376), (False, 100)]
    assert [row for _, rows in spans for row in rows] == list(range(1500))


# --- What is done again ---


@pytest.mark.parametrize("text", ["", "all", "failed:", "failed:sadness", "damaged:decode", "Failed", "failed,changed"])
def test_no_retry(text: str) -> None:
    with pytest.raises(UsageError, match="--retry"):
        parse_retry(text)


def test_failed_rows() -> None:
    short = {"status": "excluded", "failure": "too_short"}
    unlisted = {"status": "excluded", "failure": None}
    before = [row("a"), row("b", None), row("c", None, failure="timeout"), row("d", None, **short)]
    before += [row("e", None, **unlisted)]

    def chosen(text: str) -> set[int]:
        redo, is_damaged = rows_to_redo(parse_retry(text), Path("out"), before, listed(), num_jobs=1, quiet=True)
        assert not is_damaged
        return redo

    assert chosen("failed") == {1, 2, 3}
    assert chosen("failed:timeout") == {2}
    assert chosen("failed:too_short") == {3}
    assert chosen("failed:crashed") == set()


@pytest.mark.parametrize("again", [Again("changed"), UPDATE])
def test_changed_rows_are_told_by_size_and_bytes(tmp_path: Path, again: Again) -> None:
    import hashlib

    for name, content in (("same", b"123456789"), ("longer", b"1234567890"), ("other", b"987654321"), ("new", b"1")):
        (tmp_path / f"{name}.avi").write_bytes(content)
    sha256 = hashlib.sha256(b"123456789").hexdigest()
    before = [row(name, source_sha256=sha256) for name in ("same", "longer", "other", "gone")]
    before += [row("unread", None, source_sha256=sha256), row("never hashed", None, source_sha256=None)]
    now = [source("same"), source("longer", source_bytes=10), source("other"), source("new", source_bytes=1)]
    now += [source("unread"), source("never hashed")]
    sources = replace(listed(*now), root=tmp_path)
    assert rows_to_redo(again, tmp_path, before, sources, num_jobs=2, quiet=True) == ({1, 2, 4, 5}, False)
    for size in (9, 10):
        lost = replace(sources, sources=(source("gone", source_bytes=size),))
        with pytest.raises(UsageError, match=r"cannot read .*gone\.avi': No such file or directory; bring it back"):
            rows_to_redo(again, tmp_path, before, lost, num_jobs=2, quiet=True)


def test_a_file_in_windows_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def hash_file(path: Path) -> str:
        read.append(path)
        return "as before"

    monkeypatch.setattr("prep.changes.hash_file", hash_file)
    (tmp_path / "a.avi").write_bytes(b"123456789")
    names = ["a.avi", "a.avi#t=0,1", "a.avi#t=1,2", "a.avi#t=2"]
    hashes = ["as before", "another", "as before", None]
    before = [row(name, source=name, source_sha256=sha256) for name, sha256 in zip(names, hashes, strict=True)]
    sources = replace(listed(*(source(name, source=name) for name in names)), root=tmp_path)
    assert rows_to_redo(UPDATE, tmp_path, before, sources, num_jobs=2, quiet=True) == ({1, 3}, False)
    assert read == [tmp_path / "a.avi"]


# --- Where an update stores frames ---


def test_no_folder_of_before_is_touched() -> None:
    places = Places(first_shard=7, taken=frozenset({"frames/a", "frames/x/y", "frames-2/b"}), spare=3)
    assert places.shard_location(2) == "shards/shard-00009.arrow"
    assert places.folder_location("new") == "frames/new"
    assert places.folder_location("a") == "frames-3/a"
    assert places.folder_location("a/inside") == "frames-3/a/inside"
    assert places.folder_location("b") == "frames/b"
    assert places.folder_location("x") == "frames-3/x"
    assert places.folder_location("x/y") == "frames-3/x/y"
    assert places.folder_location("x/z") == "frames/x/z"
    assert replace(places, only_spare=True).folder_location("new") == "frames-3/new"
    assert Places().folder_location("a") == "frames/a"
    assert Places().shard_location(0) == "shards/shard-00000.arrow"


def test_free_places_are_on_neither_list_nor_disk(tmp_path: Path) -> None:
    taken = frozenset({"shards/shard-00003.arrow"})
    assert free_places(tmp_path, taken) == Places(4, taken, spare=2)
    (tmp_path / "shards").mkdir()
    for name in ("shard-00011.arrow", ".tmp-99", "notes.txt"):
        (tmp_path / "shards" / name).touch()
    for name in ("frames", "frames-2", "frames-4"):
        (tmp_path / name).mkdir()
    assert free_places(tmp_path, taken) == Places(12, taken, spare=3)
    (tmp_path / ".work" / "superseded").mkdir(parents=True)
    assert free_places(tmp_path, taken) == Places(12, taken, spare=3, only_spare=True)


def test_what_the_scan_settles_is_decoded_once_it_does_not() -> None:
    """A copy that was left out, once the file that was taken is gone."""
    copy = {"status": "excluded", "failure": "duplicate_id", "detail": "has the id of b.avi, which is taken"}
    before = [row("a", None, **copy), row("b", "shards/shard-00000.arrow")]
    settled = listed(source("a", **copy), source("b"))
    assert plan(settled, before).rows == ()
    assert plan(listed(source("a")), before).rows == (0,)
