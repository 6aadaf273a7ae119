"""Files that are the same byte for byte."""

import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from pathlib import Path

from manifests.description import hash_file
from manifests.names import unescape_name
from manifests.records import Source
from manifests.windows import file_of

_PROBE_BYTES = 4096


def identical_files(root: Path, sources: Iterable[Source]) -> list[tuple[str, ...]]:
    """The files of the sources (without windows) that are byte-identical, each group in order; files without bytes are
    not among them.

    Files of one size are compared by a piece from their middle, and those that agree in that by their SHA-256. Files
    that cannot be read are left to the extraction, which fails them.
    """
    by_size: dict[int, dict[str, None]] = defaultdict(dict)
    for source in sources:
        if source.source_bytes:
            by_size[source.source_bytes][file_of(source.source)] = None
    groups: list[list[str]] = []
    for num_bytes, names in by_size.items():
        for alike in _alike(root, list(names), partial(_probe, position=num_bytes // 2)):
            groups += _alike(root, alike, hash_file)
    return sorted(tuple(group) for group in groups)


def _alike(root: Path, names: list[str], key: Callable[[Path], Hashable]) -> Iterator[list[str]]:
    """The groups of two names or more whose files have the same key."""
    if len(names) < 2:
        return
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for name in names:
        try:
            groups[key(root / unescape_name(name))].append(name)
        except OSError:
            continue
    yield from (group for group in groups.values() if len(group) > 1)


def _probe(path: Path, position: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.pread(descriptor, _PROBE_BYTES, position)
    finally:
        os.close(descriptor)
