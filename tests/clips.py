"""Makes small video files whose every picture carries its number, and damages them.

The number is drawn as a grid of black and white cells, large enough to survive lossy coding, scaling and JPEG:

    W 0 1 B     W, B   white and black, which set the threshold and tell which way up the picture is
    2 3 4 5     0-9    the bits of the number, the lowest first
    6 7 8 9     c d e  check bits, so that a blend of two pictures or a picture of noise has no number
    B c d e

Arrays: frame_HWC uint8 RGB, frame_HW uint8 gray, y_HW, u_hw, v_hw uint8 planes.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import simplejpeg
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

UInt8Array = npt.NDArray[np.uint8]

NUM_CELLS = 4
NUM_BITS = 10
_DATA_CELLS = [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]
_CHECK_CELLS = [(3, 1), (3, 2), (3, 3)]
_WHITE_CELL, _BLACK_CELLS = (0, 0), [(0, 3), (3, 0)]


# --- Pictures ---


def numbered_frame(number: int, width: int, height: int) -> UInt8Array:
    """frame_HWC that carries `number`, in [0, 1024)."""
    cells = np.zeros((NUM_CELLS, NUM_CELLS), np.uint8)
    cells[_WHITE_CELL] = 1
    for bit, cell in enumerate(_DATA_CELLS):
        cells[cell] = number >> bit & 1
    for bit, cell in enumerate(_CHECK_CELLS):
        cells[cell] = _check_value(number) >> bit & 1
    rows_H, columns_W = np.arange(height) * NUM_CELLS // height, np.arange(width) * NUM_CELLS // width
    frame_HW = np.where(cells[rows_H][:, columns_W] == 1, 235, 20).astype(np.uint8)
    return np.repeat(frame_HW[:, :, None], 3, axis=2)


def numbered_frames(num_frames: int, width: int = 96, height: int = 72) -> Iterator[UInt8Array]:
    """frame_HWC with the numbers 0, 1, ..."""
    return (numbered_frame(number, width, height) for number in range(num_frames))


def read_number(frame: UInt8Array) -> int:
    """The number that frame_HWC or frame_HW carries. Raises ValueError where it carries none."""
    frame_HW = frame.astype(np.float64) if frame.ndim == 2 else frame.astype(np.float64).mean(axis=2)
    height, width = frame_HW.shape
    levels = np.zeros((NUM_CELLS, NUM_CELLS))
    for row in range(NUM_CELLS):
        for column in range(NUM_CELLS):
            # The middle of the cell: its edges blend with the cells around it.
            top, left = (row + 0.3) * height / NUM_CELLS, (column + 0.3) * width / NUM_CELLS
            bottom, right = (row + 0.7) * height / NUM_CELLS, (column + 0.7) * width / NUM_CELLS
            levels[row, column] = frame_HW[round(top) : round(bottom), round(left) : round(right)].mean()
    white, black = levels[_WHITE_CELL], max(levels[cell] for cell in _BLACK_CELLS)
    if white - black < 100:
        raise ValueError(f"no number: the white cell has level {white:.0f}, a black one {black:.0f}")
    shares = (levels - black) / (white - black)
    if np.any(np.abs(shares - 0.5) < 0.25):
        raise ValueError(f"no number: cells are neither black nor white: {shares.round(2).tolist()}")
    number = sum(int(shares[cell] > 0.5) << bit for bit, cell in enumerate(_DATA_CELLS))
    check = sum(int(shares[cell] > 0.5) << bit for bit, cell in enumerate(_CHECK_CELLS))
    if check != _check_value(number):
        raise ValueError(f"no number: {number} has check value {_check_value(number)}, not {check}")
    return number


def _check_value(number: int) -> int:
    return number * 5 % 7 + 1


def yuv_frame(planes: Sequence[npt.NDArray[Any]], pix_fmt: str) -> VideoFrame:
    """A frame with exactly these planes, uint8 or, for more than 8 bits, uint16."""
    height, width = planes[0].shape
    frame = VideoFrame(width, height, pix_fmt)
    for plane, array in zip(frame.planes, planes, strict=True):
        rows = np.zeros((array.shape[0], plane.line_size // array.itemsize), array.dtype)
        rows[:, : array.shape[1]] = array
        plane.update(rows.tobytes())
    return frame


# --- Files ---


@dataclass(frozen=True, kw_only=True)
class Clip:
    """How a clip of numbered frames is made, and with that what a decoder must say of it.

    pts_ms: presentation times; None for a constant `rate`. turn_deg: the counter-clockwise turn in its display
    matrix, after which `hflip` mirrors. `matrix` is as in ITU-T H.273 (1 is BT.709, 6 is BT.601).
    """

    name: str
    codec: str
    options: Mapping[str, str] = field(default_factory=dict)
    num_frames: int = 40
    width: int = 96
    height: int = 72
    rate: Fraction = Fraction(25)
    pts_ms: tuple[int, ...] | None = None
    pix_fmt: str = "yuv420p"
    matrix: int | None = None
    full_range: bool | None = None
    turn_deg: int = 0
    hflip: bool = False
    container_options: Mapping[str, str] = field(default_factory=dict)


def write_clip(path: Path, clip: Clip, frames: Iterable[UInt8Array | VideoFrame] | None = None) -> Path:
    """Encode `frames` (numbered ones by default), with one thread, so that the bytes do not vary."""
    if frames is None:
        frames = numbered_frames(clip.num_frames, clip.width, clip.height)
    with av.open(str(path), "w", options=dict(clip.container_options)) as container:
        stream = container.add_stream(clip.codec, rate=clip.rate, options=dict(clip.options))
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = clip.width, clip.height, clip.pix_fmt
        stream.codec_context.thread_count = 1
        if clip.pts_ms is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        if clip.matrix is not None:
            stream.codec_context.colorspace = clip.matrix
        if clip.full_range is not None:
            stream.codec_context.color_range = 2 if clip.full_range else 1
        if clip.turn_deg or clip.hflip:
            stream.set_display_rotation(clip.turn_deg, hflip=clip.hflip)
        for index, frame in enumerate(frames):
            container.mux(stream.encode(_to_encode(frame, clip, index)))
        container.mux(stream.encode(None))
    _schedule_as_ever()
    return path


def _schedule_as_ever() -> None:
    """SVT-AV1 makes the process of root a real-time one (SCHED_FIFO), and with it all that the tests start: two that
    spin would keep both processors for good."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):
            if os.sched_getscheduler(int(thread)) != os.SCHED_OTHER:
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))


