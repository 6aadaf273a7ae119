"""How many videos may fail before a run stops: `--max-failures N` or `P%`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from manifests.errors import UsageError

_NO_FAILURE_OF_THE_RUN = ("missing", "too_short", "duplicate_id")
"""What the annotations or the recipe leave out; no video that could not be prepared."""


@dataclass(frozen=True)
class Budget:
    """`number` of videos, or a share of those of the run: `percent` of them. Without either there is no limit."""

    number: int | None = None
    percent: float | None = None

    def __str__(self) -> str:
        return f"{self.percent:g}%" if self.percent is not None else str(self.number)

    def allows(self, failures: Mapping[str, int], num_videos: int) -> bool:
        """Whether a run of `num_videos` may go on with so many `failures`, by kind."""
        num_failed = sum(number for kind, number in failures.items() if kind not in _NO_FAILURE_OF_THE_RUN)
        if self.percent is not None:
            return num_failed <= self.percent / 100 * num_videos
        return self.number is None or num_failed <= self.number


def parse_budget(text: str | None) -> Budget:
    """ "20" or "1.5%"; None is no limit. Raises UsageError."""
    if text is None:
        return Budget()
    match = re.fullmatch(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)%", text.strip(), re.ASCII)
    if match is None or (match[2] and float(match[2]) > 100):
        raise UsageError(f"--max-failures takes a number of videos or a percentage such as 1.5%, not {text!r}")
    return Budget(number=int(match[1])) if match[1] else Budget(percent=float(match[2]))
