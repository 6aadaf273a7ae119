"""Small datasets without any decoding: drawn JPEG frames, spooled, committed and sealed by the real functions."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

from manifests.description import Description
from manifests.records import Outcome, Source
from manifests.sources import SourceList
from manifests.stores import frames
from prep import spool
from prep.clear import clear
from prep.commit import commit_group, group_rows
from prep.frame_table import FRAME_DTYPE, write_table
from prep.journal import Entry
from prep.plan import plan_new
from prep.recipe import ExtractRecipe, Store, resolve
from prep.run_folder import RunFolder
from prep.seal import seal

WIDTH, HEIGHT = 32, 24
LIBRARIES = {"av": "1.2.3", "libavcodec": "61.0.0"}


@dataclass(frozen=True, kw_only=True)
class Video:
    """A source video as if it had been decoded into `jpegs` (empty unless ok)."""

    source: Source
    outcome: Outcome
    jpegs: tuple[bytes, ...] = ()


def draw_jpeg(rng: np.random.Generator, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    frame_HWC = rng.integers(0, 256, (height, width, 3), np.uint8)
    jpeg: bytes = simplejpeg.encode_jpeg(frame_HWC, colorspace="RGB")
    return jpeg


def draw_jpegs(seed: int, num_frames: int, width: int = WIDTH, height: int = HEIGHT) -> tuple[bytes, ...]:
    rng = np.random.default_rng(seed)
    return tuple(draw_jpeg(rng, width, height) for _ in range(num_frames))


def ok_video(video_id: str, jpegs: Sequence[bytes], **fields: Any) -> Video:
    """`fields` are further fields of Source or Outcome, by name."""
    source_fields = {name: fields.pop(name) for name in list(fields) if name in Source.__dataclass_fields__}
    outcome = {
        "source_sha256": hashlib.sha256(video_id.encode()).hexdigest(),
        "container": "avi",
        "codec": "mpeg4",
        "num_frames": len(jpegs),
        "fps": 25.0,
        "duration_s": len(jpegs) / 25,
        "width": WIDTH,
        "height": HEIGHT,
        "num_bytes": sum(map(len, jpegs)),
        "content_crc32": zlib.crc32(b"".join(jpegs)),
        "decoder": "pyav 1.2.3",
        **fields,
    }
    source = {"video_id": video_id, "source": f"{video_id}.avi", "source_bytes": 1000, **source_fields}
    return Video(source=Source(**source), outcome=Outcome(status="ok", **outcome), jpegs=tuple(jpegs))


def other_video(video_id: str, status: str, failure: str | None, detail: str | None = None, **fields: Any) -> Video:
    """A video that failed or is excluded; `fields` as in `ok_video`."""
    source_fields = {name: fields.pop(name) for name in list(fields) if name in Source.__dataclass_fields__}
    source = {"video_id": video_id, "source": f"{video_id}.avi", "source_bytes": 1000, **source_fields}
    outcome = Outcome(status=status, failure=failure, detail=detail, **fields)
    return Video(source=Source(**source), outcome=outcome)


def spool_video(run: RunFolder, store: str, row: int, video: Video) -> Entry:
    """Leave in `run` what a decoding process and the engine leave there for one video, until its group is committed."""
    if video.outcome.status != "ok":
        return Entry(row, video.outcome, 0)
    path = spool.frames_path(run.spool, row, store)
    writer = spool.open_writer(path, store)
    for jpeg in video.jpegs:
        writer.add(jpeg)
    writer.close()
    table = [(len(jpeg), zlib.crc32(jpeg), 40.0 * index) for index, jpeg in enumerate(video.jpegs)]
    table_crc32 = write_table(spool.table_path(run.spool, row), np.array(table, FRAME_DTYPE))
    if store == "frames":
        frames.publish_folder(path, run.out / frames.location_of(video.source.video_id))
    return Entry(row, video.outcome, table_crc32)


def commit_all(run: RunFolder, store: str, videos: Sequence[Video], videos_per_shard: int) -> int:
    """Spool and commit every group; returns their number."""
    groups = group_rows(len(videos), videos_per_shard)
    for group, rows in enumerate(groups):
        entries = [spool_video(run, store, row, videos[row]) for row in rows]
        commit_group(run, store, group, [videos[row].source for row in rows], entries)
    return len(groups)


def make_dataset(
    out: Path, store: str, videos: Sequence[Video], *, videos_per_shard: int = 3, classes: Sequence[str] = ()
) -> Description:
    """A sealed dataset of `videos` in the new folder `out`."""
    run = RunFolder(out)
    run.make()
    num_groups = commit_all(run, store, videos, videos_per_shard)
    recipe = resolve(ExtractRecipe())
    recipe = replace(recipe, store=Store(format=store, videos_per_shard=videos_per_shard))
    sources = tuple(video.source for video in videos)
    plan = plan_new(SourceList(dataset="folder", root=Path("/videos"), classes=tuple(classes), sources=sources))
    description = seal(run, plan=plan, before=None, recipe=recipe, libraries=LIBRARIES, num_groups=num_groups)
    clear(run)
    return description


CLASSES = ("Juggling", "Zähne putzen", "")


def variety() -> list[Video]:
    """One of everything: awkward names, one frame, no class, an empty class, failures, a group of three without any ok.

    With three videos a shard, shards 0, 1, 2 and 4 exist, and shard 3 does not.
    """
    juggling = {"label": 0, "class_name": "Juggling"}
    teeth = {"label": 1, "class_name": "Zähne putzen"}
    kept = ok_video("Juggling/many", draw_jpegs(2, 23), **juggling, subsets=("test02", "train01"), num_decode_errors=2)
    return [
        ok_video("Juggling/one", draw_jpegs(1, 1), **juggling, subsets=("train01",)),
        replace(kept, outcome=replace(kept.outcome, detail="kept although 2 packets cannot be decoded")),
        ok_video("caf%E9/100%2541", draw_jpegs(3, 4), **teeth, subsets=("train01",)),
        other_video("bad", "failed", "decode", "3 packets cannot be decoded", **teeth, subsets=("train01",), fps=25.0),
        ok_video("Zähne putzen/日本 🎥", draw_jpegs(4, 5), **teeth, subsets=("test01",)),
        other_video("short", "excluded", "too_short", "1 frames, fewer than limits.min_frames=2", **juggling),
        ok_video("nameless class", draw_jpegs(5, 2, 64, 48), label=2, class_name="", width=64, height=48),
        other_video("gone", "failed", "missing", source_bytes=None, **teeth, subsets=("test01",)),
        other_video("other", "excluded", None, "no annotation names it"),
        other_video("x1", "failed", "crashed", "the decoding process died of SIGSEGV"),
        other_video("x2", "failed", "decode", "every frame is the same picture; 9 packets cannot be decoded", fps=25.0),
        other_video("x3", "failed", "decode", "no frame can be decoded"),
        ok_video("deep/er/and deeper", draw_jpegs(6, 3), subsets=("train01",)),
    ]


def row_of(videos: Sequence[Video], video_id: str) -> int:
    return next(row for row, video in enumerate(videos) if video.source.video_id == video_id)
