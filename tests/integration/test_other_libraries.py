"""Shards and manifest in other libraries, by the lines of the README, where these are installed."""

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT

from manifests import open_dataset

README = (ROOT / "README.md").read_text(encoding="utf-8")
(_BLOCK,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
EXAMPLES = {text.split()[1]: text for text in re.split(r"\n\n(?=import )", _BLOCK)}
"""The lines for each library, by its name."""


@pytest.fixture(scope="module")
def folder(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    (folder / "dataset").symlink_to(prepared["arrow"])
    return folder


def run(library: str, result: str, folder: Path, before: str = "") -> str:
    """What the lines for a library print at the end; in a fresh interpreter, with its caches in `folder`."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{before}\n{EXAMPLES[library]}\nprint({result})"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def expected(folder: Path) -> tuple[list[bytes], dict[str, int]]:
    """The frames of the first video, and the number of frames of each class."""
    with open_dataset(folder / "dataset") as dataset:
        jpegs = dataset.read_frames(0, range(dataset.num_frames[0]))
        counts: Counter[str] = Counter()
        for row in dataset.rows():
            counts[dataset.video(row)["class_name"]] += int(dataset.num_frames[row])
    return jpegs, dict(counts)


def test_the_readme_has_lines_for_each() -> None:
    assert sorted(EXAMPLES) == ["datasets", "duckdb", "polars"]


def test_datasets(folder: Path) -> None:
    jpegs, counts = expected(folder)
    by_class = "Counter(name for row in shards for name in [row['class_name']] * len(row['frames']))"
    found = run("datasets", f"sorted({by_class}.items()), jpeg.hex()", folder, "from collections import Counter")
    assert found == f"{sorted(counts.items())} {jpegs[0].hex()}"


def test_duckdb(folder: Path) -> None:
    jpegs, counts = expected(folder)
    found = run("duckdb", "sorted((n, int(c)) for n, c in table), counts, jpeg.hex()", folder)
    assert found == f"{sorted(counts.items())} [('ok', 16)] {jpegs[0].hex()}"


def test_polars(folder: Path) -> None:
    jpegs, counts = expected(folder)
    assert run("polars", "sorted(table), jpeg.hex()", folder) == f"{sorted(counts.items())} {jpegs[0].hex()}"
