"""What an earlier, unfinished run into the same OUT left behind: what of it can be believed, and what must go.

Finished groups were synced before they were named, so they are believed where their frames are in place. Everything
else was not synced: an ok video counts only if its frames and its table are there and have the CRCs of the journal.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from manifests.atomic import disk_errors
from manifests.records import Source
from manifests.stores import arrow, frames
from prep import spool
from prep.commit import manifest_part, read_part
from prep.journal import Entry, read_journal, rewrite_journal
from prep.run_folder import RunFolder, remove_temporaries


@dataclass(frozen=True)
class Recovered:
    """`num_ok` counts the ok videos of each group that is committed, `entries` are the believed outcomes of rows in
    other groups."""

    num_ok: dict[int, int]
    entries: dict[int, Entry]


def recover(
    run: RunFolder, store: str, sources: Sequence[Source], groups: Sequence[range], *, same_limits: bool = True
) -> Recovered:
    """Read the journal, check what it names, and remove all that is not to be believed.

    With other limits than before (`same_limits` is false) what is ok stays, and what is not is tried again.
    Raises StoreError, DamagedError.
    """
    remove_temporaries(run.out)
    journal = read_journal(run.journal)
    num_ok = _finished_groups(run, store, sources, groups, same_limits=same_limits)
    believed: dict[int, Entry] = {}
    with disk_errors(run.out):
        for group in range(len(groups)):
            if group in num_ok:
                continue
            for row in groups[group]:
                entry = journal.get(row)
                if entry is not None and _is_believed(run, store, sources[row], entry, same_limits=same_limits):
                    believed[row] = entry
                elif store == "frames":
                    spool.remove(run.out / frames.location_of(sources[row].video_id))
            spool.remove(manifest_part(run, group))
        _clear_spool(run, store, believed)
    if not same_limits:
        rewrite_journal(run.journal, believed.values())
    return Recovered(num_ok, believed)


def _finished_groups(
    run: RunFolder, store: str, sources: Sequence[Source], groups: Sequence[range], *, same_limits: bool
) -> dict[int, int]:
    """The ok videos of each group that is finished: its rows are there, and their frames where the rows say."""
    finished = {}
    for group, rows_of_group in enumerate(groups):
        if not manifest_part(run, group).exists():
            continue
        rows = read_part(manifest_part(run, group)).to_pylist()
        ok = [row for row in rows if row["status"] == "ok"]
        num_settled = sum(sources[row].status is not None for row in rows_of_group)
        if not same_limits and len(ok) + num_settled < len(rows):
            continue
        if all(_shard_is_whole(run, ok)) if store == "arrow" else all(_folders_are_whole(run, ok)):
            finished[group] = len(ok)
    return finished


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


def _is_believed(run: RunFolder, store: str, source: Source, entry: Entry, *, same_limits: bool) -> bool:
    if entry.outcome.status != "ok":
        return same_limits
    if store == "arrow":
        location = spool.frames_path(run.spool, entry.row, store)
    else:
        location = run.out / frames.location_of(source.video_id)
    return spool.is_intact(location, spool.table_path(run.spool, entry.row), entry.outcome, entry.table_crc32)


def _clear_spool(run: RunFolder, store: str, believed: dict[int, Entry]) -> None:
    keep = {spool.frames_path(run.spool, row, store) for row in believed}
    keep |= {spool.table_path(run.spool, row) for row in believed}
    for path in run.spool.iterdir():
        if path not in keep:
            spool.remove(path)
