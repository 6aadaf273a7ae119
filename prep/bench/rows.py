"""The rows of the table: which step, of which decoder, in how many processes."""

from collections.abc import Sequence
from dataclasses import dataclass

from manifests.stores import STORES

STEPS = ("decode", "scale", "encode")
SAMPLED_FRAMES = (8, 32)


@dataclass(frozen=True)
class Row:
    """`step` is one of prep.bench.steps, or `into arrow`, `into frames`: the whole extraction, with its processes.
    `decoder` is empty where the step has none."""

    step: str
    decoder: str = ""
    num_jobs: int = 1

    @property
    def store(self) -> str | None:
        """The store of a whole extraction."""
        return self.step.removeprefix("into ") if self.step.startswith("into ") else None

    @property
    def name(self) -> str:
        words = self.step if not self.decoder else f"{self.decoder} {self.step}"
        return f"{words}, {self.num_jobs} jobs" if self.num_jobs > 1 else words


ENCODE_ONLY = Row("encode only")
OPENCV_LOOP = Row("opencv loop")


def choose_rows(decoders: Sequence[str], jobs: Sequence[int], *, has_opencv: bool, has_decord: bool) -> list[Row]:
    """The rows for these decoders, whose libraries must be there; what compares with OpenCV or decord needs those."""
    rows = [ENCODE_ONLY, *([OPENCV_LOOP] if has_opencv else [])]
    for decoder in decoders:
        rows += [Row(step, decoder) for step in STEPS]
        rows += [Row(f"bare {step}", decoder) for step in (STEPS[:1] if decoder == "pyav" else STEPS)]
        for num_jobs in jobs:
            rows.append(Row("discard", decoder, num_jobs))
            rows += [Row(f"into {store}", decoder, num_jobs) for store in STORES]
    for num_frames in SAMPLED_FRAMES if has_opencv else ():
        rows.append(Row(f"sampled {num_frames}", "opencv"))
        rows += [Row(f"sampled {num_frames}", "decord")] if has_decord else []
    return rows
