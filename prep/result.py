"""What a run that made a dataset says at its end."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from manifests.machine import format_bytes
from manifests.wording import count
from prep.extract import Extraction


def exit_code_of(done: Extraction) -> int:
    """Videos that only an annotation knows are no failure of the run."""
    counts, failures = done.description.counts, done.description.failures
    return 3 if counts["failed"] > failures.get("missing", 0) else 0


def result_table(out: Path, done: Extraction) -> dict[str, Any]:
    description = done.description
    return {
        "out": str(out),
        "num_attempted": done.num_attempted,
        "wall_s": round(done.wall_s, 3),
        "frames_per_s": round(done.num_frames / done.wall_s, 1) if done.num_attempted else None,
        "counts": description.counts,
        "failures": description.failures,
        "num_frames": description.num_frames,
        "num_bytes": description.num_bytes,
        "changes": None if done.changes is None else dataclasses.asdict(done.changes),
        "unfinished": done.unfinished,
        "is_held": done.is_held,
    }


def result_lines(out: Path, done: Extraction) -> list[str]:
    description = done.description
    failures = ", ".join(f"{kind} {number:,}" for kind, number in description.failures.items())
    counts = ", ".join(f"{number:,} {status}" for status, number in description.counts.items())
    contents = f"{count(description.num_frames, 'frame')}, {format_bytes(description.num_bytes)}"
    lines = [f"{out}: {counts}{f' ({failures})' if failures else ''}; {contents}"]
    if done.num_attempted:
        rate = f"{done.num_frames / done.wall_s:,.0f} frames/s"
        lines.append(f"this run: {count(done.num_attempted, 'video')} in {done.wall_s:.1f} s, {rate}")
    elif done.was_sealed:
        lines.append("nothing to do: it is complete, of the same videos and settings (prep verify checks its files)")
    if done.unfinished:
        lines.append(f"{done.unfinished} was begun here and not finished: the same command with it goes on")
    if done.is_held:
        lines.append("a program still reads what was replaced, which stays until a later prep extract finds it unread")
    if description.counts["failed"]:
        lines.append(f"prep report {shlex.quote(str(out))} names what failed")
    return lines
