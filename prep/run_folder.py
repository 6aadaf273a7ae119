"""OUT/.work, the state of an open run: where its files lie, and what binds the runs that share it.

lock             manifests.lock
run.json         the settings that all runs into this OUT must share
sources.parquet  the source list, in row order
journal.jsonl    prep.journal
spool/           prep.spool
groups/          prep.commit: what is finished, group by group
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from manifests.atomic import TEMPORARY_PREFIX, atomic_write, disk_errors, sync_folder
from manifests.description import WORK_FOLDER, is_dataset
from manifests.errors import DamagedError, UsageError
from manifests.recipe import flat
from manifests.records import Source
from manifests.sources import SourceList, read_sources, write_sources
from manifests.stores import arrow
from manifests.wording import count, quote_some
from prep.recipe import ExtractRecipe, Limits


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run into `out`."""

    out: Path

    @property
    def work(self) -> Path:
        return self.out / WORK_FOLDER

    @property
    def lock(self) -> Path:
        return self.work / "lock"

    @property
    def settings(self) -> Path:
        return self.work / "run.json"

    @property
    def sources(self) -> Path:
        return self.work / "sources.parquet"

    @property
    def journal(self) -> Path:
        return self.work / "journal.jsonl"

    @property
    def spool(self) -> Path:
        return self.work / "spool"

    @property
    def groups(self) -> Path:
        return self.work / "groups"

    def make(self) -> None:
        """Raises StoreError."""
        with disk_errors(self.out):
            for folder in (self.work, self.spool, self.groups):
                folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.out)
            sync_folder(self.out.absolute().parent)


def state_of(out: Path) -> Literal["new", "open", "sealed"]:
    """What `out` is. Raises UsageError where it holds something else, DamagedError where its dataset.json is broken."""
    if is_dataset(out):
        return "sealed"
    if (out / WORK_FOLDER).is_dir():
        return "open"
    if not out.exists():
        return "new"
    if not out.is_dir():
        raise UsageError(f"{out} is a file; --out takes a folder that is new, empty or of an earlier run")
    with disk_errors(out):
        others = sorted(path.name for path in out.iterdir())
    if others:
        raise UsageError(
            f"{out} holds something else ({quote_some(others)}); "
            "--out takes a folder that is new, empty or of an earlier run"
        )
    return "new"


def bound_settings(recipe: ExtractRecipe, libraries: dict[str, str]) -> dict[str, Any]:
    """What decides the bytes of an ok row, as flat keys."""
    bound = {key: value for key, value in flat(recipe).items() if not key.startswith("limits.")}
    return bound | {f"version of {name}": version for name, version in libraries.items()}


def bind(run: RunFolder, bound: dict[str, Any], limits: Limits, sources: SourceList) -> bool:
    """Write the settings and sources of a new run, or compare with those of the run that began.

    Returns whether the run before, if there was one, had the same limits. Raises UsageError, naming what differs,
    DamagedError where the state cannot be read, StoreError.
    """
    if not run.settings.exists():
        write_sources(run.sources, sources)
        _write_settings(run, bound, limits)
        return True
    try:
        begun = json.loads(run.settings.read_text(encoding="utf-8"))
        if not isinstance(begun, dict) or not isinstance(begun.get("bound"), dict):
            raise ValueError("it holds no settings")
    except (OSError, ValueError) as error:
        raise DamagedError(f"cannot read {run.settings}: {error}; remove {run.out} and begin again") from error
    require_equal_settings(run.out, begun["bound"], bound)
    try:
        before = read_sources(run.sources)
    except UsageError as error:
        raise DamagedError(f"{error}; remove {run.out} and begin again") from error
    require_equal_sources(run.out, (before.dataset, before.classes, before.sources), sources)
    same_limits: bool = begun.get("limits") == asdict(limits)
    return same_limits


def note_limits(run: RunFolder, bound: dict[str, Any], limits: Limits) -> None:
    """Note the limits of this run, once nothing is left that was judged by others. Raises StoreError."""
    _write_settings(run, bound, limits)


def _write_settings(run: RunFolder, bound: dict[str, Any], limits: Limits) -> None:
    with atomic_write(run.settings) as temporary:
        text = json.dumps({"bound": bound, "limits": asdict(limits)}, indent=2)
        temporary.write_text(text + "\n", encoding="utf-8")


def require_equal_settings(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises UsageError that names the settings in which an earlier run into `out` differs."""
    differing = [
        f"{key} {before.get(key)!r}, not {now.get(key)!r}" for key in before | now if before.get(key) != now.get(key)
    ]
    if differing:
        raise UsageError(f"{out} was made with {'; '.join(differing)}: use the same settings or another --out")


def require_equal_sources(out: Path, before: tuple[str, tuple[str, ...], tuple[Source, ...]], now: SourceList) -> None:
    """Raises UsageError that counts the sources in which an earlier run into `out` differs.

    `before` is its dataset, its classes and its sources.
    """
    dataset, classes, sources_before = before
    if dataset != now.dataset:
        raise UsageError(f"{out} was made as --dataset {dataset}, not {now.dataset}: use another --out")
    if sources_before == now.sources and classes == now.classes:
        return
    old = {source.source: source for source in sources_before}
    new = {source.source: source for source in now.sources}
    num_new, num_gone = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    num_changed = sum(old[path] != new[path] for path in old.keys() & new.keys())
    if num_new or num_gone or num_changed:
        what = f"{count(num_new, 'new video')}, {num_gone} gone, {num_changed} with another size, label or subset"
    else:
        what = "the classes or the order of the videos are others"
    raise UsageError(f"{out} was made from other sources: {what}; restore them or use another --out")


def remove_temporaries(out: Path) -> None:
    """Remove the temporary files that a killed run left. Raises StoreError."""
    with disk_errors(out):
        for folder in (out, out / arrow.FOLDER, out / WORK_FOLDER, out / WORK_FOLDER / "groups"):
            for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
                path.unlink()
