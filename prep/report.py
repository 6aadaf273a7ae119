"""What a prepared dataset holds: counts by status, failure, subset; frames and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from manifests.dataset import open_dataset
from manifests.description import Description
from manifests.machine import format_bytes
from manifests.recipe import flat
from manifests.records import FAILURE_KINDS
from manifests.table import table_lines
from manifests.wording import count
from prep.extract_video import ONE_PICTURE
from prep.leakage import Leak, Member, find_leaks, leak_lines
from prep.recipe import recipe_of

_EXAMPLES_PER_KIND = 3
_COLUMNS = (
    *("source", "source_sha256", "class_name", "subsets", "status", "failure", "detail"),
    *("num_frames", "fps", "width", "height", "num_bytes"),
)


@dataclass(frozen=True, kw_only=True)
class SubsetCounts:
    """The videos of one subset, whatever their status; frames and bytes are those of its ok videos."""

    num_videos: int
    num_ok: int
    num_frames: int
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """`failures` lists, for each kind, (source, detail) in source order. `remarks` lists the same for ok videos with a
    detail: damaged frames that were kept, or a decoder that complained without a failure; `unlisted` for videos that no
    annotation names. `num_could_be_kept` videos failed only because of damaged frames. `leaks` is what the subsets of
    a split share, by the ok videos."""

    description: Description
    subsets: dict[str, SubsetCounts]
    failures: dict[str, list[tuple[str, str | None]]]
    sizes: dict[str, int]
    median_num_frames: float
    empty_classes: tuple[str, ...]
    remarks: list[tuple[str, str]]
    unlisted: list[tuple[str, str | None]]
    num_could_be_kept: int
    leaks: list[Leak]


def make_report(folder: Path) -> Report:
    """Raises UsageError where `folder` is no prepared dataset, DamagedError where it cannot be read."""
    with open_dataset(folder) as dataset:
        rows = dataset.columns(_COLUMNS).to_pylist()
        description = dataset.description
    ok = [row for row in rows if row["status"] == "ok"]
    failures: dict[str, list[tuple[str, str | None]]] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        if row["failure"]:
            failures.setdefault(row["failure"], []).append((row["source"], row["detail"]))
    for row in ok:
        size = f"{row['width']}x{row['height']}"
        sizes[size] = sizes.get(size, 0) + 1
    found = {row["class_name"] for row in ok}
    return Report(
        description=description,
        subsets={name: _count_subset(name, rows) for name in description.subsets},
        failures={kind: failures[kind] for kind in FAILURE_KINDS if kind in failures},
        sizes=dict(sorted(sizes.items(), key=lambda item: -item[1])),
        median_num_frames=median([row["num_frames"] for row in ok] or [0]),
        empty_classes=tuple(name for name in description.classes if name not in found),
        remarks=[(row["source"], row["detail"]) for row in ok if row["detail"]],
        unlisted=[(row["source"], row["detail"]) for row in rows if row["status"] == "excluded" and not row["failure"]],
        num_could_be_kept=sum(_could_be_kept(row) for row in rows),
        leaks=find_leaks(
            description.dataset,
            [Member(source=row["source"], subsets=tuple(row["subsets"]), content=row["source_sha256"]) for row in ok],
        ),
    )


def _count_subset(name: str, rows: list[dict[str, Any]]) -> SubsetCounts:
    chosen = [row for row in rows if name == "all" or name in row["subsets"]]
    ok = [row for row in chosen if row["status"] == "ok"]
    return SubsetCounts(
        num_videos=len(chosen),
        num_ok=len(ok),
        num_frames=sum(row["num_frames"] for row in ok),
        num_bytes=sum(row["num_bytes"] for row in ok),
    )


def _could_be_kept(row: dict[str, Any]) -> bool:
    one_picture = (row["detail"] or "").startswith(ONE_PICTURE)
    return row["failure"] == "decode" and row["fps"] is not None and not one_picture


def report_lines(report: Report) -> list[str]:
    """The report as text."""
    description = report.description
    counts = description.counts
    lines = [
        f"dataset    {description.dataset}, {count(description.subsets['all'], 'video')}, "
        f"{count(len(description.classes), 'class', 'classes')}",
        f"status     {counts['ok']:,} ok, {counts['failed']:,} failed, {counts['excluded']:,} excluded",
        f"frames     {description.num_frames:,} ({report.median_num_frames:g} a video in the median), "
        f"{format_bytes(description.num_bytes)}, {_sizes_text(report.sizes)}",
        f"recipe     {_recipe_text(description)}",
        f"made with  {_libraries_text(description)}",
        "",
        *table_lines(
            ["subset", "videos", "ok", "frames", "bytes"],
            [
                [name, f"{c.num_videos:,}", f"{c.num_ok:,}", f"{c.num_frames:,}", format_bytes(c.num_bytes)]
                for name, c in report.subsets.items()
            ],
        ),
    ]
    if report.failures:
        lines += ["", "not ok, by kind:"]
    for kind, examples in report.failures.items():
        lines.append(f"  {kind} ({len(examples):,}): {FAILURE_KINDS[kind]}")
        lines += _examples(examples)
    if report.unlisted:
        lines += ["", f"excluded, since no annotation names them ({len(report.unlisted):,}):"]
        lines += _examples([(source, None) for source, _ in report.unlisted])
    if report.remarks:
        lines += ["", f"ok, with a remark ({len(report.remarks):,}):", *_examples(report.remarks)]
    if report.num_could_be_kept:
        lines.append(
            f"{count(report.num_could_be_kept, 'failed video')} would be kept by the same prep extract "
            "with --retry failed:decode --set limits.keep_damaged=true"
        )
    if report.empty_classes:
        lines.append(f"classes without an ok video: {', '.join(report.empty_classes)}")
    if report.leaks:
        lines += ["", *leak_lines(report.leaks)]
    return lines


def _examples(examples: Sequence[tuple[str, str | None]]) -> list[str]:
    lines = [f"    {source}{f': {detail}' if detail else ''}" for source, detail in examples[:_EXAMPLES_PER_KIND]]
    if len(examples) > _EXAMPLES_PER_KIND:
        lines.append(f"    and {len(examples) - _EXAMPLES_PER_KIND:,} more; --json names all")
    return lines


def _sizes_text(sizes: dict[str, int]) -> str:
    shown = [f"{size} ({count:,})" for size, count in list(sizes.items())[:4]]
    rest = len(sizes) - len(shown)
    return ", ".join(shown) + (f" and {rest} other sizes" if rest else "")


def _libraries_text(description: Description) -> str:
    return ", ".join(f"{name} {version}" for name, version in description.libraries.items()) or "what, is not known"


def _recipe_text(description: Description) -> str:
    recipe = flat(recipe_of(description.recipe))
    return ", ".join(f"{key}={value}" for key, value in recipe.items() if not key.startswith("limits."))
