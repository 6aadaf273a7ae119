"""OUT/.work, the state of an open run: where its files lie, and what binds the runs that share it.

lock             manifests.lock
run.json         the settings that all runs into this OUT must share, and of which dataset it is an update
sources.parquet  the source list, in row order
plan.json        of an update: the rows that are not decoded, and where frames go (prep.plan)
journal.jsonl    prep.journal
spool/           prep.spool
groups/          prep.commit: what is finished, group by group
before/          of an update: the tables that dataset.json still tells of, while they are replaced
superseded/      each dataset.json that an update replaced and that a reader holds
"""

import json
import os
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import count as count_from
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from manifests.atomic import TEMPORARY_PREFIX, atomic_write, disk_errors, sync_folder
from manifests.description import BEFORE_FOLDER, WORK_FOLDER, is_dataset
from manifests.errors import DamagedError, UsageError
from manifests.names import shard_file_name, shard_number
from manifests.recipe import flat
from manifests.records import Source
from manifests.sources import SourceList, read_sources, write_sources
from manifests.stores import arrow, frames
from manifests.wording import count, quote_some
from prep.recipe import Limits, Recipe


@dataclass(frozen=True)
class Update:
    """A run over a finished dataset: what it was asked for, such as "--retry failed", and the SHA-256 of the manifest
    that it goes on from."""

    asked_for: str
    manifest_sha256: str


@dataclass(frozen=True)
class Places:
    """Where a run stores frames: in shards from number `first_shard` on, or in folders under frames/.

    Where the dataset before has a folder in the way (one of its locations, `taken`, is there, above or below), the
    folder goes under frames-N/, N being `spare`; with `only_spare` all do.
    """

    first_shard: int = 0
    taken: frozenset[str] = frozenset()
    spare: int = 1
    only_spare: bool = False

    def shard_location(self, group: int) -> str:
        """Where the shard of a group lies, relative to the dataset."""
        return f"{arrow.FOLDER}/{shard_file_name(self.first_shard + group)}"

    def folder_location(self, video_id: str) -> str:
        """Where the frame folder of a video lies, relative to the dataset."""
        location = frames.location_of(video_id)
        above = {str(parent) for parent in PurePosixPath(location).parents}
        in_the_way = self.only_spare or location in self._taken_and_above or not above.isdisjoint(self.taken)
        return frames.location_of(video_id, self.spare) if in_the_way else location

    @cached_property
    def _taken_and_above(self) -> frozenset[str]:
        return self.taken | {str(parent) for location in self.taken for parent in PurePosixPath(location).parents}


