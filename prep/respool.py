"""Take the ok videos of a committed group back into the spool, as if the group had not been put together yet.

Arrays: table_N as in prep.frame_table.
"""

import os
from collections.abc import Sequence

from manifests.errors import DamagedError
from manifests.stores import arrow
from prep import spool
from prep.before import frame_table, outcome_of
from prep.commit import frames_part, manifest_part, read_part
from prep.frame_table import FrameTable, write_table
from prep.journal import Entry
from prep.plan import Row
from prep.run_folder import RunFolder


def respool_group(run: RunFolder, store: str, group: int, first_row: int) -> dict[int, Entry]:
    """The entries of the ok rows of a group, whose first row is `first_row`, by row. What cannot be read as it was
    written is left out. Raises OSError where the spool cannot be written."""
    try:
        committed, tables = read_part(manifest_part(run, group)).to_pylist(), read_part(frames_part(run, group))
    except DamagedError:
        return {}
    number_of = {video_id: number for number, video_id in enumerate(tables.column("video_id").to_pylist())}
    entries = {}
    for row, line in enumerate(committed, first_row):
        if line["status"] == "ok" and line["video_id"] in number_of:
            table_N = frame_table(tables, number_of[line["video_id"]])
            if store == "frames" or _respool_frames(run, row, line, table_N):
                table_crc32 = write_table(spool.table_path(run.spool, row), table_N)
                entries[row] = Entry(row, outcome_of(line), table_crc32)
    return entries


def _respool_frames(run: RunFolder, row: int, line: Row, table_N: FrameTable) -> bool:
    """Whether the frames of a row could be taken out of their shard."""
    descriptor = os.open(run.out / line["location"], os.O_RDONLY | os.O_CLOEXEC)

    def read_frames(indices: Sequence[int]) -> list[bytes]:
        try:
            return arrow.read_frames(descriptor, line["num_frames"], line["offsets_at"], line["data_at"], indices)
        except OSError as error:  # told from one of the spool
            raise DamagedError(f"cannot read {line['location']}: {error}") from error

    try:
        return spool.copy_frames(spool.frames_path(run.spool, row, "arrow"), "arrow", table_N, read_frames) is None
    except DamagedError:
        return False
    finally:
        os.close(descriptor)
