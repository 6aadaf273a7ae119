"""The journal after whatever a crash leaves: whole lines count, nothing else does."""

import json
import os
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.errors import StoreError
from manifests.records import FAILURE_KINDS, Outcome
from prep.journal import Entry, Journal, read_journal

OK = Outcome(status="ok", source_sha256="ab" * 32, num_frames=3, fps=29.97, num_bytes=2**40, content_crc32=2**32 - 1)
FAILED = Outcome(status="failed", failure="decode", detail="Zähne\n\u2028🎥\0\udce9")
ENTRIES = [Entry(0, OK, 5), Entry(7, FAILED, 0), Entry(3, OK, 2**32 - 1), Entry(2**31, Outcome(status="excluded"), 0)]

outcomes = st.builds(
    Outcome,
    status=st.sampled_from(["ok", "failed", "excluded"]),
    failure=st.none() | st.sampled_from(sorted(FAILURE_KINDS)),
    detail=st.none() | st.text(max_size=20),
    num_frames=st.integers(0, 2**40),
    fps=st.none() | st.floats(allow_nan=False),
)
entries = st.builds(Entry, st.integers(0, 5), outcomes, st.integers(0, 2**32 - 1))


def write(path: Path, written: list[Entry]) -> None:
    with Journal(path) as journal:
        for entry in written:
            journal.add(entry)


def by_row(written: list[Entry]) -> dict[int, Entry]:
    """The last entry of each row."""
    return {entry.row: entry for entry in written}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_no_journal_is_an_empty_one(path: Path) -> None:
    assert read_journal(path) == {}
    assert not path.exists()


def test_entries_come_back(path: Path) -> None:
    write(path, ENTRIES)
    assert read_journal(path) == by_row(ENTRIES)


def test_an_entry_is_on_disk_when_it_was_added(path: Path) -> None:
    with Journal(path) as journal:
        for number, entry in enumerate(ENTRIES, 1):
            journal.add(entry)
            assert len(read_journal(path)) == number


def test_the_last_entry_of_a_row_counts(path: Path) -> None:
    write(path, [Entry(1, FAILED, 0), Entry(2, OK, 2), Entry(1, OK, 1)])
    write(path, [Entry(2, FAILED, 0)])
    assert read_journal(path) == {1: Entry(1, OK, 1), 2: Entry(2, FAILED, 0)}


@given(first=st.lists(entries, max_size=4), second=st.lists(entries, max_size=4))
@settings(deadline=None)
def test_any_entries_come_back_over_two_runs(first: list[Entry], second: list[Entry]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        write(path, first)
        write(path, second)
        assert read_journal(path) == by_row(first + second)


@given(written=st.lists(entries, max_size=4), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_journal_cut_at_any_byte_keeps_exactly_its_whole_lines(written: list[Entry], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        write(path, written)
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        # A line that lacks nothing but its newline is whole.
        num_whole = whole[: cut + 1].count(b"\n")
        assert read_journal(path) == by_row(written[:num_whole])
        # What the next run adds is not lost in the torn line.
        write(path, [Entry(9, OK, 9)])
        assert read_journal(path) == by_row([*written[:num_whole], Entry(9, OK, 9)])


@given(flip=st.integers(min_value=0), bit=st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_costs_its_line_at_most(flip: int, bit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        write(path, ENTRIES)
        data = bytearray(path.read_bytes())
        position = flip % len(data)
        data[position] ^= 1 << bit
        path.write_bytes(data)
        found = read_journal(path)
        line = bytes(data[:position]).count(b"\n")
        hit = {entry.row for entry in ENTRIES[line : line + 2]}  # a newline that is gone joins two
        assert set(found.items()) <= set(by_row(ENTRIES).items())
        assert {entry.row for entry in ENTRIES} - hit <= found.keys()


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\n",
        b"\0" * 4096,
        b"\0\n\0\n",
        b"\xff\xfe\xfd",
        b"3",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b'{"crc32": 0, "entry": ""}',
        b'{"crc32": 0, "entry": 5}',
        b'{"crc32": 0, "entry": null}',
        b'{"crc32": "0", "entry": "x"}',
        b"[" * 100_000,
        b"9" * 5000,
    ],
    ids=lambda garbage: repr(garbage[:25]),
)
def test_garbage_between_lines_is_passed_over(path: Path, garbage: bytes) -> None:
    write(path, ENTRIES[:2])
    with open(path, "ab") as file:
        file.write(garbage)
    write(path, ENTRIES[2:])
    assert read_journal(path) == by_row(ENTRIES)


def test_a_line_with_another_crc_is_passed_over(path: Path) -> None:
    write(path, ENTRIES[:1])
    line = json.loads(path.read_bytes())
    line["entry"] = line["entry"].replace('"num_frames": 3', '"num_frames": 4')
    path.write_text(json.dumps(line) + "\n")
    assert read_journal(path) == {}


def test_a_line_of_a_version_with_other_fields_is_passed_over(path: Path) -> None:
    for text in ('{"row": 1, "outcome": {"status": "ok", "colour": 3}, "table_crc32": 0}', '{"row": 1}', "[]", "3"):
        path.write_text(json.dumps({"crc32": zlib.crc32(text.encode()), "entry": text}) + "\n")
        assert read_journal(path) == {}


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write .*/missing/journal: No such file or directory"):
        Journal(tmp_path / "missing" / "journal")
    with pytest.raises(StoreError, match="Is a directory"):
        read_journal(tmp_path)
    with Journal(Path("/dev/full")) as journal, pytest.raises(StoreError, match="/dev/full: No space left on device"):
        journal.add(ENTRIES[0])


def test_it_is_closed(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    write(path, ENTRIES)
    read_journal(path)
    assert len(os.listdir("/proc/self/fd")) == before
