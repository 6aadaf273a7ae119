"""Which frames of a video lie in a window of its time, and what becomes of a window that the video does not fill."""

from manifests.windows import Window
from prep.decoders.interface import VideoError
from prep.sampling import TIE_S

_SHORT_S = 0.5
"""A window that ends so much later than the video says so: times in lists are mostly rounded."""


class InWindow:
    """Takes the times of a video's frames, in order. Times of the window count from the first of them.

    `num_frames` are in the window so far. `is_left`: the last frame taken is at the end of the window or after it, so
    that no more are needed.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self.num_frames = 0
        self.is_left = False
        self._first_s: float | None = None
        self._last_s = 0.0
        self._num_taken = 0

    def take(self, time_s: float | None) -> bool:
        """Whether the next frame, shown at `time_s`, is in the window. Raises VideoError where it has no time."""
        if time_s is None:
            words = f"a list names the window {self.window.words}"
            raise VideoError("unsupported", f"{words}, and the file does not tell when its frames are shown")
        if self._first_s is None:
            self._first_s = time_s
        # What is as good as equal counts as equal, at both ends: windows that meet share no frame, and lose none.
        now_s = time_s - self._first_s + TIE_S
        self.is_left = self.window.end_s is not None and now_s >= self.window.end_s
        if self.is_left:
            return False
        self._last_s = time_s - self._first_s
        self._num_taken += 1
        is_in = now_s >= self.window.start_s
        self.num_frames += is_in
        return is_in

    def nothing(self) -> str:
        """Why there is no frame in the window."""
        reason = "" if self.is_left else f": the video ends at {self._ends}"
        return f"no frame {self.window.words}{reason}"

    def shortage(self) -> str | None:
        """What is missing of the window at its end, if that is more than rounding."""
        if self.is_left or self.window.end_s is None or self.window.end_s - self._end_s <= _SHORT_S:
            return None
        return f"the video ends at {self._ends}, and a list names the window {self.window.words}"

    @property
    def _end_s(self) -> float:
        """When a video that was not left ends, if its last frame is shown for the mean time of the others."""
        return self._last_s * self._num_taken / max(1, self._num_taken - 1)

    @property
    def _ends(self) -> str:
        return f"{self._end_s:.3f}".rstrip("0").rstrip(".") + " s"
