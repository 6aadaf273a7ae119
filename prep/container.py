"""Whether a container file is cut short, told from its structure alone.

Sources: the RIFF and OpenDML chunk layout; ISO/IEC 14496-12 section 4.2 (boxes); RFC 8794 (EBML).
MPEG transport streams and live WebM have no length to compare with: a cut in them cannot be seen here.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO

_PADDING_BOXES = (b"free", b"skip", b"wide")
_EBML_MAGIC = b"\x1a\x45\xdf\xa3"
_SEGMENT_ID = b"\x18\x53\x80\x67"


def cut_short(path: Path) -> str | None:
    """Say how the file is shorter than its structure claims, or None. Raises OSError."""
    with open(path, "rb") as file:
        num_bytes = os.fstat(file.fileno()).st_size
        head = file.read(12)
        file.seek(0)
        if head[:4] == b"RIFF":
            return _cut_riff(file, num_bytes)
        if head[:4] == _EBML_MAGIC:
            return _cut_matroska(file, num_bytes)
        if head[4:8] in (b"ftyp", b"moov", b"mdat", b"styp", *_PADDING_BOXES):
            return _cut_mp4(file, num_bytes)
    return None


def _cut_riff(file: BinaryIO, num_bytes: int) -> str | None:
    position = 0
    while position + 8 <= num_bytes:
        file.seek(position)
        magic, size = struct.unpack("<4sI", file.read(8))
        # Padding after the last chunk is common; 0 and -1 stand for a length that was never filled in.
        if magic != b"RIFF" or size in (0, 0xFFFFFFFF):
            return None
        if position + 8 + size > num_bytes:
            return f"the RIFF chunk claims {position + 8 + size} bytes, the file has {num_bytes}"
        position += 8 + size + size % 2
    return None


def _cut_mp4(file: BinaryIO, num_bytes: int) -> str | None:
    position = 0
    while position + 8 <= num_bytes:
        file.seek(position)
        size, kind = struct.unpack(">I4s", file.read(8))
        if size == 1:
            size = int.from_bytes(file.read(8))
        if not kind.isalnum() or size == 0 or size < 8:
            return None
        if position + size > num_bytes:
            if kind in _PADDING_BOXES:
                return None
            return f"the {kind.decode()} box claims {position + size} bytes, the file has {num_bytes}"
        position += size
    return None


def _cut_matroska(file: BinaryIO, num_bytes: int) -> str | None:
    file.seek(4)
    file.seek(_read_ebml_size(file) or 0, os.SEEK_CUR)
    if file.read(4) != _SEGMENT_ID:
        return None
    size = _read_ebml_size(file)
    if size is None or file.tell() + size <= num_bytes:
        return None
    return f"the segment claims {file.tell() + size} bytes, the file has {num_bytes}"


def _read_ebml_size(file: BinaryIO) -> int | None:
    """A data size of one to eight bytes; None for the value that means unknown, or at the end of the file."""
    first = file.read(1)
    if not first or first[0] == 0:
        return None
    length = 9 - first[0].bit_length()
    value = int.from_bytes(bytes([first[0] & (0xFF >> length)]) + file.read(length - 1))
    return None if value == (1 << 7 * length) - 1 else value
