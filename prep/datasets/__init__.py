"""The datasets that `prep scan` understands, one file each with one function `scan`."""

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import UsageError
from manifests.records import Source
from manifests.sources import SourceList

DATASETS = ("folder", "ucf101")


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a scan found.

    `sources` are in source order: by code point of `source`. `classes` are the class names, the index being the
    label. `notes` are plain sentences for the user about what was left out, counted or read in a way that may
    surprise; empty where there is nothing to say. All text is as `manifests.names.escape_name` gives it.
    """

    dataset: str
    sources: tuple[Source, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def scan(dataset: str, root: Path, annotations: Sequence[Path] = ()) -> Scan:
    """List the videos under `root` with what `dataset` knows about them; no video is opened.

    `annotations` are files or folders; what they may be is said in the module of each dataset.
    Raises UsageError for an unknown dataset, a root without videos, and annotations that cannot be read.
    """
    if dataset not in DATASETS:
        raise UsageError(f"unknown dataset {dataset!r}: choose one of {', '.join(DATASETS)}")
    result: Scan = importlib.import_module(f"prep.datasets.{dataset}").scan(root, annotations)
    return result


def source_list(found: Scan, root: Path) -> SourceList:
    """What a scan of `root` found, as an extraction takes it."""
    # abspath also drops "..", which would name another folder once the list is read elsewhere.
    absolute = Path(os.path.abspath(root))
    return SourceList(dataset=found.dataset, root=absolute, classes=found.classes, sources=found.sources)
