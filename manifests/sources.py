"""`sources.parquet`: what a scan found, before any video is decoded."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from manifests.atomic import atomic_write
from manifests.errors import DamagedError, UsageError
from manifests.names import escape_name, folders_above, unescape_name
from manifests.records import Source

FORMAT = "decode-once.sources"
VERSION = 1

SCHEMA = pa.schema(
    [
        pa.field("video_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("source_bytes", pa.int64()),
        pa.field("label", pa.int32(), nullable=False),
        pa.field("class_name", pa.string()),
        pa.field("subsets", pa.list_(pa.string()), nullable=False),
        pa.field("status", pa.string()),
        pa.field("failure", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
"""One row a source: the fields of `manifests.records.Source`, under the same names."""


@dataclass(frozen=True, kw_only=True)
class SourceList:
    """The sources of a dataset, in source order.

    `root` is the absolute folder that `source` is relative to. `classes` are the class names, the index being the
    label, as `escape_name` gives them.
    """

    dataset: str
    root: Path
    classes: tuple[str, ...]
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        if not self.root.is_absolute():
            raise ValueError(f"the source root must be absolute: {self.root}")

    def path_of(self, source: Source) -> Path:
        """Where the file of a source lies."""
        return self.root / unescape_name(source.source)


def write_sources(path: Path, source_list: SourceList) -> None:
    """Write `path` as Parquet; dataset, root, classes and format version are JSON in the schema metadata.

    The root is stored as `escape_name` gives it. Raises StoreError where the disk refuses.
    """
    header = {
        "version": VERSION,
        "dataset": source_list.dataset,
        "root": escape_name(str(source_list.root)),
        "classes": source_list.classes,
    }
    schema = SCHEMA.with_metadata({FORMAT: json.dumps(header, ensure_ascii=False)})
    rows = source_list.sources
    columns = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in SCHEMA]
    table = pa.Table.from_arrays(columns, schema=schema)
    # Opened here for the same reason as in `read_sources`.
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        pq.write_table(table, file)


def read_sources(path: Path) -> SourceList:
    """Read what `write_sources` wrote.

    Raises UsageError where `path` cannot be read or is something else, DamagedError where its version is newer than
    this program knows, or its content is not what its version says.
    """
    shown = escape_name(str(path))
    try:
        # Opened here, since pyarrow takes no path that is not UTF-8.
        with open(path, "rb") as file:
            table = pq.ParquetFile(file, pre_buffer=False).read(use_threads=False)  # as in `read_parquet`
    except (pa.ArrowException, OSError) as error:
        # pyarrow tells of broken content by an OSError too, but then without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise UsageError(f"cannot read the source list {shown}: {error.strerror}") from error
        raise UsageError(f"{shown} is not a source list: write one with 'prep scan'") from error
    metadata = (table.schema.metadata or {}).get(FORMAT.encode())
    if metadata is None:
        raise UsageError(f"{shown} is a Parquet file but not a source list: write one with 'prep scan'")
    try:
        header = json.loads(metadata)
        if header["version"] > VERSION:
            raise DamagedError(
                f"{shown} has version {header['version']} of the source list, and this program reads up to {VERSION}: "
                "upgrade decode-once, or scan again"
            )
        if not table.schema.equals(SCHEMA):
            raise DamagedError(f"{shown} has other columns than a source list has: scan again")
        source_list = SourceList(
            dataset=header["dataset"],
            root=Path(unescape_name(header["root"])),
            classes=tuple(header["classes"]),
            sources=tuple(_sources(table)),
        )
        _require_sound(source_list)
        return source_list
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{shown} is not what a scan writes: {error}; scan again") from error


def _sources(table: pa.Table) -> Iterator[Source]:
    """One for each row. What many have in common is in memory once."""
    shared: dict[Any, Any] = {}
    for batch in table.to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            row["subsets"] = tuple(row["subsets"])
            for name in ("class_name", "subsets", "status", "failure", "detail"):
                row[name] = shared.setdefault(row[name], row[name])
            yield Source(**row)


def _require_sound(source_list: SourceList) -> None:
    """Raises ValueError for what no scan gives: no source at all, a video_id or path that leaves its folder, two equal
    ids or one inside another, a label without its class."""
    if not source_list.sources:
        raise ValueError("it has no sources")
    ids = {source.video_id for source in source_list.sources}
    if len(ids) < len(source_list.sources):
        raise ValueError("two sources have the same video_id")
    inside = ids & folders_above(ids)
    known: dict[int, str | None] = {-1: None, **dict(enumerate(source_list.classes))}
    for source in source_list.sources:
        for name in (source.video_id, source.source):
            if "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
                raise ValueError(f"{name!r} is no path inside a folder")
        outer = next(iter(inside & folders_above([source.video_id])), None) if inside else None
        if outer is not None:
            raise ValueError(f"video {source.video_id!r} would lie inside the frame folder of {outer!r}")
        if source.label not in known or source.class_name != known[source.label]:
            raise ValueError(f"{source.source!r} has label {source.label} and class {source.class_name!r}")
