"""PyAV (FFmpeg's libraries): hands out YUV planes, timestamps, discard and corruption flags.

Arrays: y_HW, u_hw, v_hw uint8, see prep.decoders.interface; frame_HWC uint8 RGB.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import av.error
import av.logging
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.sidedata.sidedata import SideData
from av.sidedata.sidedata import Type as SideDataType
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from av.video.stream import VideoStream

from manifests.closing import Closing
from prep.colour import to_jfif
from prep.decoders.interface import Header, Planes, Tally, VideoError
from prep.geometry import UPRIGHT, Orientation, Size, UInt8Array, orientation_from_matrix

# Matrix coefficients as ITU-T H.273 numbers them.
_BT601_MATRIX = 6
_COLORSPACES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
    10: Colorspace.BT2020,
}

# Pixel formats that need no conversion but that of levels.
_AS_STORED = ("yuv420p", "yuvj420p")

# A chroma sample is the mean over all pixels that it stands for.
_AVERAGE_CHROMA = Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INP

VERSION = av.__version__

LogLine = tuple[int, str, str]  # level, component, message
_MAX_LOG_LINES = 8

# Demuxers that make a "video" of a still picture or of plain text.
_NO_VIDEO_CONTAINERS = ("image2", "tty")


class PyavFrame:
    """See prep.decoders.interface.Frame. `native` is the frame as PyAV gives it."""

    def __init__(self, native: VideoFrame, time_s: float | None, reformatter: VideoReformatter) -> None:
        self.native = native
        self._time_s = time_s
        self._reformatter = reformatter

    @property
    def time_s(self) -> float | None:
        return self._time_s

    @property
    def size(self) -> Size:
        return Size(self.native.width, self.native.height)

    @property
    def orientation(self) -> Orientation:
        # A mapping by its type, a sequence by its behaviour.
        for side_data in cast("Iterable[SideData]", self.native.side_data):
            if side_data.type == SideDataType.DISPLAYMATRIX:
                return orientation_from_matrix(bytes(side_data))
        return UPRIGHT

    @property
    def is_damaged(self) -> bool:
        return self.native.is_corrupt

    def planes(self, size: Size) -> Planes:
        native = self.native
        if native.format.name in _AS_STORED and (native.width, native.height) == (size.width, size.height):
            return self._jfif(native)
        # Area averaging does not alias when shrinking; enlarging by it would give blocks.
        shrinks = size.width <= native.width and size.height <= native.height
        scaling = Interpolation.AREA if shrinks else Interpolation.BICUBIC
        # Of YUV only size and layout change here: where swscale changes colour, it rounds down by up to two levels.
        scaled = self._reformatted(
            size,
            "yuv420p",
            scaling | _AVERAGE_CHROMA if self._is_rgb else scaling,
            ColorRange.MPEG if self._is_rgb else self._range,
        )
        return self._jfif(scaled)

    def _jfif(self, yuv: VideoFrame) -> Planes:
        y_HW, u_hw, v_hw = map(_plane_array, yuv.planes)
        if self._is_rgb:
            return to_jfif((y_HW, u_hw, v_hw), _BT601_MATRIX, full_range=False)
        return to_jfif((y_HW, u_hw, v_hw), self.native.colorspace, full_range=self._range == ColorRange.JPEG)

    def sample(self, size: Size, matrix: int) -> UInt8Array:
        """Luma, full range, of a grid of `size` single pixels: enough to recognise the picture by. `matrix`, as ITU-T
        H.273 numbers them, says which luma of RGB."""
        sampled = self._reformatted(size, "gray", Interpolation.POINT, ColorRange.JPEG, matrix)
        return _plane_array(sampled.planes[0])

    def rgb(self, matrix: int) -> UInt8Array:
        """frame_HWC as RGB, not turned; YUV counts as that of `matrix`."""
        converted = self._reformatted(self.size, "rgb24", Interpolation.BICUBIC, ColorRange.JPEG, matrix)
        return converted.to_ndarray().view(np.uint8)

    @property
    def _is_rgb(self) -> bool:
        return self.native.format.is_rgb or self.native.format.has_palette

    @property
    def _range(self) -> ColorRange:
        # swscale takes gray for full range whatever its tag says, and so does ffmpeg.
        is_full = self._is_rgb or self.native.format.name.startswith(("yuvj", "gray"))
        return ColorRange.JPEG if is_full or self.native.color_range == ColorRange.JPEG else ColorRange.MPEG

    def _reformatted(
        self,
        size: Size,
        pixel_format: str,
        interpolation: Interpolation,
        target_range: ColorRange,
        matrix: int = _BT601_MATRIX,
    ) -> VideoFrame:
        colorspace = _COLORSPACES.get(matrix, Colorspace.ITU601)
        native = _as_progressive(self.native) if self.native.interlaced_frame else self.native
        try:
            return self._reformatter.reformat(
                native,
                width=size.width,
                height=size.height,
                format=pixel_format,
                interpolation=interpolation,
                src_colorspace=colorspace,
                dst_colorspace=colorspace,
                src_color_range=self._range,
                dst_color_range=target_range,
                threads=1,
            )
        except MemoryError:
            raise
        except av.error.FFmpegError as error:
            detail = f"{native.format.name} pictures cannot be converted: {error.strerror}"
            raise VideoError("unsupported", detail) from error


def open_video(path: Path) -> "PyavDecoder":
    """Raises VideoError for a video that cannot be opened."""
    return PyavDecoder(path)


class PyavDecoder(Closing):
    """See prep.decoders.interface.Decoder."""

    version = f"pyav {VERSION}"

    def __init__(self, path: Path) -> None:
        self._num_packets = 0
        self._num_errors = 0
        self._reason: str | None = None
        self._time_s: float | None = None
        self._resources = ExitStack()
        with ExitStack() as on_failure:
            self._log = on_failure.enter_context(_captured_log())
            self._container = on_failure.enter_context(_open_container(path, self._log))
            self._stream = _choose_stream(self._container)
            self._resources = on_failure.pop_all()
        # Processes are the parallelism.
        self._stream.codec_context.thread_count = 1
        self._tick_s = self._stream.time_base
        self.header = Header(
            container=self._container.format.name,
            codec=self._stream.codec_context.codec.canonical_name,
            declared_num_frames=self._stream.frames or None,
            declared_fps=self._stream.average_rate,
            sample_aspect=self._stream.sample_aspect_ratio or Fraction(0),
        )

    @property
    def tally(self) -> Tally:
        words = next((words for words in map(_message, self._log) if words), self._reason)
        return Tally(num_packets=self._num_packets, num_errors=self._num_errors, words=words)

    def frames(self) -> Iterator[PyavFrame]:
        reformatter = VideoReformatter()
        for packet in self._packets():
            for native in self._decode(packet):
                self._time_s = self._time_of(native)
                yield PyavFrame(native, self._time_s, reformatter)
            # Only the first words are wanted; a damaged file can have millions.
            del self._log[_MAX_LOG_LINES:]

    def has_leading_packets(self) -> bool:
        """Whether some group of pictures is open: a picture shown before a key frame, but not the first, comes after
        it in the file. Reads all packets."""
        key_ticks: int | None = None
        is_first = True
        for packet in self._packets():
            if packet is None or packet.pts is None:
                continue
            if packet.is_keyframe:
                is_first = key_ticks is None
                key_ticks = packet.pts
            elif key_ticks is not None and not is_first and packet.pts < key_ticks:
                return True
        return False

    def seek(self, ticks: int) -> None:
        """Let `frames` go on at the last key frame at or before a time in ticks of the stream, as the container says:
        whoever needs a certain frame has to look at its time. Raises VideoError."""
        try:
            self._container.seek(ticks, stream=self._stream)
        except MemoryError:
            raise
        except av.error.FFmpegError as error:
            raise VideoError("decode", f"cannot go to {ticks}: {error.strerror}") from error

    def close(self) -> None:
        self._resources.close()

    def _packets(self) -> "Iterator[Packet[VideoStream] | None]":
        """The packets of the stream, then None, which drains the decoder."""
        try:
            for packet in self._container.demux(self._stream):
                if packet.size:
                    self._num_packets += not packet.is_discard and not self._is_hidden(packet)
                    yield packet
        except MemoryError:
            raise
        except av.error.FFmpegError as error:
            self._count(error)
        yield None

    def _is_hidden(self, packet: "Packet[VideoStream]") -> bool:
        """VP8 has reference pictures that are never shown in packets of their own (show_frame, RFC 6386, 9.1)."""
        return self.header.codec == "vp8" and not memoryview(packet)[0] & 0x10

    def _time_of(self, native: VideoFrame) -> float | None:
        # AVI has no presentation times. Those that libavformat makes up are out of order around B-frames, but the
        # decoding times of frames in the order shown are in order.
        ticks = native.dts if self.header.container == "avi" else native.pts
        if ticks is not None and self._tick_s is not None:
            return ticks * self._tick_s.numerator / self._tick_s.denominator
        # The last frames of an AVI with B-frames have no packet to take a time from.
        if self._time_s is not None and self.header.declared_fps:
            return self._time_s + float(1 / self.header.declared_fps)
        return None

    def _decode(self, packet: "Packet[VideoStream] | None") -> list[VideoFrame]:
        try:
            return self._stream.codec_context.decode(packet)
        except MemoryError:
            raise
        except av.error.FFmpegError as error:
            self._count(error)
            return []

    def _count(self, error: av.error.FFmpegError) -> None:
        self._num_errors += 1
        self._reason = self._reason or str(error.strerror)


@contextmanager
def _captured_log() -> Iterator[list[LogLine]]:
    """Collect what FFmpeg says at level error in this thread, instead of letting it go to stderr."""
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    with av.logging.Capture(local=True) as log:
        yield log


def _open_container(path: Path, log: list[LogLine]) -> InputContainer:
    # An absolute path, since FFmpeg reads "a:b.avi" as a protocol; tags need not be UTF-8.
    try:
        container = av.open(os.path.abspath(path), metadata_errors="ignore")
    except MemoryError:
        raise
    except av.error.FFmpegError as error:
        said = ", ".join(filter(None, map(_message, log[:_MAX_LOG_LINES])))
        raise VideoError("unreadable", f"{error.strerror} ({said})" if said else str(error.strerror)) from error
    name = container.format.name
    if name in _NO_VIDEO_CONTAINERS or name.endswith("_pipe"):
        container.close()
        raise VideoError("no_video", f"a still picture or text ({name}), not a video")
    return container


def _choose_stream(container: InputContainer) -> VideoStream:
    """The first video stream that is not an attached picture."""
    for stream in container.streams.video:
        if stream.disposition & Disposition.attached_pic:
            continue
        if stream.codec_context is None:
            raise VideoError("unsupported", "no decoder for the codec of its video stream")
        return stream
    raise VideoError("no_video", "no video stream")


def _as_progressive(native: VideoFrame) -> VideoFrame:
    """A copy without the mark of interlacing, for which swscale would scale each field for itself: lines then come
    to lie up to half a pixel from where they belong, and only every other one is averaged."""
    copy = VideoFrame(native.width, native.height, native.format.name)
    for source, target in zip(native.planes, copy.planes, strict=True):
        rows, target_rows = (
            np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
            for plane in (source, target)
        )
        num_bytes = min(source.line_size, target.line_size)
        target_rows[:, :num_bytes] = rows[:, :num_bytes]
    return copy


def _plane_array(plane: VideoPlane) -> UInt8Array:
    return np.ndarray((plane.height, plane.width), np.uint8, memoryview(plane), strides=(plane.line_size, 1))


def _message(line: LogLine) -> str:
    """Without the path: what is kept says nothing about where a file lay."""
    _, component, message = line
    return f"{component}: {message.strip()}" if message.strip() else ""
