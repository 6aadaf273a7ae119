"""Which of the decoded frames are kept, decided as they come: at most one frame is held back."""

import math
from fractions import Fraction
from typing import Generic, TypeVar

from prep.decoders.interface import VideoError
from prep.recipe import Frames

FrameT = TypeVar("FrameT")

TIE_S = 1e-6
"""Distances in time that differ by less are equal: what remains of sums of binary fractions."""


class EveryNth(Generic[FrameT]):
    """Frames 0, every, 2 * every, ..."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._num_seen = 0

    def add(self, frame: FrameT, time_s: float | None) -> FrameT | None:
        """Take the next frame; returns it if it is kept."""
        is_kept = self._num_seen % self._every == 0
        self._num_seen += 1
        return frame if is_kept else None

    def end(self) -> FrameT | None:
        """There are no more frames; returns the one held back if it is kept."""
        return None


class NearestInTime(Generic[FrameT]):
    """The frames that are nearest to the times 0, 1 / fps, 2 / fps, ... after the first frame; of two that are as near,
    the earlier. None is kept twice, so a rate above the video's keeps every frame once.

    A frame is nearest between the midpoints to its neighbours; the last one as long after as before its time.
    A frame whose time does not go forward is never nearer than the one before. Where a file gives no times they are
    counted at `declared_fps`.
    """

    def __init__(self, fps: float, declared_fps: Fraction | None) -> None:
        self._fps = fps
        self._step_s = float(1 / declared_fps) if declared_fps else None
        self._held: FrameT | None = None
        self._first_s = self._held_s = 0.0
        self._gap_s = 1 / fps  # of a single frame
        self._next_slot = 0

    def add(self, frame: FrameT, time_s: float | None) -> FrameT | None:
        """Take the next frame; returns the one before it if that is kept. Raises VideoError where neither the frame
        nor the header tells its time."""
        if self._held is None:
            self._held, self._held_s = frame, self._time(time_s, 0.0)
            self._first_s = self._held_s
            return None
        time_s = self._time(time_s, self._held_s + (self._step_s or 0))
        if time_s <= self._held_s:
            return None
        self._gap_s = time_s - self._held_s
        is_kept = self._is_nearest_until(self._held_s + self._gap_s / 2)
        before, self._held, self._held_s = self._held, frame, time_s
        return before if is_kept else None

    def end(self) -> FrameT | None:
        """There are no more frames; returns the one held back if it is kept."""
        # Up to there, but not at it: that time is the first of what would come next.
        return self._held if self._is_nearest_until(self._held_s + self._gap_s / 2 - 2 * TIE_S) else None

    def _time(self, time_s: float | None, counted_s: float) -> float:
        if time_s is not None:
            return time_s
        if self._step_s is None:
            raise VideoError("unsupported", "frames.fps needs times, and the file gives neither times nor a rate")
        return counted_s

    def _is_nearest_until(self, end_s: float) -> bool:
        """Whether a time lies before `end_s`, or at it, that lies after those of the frames before; pass over it."""
        num_slots = max(0, math.floor((end_s - self._first_s + TIE_S) * self._fps) + 1)
        is_nearest = num_slots > self._next_slot
        self._next_slot = max(self._next_slot, num_slots)
        return is_nearest


Sampler = EveryNth[FrameT] | NearestInTime[FrameT]


def make_sampler(frames: Frames, declared_fps: Fraction | None) -> Sampler[FrameT]:
    """As `frames.fps` or else `frames.every` says."""
    return NearestInTime(frames.fps, declared_fps) if frames.fps else EveryNth(frames.every)
