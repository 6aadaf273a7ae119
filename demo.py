"""The main job from end to end, on videos that it draws itself: `make demo` runs it.

Each command is printed before it runs, and what it says is shown; the table at the end repeats its figures.
"""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent

RECIPES = ("demo_tsn", "demo_tsm")


def main() -> int:
    folder = sys.argv[1]
    shutil.rmtree(folder, ignore_errors=True)
    started_s = time.monotonic()
    dataset = f"{folder}/dataset"
    run("prep", "synth", f"{folder}/videos")
    run("prep", "scan", f"{folder}/videos", "--dataset", "ucf101", "--out", f"{folder}/sources.parquet")
    extracted = run("prep", "extract", f"{folder}/sources.parquet", "--out", dataset)
    run("prep", "verify", dataset, "--deep")
    run("prep", "report", dataset)
    rows = []
    for recipe in RECIPES:
        fitted = run("train", "fit", "--data", dataset, "--recipe", recipe, "--out", f"{folder}/{recipe}")
        scored = run("train", "eval", f"{folder}/{recipe}/last.ckpt", "--data", dataset, "--subset", "test01")
        rows.append((recipe, figure(r"top-1 ([\d.]+%)", scored), figure(r"([\d,]+) clips/s", fitted)))
    print()
    print(f"{'recipe':10}  {'test accuracy':>13}  {'clips/s':>7}")
    for recipe, accuracy, clips_per_s in rows:
        print(f"{recipe:10}  {accuracy:>13}  {clips_per_s:>7}")
    videos, frames_per_s = figure(r"this run: ([\d,]+) videos", extracted), figure(r"([\d,]+) frames/s", extracted)
    print(f"{videos} videos extracted at {frames_per_s} frames/s; {time.monotonic() - started_s:.0f} s in all")
    return 0


def run(*command: str) -> str:
    """Print a command, run it, show what it says, and return that. The first failure ends the demo."""
    print(f"\n$ {' '.join(command)}", flush=True)
    done = subprocess.run([str(BIN / command[0]), *command[1:]], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        sys.exit(f"the demo ends here: exit code {done.returncode}")
    return done.stdout


def figure(pattern: str, text: str) -> str:
    """What a command said of itself."""
    found = re.search(pattern, text)
    return found[1] if found else "?"


if __name__ == "__main__":
    sys.exit(main())
