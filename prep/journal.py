"""The journal of an open run: one outcome a line, as JSON, as they happen.

A line carries the CRC-32 of the rest of itself. It is not synced: after a power cut lines may be missing or torn, and
those count as never written.
"""

import json
import zlib
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from manifests.atomic import atomic_write, disk_errors
from manifests.records import Outcome, by_name


@dataclass(frozen=True)
class Entry:
    """What became of the source in `row`. `table_crc32` is that of its frame table, 0 unless ok."""

    row: int
    outcome: Outcome
    table_crc32: int


class Journal:
    """Appends entries. Raises StoreError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with disk_errors(path):
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by __exit__
            if self._file.tell():
                self._file.write(b"\n")  # what a killed run left unfinished stays a line of its own

    def add(self, entry: Entry) -> None:
        with disk_errors(self._path):
            self._file.write(_line(entry))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_journal(path: Path, rows: Set[int] | None = None) -> dict[int, Entry]:
    """The last whole entry of each row, or of these `rows`; empty where there is no journal. Raises StoreError."""
    entries: dict[int, Entry] = {}
    if path.exists():
        with disk_errors(path), open(path, "rb") as file:
            for line in file:
                entry = _parse(line)
                if entry is not None and (rows is None or entry.row in rows):
                    entries[entry.row] = entry
    return entries


def rewrite_journal(path: Path, entries: Iterable[Entry]) -> None:
    """Replace the journal by these entries, in one step. Raises StoreError."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"".join(_line(entry) for entry in entries))


def _line(entry: Entry) -> bytes:
    text = json.dumps({**vars(entry), "outcome": by_name(entry.outcome)})
    return json.dumps({"crc32": zlib.crc32(text.encode()), "entry": text}).encode() + b"\n"


def _parse(line: bytes) -> Entry | None:
    try:
        message = json.loads(line)
        if zlib.crc32(message["entry"].encode()) != message["crc32"]:
            return None
        table = json.loads(message["entry"])
        return Entry(row=table["row"], outcome=Outcome(**table["outcome"]), table_crc32=table["table_crc32"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # JSON, but nothing of ours
        return None
