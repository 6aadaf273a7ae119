"""What every decoder gives: the frames of one video, in order from the first, and a tally of what went wrong.

    with open_decoder("pyav", path) as decoder:
        for frame in decoder.frames():
            y_HW, u_hw, v_hw = frame.planes(Size(340, 256))
    decoder.tally

Arrays: y_HW uint8 luma; u_hw, v_hw uint8 chroma at half size, h = ceil(H / 2), w = ceil(W / 2).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Protocol, Self

from prep.geometry import Orientation, Size, YuvPlanes

Planes = YuvPlanes


class VideoError(Exception):
    """A video that cannot be prepared: `kind` is one of manifests.records.FAILURE_KINDS, `detail` says more, in
    the decoder's own words where it has any. Never leaves the extraction of one video."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True, kw_only=True)
class Header:
    """What the file says of itself; none of it is believed.

    `sample_aspect` is 0 where unknown. `declared_fps` is the average rate.
    """

    container: str
    codec: str
    declared_num_frames: int | None
    declared_fps: Fraction | None
    sample_aspect: Fraction


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of a whole decode: packets meant to be shown, packets or reads that failed, and the first words
    that the decoder had to say about a failure."""

    num_packets: int
    num_errors: int
    words: str | None


class Frame(Protocol):
    """One decoded frame; valid for as long as its decoder is open."""

    @property
    def time_s(self) -> float | None:
        """Presentation time in seconds as the file gives it, or one frame after the last where it stops giving
        any; None where it gives none."""

    @property
    def size(self) -> Size:
        """As coded, before any turn."""

    @property
    def orientation(self) -> Orientation: ...

    @property
    def is_damaged(self) -> bool:
        """Whether the codec marks the picture as damaged."""

    def planes(self, size: Size) -> Planes:
        """The picture scaled to `size`, not turned, as full-range BT.601 YUV 4:2:0 (what JFIF wants)."""


class Decoder(Protocol):
    """One open video."""

    version: str
    """Name and version, such as "pyav 18.1.0"."""
    header: Header

    def frames(self) -> Iterator[Frame]:
        """Every shown frame once, in order. A packet that cannot be decoded is counted and passed over."""

    def num_damaged_ahead(self) -> int:
        """For a caller that leaves `frames` before its end: of the pictures that are decoded already and would be shown
        next, how many the codec marks as damaged. Those that were shown may depend on them."""

    @property
    def tally(self) -> Tally:
        """Complete once `frames` has ended, or `num_damaged_ahead` was asked for."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
