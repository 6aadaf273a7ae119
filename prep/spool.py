"""What a decoding process leaves for the parent: the frames and the frame table of one video.

    .work/spool/00000017.jpegs     the frames end to end (store arrow)
    .work/spool/00000017           the frame folder (store frames), renamed to frames/<video_id> when the video is done
    .work/spool/00000017.table     prep.frame_table

Neither is synced, so a resumed run believes them only by CRC. A video that failed leaves nothing.
"""

import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from manifests.names import frame_file_name
from manifests.records import Outcome
from manifests.stores.arrow import SpoolWriter
from manifests.stores.frames import FolderWriter
from prep.frame_table import FrameTable, read_table

ReadFrames = Callable[[Sequence[int]], list[bytes]]

_FRAMES_AT_A_TIME = 64


def frames_path(spool: Path, row: int, store: str) -> Path:
    return spool / (f"{row:08d}.jpegs" if store == "arrow" else f"{row:08d}")


def table_path(spool: Path, row: int) -> Path:
    return spool / f"{row:08d}.table"


def open_writer(frames: Path, store: str) -> SpoolWriter | FolderWriter:
    """A writer for the frames of one video, in place of whatever is there. Raises OSError."""
    remove(frames)
    return SpoolWriter(frames) if store == "arrow" else FolderWriter(frames)


def copy_frames(path: Path, store: str, table_N: FrameTable, read_frames: ReadFrames) -> int | None:
    """Write frames that are stored elsewhere to `path`, a few in memory at a time; `read_frames` gives their bytes by
    index. Returns the index of the first that does not have the CRC-32 of `table_N`, None where all have. Raises what
    `read_frames` raises, and OSError."""
    writer = open_writer(path, store)
    try:
        for start in range(0, len(table_N), _FRAMES_AT_A_TIME):
            entries = table_N[start : start + _FRAMES_AT_A_TIME]
            jpegs = read_frames(range(start, start + len(entries)))
            for index, (jpeg, crc32) in enumerate(zip(jpegs, entries["crc32"].tolist(), strict=True), start):
                if zlib.crc32(jpeg) != crc32:
                    return index
                writer.add(jpeg)
    finally:
        writer.close()
    return None


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_intact(frames: Path, table: Path, outcome: Outcome, table_crc32: int) -> bool:
    """Whether the frames (spool file or folder) and the table are those that the outcome of an ok video tells of."""
    try:
        table_N, crc32 = read_table(table)
        if crc32 != table_crc32 or len(table_N) != outcome.num_frames:
            return False
        chunks = _folder_chunks(frames) if frames.is_dir() else _file_chunks(frames, table_N)
        content_crc32 = 0
        for entry, jpeg in zip(table_N, chunks, strict=True):
            if len(jpeg) != entry["num_bytes"]:
                return False
            content_crc32 = zlib.crc32(jpeg, content_crc32)
    except (OSError, ValueError):
        return False
    return content_crc32 == outcome.content_crc32


def _file_chunks(path: Path, table_N: FrameTable) -> Iterator[bytes]:
    with open(path, "rb") as file:
        for num_bytes in table_N["num_bytes"].tolist():
            yield file.read(num_bytes)
        if file.read(1):
            raise ValueError("more bytes than the table tells of")


def _folder_chunks(folder: Path) -> Iterator[bytes]:
    num_files = sum(1 for _ in folder.iterdir())
    for index in range(num_files):
        yield (folder / frame_file_name(index)).read_bytes()
