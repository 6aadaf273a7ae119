"""The datasets that `prep scan` understands, one file each with one function `scan`."""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from manifests.errors import UsageError
from manifests.records import Source
from manifests.sources import SourceList

DATASETS = ("folder", "ucf101", "hmdb51", "kinetics", "ssv2", "list")


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a scan found.

    `sources` are in source order: by code point of `source`. `classes` are the class names, the index being the
    label. `notes` are plain sentences for the user about what was left out, counted or read in a way that may
    surprise; empty where there is nothing to say.

    `num_lines` counts the lines of the annotations that put a video into each subset (empty where no annotation names
    videos). `near` are (what an annotation says, source) where a file was not simply at the path or under the id that
    the annotation gives. `suggestions` are the same where no rule says that both are one. `disagreements` are (source,
    in words) where annotations, folders or each other tell different labels or subsets. `num_left_out` counts what is
    there without being a video, by kind. `numbered`: the annotations have only numbers for classes.

    All text is as `manifests.names.escape_name` gives it.
    """

    dataset: str
    sources: tuple[Source, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    num_lines: Mapping[str, int] = field(default_factory=dict)
    near: tuple[tuple[str, str], ...] = ()
    suggestions: tuple[tuple[str, str], ...] = ()
    disagreements: tuple[tuple[str, str], ...] = ()
    num_left_out: Mapping[str, int] = field(default_factory=dict)
    numbered: bool = False


def scan(dataset: str, root: Path, annotations: Sequence[Path] = (), *, separator: str | None = None) -> Scan:
    """List the videos under `root` with what `dataset` knows about them; no video is opened.

    `annotations` are files or folders; what they may be is said in the module of each dataset. `separator` is what
    stands between the fields of a list (of the dataset `list` only); None finds out.
    Raises UsageError for an unknown dataset, a root without videos, and annotations that cannot be read.
    """
    if dataset not in DATASETS:
        raise UsageError(f"unknown dataset {dataset!r}: choose one of {', '.join(DATASETS)}")
    if dataset == "list":
        # Not a module list.py, which would hide the builtin of that name in this one.
        from prep.datasets.lists import scan_lists

        return scan_lists(root, annotations, separator)
    if separator is not None:
        raise UsageError(f"--separator is for --dataset list, not for {dataset!r}")
    result: Scan = importlib.import_module(f"prep.datasets.{dataset}").scan(root, annotations)
    return result


def source_list(found: Scan, root: Path) -> SourceList:
    """What a scan of `root` found, as an extraction takes it."""
    # abspath also drops "..", which would name another folder once the list is read elsewhere.
    absolute = Path(os.path.abspath(root))
    return SourceList(dataset=found.dataset, root=absolute, classes=found.classes, sources=found.sources)
