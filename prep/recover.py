"""What an earlier, unfinished run into the same OUT left behind: what of it can be believed, and what must go.

Finished groups were synced before they were named, so they are believed where their frames are in place. Everything
else was not synced: an ok video counts only if its frames and its table are there and have the CRCs of the journal.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from manifests.atomic import disk_errors
from manifests.errors import DamagedError
from manifests.records import Source
from manifests.stores import arrow
from prep import spool
from prep.commit import manifest_part, read_part
from prep.journal import Entry, read_journal, rewrite_journal
from prep.respool import respool_group
from prep.run_folder import Earlier, RunFolder, remove_temporaries

_COLUMNS = ("video_id", "status", "failure", "num_frames", "location", "offsets_at", "data_at")
"""What tells whether a group is finished."""


@dataclass(frozen=True)
class Recovered:
    """`finished` counts, of each group that is committed, its ok videos (as "ok") and its failures by kind; `entries`
    are the believed outcomes of rows in other groups."""

    finished: dict[int, Counter[str]]
    entries: dict[int, Entry]


def recover(
    run: RunFolder, store: str, sources: Sequence[Source], groups: Sequence[range], earlier: Earlier | None = None
) -> Recovered:
    """Read the journal, check what it names, and remove all that is not to be believed.

    What an `earlier` run with other limits found ok stays, and what is not is tried again; rows whose files changed are
    done anew. Raises StoreError.
    """
    earlier = earlier or Earlier()
    remove_temporaries(run.out)
    finished: dict[int, Counter[str]] = {}
    to_redo: list[int] = []
    believed: dict[int, Entry] = {}
    with disk_errors(run.out):
        for group, rows in enumerate(groups):
            committed = _committed_rows(run, store, group)
            if committed is not None and _is_to_be_redone(committed, sources, rows, earlier):
                to_redo.append(group)
            elif committed is not None:
                kinds = ["ok" if row["status"] == "ok" else row["failure"] for row in committed]
                finished[group] = Counter(kind for kind in kinds if kind)
        rows_left = [row for group, rows in enumerate(groups) if group not in finished for row in rows]
        journal = read_journal(run.journal, set(rows_left))
        for group in to_redo:
            # What is ok of it goes back to where it was before the group was committed.
            journal.update(respool_group(run, store, group, groups[group].start))
        for row in rows_left:
            entry = journal.get(row)
            if entry is not None and _is_believed(run, store, sources[row], entry, earlier):
                believed[row] = entry
            elif store == "frames":
                spool.remove(run.out / run.places.folder_location(sources[row].video_id))
        if not earlier.is_equal:
            rewrite_journal(run.journal, believed.values())
        for group in range(len(groups)):
            if group not in finished:
                spool.remove(manifest_part(run, group))
                spool.remove(run.out / run.places.shard_location(group))
        _clear_spool(run, store, believed)
    return Recovered(finished, believed)


def _committed_rows(run: RunFolder, store: str, group: int) -> list[dict[str, Any]] | None:
    """_COLUMNS of the manifest rows of a group, if it is committed and its frames are where they say."""
    if not manifest_part(run, group).exists():
        return None
    try:
        rows: list[dict[str, Any]] = read_part(manifest_part(run, group), _COLUMNS).to_pylist()
    except DamagedError:
        return None
    ok = [row for row in rows if row["status"] == "ok"]
    is_whole = all(_shard_is_whole(run, ok)) if store == "arrow" else all(_folders_are_whole(run, ok))
    return rows if is_whole else None


def _is_to_be_redone(
    committed: Sequence[dict[str, Any]], sources: Sequence[Source], rows: range, earlier: Earlier
) -> bool:
    """Whether a committed group has a row that an `earlier` run judged by other limits, or whose file has changed."""
    judged = [row for row, line in zip(rows, committed, strict=True) if line["status"] != "ok"]
    was_judged = any(sources[row].status is None for row in judged)
    return (earlier.other_limits and was_judged) or not earlier.changed_rows.isdisjoint(rows)


def _shard_is_whole(run: RunFolder, ok: Sequence[dict[str, Any]]) -> Iterator[bool]:
    """Whether the shard of a group is there to its end, and its rows lie where the manifest says."""
    for location in {row["location"] for row in ok}:
        try:
            placed = arrow.placements(location, arrow.read_parts(run.out / location))
        except (OSError, ValueError, pa.ArrowException):
            yield False
            return
        for row in ok:
            place = placed.get(row["video_id"])
            yield place is not None and (list(place.offsets_at), list(place.data_at)) == (
                row["offsets_at"],
                row["data_at"],
            )


def _folders_are_whole(run: RunFolder, ok: Sequence[dict[str, Any]]) -> Iterator[bool]:
    """Whether each folder of a group has as many files as frames; what is in them was synced before."""
    for row in ok:
        folder = run.out / row["location"]
        yield folder.is_dir() and len(os.listdir(folder)) == row["num_frames"]


def _is_believed(run: RunFolder, store: str, source: Source, entry: Entry, earlier: Earlier) -> bool:
    if entry.row in earlier.changed_rows:
        return False
    if entry.outcome.status != "ok":
        return not earlier.other_limits
    if store == "arrow":
        location = spool.frames_path(run.spool, entry.row, store)
    else:
        location = run.out / run.places.folder_location(source.video_id)
    return spool.is_intact(location, spool.table_path(run.spool, entry.row), entry.outcome, entry.table_crc32)


def _clear_spool(run: RunFolder, store: str, believed: dict[int, Entry]) -> None:
    keep = {spool.frames_path(run.spool, row, store) for row in believed}
    keep |= {spool.table_path(run.spool, row) for row in believed}
    for path in run.spool.iterdir():
        if path not in keep:
            spool.remove(path)
