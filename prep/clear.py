"""What goes once a dataset is sealed: the state of the run, and after an update all files that no manifest names.

What someone still reads stays, and with it .work/superseded, until a later run finds that nobody does.
"""

import errno
import os
import shutil
from collections import deque
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

from manifests.atomic import disk_errors, sync_folder
from manifests.dataset import open_manifest
from manifests.description import has_hash, read_description
from manifests.hold import is_held
from manifests.manifest import FRAMES_FILE, MANIFEST_FILE
from manifests.names import folders_above
from manifests.stores import arrow, frames
from prep.run_folder import RunFolder
from prep.spool import remove


def clear(run: RunFolder) -> bool:
    """Remove all that the sealed dataset does not need. Returns False where someone still reads what an update
    replaced, so that this stays. Raises StoreError, DamagedError where the dataset cannot be read."""
    is_unread = forget(run)
    if is_unread:
        with disk_errors(run.work):
            _remove_work(run)
    return is_unread


def forget(run: RunFolder) -> bool:
    """Remove the state of a run that is over, or is to be dropped, but not its lock; and of an update, whether it was
    sealed or not, the files that no manifest names. Returns and raises as `clear` does."""
    with disk_errors(run.work):
        if run.before.is_dir():
            _put_back_tables(run)
        held = _held(run)
        if not held and (run.superseded.is_dir() or run.plan.exists()):
            description = read_description(run.out)
            with open_manifest(run.out, description.manifest_sha256) as manifest:
                locations = manifest.columns(["location"]).column("location").unique().drop_null()
            for path in unnamed(run.out, set(locations.to_pylist())):
                remove(path)
        # The plan and run.json last: by them a run that is killed here is known for what it is.
        last = [run.plan, run.settings, run.lock]
        for path in sorted(run.work.iterdir()):
            if path not in last and not (held and path == run.superseded):
                remove(path)
        run.plan.unlink(missing_ok=True)
        run.settings.unlink(missing_ok=True)
    return not held


def _held(run: RunFolder) -> bool:
    """Whether a dataset that an update replaced is still read; what is not is forgotten."""
    links = list(run.superseded.glob("*.json"))
    held = [path for path in links if is_held(path)]
    for path in set(links).difference(held):
        path.unlink()
    return bool(held)


def _put_back_tables(run: RunFolder) -> None:
    """Of an update that was stopped before its dataset.json was written, the tables of the dataset before."""
    description = read_description(run.out)
    for name, sha256 in ((MANIFEST_FILE, description.manifest_sha256), (FRAMES_FILE, description.frames_sha256)):
        table, before = run.out / name, run.before / name
        if has_hash(before, sha256) and not has_hash(table, sha256):
            os.replace(before, table)
    sync_folder(run.out)


def _remove_work(run: RunFolder) -> None:
    """Remove the whole of .work, last of all. Raises OSError. A run that comes upon it just now clears it up."""
    try:
        shutil.rmtree(run.work)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise


def unnamed(out: Path, locations: Set[str]) -> Iterator[Path]:
    """The files and folders of the stores in `out` in which no video with one of these `locations` lies; of nested
    ones the outermost."""
    above = folders_above(locations)
    pending = deque(sorted(name for name in os.listdir(out) if name == arrow.FOLDER or frames.is_root(name)))
    while pending:
        location = pending.popleft()
        if location in above:
            with suppress(OSError):  # what cannot be listed is not ours to judge
                pending += [f"{location}/{name}" for name in sorted(os.listdir(out / location))]
        elif location not in locations:
            yield out / location
