"""dataset.json: what a prepared dataset says about itself. It is written last, so its existence means: whole."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests.atomic import atomic_write
from manifests.errors import DamagedError, UsageError
from manifests.manifest import FORMAT_VERSION
from manifests.records import STATUSES

DESCRIPTION_FILE = "dataset.json"
WORK_FOLDER = ".work"
"""The state of a run that is not finished; a sealed dataset has none, unless an update of it is open."""

BEFORE_FOLDER = f"{WORK_FOLDER}/before"
"""While an update replaces manifest.parquet and frames.parquet, those that dataset.json still tells of lie here."""

FORMAT = "decode-once.dataset"


@dataclass(frozen=True, kw_only=True)
class Description:
    """The contents of dataset.json.

    `recipe` is the resolved recipe as nested tables. `subsets` counts the videos of each subset whatever their
    status, `all` included; `counts` those of each status; `failures` those of each failure kind. `num_frames` and
    `num_bytes` are over the ok videos. `libraries` are the versions that make the pixels.
    """

    dataset: str
    recipe: dict[str, Any]
    classes: tuple[str, ...]
    classes_sha256: str
    subsets: dict[str, int]
    counts: dict[str, int]
    failures: dict[str, int]
    num_frames: int
    num_bytes: int
    manifest_sha256: str
    frames_sha256: str
    libraries: dict[str, str]

    def __post_init__(self) -> None:
        counts = [*self.subsets.values(), *self.counts.values(), *self.failures.values()]
        for number in (*counts, self.num_frames, self.num_bytes):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is no count")
        hashes = (self.classes_sha256, self.manifest_sha256, self.frames_sha256)
        for text in (self.dataset, *self.classes, *hashes, *self.libraries.values()):
            if not isinstance(text, str):
                raise ValueError(f"{text!r} is no text")
        if not isinstance(self.recipe, dict):
            raise ValueError(f"{self.recipe!r} is no recipe")
        if self.counts.keys() != set(STATUSES) or sum(self.counts.values()) != self.subsets.get("all"):
            raise ValueError(f"{self.counts} are not the statuses of {self.subsets.get('all')} videos")


def hash_classes(classes: Sequence[str]) -> str:
    """SHA-256 of the class names in label order, joined by newline."""
    return hashlib.sha256("\n".join(classes).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_hash(path: Path, sha256: str) -> bool:
    """Whether there is a file at `path` with this SHA-256. Raises OSError where it cannot be read."""
    return path.exists() and hash_file(path) == sha256


def write_description(folder: Path, description: Description) -> None:
    head = {"format": FORMAT, "format_version": FORMAT_VERSION}
    text = json.dumps({**head, **dataclasses.asdict(description)}, indent=2, ensure_ascii=False)
    with atomic_write(folder / DESCRIPTION_FILE) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def is_dataset(folder: Path) -> bool:
    """Whether `folder` holds a prepared dataset, as far as its dataset.json can be read.

    Raises DamagedError where that is no JSON at all, UsageError where another program wrote it.
    """
    path = folder / DESCRIPTION_FILE
    if not path.is_file():
        return False
    if _read_json(path).get("format") != FORMAT:
        raise UsageError(f"{folder} holds something else: its {DESCRIPTION_FILE} is not of a prepared dataset")
    return True


def _read_json(path: Path) -> dict[str, Any]:
    """Raises DamagedError, and FileNotFoundError or NotADirectoryError where there is none."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError) as error:
        raise DamagedError(f"cannot read {path}: {error}") from error
    return table if isinstance(table, dict) else {}


def read_description(folder: Path) -> Description:
    """Raises UsageError where `folder` holds no prepared dataset, DamagedError where its dataset.json is broken
    or of a format version that this program does not read."""
    path = folder / DESCRIPTION_FILE
    try:
        table = _read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        if (folder / WORK_FOLDER).is_dir():
            message = f"{folder} is not finished: run the command that makes it again, which resumes"
        else:
            message = f"{folder} is not a prepared dataset: it has no {DESCRIPTION_FILE}"
            message += ", which prep extract makes" if folder.exists() else ", and is not there at all"
        raise UsageError(message) from None
    if table.pop("format", None) != FORMAT:
        raise DamagedError(f"{path} does not describe a prepared dataset: its format is not {FORMAT}")
    version = table.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise DamagedError(f"{path} has format version {version}; this program reads version {FORMAT_VERSION}")
    try:
        return Description(**{**table, "classes": tuple(table["classes"])})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{path} has a field that is missing, unknown or makes no sense: {error}") from error
