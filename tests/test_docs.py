"""The documents tell of what is there: commands, flags, keys, kinds, codes and files; and their examples run."""

import argparse
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from clips import Clip, write_clip
from conftest import PREP, ROOT

from manifests import open_dataset
from manifests.errors import EXIT_CODES
from manifests.manifest import MANIFEST_SCHEMA
from manifests.recipe import flat
from manifests.records import FAILURE_KINDS
from prep import cli as prep_cli
from prep.datasets import DATASETS
from prep.recipe import ExtractRecipe
from train import cli as train_cli
from train.recipe import RECIPES, TrainRecipe

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def table_rows(first_header: str) -> list[list[str]]:
    """The cells of the README table whose head begins with `first_header`, without its head."""
    lines = README.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_header} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def commands(program: ModuleType) -> dict[str, argparse.ArgumentParser]:
    (subparsers,) = (a for a in program.build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(subparsers.choices)


def flags(parser: argparse.ArgumentParser) -> set[str]:
    return {option for action in parser._actions for option in action.option_strings if option.startswith("--")}


@pytest.mark.parametrize(("program", "head"), [(prep_cli, "command"), (train_cli, "`train` command")])
def test_every_command_and_flag_is_in_the_table(program: ModuleType, head: str) -> None:
    documented = {row[0].strip("`").split()[1]: set(re.findall(r"--[a-z-]+", row[2])) for row in table_rows(head)}
    everywhere = {"--help", "--json", "--quiet"}
    assert documented == {name: flags(parser) - everywhere for name, parser in commands(program).items()}
    assert "`--json`" in README
    assert "`--quiet`" in README


@pytest.mark.parametrize("program", [prep_cli, train_cli])
def test_every_command_has_help_with_the_exit_codes(program: ModuleType) -> None:
    for name, parser in commands(program).items():
        text = parser.format_help()
        for code, meaning in EXIT_CODES.items():
            assert f"{code:3d}  {meaning}" in text, name


def test_exit_codes() -> None:
    assert {int(code): meaning for code, meaning in table_rows("code")} == EXIT_CODES


def test_failure_kinds() -> None:
    assert {kind.strip("`"): meaning for kind, meaning in table_rows("failure")} == FAILURE_KINDS


@pytest.mark.parametrize(("recipe", "head"), [(ExtractRecipe(), "key"), (TrainRecipe(), "training key")])
def test_recipe_keys_and_defaults(recipe: ExtractRecipe | TrainRecipe, head: str) -> None:
    documented = {row[0].strip("`"): row[1].strip('`"') for row in table_rows(head)}
    expected = {
        key: str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
        for key, value in flat(recipe).items()
    }
    assert documented == expected


def test_recipes_that_come_with_the_program() -> None:
    assert {path.stem for path in (ROOT / "train" / "recipes").glob("*.toml")} == set(RECIPES)
    assert all(f"`{name}`" in README for name in RECIPES)


def test_datasets() -> None:
    assert [row[0].strip("`") for row in table_rows("`--dataset`")] == list(DATASETS)


def test_manifest_columns() -> None:
    section = README[README.index("`manifest.parquet` has the columns") : README.index("A shard is a plain")]
    assert [name for name in re.findall(r"`(\w+)`", section) if name in MANIFEST_SCHEMA.names] == [
        *MANIFEST_SCHEMA.names,
        "video_id",
    ]


def test_the_examples_run(synthetic: Path, tmp_path: Path) -> None:
    """The shell commands of the README in their order, then its Python, in one folder."""
    (tmp_path / "videos").symlink_to(synthetic)
    (shell,) = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in shell.strip().splitlines():
        program, *arguments = shlex.split(line)
        assert program == "prep"
        done = subprocess.run(
            [PREP, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 2
    checks = (
        "assert middle.startswith(b'\\xff\\xd8') and middle.endswith(b'\\xff\\xd9')",
        "assert len(jpegs) == 2 and label >= 0 and class_name",
    )
    for example, check in zip(examples, checks, strict=True):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", f"{example}\n{check}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_example_of_windows_runs(tmp_path: Path) -> None:
    """The table of the README, then its commands, over a video of the length that it tells of."""
    section = README[README.index("### Windows of longer videos") :]
    (tmp_path / "matches.csv").write_text(re.findall(r"```csv\n(.*?)```", section, re.DOTALL)[0])
    (tmp_path / "videos" / "long").mkdir(parents=True)
    write_clip(tmp_path / "videos" / "long" / "match.mp4", Clip(name="match", codec="libx264", num_frames=60))
    commands = re.findall(r"```\n(prep .*?)```", section, re.DOTALL)[0].splitlines()
    for line in commands:
        done = subprocess.run(
            [PREP, *shlex.split(line)[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    with open_dataset(tmp_path / "clips") as dataset:
        rows = {row["video_id"]: (row["source"], row["num_frames"]) for row in dataset.manifest.to_pylist()}
    assert rows == {
        "long/match_0.4_1.2": ("long/match.mp4#t=0.4,1.2", 20),
        "long/match_1.2_2": ("long/match.mp4#t=1.2,2", 20),
        "long/match_2.2_end": ("long/match.mp4#t=2.2", 5),
    }
    assert all(f"`{text}`" in section for video_id, (source, _) in rows.items() for text in (video_id, source)
               if "1.2_2" not in video_id)  # fmt: skip


def test_the_readme_shows_the_commands_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that demo.py runs, in their order."""
    spec = importlib.util.spec_from_file_location("demo", ROOT / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    run: list[str] = []
    monkeypatch.setattr(demo, "run", lambda *command: run.append(" ".join(command)) or "")
    monkeypatch.setattr(sys, "argv", ["demo.py", "build/demo"])
    monkeypatch.setattr(demo.shutil, "rmtree", lambda *arguments, **options: None)
    assert demo.main() == 0
    assert run == re.findall(r"^\$ (.*)$", README, re.MULTILINE)


@pytest.mark.parametrize("folder", ["manifests", "prep", "train", "tests"])
def test_the_tree_of_contributing_is_complete(folder: str) -> None:
    """Every module has a line there, and every line a module."""
    section = re.search(rf"^```\n{folder}/.*?^```", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    assert section is not None
    documented, parents = set(), []
    for line in section[0].splitlines()[1:-1]:
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        if name.endswith("/"):
            parents = [*parents[:depth], name]
        elif name.endswith(".py"):
            documented.add("".join([*parents[:depth], name]))
    # Of the tests only the modules right under tests/ are listed: the others are named for what they test.
    found = (ROOT / folder).glob("*.py") if folder == "tests" else (ROOT / folder).rglob("*.py")
    assert documented == {path.relative_to(ROOT).as_posix() for path in found if path.name != "__init__.py"}
