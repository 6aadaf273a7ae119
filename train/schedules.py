"""Learning rates as functions of the optimiser step."""

import math
from collections.abc import Sequence

SCHEDULES = ("cosine", "step")


def cosine_with_warmup(
    step: int, *, num_steps: int, num_warmup_steps: int, peak: float, warmup_from: float = 0.0
) -> float:
    """The rate at `step` in [0, num_steps): linear up to `peak` over the warm-up, then half a cosine down to 0.

    Loshchilov and Hutter, SGDR, ICLR 2017, without restarts; warm-up after Goyal et al., 2017.
    """
    if step < num_warmup_steps:
        return _warmup(step, num_warmup_steps, peak, warmup_from)
    share = (step - num_warmup_steps) / max(1, num_steps - num_warmup_steps)
    return 0.5 * peak * (1 + math.cos(math.pi * share))


def steps_with_warmup(
    step: int,
    *,
    decay_steps: Sequence[int],
    factor: float,
    num_warmup_steps: int,
    peak: float,
    warmup_from: float = 0.0,
) -> float:
    """The rate at `step`: linear up to `peak` over the warm-up, then times `factor` from each of decay_steps on."""
    if step < num_warmup_steps:
        return _warmup(step, num_warmup_steps, peak, warmup_from)
    return peak * factor ** sum(step >= decay_step for decay_step in decay_steps)


def _warmup(step: int, num_warmup_steps: int, peak: float, start: float) -> float:
    return start + (peak - start) * (step + 1) / num_warmup_steps
