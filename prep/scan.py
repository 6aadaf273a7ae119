"""What `prep scan` and an extraction of a folder do alike: list the videos, impose classes, split, reconcile."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from manifests.errors import UsageError
from manifests.machine import format_bytes
from manifests.windows import file_of
from manifests.wording import count
from prep import datasets
from prep.classes import impose_order, read_class_file
from prep.content import identical_files
from prep.leakage import Leak, Member, find_leaks, leak_lines
from prep.reconcile import Reconciliation, num_settled, reconcile, reconciliation_lines
from prep.split import parse_split, split_videos

FLAGS = ("dataset", "annotations", "separator", "classes", "split", "seed", "group")
"""The flags, without dashes, that say how a folder is to be read."""


def scan_folder(arguments: argparse.Namespace, root: Path) -> datasets.Scan:
    """List the videos under `root` as the flags say. Raises UsageError."""
    split = None
    if arguments.split is not None:
        split = parse_split(arguments.split, arguments.seed, arguments.group)
    elif arguments.seed is not None or arguments.group is not None:
        raise UsageError("--seed and --group go with --split")
    order = None if arguments.classes is None else read_class_file(arguments.classes)
    dataset = arguments.dataset or "folder"
    found = datasets.scan(dataset, root, arguments.annotations, separator=arguments.separator)
    if order is not None:
        found = impose_order(found, order, arguments.classes)
    return found if split is None else split_videos(found, split)


def given_flags(arguments: argparse.Namespace) -> list[str]:
    """Those of FLAGS that the user gave."""
    return [f"--{name}" for name in FLAGS if getattr(arguments, name) not in (None, [])]


def look_into(found: datasets.Scan, root: Path) -> tuple[Reconciliation, list[Leak]]:
    """Reconcile a scan of `root`, and find what its subsets share; reads files of equal size for it."""
    identical = identical_files(root, found.sources)
    group_of = {file: str(number) for number, group in enumerate(identical) for file in group}
    members = [
        Member(source=source.source, subsets=source.subsets, content=group_of.get(file_of(source.source)))
        for source in found.sources
        if source.status is None
    ]
    return reconcile(found, identical), find_leaks(found.dataset, members)


def scan_table(found: datasets.Scan, reconciliation: Reconciliation, leaks: Sequence[Leak]) -> dict[str, Any]:
    """All that a scan found out, for --json."""
    return {
        "dataset": found.dataset,
        "num_videos": len(found.sources),
        "num_bytes": _num_bytes(found),
        "classes": list(found.classes),
        "subsets": {name: c.num_videos for name, c in reconciliation.counts.items() if name != "(none)"},
        "not_to_be_decoded": num_settled(found.sources),
        "notes": list(found.notes),
        "reconciliation": asdict(reconciliation),
        "leaks": [asdict(leak) for leak in leaks],
    }


def scan_lines(found: datasets.Scan, reconciliation: Reconciliation, leaks: Sequence[Leak]) -> list[str]:
    """The same as text."""
    videos, classes = count(len(found.sources), "video"), count(len(found.classes), "class", "classes")
    return [
        f"{videos} in {classes}, {format_bytes(_num_bytes(found))}",
        *reconciliation_lines(reconciliation),
        *leak_lines(leaks),
        *(f"note: {note}" for note in found.notes),
    ]


def _num_bytes(found: datasets.Scan) -> int:
    """Of all files, each once."""
    return sum({file_of(source.source): source.source_bytes or 0 for source in found.sources}.values())