def _to_encode(frame: UInt8Array | VideoFrame, clip: Clip, index: int) -> VideoFrame:
    if not isinstance(frame, VideoFrame):
        frame = VideoFrame.from_ndarray(frame, format="rgb24").reformat(format=clip.pix_fmt)
    if clip.matrix is not None:
        frame.colorspace = clip.matrix
    if clip.full_range is not None:
        frame.color_range = 2 if clip.full_range else 1
    if clip.pts_ms is not None:
        frame.pts, frame.time_base = clip.pts_ms[index], Fraction(1, 1000)
    return frame


# --- Files that are odd or damaged ---


class ListWriter:
    """Keeps the frames that it is given."""

    def __init__(self) -> None:
        self.jpegs: list[bytes] = []

    def add(self, jpeg: bytes) -> None:
        self.jpegs.append(jpeg)

    @property
    def numbers(self) -> list[int]:
        return [read_number(simplejpeg.decode_jpeg(jpeg, colorspace="RGB")) for jpeg in self.jpegs]


def packet_spans(path: Path) -> list[tuple[int, int]]:
    """Position and size in bytes of each video packet in the file, in decoding order."""
    with av.open(str(path)) as container:
        return [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.pos is not None]


def truncate(path: Path, num_bytes: int) -> Path:
    """Cut the file to its first `num_bytes`."""
    path.write_bytes(path.read_bytes()[:num_bytes])
    return path


