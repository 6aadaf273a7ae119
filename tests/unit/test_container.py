"""Files cut short, told by structure alone, on files built byte by byte."""

import struct
from pathlib import Path

import pytest
from clips import Clip, write_clip

from prep.container import cut_short


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(content)
    return path


def is_cut(tmp_path: Path, content: bytes) -> bool:
    said = cut_short(written(tmp_path, content))
    # A file with more bytes than it claims is never called cut, and one that is names its size.
    assert said is None or f"the file has {len(content)}" in said
    return said is not None


# --- Pieces ---


def riff(kind: bytes, payload: bytes, claimed: int | None = None) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + len(payload) if claimed is None else claimed) + kind + payload


def box(kind: bytes, payload: bytes, claimed: int | None = None) -> bytes:
    return struct.pack(">I", 8 + len(payload) if claimed is None else claimed) + kind + payload


def large_box(kind: bytes, payload: bytes) -> bytes:
    """With a 64-bit size (ISO/IEC 14496-12, 4.2: size 1)."""
    return struct.pack(">I", 1) + kind + struct.pack(">Q", 16 + len(payload)) + payload


def ebml(element: bytes, payload: bytes, size_length: int = 8, *, unknown: bool = False) -> bytes:
    """An EBML element whose data size takes `size_length` bytes (RFC 8794, 6: a marker bit, then the value)."""
    value = (1 << 7 * size_length) - 1 if unknown else len(payload)
    return element + (value | 1 << 7 * size_length).to_bytes(size_length) + payload


HEADER = ebml(b"\x1a\x45\xdf\xa3", b"\x42\x82\x84webm", 1)
SEGMENT_ID = b"\x18\x53\x80\x67"
FTYP = box(b"ftyp", b"isom" + bytes(12))

WHOLE = {
    "riff": riff(b"AVI ", bytes(200)),
    "riff-odd": riff(b"AVI ", bytes(201)),
    "riff-opendml": riff(b"AVI ", bytes(200)) + riff(b"AVIX", bytes(100)),
    "riff-odd-opendml": riff(b"AVI ", bytes(201)) + b"\0" + riff(b"AVIX", bytes(100)),
    "mp4": FTYP + box(b"moov", bytes(50)) + box(b"mdat", bytes(300)),
    "mp4-mdat-first": box(b"mdat", bytes(300)) + box(b"moov", bytes(50)),
    "mp4-64-bit": FTYP + box(b"moov", bytes(50)) + large_box(b"mdat", bytes(300)),
    "mp4-64-bit-first": FTYP + large_box(b"mdat", bytes(300)) + box(b"moov", bytes(50)),
    "mp4-fragments": FTYP + box(b"moov", bytes(50)) + (box(b"moof", bytes(20)) + box(b"mdat", bytes(90))) * 3,
    "mkv": HEADER + ebml(SEGMENT_ID, bytes(300)),
    "mkv-short-size": HEADER + ebml(SEGMENT_ID, bytes(300), 2),
    "mkv-long-header": ebml(b"\x1a\x45\xdf\xa3", bytes(200), 4) + ebml(SEGMENT_ID, bytes(300), 3),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_files_are_whole(name: str, tmp_path: Path) -> None:
    assert not is_cut(tmp_path, WHOLE[name])


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("num_missing", [1, 10, 80])
def test_cut_files_are_cut(name: str, num_missing: int, tmp_path: Path) -> None:
    # No cut is right between two pieces; that one cannot be seen from sizes.
    assert is_cut(tmp_path, WHOLE[name][:-num_missing])


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "padding", [b"\0", bytes(8), bytes(5000), b"\xff" * 64, b"TAG" + bytes(125), b"JUNK\xf0\xf0\xf0\x0f"]
)
def test_padding_at_the_end_is_no_cut(name: str, padding: bytes, tmp_path: Path) -> None:
    assert not is_cut(tmp_path, WHOLE[name] + padding)


@pytest.mark.parametrize(
    "content",
    [
        riff(b"AVI ", bytes(200), claimed=0),  # a recorder that was stopped before it filled the size in
        riff(b"AVI ", bytes(200), claimed=0xFFFFFFFF),
        FTYP + box(b"moov", bytes(50)) + box(b"mdat", bytes(300), claimed=0),  # to the end of the file
        FTYP + box(b"moov", bytes(50)) + box(b"mdat", bytes(300)) + box(b"free", bytes(8), claimed=10_000),
        HEADER + ebml(SEGMENT_ID, bytes(300), unknown=True),
        HEADER + ebml(SEGMENT_ID, bytes(300), 1, unknown=True),
        HEADER,
        HEADER + ebml(b"\x11\x22\x33\x44", bytes(10)),
        b"",
        b"RIFF",
        b"\x1a\x45\xdf\xa3",
        b"<html>not a video</html>",
        b"G" + bytes(187),  # MPEG-TS
        bytes(1000),
    ],
)
def test_nothing_is_said_without_a_size_to_compare(content: bytes, tmp_path: Path) -> None:
    assert cut_short(written(tmp_path, content)) is None


def test_the_words_name_what_is_cut(tmp_path: Path) -> None:
    for name, piece in [("mp4", "mdat box"), ("riff-opendml", "RIFF chunk"), ("mkv", "segment")]:
        content = WHOLE[name]
        said = cut_short(written(tmp_path, content[:-9]))
        assert said == f"the {piece} claims {len(content)} bytes, the file has {len(content) - 9}"


def test_large_sizes_are_not_read_into_memory(tmp_path: Path) -> None:
    content = FTYP + struct.pack(">I", 1) + b"mdat" + struct.pack(">Q", 1 << 62)
    assert is_cut(tmp_path, content + bytes(100))


@pytest.mark.parametrize("suffix", [".avi", ".mp4", ".mkv", ".webm"])
def test_files_of_a_real_muxer(suffix: str, tmp_path: Path) -> None:
    codec = {".avi": "mpeg4", ".webm": "libvpx"}.get(suffix, "libx264")
    path = write_clip(tmp_path / f"clip{suffix}", Clip(name="", codec=codec, num_frames=10))
    content = path.read_bytes()
    assert not is_cut(tmp_path, content)
    assert not is_cut(tmp_path, content + bytes(100))
    for share in (0.5, 0.9):
        assert is_cut(tmp_path, content[: int(len(content) * share)])
    assert is_cut(tmp_path, content[:-1])


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cut_short(tmp_path / "missing")
