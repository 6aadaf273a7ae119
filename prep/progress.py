"""The progress bar of an extraction, on stderr."""

import sys

from tqdm import tqdm

from manifests.closing import Closing
from manifests.records import Outcome, Source

_SECONDS_BETWEEN_LINES_OF_A_LOG = 30.0


class Progress(Closing):
    """Videos done, frames a second, failures and the time left; each failure on a line of its own.

    Where stderr is no terminal (a log) the bar is printed seldom; with `quiet` nothing is.
    """

    def __init__(self, num_videos: int, num_done: int, *, quiet: bool) -> None:
        interval_s = 0.1 if sys.stderr.isatty() else _SECONDS_BETWEEN_LINES_OF_A_LOG
        self._bar = tqdm(
            total=num_videos,
            initial=num_done,
            unit="video",
            disable=quiet,
            mininterval=interval_s,
            maxinterval=interval_s * 2,
            dynamic_ncols=True,
        )
        self._quiet = quiet
        self._num_frames = 0
        self._num_failed = 0

    def add(self, source: Source, outcome: Outcome) -> None:
        if outcome.status == "failed":
            self._num_failed += 1
            self.say(f"failed: {source.source}: {outcome.failure}{f': {outcome.detail}' if outcome.detail else ''}")
        self._num_frames += outcome.num_frames
        seconds = self._bar.format_dict["elapsed"] or 1e-9
        self._bar.set_postfix_str(
            f"{self._num_frames / seconds:.0f} frames/s, {self._num_failed} failed", refresh=False
        )
        self._bar.update()

    def say(self, line: str) -> None:
        if not self._quiet:
            tqdm.write(line, file=sys.stderr)

    def close(self) -> None:
        self._bar.close()


def announce(line: str, *, quiet: bool) -> None:
    """Say on stderr what the run is about to do."""
    if not quiet:
        print(line, file=sys.stderr)
