"""What of a finished dataset is to be done again: `--retry failed[:KIND]`, `damaged` or `changed`, and `--update`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import joblib
from tqdm import tqdm

from manifests.description import hash_file
from manifests.errors import UsageError
from manifests.manifest import FRAMES_FILE
from manifests.records import FAILURE_KINDS, Source
from manifests.sources import SourceList
from manifests.wording import quote
from prep.clear import unnamed
from prep.plan import Row
from prep.verify import Problem, verify


@dataclass(frozen=True)
class Again:
    """What the user wants of a finished dataset. `what` is failed, damaged, changed or update; `kind` a failure kind,
    or None for all."""

    what: str
    kind: str | None = None

    def __str__(self) -> str:
        return "--update" if self.what == "update" else f"--retry {self.what}{f':{self.kind}' if self.kind else ''}"


UPDATE = Again("update")


def parse_retry(text: str) -> Again:
    """failed, failed:KIND, damaged or changed. Raises UsageError."""
    what, colon, kind = text.partition(":")
    if what not in ("failed", "damaged", "changed") or (colon and what != "failed"):
        raise UsageError(f"--retry takes failed, failed:KIND, damaged or changed, not {text!r}")
    if colon and kind not in FAILURE_KINDS:
        raise UsageError(f"--retry failed:KIND knows {', '.join(FAILURE_KINDS)}, not {kind!r}")
    return Again(what, kind or None)


def rows_to_redo(
    again: Again, out: Path, before: Sequence[Row], sources: SourceList, *, num_jobs: int, quiet: bool
) -> tuple[set[int], bool]:
    """The rows of the dataset in `out` whose videos are to be decoded again, and whether anything at all is damaged.

    `damaged` verifies the whole dataset, deeply. `changed` and `--update` read each source that has the size of
    before, since nothing else tells for certain that it is the same. Raises UsageError where the source of an ok video
    cannot be read.
    """
    if again.what == "failed":
        kinds = FAILURE_KINDS if again.kind is None else (again.kind,)
        failed = {index for index, row in enumerate(before) if row["failure"] in kinds}
        return failed, False
    if again.what == "damaged":
        problems = verify(out, deep=True, num_jobs=num_jobs).problems
        # This run is open, so that verify leaves out what no row names.
        strays = unnamed(out, {row["location"] for row in before if row["location"]})
        return _damaged(before, problems), bool(problems) or any(True for _ in strays)
    return _changed(before, sources, num_jobs=num_jobs, quiet=quiet), False


def _damaged(before: Sequence[Row], problems: Sequence[Problem]) -> set[int]:
    """A problem of a video is its own, one of a shard is that of all videos in it, and without frames.parquet nothing
    is known of any frame."""
    videos = {problem.video_id for problem in problems if problem.video_id is not None}
    files = {problem.file for problem in problems if problem.video_id is None}
    return {
        index
        for index, row in enumerate(before)
        if row["status"] == "ok" and (row["video_id"] in videos or row["location"] in files or FRAMES_FILE in files)
    }


def _changed(before: Sequence[Row], sources: SourceList, *, num_jobs: int, quiet: bool) -> set[int]:
    """Rows whose source is there, but is not the one that was decoded: of another size or another SHA-256."""
    row_of = {row["source"]: index for index, row in enumerate(before)}
    there: dict[Path, list[tuple[Source, Row]]] = {}  # windows of one file together, so that it is read once
    for source in sources.sources:
        if source.source in row_of and source.status is None:
            there.setdefault(sources.path_of(source), []).append((source, before[row_of[source.source]]))
    checks = (joblib.delayed(_changed_of)(path, pairs) for path, pairs in there.items())
    results = joblib.Parallel(n_jobs=num_jobs, backend="threading", return_as="generator")(checks)
    bar = tqdm(results, total=len(there), desc="compare", unit="file", disable=True if quiet else None)
    return {row_of[source] for changed in bar for source in changed}


def _changed_of(path: Path, pairs: Sequence[tuple[Source, Row]]) -> list[str]:
    """Those of the sources that are in the file at `path` and were decoded from another one."""
    same_size = [
        row["source_sha256"] is not None and source.source_bytes == row["source_bytes"] for source, row in pairs
    ]
    try:
        path.stat()
        sha256 = hash_file(path) if any(same_size) else None
        return [
            source.source
            for (source, row), is_same_size in zip(pairs, same_size, strict=True)
            if not is_same_size or sha256 != row["source_sha256"]
        ]
    except OSError as error:
        if all(row["status"] != "ok" for _, row in pairs):
            return [source.source for source, _ in pairs]
        # Its frames are good, and would be lost.
        raise UsageError(f"cannot read {quote(str(path))}: {error.strerror}; bring it back, or scan again") from error
