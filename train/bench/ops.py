"""The temporal shift in all its versions: the table of PaddleVideo's tutorial on acceleration, on the device there is.

The tutorial's, on a V100 with Paddle 2.0: the kernel 6.4 times as fast as composed operators at 32x16x32x32, and 5.3
times at 128x64x128x128, in 2,588 MB where those take 5,160.

Arrays: x_BCHW and gradient_BCHW float32.
"""

import argparse
from collections.abc import Callable
from typing import Any

import paddle

from manifests.command import print_result, say
from manifests.machine import usable_processors
from manifests.table import table_lines
from manifests.wording import count
from train.bench.interleaved import Samples, is_on_gpu, measure
from train.bench.machine import require_seconds
from train.device import set_cpu_threads
from train.ops.temporal_shift import (
    Shift,
    fastest_version,
    shift_composed,
    shift_fused,
    shift_rows,
    shift_split,
)

SHAPES = ((32, 16, 32, 32), (128, 64, 128, 128))
_NUM_FRAMES = 8
_SHIFT = Shift(1 / 8)
_MIN_ROUNDS = 3
_SMALL_SHARE = 0.1
"""Of the time, for the small shape."""

_VERSIONS: dict[str, Callable[..., paddle.Tensor]] = {
    "composed": shift_composed,
    "fused": shift_fused,
    "split": shift_split,
    "rows": shift_rows,
}


def run(arguments: argparse.Namespace) -> int:
    require_seconds(arguments.seconds)
    processors = usable_processors()
    set_cpu_threads(processors.count)
    device = paddle.get_device() if is_on_gpu() else f"cpu, {count(processors.count, 'thread')} ({processors.reason})"
    say(arguments, f"{count(len(SHAPES), 'shape')}, {count(len(_VERSIONS), 'version')} in turn, for about "
        f"{arguments.seconds:g} s")  # fmt: skip
    fastest = fastest_version(_SHIFT, "NCHW", is_on_gpu=is_on_gpu())
    (in_use,) = (name for name, version in _VERSIONS.items() if version is fastest)
    budgets_s = (_SMALL_SHARE * arguments.seconds, (1 - _SMALL_SHARE) * arguments.seconds)
    rows = [row for shape, budget_s in zip(SHAPES, budgets_s, strict=True) for row in measure_shape(shape, budget_s)]
    table = {
        "device": device,
        "paddle": paddle.__version__,
        "num_frames": _NUM_FRAMES,
        "share": _SHIFT.share,
        "in_use": in_use,
        "rows": rows,
    }
    head = ["shape", "version", "forward", "x composed", "with backward", "x composed", "memory", "with backward"]
    lines = [
        f"temporal shift of {_SHIFT.share:g} each way over {_NUM_FRAMES} frames; Paddle {paddle.__version__}, {device}",
        f"medians; memory is the most that Paddle held at once, with input and gradient; train uses {in_use!r} here",
        "",
        *table_lines(head, [_cells(row) for row in rows]),
    ]
    print_result(arguments, table, lines)
    return 0


def measure_shape(shape: tuple[int, ...], budget_s: float) -> list[dict[str, Any]]:
    """A row for each version, with times in seconds and memory in bytes."""
    paddle.seed(0)
    x_BCHW, gradient_BCHW = paddle.randn(shape), paddle.randn(shape)
    x_BCHW.stop_gradient = False
    steps: dict[str, Callable[[], None]] = {}
    for name, version in _VERSIONS.items():
        steps[f"{name}: forward"] = lambda version=version: _forward(version, x_BCHW)
        steps[f"{name}: both"] = lambda version=version: _forward_and_backward(version, x_BCHW, gradient_BCHW)
    samples = measure(steps, budget_s, _MIN_ROUNDS)
    return [_row(shape, name, samples) for name in _VERSIONS]


def _forward(version: Callable[..., paddle.Tensor], x_BCHW: paddle.Tensor) -> None:
    with paddle.no_grad():
        version(x_BCHW, _NUM_FRAMES, _SHIFT)


def _forward_and_backward(
    version: Callable[..., paddle.Tensor], x_BCHW: paddle.Tensor, gradient_BCHW: paddle.Tensor
) -> None:
    version(x_BCHW, _NUM_FRAMES, _SHIFT).backward(gradient_BCHW)
    x_BCHW.clear_gradient(set_to_zero=False)


def _row(shape: tuple[int, ...], name: str, samples: dict[str, Samples]) -> dict[str, Any]:
    row: dict[str, Any] = {"shape": list(shape), "version": name, "num_rounds": len(samples[f"{name}: both"].seconds)}
    for part, prefix in (("forward", "forward"), ("both", "forward_backward")):
        own, composed = samples[f"{name}: {part}"], samples[f"composed: {part}"]
        row[f"{prefix}_s"] = own.median_s
        row[f"{prefix}_x_composed"] = composed.median_s / own.median_s
        row[f"{prefix}_peak_bytes"] = own.peak_bytes
    return row


def _cells(row: dict[str, Any]) -> list[str]:
    cells = ["x".join(map(str, row["shape"])), row["version"]]
    for prefix in ("forward", "forward_backward"):
        cells += [f"{row[f'{prefix}_s'] * 1000:.3g} ms", f"{row[f'{prefix}_x_composed']:.1f}"]
    for prefix in ("forward", "forward_backward"):
        peak = row[f"{prefix}_peak_bytes"]
        cells.append("-" if peak is None else f"{peak / 1e6:,.0f} MB")
    return cells