def flip_bytes(path: Path, start: int, num_bytes: int) -> Path:
    """Invert all bits of [start, start + num_bytes). Whatever a byte was, it is another one now."""
    data = bytearray(path.read_bytes())
    assert start + num_bytes <= len(data)
    data[start : start + num_bytes] = (byte ^ 0xFF for byte in data[start : start + num_bytes])
    path.write_bytes(data)
    return path


def rewrite_packets(path: Path, target: Path, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    """Copy the video stream into a new file with the packets that `change` makes of its packets."""
    with av.open(str(path)) as source, av.open(str(target), "w") as container:
        stream = source.streams.video[0]
        packets = [packet for packet in source.demux(stream) if packet.size]
        copied = container.add_stream_from_template(stream)
        for index, data in enumerate(change([bytes(packet) for packet in packets])):
            packet = Packet(data)
            packet.stream = copied
            if stream.time_base is not None:
                packet.time_base = stream.time_base
            # Beyond the last packet time goes on in even steps.
            like = packets[min(index, len(packets) - 1)]
            packet.dts = (like.dts or 0) + (index - packets.index(like)) * (like.duration or 1)
            packet.pts, packet.is_keyframe = packet.dts, like.is_keyframe
            container.mux_one(packet)
    return target


def pack_bframes(path: Path, target: Path) -> Path:
    """An AVI of MPEG-4 with single B-frames (`bf=1`) -> the same in DivX's packed form, as HMDB51 has it.

    Each B-frame moves into the packet of the P-frame before it, and an empty picture fills its place. An even
    number of pictures ends with a P-frame without a B-frame, hence with one packet more than pictures. ISO/IEC
    14496-2 has the syntax of a VOP; the mark of packing is the `p` in the user data.
    """
    # VOP start code; type P; no whole second; marker; time increment (5 bits at 25 frames/s); marker; not coded.
    empty = b"\x00\x00\x01\xb6" + bytes([0b01010000, 0b01001111])

    def change(packets: list[bytes]) -> list[bytes]:
        packed = [_as_divx(packets[0])]
        for index in range(1, len(packets), 2):
            packed += [_as_divx(b"".join(packets[index : index + 2])), empty]
        return packed

    return rewrite_packets(path, target, change)


def _as_divx(packet: bytes) -> bytes:
    """The packet with the name of the encoder in its user data replaced."""
    start = packet.find(b"Lavc")
    if start < 0:
        return packet
    return packet[:start] + b"DivX503b1393p" + packet[packet.index(b"\x00\x00\x01", start) :]


def hide_vp8_frame(packet: bytes) -> bytes:
    """The packet with the show_frame bit of VP8 (RFC 6386, 9.1) cleared."""
    return bytes([packet[0] & ~0x10]) + packet[1:]


def hide_first_frames(path: Path, target: Path, num_hidden: int) -> Path:
    """Copy an MP4 and let an edit list hide its first frames, which a cut without decoding does: they are in the
    file, since later ones need them, but are not meant to be shown."""
    with (
        av.open(str(path)) as source,
        av.open(str(target), "w", options={"avoid_negative_ts": "disabled"}) as container,
    ):
        stream = source.streams.video[0]
        copied = container.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.pts is None or packet.dts is None or packet.duration is None:
                continue
            shift = num_hidden * packet.duration
            packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, copied
            container.mux_one(packet)
    return target


def drop_first_packets(path: Path, target: Path, num_packets: int) -> Path:
    """Copy the video stream without its first packets in decoding order."""
    with av.open(str(path)) as source, av.open(str(target), "w") as container:
        stream = source.streams.video[0]
        copied = container.add_stream_from_template(stream)
        for index, packet in enumerate(source.demux(stream)):
            if packet.size and index >= num_packets:
                packet.stream = copied
                container.mux_one(packet)
    return target
