"""Draws a small dataset in the shape of UCF-101, whose classes only the order of frames tells apart.

    FOLDER/MoveUp/v_MoveUp_g01_c01.avi ...   MPEG-4 in AVI, 25 frames/s, 24 to 40 frames of 96x72
    FOLDER/classInd.txt                      `1 MoveUp`: ids from 1, in the order of CLASS_NAMES (not sorted)
    FOLDER/trainlist01.txt                   `MoveUp/v_MoveUp_g03_c01.avi 1`
    FOLDER/testlist01.txt                    `MoveUp/v_MoveUp_g01_c01.avi`, without the id

Lines end with CRLF, as in the official lists. The clips of a group share their look, and a group is never
split between the lists; as officially, there are up to 25 groups, of which the first 7 (in proportion) are for
testing. Group 3 has the same look in every class, so that a look tells nothing about the class: with looks of
its own for each class, a small network learns those by heart instead of the motions.
"""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from manifests.errors import UsageError
from prep.drawing import CLASS_PAIRS, HEIGHT_PX, WIDTH_PX, Clip, draw_clip, draw_look

CLASS_NAMES = tuple(name for pair in CLASS_PAIRS for name in pair)
FRAMES_PER_S = 25

_MAX_NUM_GROUPS, _NUM_TEST_GROUPS = 25, 7  # of UCF-101
_QUANTISER = 3  # of 1 (best) to 31


@dataclass(frozen=True, kw_only=True)
class Video:
    """One video to draw; all indices count from 0, `video_index` within the class."""

    source: str
    class_index: int
    group_index: int
    video_index: int
    in_test: bool


def write_synthetic_set(folder: Path, *, num_classes: int, videos_per_class: int, seed: int) -> list[str]:
    """Write the whole set (see `synthetic_videos`) and return its sources in source order."""
    return list(synthetic_videos(folder, num_classes=num_classes, videos_per_class=videos_per_class, seed=seed))


def synthetic_videos(folder: Path, *, num_classes: int, videos_per_class: int, seed: int) -> Iterator[str]:
    """Write the set video by video: yields each source (POSIX path relative to `folder`) once it is written.

    Sources come in source order, sorted by code point. The arguments are checked and `folder` is made at the
    call; the text files are written after the last video, so that a folder with `classInd.txt` is complete.
    The bytes of a video depend on (seed, class, number within the class, number of its group) and on the
    versions of the libraries.

    `num_classes`, an even number, takes the first of CLASS_NAMES. `videos_per_class` is 2 or more, so that
    each class is in both lists. `seed` is 0 or more.

    Raises UsageError for an argument out of range and for a `folder` that exists and is not an empty folder,
    OSError where the disk refuses.
    """
    if num_classes % 2 or not 2 <= num_classes <= len(CLASS_NAMES):
        raise UsageError(
            f"the number of classes is {num_classes}, but classes come in pairs: "
            f"give an even number from 2 to {len(CLASS_NAMES)}"
        )
    if videos_per_class < 2:
        raise UsageError(
            f"the number of videos per class is {videos_per_class}: give 2 or more, so that each class has "
            "one to train on and one to test on"
        )
    if seed < 0:
        raise UsageError(f"the seed is {seed}: give 0 or a positive number")
    if folder.exists() and not (folder.is_dir() and next(folder.iterdir(), None) is None):
        raise UsageError(f"{folder} is not an empty folder: name one that is empty or does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    return _write(folder, plan_videos(num_classes, videos_per_class), CLASS_NAMES[:num_classes], seed)


def plan_videos(num_classes: int, videos_per_class: int) -> list[Video]:
    """All videos in source order; the arguments are in range."""
    clips_per_group = max(2, math.ceil(videos_per_class / _MAX_NUM_GROUPS)) if videos_per_class >= 4 else 1
    num_groups = math.ceil(videos_per_class / clips_per_group)
    num_test_groups = max(1, round(num_groups * _NUM_TEST_GROUPS / _MAX_NUM_GROUPS))
    videos = []
    for class_index, name in enumerate(CLASS_NAMES[:num_classes]):
        for video_index in range(videos_per_class):
            group_index, clip_index = divmod(video_index, clips_per_group)
            video = Video(
                source=f"{name}/v_{name}_g{group_index + 1:02d}_c{clip_index + 1:02d}.avi",
                class_index=class_index,
                group_index=group_index,
                video_index=video_index,
                in_test=group_index < num_test_groups,
            )
            videos.append(video)
    return sorted(videos, key=lambda video: video.source)


def _write(folder: Path, videos: list[Video], class_names: tuple[str, ...], seed: int) -> Iterator[str]:
    for name in class_names:
        (folder / name).mkdir()
    for video in videos:
        (folder / video.source).write_bytes(encode_clip(_draw(video, seed)))
        yield video.source
    train = [f"{video.source} {video.class_index + 1}" for video in videos if not video.in_test]
    _write_lines(folder / "trainlist01.txt", train)
    _write_lines(folder / "testlist01.txt", [video.source for video in videos if video.in_test])
    _write_lines(folder / "classInd.txt", [f"{i} {name}" for i, name in enumerate(class_names, 1)])


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="ascii", newline="\r\n")


def _draw(video: Video, seed: int) -> Clip:
    # The leading 0 and 1 keep the generators of looks and of motions apart.
    look_rng = np.random.default_rng(np.random.SeedSequence([seed, 0, video.group_index]))
    clip_rng = np.random.default_rng(np.random.SeedSequence([seed, 1, video.class_index, video.video_index]))
    return draw_clip(CLASS_NAMES[video.class_index], draw_look(look_rng), clip_rng)


def encode_clip(clip_THWC: Clip) -> bytes:
    """Encode uint8 RGB (T, HEIGHT_PX, WIDTH_PX, 3) as an AVI file: MPEG-4, 4:2:0, every frame a key frame.

    With key frames alone and a fixed quantiser each picture is coded by itself, so that a clip turned back to
    front decodes to exactly the same pictures: compression leaves no trace of the direction of time.
    """
    file = io.BytesIO()
    with av.open(file, "w", format="avi", options={"fflags": "+bitexact"}) as container:
        quality = {"qmin": str(_QUANTISER), "qmax": str(_QUANTISER), "flags": "+bitexact"}
        stream = container.add_stream("mpeg4", rate=FRAMES_PER_S, options=quality)
        stream.width, stream.height, stream.pix_fmt = WIDTH_PX, HEIGHT_PX, "yuv420p"
        stream.codec_context.codec_tag = "XVID"  # what UCF-101 has
        stream.codec_context.gop_size = 1
        stream.codec_context.thread_count = 1
        for frame_HWC in clip_THWC:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame_HWC, format="rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()
