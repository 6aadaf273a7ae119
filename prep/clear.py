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

from manifests.atomic import disk_errors
from manifests.dataset import open_manifest
from manifests.description import read_description
from manifests.hold import is_held
from manifests.names import folders_of
from manifests.stores import arrow, frames
from prep.run_folder import RunFolder


def clear(run: RunFolder) -> bool:
    """Remove all that the sealed dataset does not need. Returns False where someone still reads what an update
    replaced, so that this stays. Raises StoreError, DamagedError where the dataset cannot be read."""
    with disk_errors(run.work):
        clear_state(run)
        if run.superseded.is_dir():
            for path in run.superseded.iterdir():
                if not is_held(path):
                    path.unlink()
            if any(run.superseded.iterdir()):
                return False
            description = read_description(run.out)
            manifest = open_manifest(run.out, description.manifest_sha256)
            locations = manifest.columns(["location"]).column("location").unique().drop_null()
            manifest.close()
            for path in unnamed(run.out, set(locations.to_pylist())):
                _remove(path)
        remove_work(run)
    return True


def clear_state(run: RunFolder) -> None:
    """Remove the state of a run that is over, but not its lock. Raises OSError."""
    for path in sorted(run.work.iterdir()):
        # run.json last: without it a killed run looks as if it had just begun.
        if path not in (run.lock, run.superseded, run.settings):
            _remove(path)
    run.settings.unlink(missing_ok=True)


def remove_work(run: RunFolder) -> None:
    """Remove the whole of .work, last of all. Raises OSError. A run that comes upon it just now clears it up."""
    try:
        shutil.rmtree(run.work)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
            raise


def unnamed(out: Path, locations: Set[str]) -> Iterator[Path]:
    """The files and folders of the stores in `out` in which no video with one of these `locations` lies; of nested
    ones the outermost."""
    above = folders_of(locations)
    pending = deque(sorted(name for name in os.listdir(out) if name == arrow.FOLDER or frames.is_root(name)))
    while pending:
        location = pending.popleft()
        if location in above:
            with suppress(OSError):  # what cannot be listed is not ours to judge
                pending += [f"{location}/{name}" for name in sorted(os.listdir(out / location))]
        elif location not in locations:
            yield out / location


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
