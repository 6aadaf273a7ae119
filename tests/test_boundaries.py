"""Dependencies point one way, and the commands start from anywhere: proved in fresh interpreters."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

_STANDARD = set(sys.stdlib_module_names)


def imported_by(statement: str, cwd: Path) -> set[str]:
    """The top-level modules that a fresh interpreter has after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=cwd, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def foreign(modules: set[str]) -> set[str]:
    """Without the standard library and what an editable install adds."""
    return {name for name in modules if name not in _STANDARD and not name.startswith(("_", "sitecustomize"))}


def test_the_proof_can_fail(tmp_path: Path) -> None:
    assert "simplejpeg" in foreign(imported_by("import simplejpeg", tmp_path))


def test_manifests_needs_numpy_and_pyarrow_only(tmp_path: Path) -> None:
    statement = (
        "import manifests, manifests.lists, manifests.sources, manifests.recipe, manifests.stores.arrow, "
        "manifests.stores.frames"
    )
    allowed = imported_by("import numpy, pyarrow, pyarrow.compute, pyarrow.parquet", tmp_path)
    assert foreign(imported_by(statement, tmp_path)) - allowed == {"manifests"}


def test_reading_a_recipe_imports_no_decoder(tmp_path: Path) -> None:
    assert "av" not in imported_by("import prep.recipe, prep.cli", tmp_path)


@pytest.mark.parametrize("module", ["prep.cli", "prep.extract", "prep.worker", "prep.verify", "prep.synth"])
def test_prep_never_imports_paddle(module: str, tmp_path: Path) -> None:
    modules = imported_by(f"import {module}", tmp_path)
    assert not {"paddle", "train"} & modules


@pytest.mark.parametrize(
    "module", ["train.dataset", "train.clips", "train.recipe", "train.transforms.decode", "train.videos"]
)
def test_reading_clips_never_imports_paddle(module: str, tmp_path: Path) -> None:
    assert "paddle" not in imported_by(f"import {module}", tmp_path)


def test_train_knows_prep_in_two_files() -> None:
    """The reader of videos on the fly, which needs the decoders, and predictions, which extract a video as the dataset
    was; all else of training needs a prepared dataset only."""
    knowing = set()
    for path in (ROOT / "train").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "prep" for name in names):
                knowing.add(path.relative_to(ROOT).as_posix())
    assert knowing == {"train/predict.py", "train/videos.py"}


def test_reading_stored_frames_imports_no_decoder(tmp_path: Path) -> None:
    assert not {"av", "decord"} & imported_by("import train.dataset, train.cli", tmp_path)


def test_a_file_of_the_users_does_not_shadow_ours(prep, synthetic: Path, tmp_path: Path) -> None:
    for name in ("prep.py", "manifests.py", "train.py", "av.py", "numpy.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module was imported')\n")
    done = prep("extract", synthetic, "--out", "out", "--set", "frames.every=8", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
