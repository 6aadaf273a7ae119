"""Learning rates as functions of the position in a run.

Positions are in epochs, or in any other unit that all arguments of a call share. A step begins at `position` and is
`width` long: the warm-up counts a step by its end, so that its first one moves and its last one has the rate that holds
after it; all else counts by its beginning.
"""

import math
from collections.abc import Callable, Sequence

SCHEDULES = ("cosine", "step")


def cosine_with_warmup(
    position: float, *, width: float, end: float, warmup_end: float, peak: float, warmup_from: float = 0.0
) -> float:
    """Linear up to `peak` over the warm-up, then half a cosine down to 0 at `end`.

    Loshchilov and Hutter, SGDR, ICLR 2017, without restarts; warm-up after Goyal et al., 2017.
    """

    def cosine(position: float) -> float:
        length = end - warmup_end
        share = (position - warmup_end) / length if length > 0 else 0.0
        return 0.5 * peak * (1 + math.cos(math.pi * share))

    return _warmed_up(cosine, position, width, warmup_end, warmup_from)


def steps_with_warmup(
    position: float,
    *,
    width: float,
    changes: Sequence[tuple[float, float]],
    warmup_end: float,
    warmup_from: float = 0.0,
) -> float:
    """The rate of the last of `changes`, (position, rate) in order from 0 on, that is not after `position`.

    Linear over the warm-up, up to the rate that holds at its end; rates do not change before.
    """

    def latest(position: float) -> float:
        return [rate for begin, rate in changes if begin <= position][-1]

    return _warmed_up(latest, position, width, warmup_end, warmup_from)


def _warmed_up(
    rate_of: Callable[[float], float], position: float, width: float, warmup_end: float, warmup_from: float
) -> float:
    if position >= warmup_end:
        return rate_of(position)
    share = min(1.0, (position + width) / warmup_end)
    return warmup_from + (rate_of(warmup_end) - warmup_from) * share
