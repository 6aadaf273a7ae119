"""Frames of a video by their number: from its middle where that can be trusted, else by decoding all frames before.

Index access of common decoders gives wrong frames, without an error, in AVI (packed B-frames, and no presentation
times), behind edit lists and in open groups of pictures; transport streams seek by guesses. So `index_video` decodes a
video once from its first frame to its last, and believes in an access only where the kind of file allows it and some
tries give what the decode gave:

- pyav goes to a key frame by its time and decodes on until a frame has the time that was counted: MP4, MOV, Matroska
  and WebM, where times of frames ascend;
- decord is asked by number: the same containers, H.264 and VP9 in closed groups of pictures, upright, and where it
  counts as many frames;
- OpenCV, for which the number of a frame is its time by the rate in the header, is always read in order.

Arrays: picture_HWC uint8 RGB in [0, 255], upright; ticks_N int64 over the frames of a video, keys_K int64 numbers of
some.
"""

import importlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from av.video.reformatter import VideoReformatter

from prep.container import cut_short
from prep.decoders import open_decoder
from prep.decoders.interface import Decoder, Header, VideoError
from prep.decoders.pyav import PyavDecoder, PyavFrame
from prep.extract_video import judge, measured_rate
from prep.geometry import UPRIGHT, Orientation, Size, UInt8Array, turned
from prep.recipe import Limits

FORWARD, BY_TIME, BY_NUMBER = "forward", "time", "number"
"""How frames are reached: by decoding all before them, or by an access that was tried."""

Int64Array = npt.NDArray[np.int64]