def free_places(out: Path, taken: frozenset[str]) -> Places:
    """Places that no file of the dataset in `out` has, nor one that a reader of an earlier one may still need."""
    shards = out / arrow.FOLDER
    on_disk = [f"{arrow.FOLDER}/{name}" for name in os.listdir(shards)] if shards.is_dir() else []
    first_shard = 1 + max(map(shard_number, [*taken, *on_disk]), default=-1)
    spare = next(number for number in count_from(2) if not (out / frames.location_of("", number)).exists())
    is_read = (RunFolder(out).superseded).is_dir()
    return Places(first_shard, taken, spare, only_spare=is_read)


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run into `out`, and where it stores frames."""

    out: Path
    places: Places = field(default_factory=Places)

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

    @property
    def plan(self) -> Path:
        return self.work / "plan.json"

    @property
    def before(self) -> Path:
        return self.out / BEFORE_FOLDER

    @property
    def superseded(self) -> Path:
        return self.work / "superseded"

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
        if out.is_symlink():
            raise UsageError(
                f"{out} is a link to nothing; --out takes a folder that is new, empty or of an earlier run"
            )
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


def bound_settings(recipe: Recipe, libraries: dict[str, str]) -> dict[str, Any]:
    """What decides the bytes of an ok row, as flat keys."""
    bound = {key: value for key, value in flat(recipe).items() if not key.startswith("limits.")}
    return bound | {f"version of {name}": version for name, version in libraries.items()}


@dataclass(frozen=True)
class Earlier:
    """What a run that is resumed did differently: whether it had other limits, and the rows whose files are others."""

    other_limits: bool = False
    changed_rows: frozenset[int] = frozenset()

    @property
    def is_equal(self) -> bool:
        return not self.other_limits and not self.changed_rows


def bind(
    run: RunFolder, bound: dict[str, Any], limits: Limits, sources: SourceList, update: Update | None = None
) -> Earlier:
    """Write the settings and sources of a new run, or compare with those of the run that began.

    The limits and the files may be others: see `note`. Raises UsageError, naming what differs,
    DamagedError where the state cannot be read, StoreError.
    """
    if not run.settings.exists():
        note(run, bound, limits, sources, update)
        return Earlier()
    begun = _read_settings(run)
    require_equal_settings(run.out, begun["bound"], bound)
    try:
        before = read_sources(run.sources)
    except UsageError as error:
        raise DamagedError(f"{error}; remove {run.out} and begin again") from error
    changed, as_now = set(), list(before.sources)
    if len(before.sources) == len(sources.sources):
        for row, (old, new) in enumerate(zip(before.sources, sources.sources, strict=True)):
            as_now[row] = with_file_of(old, new)
            if as_now[row] != old:
                changed.add(row)
    require_equal_sources(run.out, (before.dataset, before.classes, tuple(as_now)), sources)
    return Earlier(begun.get("limits") != asdict(limits), frozenset(changed))


def with_file_of(old: Source, new: Source) -> Source:
    """`old` as if its file, and with it what the scan says of that, were the one of `new`."""
    return replace(old, source_bytes=new.source_bytes, status=new.status, failure=new.failure, detail=new.detail)


def note(
    run: RunFolder,
    bound: dict[str, Any],
    limits: Limits | None,
    sources: SourceList,
    update: Update | None,
) -> None:
    """Note what this run does, once nothing is left that an earlier one judged differently. Without `limits` the next
    run tries again what is not ok. Raises StoreError."""
    write_sources(run.sources, sources)
    table = {
        "bound": bound,
        "limits": None if limits is None else asdict(limits),
        "update": None if update is None else asdict(update),
    }
    with atomic_write(run.settings) as temporary:
        temporary.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def open_update(run: RunFolder) -> Update | None:
    """The update that was begun and not finished, if there is one that can be gone on with."""
    try:
        update = _read_settings(run).get("update")
        read_sources(run.sources)
        return Update(**update) if update else None
    except (DamagedError, UsageError, TypeError):
        return None


def _read_settings(run: RunFolder) -> dict[str, Any]:
    try:
        begun = json.loads(run.settings.read_text(encoding="utf-8"))
        if not isinstance(begun, dict) or not isinstance(begun.get("bound"), dict):
            raise ValueError("it holds no settings")
        return begun
    except (OSError, ValueError) as error:
        raise DamagedError(f"cannot read {run.settings}: {error}; remove {run.out} and begin again") from error


def require_equal_settings(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises UsageError that names the settings in which an earlier run into `out` differs."""
    if ("adopted" in before) != ("adopted" in now):
        raise UsageError(f"{out} was {'' if 'adopted' in before else 'not '}made by prep adopt: use another --out")
    differing = [
        f"{key} {before.get(key)!r}, not {now.get(key)!r}" for key in before | now if before.get(key) != now.get(key)
    ]
    if differing:
        raise UsageError(f"{out} was made with {'; '.join(differing)}: use the same settings or another --out")


def require_equal_sources(
    out: Path,
    before: tuple[str, tuple[str, ...], tuple[Source, ...]],
    now: SourceList,
    mend: str = "restore them or use another --out",
) -> None:
    """Raises UsageError that counts the sources in which an earlier run into `out` differs, and says what to do.

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
    raise UsageError(f"{out} was made from other sources: {what}; {mend}")


def remove_temporaries(out: Path) -> None:
    """Remove the temporary files that a killed run left. Raises StoreError."""
    with disk_errors(out):
        for folder in (out, out / arrow.FOLDER, out / WORK_FOLDER, out / WORK_FOLDER / "groups"):
            for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
                path.unlink()
