"""`prep bench`: read what the user gave, have it measured, print the figures."""

import argparse
from pathlib import Path
from typing import Any

from manifests.command import print_result, say
from manifests.errors import UsageError
from manifests.machine import usable_processors
from manifests.recipe import load_recipe
from manifests.wording import count
from prep import datasets
from prep.bench.measure import Measured, measure
from prep.bench.rows import choose_rows
from prep.bench.table import header_lines, json_rows, limit_line, tables
from prep.decoders import DECODERS, require_decoder
from prep.recipe import ExtractRecipe, resolve
from prep.versions import pixel_libraries


def run(arguments: argparse.Namespace) -> int:
    recipe = _recipe(arguments)
    jobs = _jobs(arguments.jobs)
    if not arguments.seconds > 0:
        raise UsageError(f"--seconds is above 0, not {arguments.seconds:g}")
    missing = _missing_decoders()
    decoders = [name for name in DECODERS if arguments.decoder in ("all", name) and name not in missing]
    if arguments.decoder in missing:
        raise UsageError(missing[arguments.decoder])
    for reason in missing.values():
        say(arguments, f"left out: {reason}")
    sources = datasets.source_list(datasets.scan("folder", arguments.dir), arguments.dir)
    rows = choose_rows(decoders, jobs, has_opencv="opencv" not in missing, has_decord="decord" not in missing)
    say(arguments, f"{count(len(rows), 'row')} in turn, for about {arguments.seconds:g} s")
    measured = measure(sources, recipe, rows, arguments.seconds)
    lines = [
        _machine_text(),
        _recipe_text(recipe),
        *header_lines(measured),
        limit_line(measured),
        "",
        *tables(measured, rows),
    ]
    table = {**_facts(measured, recipe), "missing": missing, "rows": json_rows(measured, rows)}
    print_result(arguments, table, lines)
    return 0


def _recipe(arguments: argparse.Namespace) -> ExtractRecipe:
    recipe = resolve(load_recipe(ExtractRecipe, None, arguments.set))
    if recipe.frames.every != 1 or recipe.frames.fps:
        raise UsageError("frames.every and frames.fps are not for bench, which measures all frames; leave them out")
    return recipe


def _jobs(text: str) -> list[int]:
    try:
        jobs = sorted({int(number) for number in text.split(",")})
    except ValueError:
        raise UsageError(f"--jobs is a number or some with commas between, such as 1,2, not {text!r}") from None
    if jobs[0] < 1:
        raise UsageError(f"--jobs is at least 1, not {jobs[0]}")
    return jobs


def _missing_decoders() -> dict[str, str]:
    """Why a decoder cannot be measured, by its name."""
    missing = {}
    for name in DECODERS:
        try:
            require_decoder(name)
        except UsageError as error:
            missing[name] = str(error)
    return missing


def _facts(measured: Measured, recipe: ExtractRecipe) -> dict[str, Any]:
    return {
        "machine": _machine(),
        "num_processors": usable_processors().count,
        "libraries": _libraries(),
        "frames": {name: getattr(recipe.frames, name) for name in ("short_side_px", "enlarge", "quality")},
        "num_rounds": measured.num_rounds,
        "seconds": round(measured.seconds, 1),
        "videos": measured.num_frames,
        "left_out": measured.left_out,
    }


def _libraries() -> dict[str, str]:
    libraries: dict[str, str] = {}
    for name in DECODERS:
        try:
            libraries |= pixel_libraries(name)
        except (UsageError, ImportError):
            continue
    return libraries


def _machine() -> str:
    """The processor as the kernel names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown processor"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "processor")


def _machine_text() -> str:
    processors = usable_processors()
    versions = ", ".join(f"{name} {version}" for name, version in _libraries().items())
    return f"{_machine()}, {count(processors.count, 'processor')} ({processors.reason}); {versions}"


def _recipe_text(recipe: ExtractRecipe) -> str:
    short_side_px = recipe.frames.short_side_px
    size = f"short side {short_side_px}" if short_side_px else "native size"
    return f"{size}, JPEG quality {recipe.frames.quality}; start of processes left out; medians over the rounds"
