"""tests/scale.py, which measures how time and memory grow, runs: with few videos here."""

import subprocess
import sys
from pathlib import Path

import scale


def test_it_measures_every_step(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, scale.__file__, tmp_path, "140"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split("  ")[1].strip() for line in map(str.strip, lines)] == list(scale.STEPS)
    assert "141 rows" in lines[1]  # one of which only the tables know
    assert "141 kept, 1 again" in done.stdout
    assert "140 videos, 0 problems" in done.stdout