_CONTAINERS = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
_DECORD_CODECS = ("h264", "vp9")
_NUM_TRIES = 8
_PRINT = Size(16, 12)
"""A picture so small tells frames apart."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameIndex:
    """What was counted in a video, and how its frames are reached: `access` is FORWARD, BY_TIME or BY_NUMBER.

    `width` and `height` are upright; `fps` is None where neither times nor the header tell it. For BY_TIME ticks_N are
    the presentation times of all frames, in the time base of the stream, and keys_K the numbers of key frames.
    """

    num_frames: int
    width: int
    height: int
    orientation: Orientation = UPRIGHT
    fps: float | None = None
    access: str = FORWARD
    ticks_N: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    keys_K: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def is_upright(self) -> bool:
        """Whether pictures are shown as they are coded."""
        return self.orientation == UPRIGHT


# --- Count ---


def index_video(path: Path, decoder: str) -> FrameIndex:
    """Decode a video whole with the decoder of this name (checked against PyAV's, see prep.decoders.checked).

    Raises VideoError for one that an extraction with the default limits would not take.
    """
    try:
        is_empty, cut = path.stat().st_size == 0, cut_short(path)
    except OSError as error:
        raise VideoError("unreadable", error.strerror or str(error)) from error
    if is_empty:
        raise VideoError("empty", "the file has no bytes")
    with open_decoder(decoder, path) as opened:
        try:
            seen = _decode(opened)
        except VideoError as error:
            raise VideoError("truncated", f"{cut}; {error.detail}") if cut else error from error
        outcome = judge(
            opened.tally,
            num_frames=len(seen.prints),
            num_damaged=seen.num_damaged,
            cut=cut,
            size_change=seen.size_change,
            one_picture=len(seen.prints) > 1 and len(set(seen.prints)) == 1,
            limits=Limits(),
        )
        header = opened.header
    if outcome.status != "ok":
        raise VideoError(outcome.failure or "decode", outcome.detail or "")
    ticks = [tick for tick in seen.ticks if tick is not None]
    fps, _ = measured_rate(seen.times_s, header.declared_fps)
    swaps = seen.orientation.swaps_sides
    index = FrameIndex(
        num_frames=len(seen.prints),
        width=seen.coded.height if swaps else seen.coded.width,
        height=seen.coded.width if swaps else seen.coded.height,
        orientation=seen.orientation,
        fps=fps,
    )
    access = _possible_access(path, decoder, header, index, ticks, seen.keys)
    if access == FORWARD:
        return index
    tried = replace(index, access=access)
    if access == BY_TIME:
        tried = replace(tried, ticks_N=np.array(ticks, np.int64), keys_K=np.array(seen.keys, np.int64))
    return tried if _is_right(path, tried, seen.prints) else index


@dataclass(kw_only=True)
class _Seen:
    """What a decode showed. `prints` tell the frames apart."""

    coded: Size
    orientation: Orientation
    prints: list[bytes]
    times_s: list[float]
    ticks: list[int | None]
    keys: list[int]
    num_damaged: int = 0
    size_change: str | None = None


def _decode(opened: Decoder) -> _Seen:
    seen = _Seen(coded=Size(0, 0), orientation=UPRIGHT, prints=[], times_s=[], ticks=[], keys=[])
    for number, frame in enumerate(opened.frames()):
        if number == 0:
            seen.coded, seen.orientation = frame.size, frame.orientation
        elif frame.size != seen.coded:
            was, becomes = seen.coded, frame.size
            seen.size_change = f"{was.width}x{was.height} becomes {becomes.width}x{becomes.height} at frame {number}"
            break
        seen.prints.append(frame.planes(_PRINT)[0].tobytes())
        seen.times_s.append(float("nan") if frame.time_s is None else frame.time_s)
        seen.num_damaged += frame.is_damaged
        if isinstance(frame, PyavFrame):
            seen.ticks.append(frame.native.pts)
            if frame.native.key_frame:
                seen.keys.append(number)
    return seen


def _possible_access(
    path: Path, decoder: str, header: Header, index: FrameIndex, ticks: Sequence[int], keys: Sequence[int]
) -> str:
    """The access that the kind of file allows."""
    if header.container not in _CONTAINERS:
        return FORWARD
    if decoder == "pyav":
        ascend = all(before < after for before, after in pairwise(ticks))
        return BY_TIME if ascend and len(ticks) == index.num_frames and list(keys[:1]) == [0] else FORWARD
    if decoder == "decord" and header.codec in _DECORD_CODECS and index.is_upright:
        with PyavDecoder(path) as opened:
            return FORWARD if opened.has_leading_packets() else BY_NUMBER
    return FORWARD


def _is_right(path: Path, index: FrameIndex, prints: Sequence[bytes]) -> bool:
    """Whether some frames that the access of `index` gives are those of the decode."""
    try:
        if index.access == BY_NUMBER:
            ours = importlib.import_module("prep.decoders.decord")
            asked = _spread(index.num_frames)
            natives = ours.read_numbers(path, asked, index.num_frames)
            frames = [PyavFrame(native, None, VideoReformatter()) for native in natives]
            return [frame.planes(_PRINT)[0].tobytes() for frame in frames] == [prints[number] for number in asked]
        # The last first, so that each is a jump; a key frame and the one after, or before the next.
        keys = [int(index.keys_K[place]) for place in reversed(_spread(len(index.keys_K)))]
        with PyavDecoder(path) as decoder:
            for key in keys:
                for asked_number in (key, min(key + 1, index.num_frames - 1)):
                    frame = next(_by_time(decoder, index, [asked_number]))
                    if frame.planes(_PRINT)[0].tobytes() != prints[asked_number]:
                        return False
    except VideoError:
        return False
    return True


def _spread(length: int) -> list[int]:
    """Up to _NUM_TRIES of [0, length), evenly, the last included."""
    num_parts = min(_NUM_TRIES, length)
    return [(part + 1) * length // num_parts - 1 for part in range(num_parts)]


# --- Read ---


def read_pictures(path: Path, decoder: str, index: FrameIndex, numbers: Sequence[int]) -> list[UInt8Array]:
    """picture_HWC of the frames of these numbers, which ascend. Raises VideoError where they are not there any more."""
    if index.access == BY_NUMBER:
        ours = importlib.import_module("prep.decoders.decord")
        return [
            _picture(PyavFrame(native, None, VideoReformatter()), index)
            for native in ours.read_numbers(path, numbers, index.num_frames)
        ]
    if index.access == BY_TIME:
        with PyavDecoder(path) as opened:
            return [_picture(frame, index) for frame in _by_time(opened, index, numbers)]
    with closing(_in_order(path, decoder, index, numbers)) as frames:
        pictures = [_picture(frame, index) for frame in frames]
    if len(pictures) < len(numbers):
        raise _gone(numbers[len(pictures)])
    return pictures


def _in_order(path: Path, decoder: str, index: FrameIndex, numbers: Sequence[int]) -> Generator[PyavFrame, None, None]:
    """The frames of these numbers, by decoding all up to the last. Those of other libraries come without PyAV's check:
    `index_video` made it."""
    if decoder == "pyav":
        with PyavDecoder(path) as opened:
            wanted = set(numbers)
            for number, frame in enumerate(opened.frames()):
                if number in wanted:
                    yield frame
                if number == numbers[-1]:
                    return
        return
    ours, reformatter = importlib.import_module(f"prep.decoders.{decoder}"), VideoReformatter()
    with closing(ours.read_pictures(path, index.orientation, numbers)) as natives:
        for native in natives:
            yield PyavFrame(native, None, reformatter)


def _by_time(opened: PyavDecoder, index: FrameIndex, numbers: Sequence[int]) -> Iterator[PyavFrame]:
    """The frames of these numbers, which ascend. It jumps only over key frames."""
    frames: Iterator[PyavFrame] = iter(())
    position = -1
    for number in numbers:
        key = int(index.keys_K[np.searchsorted(index.keys_K, number, side="right") - 1])
        if position < key:
            opened.seek(int(index.ticks_N[key]))
            frames = opened.frames()
        frame = next((frame for frame in frames if frame.native.pts == index.ticks_N[number]), None)
        if frame is None:
            raise _gone(number)
        position = number
        yield frame


def _picture(frame: PyavFrame, index: FrameIndex) -> UInt8Array:
    return turned(frame.rgb(frame.native.colorspace), index.orientation)


def _gone(number: int) -> VideoError:
    return VideoError("decode", f"frame {number} does not come, though it came when frames were counted")
