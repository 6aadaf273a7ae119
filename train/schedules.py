"""Learning rates as functions of the optimiser step."""

import math


def cosine_with_warmup(step: int, *, num_steps: int, num_warmup_steps: int, peak: float) -> float:
    """The rate at `step` in [0, num_steps): linear up to `peak` over the warm-up, then half a cosine down to 0.

    Loshchilov and Hutter, SGDR, ICLR 2017, without restarts; warm-up after Goyal et al., 2017.
    """
    if step < num_warmup_steps:
        return peak * (step + 1) / num_warmup_steps
    share = (step - num_warmup_steps) / max(1, num_steps - num_warmup_steps)
    return 0.5 * peak * (1 + math.cos(math.pi * share))
