"""What an earlier, unfinished run into the same OUT left behind: what of it can be believed, and what must go.

Finished groups were synced before they were named, so they are believed. Everything else was not synced: an ok video
counts only if its frames and its table are there and have the CRCs of the journal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from manifests.atomic import disk_errors
from manifests.records import Source
from manifests.stores import frames
from prep import spool
from prep.commit import manifest_part
from prep.journal import Entry, read_journal
from prep.run_folder import RunFolder, remove_temporaries


@dataclass(frozen=True)
class Recovered:
    """`finished` are the groups that are committed, `entries` the believed outcomes of rows in other groups."""

    finished: frozenset[int]
    entries: dict[int, Entry]


def recover(run: RunFolder, store: str, sources: Sequence[Source], groups: Sequence[range]) -> Recovered:
    """Read the journal, check what it names, and remove all that is not to be believed. Raises StoreError."""
    remove_temporaries(run.out)
    journal = read_journal(run.journal)
    finished = frozenset(group for group in range(len(groups)) if manifest_part(run, group).exists())
    believed: dict[int, Entry] = {}
    with disk_errors(run.out):
        for group in range(len(groups)):
            if group in finished:
                continue
            for row in groups[group]:
                entry = journal.get(row)
                if entry is not None and _is_believed(run, store, sources[row], entry):
                    believed[row] = entry
                elif store == "frames":
                    spool.remove(run.out / frames.location_of(sources[row].video_id))
        _clear_spool(run, store, believed)
    return Recovered(finished, believed)


def _is_believed(run: RunFolder, store: str, source: Source, entry: Entry) -> bool:
    if entry.outcome.status != "ok":
        return True
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
