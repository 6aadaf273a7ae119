"""The three pieces of a manifest row: what is known before decoding, after it, and where the frames lie.

A row of manifest.parquet is Source + Outcome + Placement; `manifests.manifest.MANIFEST_SCHEMA` gives the column order.
"""

from dataclasses import dataclass
from typing import Any

STATUSES = ("ok", "failed", "excluded")

FAILURE_KINDS: dict[str, str] = {
    "missing": "an annotation names it, the disk does not have it",
    "empty": "the file has no bytes, or the frame folder no files",
    "unreadable": "the file cannot be opened as a video: damaged header, not a video, or no permission",
    "unsupported": "no decoder for its codec",
    "no_video": "no video stream (audio only, or a cover picture), or no frame in the frame folder",
    "truncated": "the file is cut short, many of its packets gave no picture, or frames are missing from a folder",
    "size_change": "the picture size changes within the stream",
    "decode": "packets or frames that cannot be decoded, or pictures that the codec marks as damaged",
    "too_short": "fewer frames than limits.min_frames",
    "crashed": "the decoding process died",
    "timeout": "no progress for limits.timeout_s",
    "out_of_memory": "decoding needed more than limits.memory_mib, or than there is",
    "duplicate_id": "another file with its id was taken, or annotations give it different labels",
}
"""Failure kinds with their meaning, in the order of the README's table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One source video as a scan found it.

    `source` is the POSIX path relative to the source root, `source_bytes` its size (None where the disk lacks
    it). `label` is -1 and `class_name` None where unknown. `subsets` does not list `all`, which every video is
    in. `status` is None for a video that is to be decoded; else it is settled already (`excluded`, or `failed`
    with a `failure` such as `missing`) and `detail` says why.
    """

    video_id: str
    source: str
    source_bytes: int | None
    label: int = -1
    class_name: str | None = None
    subsets: tuple[str, ...] = ()
    status: str | None = None
    failure: str | None = None
    detail: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one source video. `declared_` comes from a header; `num_` was counted.

    `fps` and `duration_s` are measured from the timestamps of the decoded frames. `source_width` and
    `source_height` are as coded, before `rotation_deg` (the clockwise turn that shows it upright) was applied;
    `width` and `height` are those of the stored JPEG frames. `num_bytes` and `content_crc32` are over the JPEG
    bytes of all frames in order.
    """

    status: str
    failure: str | None = None
    detail: str | None = None
    source_sha256: str | None = None
    container: str | None = None
    codec: str | None = None
    declared_num_frames: int | None = None
    num_frames: int = 0
    num_decode_errors: int = 0
    fps: float | None = None
    duration_s: float | None = None
    source_width: int | None = None
    source_height: int | None = None
    rotation_deg: int = 0
    sample_aspect_ratio: str | None = None
    width: int | None = None
    height: int | None = None
    num_bytes: int = 0
    content_crc32: int | None = None
    decoder: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where an ok video's frames lie.

    `location` is the shard or the frame folder, relative to the dataset. For a shard, `row` is the video's first
    record batch, and `offsets_at` and `data_at` hold, one entry a part, the file positions of the frame-offset
    buffer (int32, one more than frames) and of the frame bytes. For a folder `row` is -1 and both are empty.
    """

    location: str
    row: int = -1
    offsets_at: tuple[int, ...] = ()
    data_at: tuple[int, ...] = ()


def by_name(record: Source | Outcome | Placement) -> dict[str, Any]:
    """The values of its fields, by their names."""
    return {name: getattr(record, name) for name in record.__slots__}
