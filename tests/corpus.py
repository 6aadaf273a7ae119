"""The table of outcomes: what becomes of every file of a corpus of real clips, beside what must become of it.

    python tests/corpus.py VIDEOS [--store arrow|frames]

VIDEOS holds an `expected.json` with what ffmpeg made of each file, and names under which a copy of one clip must come
out like the clip. The real command extracts all of it, in native size; the exit code is 1 unless all is right.

What is right, by the verdict of a file:

    ok, ok_header_wrong   ok without a decode error, as many frames as ffmpeg counts, upright in their native size
    degraded              no clean success: failed, or ok with a detail and a count of what could not be decoded
    fail                  failed with the kind that is meant, and with words that say why (no bytes say enough)
    left out              no row, and counted aloud
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manifests import open_dataset
from manifests.names import escape_name, unescape_name

_PREP = Path(sys.executable).parent / "prep"

KINDS = {
    "unreadable_container": "unreadable",
    "unsupported_codec": "unsupported",
    "no_video_stream": "no_video",
    "no_decodable_frames": "decode",
    "corrupt_packets": "decode",
    "missing_keyframe": "truncated",
    "resolution_change": "size_change",
    "empty_file": "empty",
    "truncated": "truncated",
}
"""What ours is called, by the kind of the corpus."""

_REASONS = {
    "missing_keyframe": "what misses its key frame gives no picture: packets without one are how a cut shows",
    "header_overcount": "the header counts more frames than there are",
    "bad_duration": "the header's duration is absurd",
    "no_duration": "the header knows no duration",
    "hidden": "files whose name begins with a dot are no videos, as in every scan",
}
"""Why the words of the corpus and ours differ, where they do."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What must become of the file at `source` (a path as os gives it, relative to the folder of videos).

    `kind` is a key of KINDS, or of `_REASONS` for what is odd but fine. Width and height are after rotation; they
    and `num_frames` are None where no good frame is promised.
    """

    source: str
    verdict: str
    kind: str | None = None
    num_frames: int | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True)
class Line:
    """An expectation and the manifest row (None: there is none), and what is wrong with it, if anything."""

    expected: Expected
    row: dict[str, Any] | None
    wrong: str | None


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """What the real command made of a folder: its exit code, its words, and the manifest rows by source."""

    exit_code: int
    stderr: str
    rows: dict[str, dict[str, Any]]


# --- What is expected, and is it so ---


def expected_files(videos: Path) -> list[Expected]:
    """What `expected.json` says of each of its files."""
    files = _expectations(videos)["files"]
    return [_expected(name, entry) for name, entry in sorted(files.items())]


def expected_names(videos: Path, folder: str) -> list[Expected]:
    """What must become of the copies that `copy_names` puts into `folder`."""
    cases = _expectations(videos)
    clip = cases["files"][cases["name_cases"]["clip"]]
    return [named(f"{folder}/{name}", _expected("", clip)) for name in _raw_names(cases)]


def named(source: str, clip: Expected) -> Expected:
    """What must become of a copy of `clip`, which is a good one, under another name: the same, unless it is hidden."""
    if source.rpartition("/")[2].startswith("."):
        return Expected(source=source, verdict="left out", kind="hidden")
    return Expected(source=source, verdict="ok", num_frames=clip.num_frames, width=clip.width, height=clip.height)


def copy_names(videos: Path, folder: Path) -> None:
    """Copy the clip of the corpus into the new `folder` under each of its raw names."""
    cases = _expectations(videos)
    folder.mkdir()
    for name in _raw_names(cases):
        shutil.copyfile(videos / cases["name_cases"]["clip"], folder / name)


def _expectations(videos: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((videos / "expected.json").read_text(encoding="utf-8"))
    return table


def _raw_names(cases: dict[str, Any]) -> list[str]:
    return [os.fsdecode(bytes.fromhex(case["bytes_hex"])) for case in cases["name_cases"]["names"]]


def _expected(source: str, entry: dict[str, Any]) -> Expected:
    verdict, kind = entry["verdict"], entry["failure_kind"]
    if verdict not in ("ok", "ok_header_wrong"):
        return Expected(source=source, verdict=verdict, kind=kind)
    width, height = entry["width"], entry["height"]
    if entry["rotate_clockwise_to_display"] in (90, 270):
        width, height = height, width
    return Expected(
        source=source, verdict=verdict, kind=kind, num_frames=entry["frames_decoded"], width=width, height=height
    )


def compare(expected: Sequence[Expected], extracted: Extracted) -> list[Line]:
    """Each expectation with its row, in the order given."""
    lines = []
    for one in expected:
        row = extracted.rows.get(one.source)
        lines.append(Line(one, row, _wrong(one, row, extracted.stderr)))
    return lines


def _wrong(expected: Expected, row: dict[str, Any] | None, stderr: str) -> str | None:
    if expected.verdict == "left out":
        if row is not None:
            return "it has a row"
        return None if "left out" in stderr and "hidden" in stderr else "it was left out without a word"
    if row is None:
        return "it has no row"
    if expected.verdict in ("ok", "ok_header_wrong"):
        found = (row["status"], row["num_decode_errors"], row["num_frames"], row["width"], row["height"])
        meant = ("ok", 0, expected.num_frames, expected.width, expected.height)
        return None if found == meant else f"it is {found}, not {meant}"
    if row["status"] == "ok" and expected.verdict == "degraded":
        return None if row["detail"] and row["num_decode_errors"] else "it passes for a clean success"
    kind = KINDS[expected.kind or ""]
    if (row["status"], row["failure"]) != ("failed", kind):
        return f"it is {row['status']} ({row['failure']}), not failed ({kind})"
    return None if row["detail"] or kind == "empty" else "nothing says why"


# --- The real command ---


def extract(videos: Path, out: Path, *options: str) -> Extracted:
    """Run `prep extract` on a folder, in native size unless `options` say otherwise."""
    command = [_PREP, "extract", videos, "--out", out, "--set", "frames.short_side_px=0", *options]
    done = subprocess.run(command, capture_output=True, check=False)
    stderr = done.stderr.decode(errors="backslashreplace")
    rows = {}
    if (out / "dataset.json").exists():
        with open_dataset(out) as dataset:
            rows = {unescape_name(row["source"]): row for row in dataset.manifest.to_pylist()}
    return Extracted(exit_code=done.returncode, stderr=stderr, rows=rows)


# --- The table ---


def table(lines: Sequence[Line]) -> list[str]:
    """The outcomes as text."""
    head = ("file", "expected", "outcome", "frames", "size", "right", "in the decoder's words; why the words differ")
    rows = [head, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]


def how_many_right(lines: Sequence[Line], what: str) -> str:
    return f"{sum(line.wrong is None for line in lines)} of {len(lines)} {what} right"


def _cells(line: Line) -> tuple[str, ...]:
    expected, row = line.expected, line.row
    outcome, frames, size, words = "no row", "-", "-", []
    if row is not None:
        outcome = f"{row['status']} {row['failure']}" if row["failure"] else row["status"]
        frames = f"{row['num_frames']}" if row["status"] == "ok" else "-"
        size = f"{row['width']}x{row['height']}" if row["status"] == "ok" else "-"
        words += [row["detail"]] if row["detail"] else []
    if expected.num_frames is not None:
        frames = f"{expected.num_frames}/{frames}"
    words += [line.wrong] if line.wrong else []
    words += [f"[{_REASONS[expected.kind]}]"] if expected.kind in _REASONS else []
    meant = f"{expected.verdict} {expected.kind}" if expected.kind else expected.verdict
    right = "yes" if line.wrong is None else "NO"
    return _shown(expected.source), meant, outcome, frames, size, right, "; ".join(words)


def _shown(source: str) -> str:
    """A file name in one line of a table, its middle left out where it is very long."""
    text = escape_name(source).encode("unicode_escape").decode() if not source.isprintable() else source
    return text if len(text) <= 60 else f"{text[:40]}...{text[-17:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="What becomes of every file of a corpus.")
    parser.add_argument("videos", type=Path)
    parser.add_argument("--store", choices=("arrow", "frames"), default="arrow")
    arguments = parser.parse_args()
    if not (arguments.videos / "expected.json").is_file():
        print(f"the real clips are not there: {arguments.videos} has no expected.json", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "videos").mkdir()
        (folder / "videos" / "corpus").symlink_to(arguments.videos.absolute())
        copy_names(arguments.videos, folder / "videos" / "names")
        extracted = extract(folder / "videos", folder / "out", "--store", arguments.store)
    files = [replace(one, source=f"corpus/{one.source}") for one in expected_files(arguments.videos)]
    names = expected_names(arguments.videos, "names")
    unexpected = sorted(extracted.rows.keys() - {one.source for one in [*files, *names]})
    lines_of_files, lines_of_names = compare(files, extracted), compare(names, extracted)
    lines = [*lines_of_files, *lines_of_names]
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    print("\n".join(table(lines)))
    for source in unexpected:
        print(f"{_shown(source)}: nothing was expected of it")
    if not extracted.rows:
        print(extracted.stderr)
    print(f"{how_many_right(lines_of_files, 'files')}, {how_many_right(lines_of_names, 'names')}")
    return 0 if not unexpected and all(line.wrong is None for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
