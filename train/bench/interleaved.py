"""Steps in turn, round after round, so that whatever else the machine does falls on all alike."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import paddle


@dataclass
class Samples:
    """Of one step: the seconds of each round, and the most bytes that Paddle held during one (None: it cannot tell)."""

    seconds: list[float] = field(default_factory=list)
    peak_bytes: int | None = None

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


def measure(steps: Mapping[str, Callable[[], None]], budget_s: float, min_rounds: int) -> dict[str, Samples]:
    """Each step once without measuring, then rounds for about `budget_s`, at least `min_rounds`, each in another order:
    what a step finds in caches and allocators is what the one before it left."""
    samples = {name: Samples() for name in steps}
    for name, step in steps.items():
        _reset_peak()
        step()
        _synchronise()
        samples[name].peak_bytes = _peak()
    rng = random.Random(0)
    started_s, num_rounds = time.monotonic(), 0
    while num_rounds < min_rounds or time.monotonic() - started_s < budget_s:
        for name in rng.sample(list(steps), len(steps)):
            _synchronise()
            before_s = time.perf_counter()
            steps[name]()
            _synchronise()
            samples[name].seconds.append(time.perf_counter() - before_s)
        num_rounds += 1
    return samples


def is_on_gpu() -> bool:
    return paddle.get_device().startswith("gpu")


def _synchronise() -> None:
    if is_on_gpu():
        paddle.device.synchronize()


def _reset_peak() -> None:
    reset = getattr(paddle.base.core, f"{_kind()}_memory_stat_reset_peak_value", None)  # not in Paddle 2.6
    if reset is not None:
        reset("Allocated", _device_number())


def _peak() -> int | None:
    if not hasattr(paddle.base.core, f"{_kind()}_memory_stat_reset_peak_value"):
        return None
    return int(getattr(paddle.base.core, f"{_kind()}_memory_stat_peak_value")("Allocated", _device_number()))


def _kind() -> str:
    return "device" if is_on_gpu() else "host"


def _device_number() -> int:
    return int(paddle.get_device().partition(":")[2] or 0)
