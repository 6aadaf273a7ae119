"""Windows: parts of a longer video's time that are videos of a dataset.

The source of such a video is the path of its file, and after that the window as a temporal media fragment (W3C, Media
Fragments URI 1.0, section 4.2.1), in seconds from the first frame shown:

    long/video.mp4              the whole file
    long/video.mp4#t=10.5,20    the frames at 10.5 s and after, before 20 s
    long/video.mp4#t=10.5       those at 10.5 s and after

Equal times have equal text. Of a file whose own name reads so, `manifests.names.escape_name` escapes the `#`.
"""

import math
import re
from dataclasses import dataclass
from decimal import Decimal

FRAGMENT = r"#t=([0-9]+(?:\.[0-9]+)?)(?:,([0-9]+(?:\.[0-9]+)?))?"
"""A regular expression: how a window is written."""

_AT_THE_END = re.compile(FRAGMENT + r"\Z")


@dataclass(frozen=True)
class Window:
    """[start_s, end_s) in seconds, or from `start_s` on where `end_s` is None; `str` gives it as a fragment.

    Raises ValueError for times that are negative, infinite or no numbers, and for an end that is not after the start.
    """

    start_s: float
    end_s: float | None = None

    def __post_init__(self) -> None:
        for time_s in (self.start_s, self.end_s):
            if time_s is not None and not 0 <= time_s < math.inf:
                raise ValueError(f"{time_s:g} is no time in seconds from the start of a video")
        if self.end_s is not None and self.end_s <= self.start_s:
            raise ValueError(f"it ends at {_text(self.end_s)} s, not after its start at {_text(self.start_s)} s")

    def __str__(self) -> str:
        return f"#t={_text(self.start_s)}" + ("" if self.end_s is None else f",{_text(self.end_s)}")

    @property
    def suffix(self) -> str:
        """What a video_id has of it."""
        return f"_{_text(self.start_s)}_{'end' if self.end_s is None else _text(self.end_s)}"

    @property
    def words(self) -> str:
        """As it stands in a sentence."""
        return f"from {_text(self.start_s)} s to {'the end' if self.end_s is None else f'{_text(self.end_s)} s'}"


def with_window(name: str, window: Window | None) -> str:
    """The source that is a window of the file `name`, which is as `escape_name` gives it; None is the whole."""
    return name if window is None else f"{name}{window}"


def split_source(source: str) -> tuple[str, Window | None]:
    """The inverse of `with_window`. Raises ValueError for a fragment that is no window."""
    found = _AT_THE_END.search(source) if "#t=" in source else None
    if found is None:
        return source, None
    return source[: found.start()], Window(float(found[1]), None if found[2] is None else float(found[2]))


def file_of(source: str) -> str:
    """The file of a source, as `escape_name` gives it, without the window."""
    return split_source(source)[0]


def _text(time_s: float) -> str:
    """The shortest decimal that is this number, without an exponent: 10.0 -> "10", 1e-07 -> "0.0000001"."""
    return format(Decimal(repr(abs(time_s))), "f").removesuffix(".0")
