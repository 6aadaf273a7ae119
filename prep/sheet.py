"""A contact sheet: stored frames of one video, spread evenly, each with its number and its time.

header: video id
        size, rate, number of frames, and how many of them are shown
frame 0, 0.000 s      frame 8, 0.320 s      ...
"""

import difflib
import io
import math
import textwrap
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from manifests.atomic import atomic_write
from manifests.dataset import Dataset
from manifests.errors import DamagedError, UsageError
from manifests.wording import count, quote
from prep.before import Before

SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
"""What a file name may end with, and what is written then."""

MAX_FRAMES = 30
NUM_COLUMNS = 5
_MAX_SIDE_PX = 256
_MIN_WIDTH_PX = 150  # "frame 12345, 12345.678 s"
_GAP_PX = 8
_TEXT_PX = 14
_LINE_PX = 20
_PAPER, _INK = "white", "black"


def make_sheet(out: Path, video_id: str, file: Path) -> int:
    """Write the contact sheet of a video of the dataset `out` to `file`, and return how many frames it shows.

    Raises UsageError for a suffix that is not in SUFFIXES, an `out` that is no dataset, a video that it does not have
    or that has no frames; DamagedError for frames that cannot be read; StoreError where `file` cannot be written.
    """
    picture_format = SUFFIXES.get(file.suffix.lower())
    if picture_format is None:
        raise UsageError(f"--out {file} ends in none of {', '.join(SUFFIXES)}; these are what a sheet can be")
    if file.is_dir():
        raise UsageError(f"--out {file} is a folder; name a file")
    with Before(out) as before:
        row = _find_row(before.dataset, out, video_id)
        video = before.dataset.video(row)
        times_ms = before.frame_rows([row]).column("time_ms")[0].as_py()
        indices = spread(video["num_frames"], MAX_FRAMES)
        pictures = [_picture(before.dataset, row, index) for index in indices]
    captions = [f"frame {index}, {_time_text(times_ms[index])}" for index in indices]
    sheet = _laid_out(_header(video, len(indices)), pictures, captions)
    with atomic_write(file) as temporary:
        sheet.save(temporary, picture_format, quality=90)
    return len(indices)


def spread(num_frames: int, num_wanted: int) -> list[int]:
    """At most `num_wanted` indices in [0, num_frames), ascending, as far apart as can be: the first and last are in."""
    if num_frames <= num_wanted:
        return list(range(num_frames))
    return [index * (num_frames - 1) // (num_wanted - 1) for index in range(num_wanted)]


def _find_row(dataset: Dataset, out: Path, video_id: str) -> int:
    """The row of an ok video. Raises UsageError."""
    video_ids = dataset.columns(["video_id"]).column("video_id").to_pylist()
    if video_id not in video_ids:
        nearest = difflib.get_close_matches(video_id, video_ids, n=1, cutoff=0.0)
        hint = f"did you mean {quote(nearest[0])}?" if nearest else "it has none"
        raise UsageError(f"{out} has no video {quote(video_id)}; {hint}")
    row: int = video_ids.index(video_id)
    video = dataset.video(row)
    if video["status"] != "ok":
        reason = ": ".join(filter(None, (video["failure"], video["detail"])))
        because = f" ({reason})" if reason else ""
        what = f"video {quote(video_id)} of {out} {'failed' if video['status'] == 'failed' else 'is excluded'}"
        raise UsageError(f"{what}{because}, so it has no frames; choose another")
    return row


def _picture(dataset: Dataset, row: int, index: int) -> Image.Image:
    """The frame as RGB, at most _MAX_SIDE_PX wide and high."""
    (jpeg,) = dataset.read_frames(row, [index])
    try:
        with Image.open(io.BytesIO(jpeg), formats=["JPEG"]) as image:
            picture = image.convert("RGB")
    except (OSError, Image.DecompressionBombError) as error:
        video_id = dataset.video(row)["video_id"]
        raise DamagedError(
            f"frame {index} of video {quote(video_id)} cannot be decoded: {error}; prep verify --deep tells more"
        ) from error
    picture.thumbnail((_MAX_SIDE_PX, _MAX_SIDE_PX), Image.Resampling.LANCZOS)
    return picture


def _header(video: dict[str, Any], num_shown: int) -> list[str]:
    fps = "rate unknown" if video["fps"] is None else f"{video['fps']:.5g} frames/s in the source"
    shown = "" if num_shown == video["num_frames"] else f", {num_shown} of them here"
    facts = f"{video['width']}x{video['height']}   {fps}   {count(video['num_frames'], 'frame')}{shown}"
    return [video["video_id"], facts, *([video["detail"]] if video["detail"] else [])]


def _time_text(time_ms: float | None) -> str:
    return "no time" if time_ms is None or math.isnan(time_ms) else f"{time_ms / 1000:.3f} s"


def _laid_out(header: list[str], pictures: list[Image.Image], captions: list[str]) -> Image.Image:
    font = ImageFont.load_default(_TEXT_PX)
    width, height = pictures[0].size
    cell_width, cell_height = max(width, _MIN_WIDTH_PX) + _GAP_PX, height + _LINE_PX + _GAP_PX
    num_rows = -(-len(pictures) // NUM_COLUMNS)
    sheet_width = NUM_COLUMNS * cell_width + _GAP_PX
    lines = [line for text in header for line in _wrapped(drawable(text), sheet_width - 2 * _GAP_PX, font)]
    top = _GAP_PX + len(lines) * _LINE_PX
    sheet = Image.new("RGB", (sheet_width, top + num_rows * cell_height + _GAP_PX), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, line in enumerate(lines):
        draw.text((_GAP_PX, _GAP_PX + number * _LINE_PX), line, _INK, font)
    for number, (picture, caption) in enumerate(zip(pictures, captions, strict=True)):
        x = _GAP_PX + number % NUM_COLUMNS * cell_width
        y = top + _GAP_PX + number // NUM_COLUMNS * cell_height
        sheet.paste(picture, (x, y))
        draw.text((x, y + height + 2), caption, _INK, font)
    return sheet


def drawable(text: str) -> str:
    """The text in the characters that the font of Pillow has, which are those of ASCII: all others are escaped as in
    Python."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)


def _wrapped(text: str, width_px: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Lines of the text that are no wider than `width_px`."""
    num_chars = max(1, int(width_px / font.getlength("W")))  # the widest letter
    return textwrap.wrap(text, num_chars) or [""]
