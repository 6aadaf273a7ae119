"""Contact sheets: which frames, where, what is written under them, and what is refused.

Arrays: sheet_HWC uint8 RGB; frame_HWC uint8 RGB.
"""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from clips import numbered_frame, read_number
from conftest import Prep
from datasets_made import make_dataset, ok_video, other_video
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from manifests.errors import DamagedError, UsageError
from prep.sheet import drawable, make_sheet, spread

WIDTH, HEIGHT, NUM_FRAMES = 160, 120, 70
NAME = "Zähne/日本 \\ caf%E9"


@pytest.fixture(scope="module", params=["arrow", "frames"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    jpegs = [
        simplejpeg.encode_jpeg(np.ascontiguousarray(numbered_frame(number, WIDTH, HEIGHT)), quality=95)
        for number in range(NUM_FRAMES)
    ]
    size = {"width": WIDTH, "height": HEIGHT}
    videos = [
        other_video("early", "failed", "truncated", "3 packets gave no frame"),
        ok_video("numbers", jpegs, **size),
        ok_video(NAME, jpegs[:3], **size),
        other_video("unnamed", "excluded", None),
    ]
    out = tmp_path_factory.mktemp("sheet") / "dataset"
    make_dataset(out, request.param, videos)
    return out


def cell(file: Path, number: int, num_header_lines: int = 2) -> npt.NDArray[np.uint8]:
    """Picture and caption `number` of a sheet of pictures of WIDTH x HEIGHT, with all around it."""
    sheet_HWC = np.asarray(Image.open(file).convert("RGB"))
    row, column = divmod(number, 5)
    top = 8 + 20 * num_header_lines + 8 + row * (HEIGHT + 28)
    left = 8 + column * (WIDTH + 8)
    return sheet_HWC[top : top + HEIGHT + 28, left : left + WIDTH + 8]


def written(text: str, width: int, height: int) -> npt.NDArray[np.uint8]:
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((0, 2), text, "black", ImageFont.load_default(14))
    return np.asarray(image)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".JPEG"])
def test_frames_from_first_to_last_in_order(dataset: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"sheet{suffix}"
    assert make_sheet(dataset, "numbers", file) == 30
    numbers = [read_number(cell(file, index)[:HEIGHT, :WIDTH]) for index in range(30)]
    assert numbers[0] == 0
    assert numbers[-1] == NUM_FRAMES - 1
    assert set(np.diff(numbers)) == {2, 3}
    with Image.open(file) as image:
        assert image.format == {".png": "PNG"}.get(suffix, "JPEG")


def test_number_and_time_under_each_picture(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "sheet.png"
    make_sheet(dataset, "numbers", file)
    for index in (0, 6, 29):
        found_HWC = cell(file, index)
        number = read_number(found_HWC[:HEIGHT, :WIDTH])
        caption_HWC = found_HWC[HEIGHT : HEIGHT + 24, :WIDTH]
        expected_HWC = written(f"frame {number}, {number * 0.04:.3f} s", WIDTH, 24)
        assert np.array_equal(caption_HWC, expected_HWC)
        assert caption_HWC.min() < 50


def test_header_tells_name_size_rate_and_number(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "sheet.png"
    make_sheet(dataset, NAME, file)
    sheet_HWC = np.asarray(Image.open(file))
    lines = ["Z\\xe4hne/\\u65e5\\u672c \\ caf%E9", "160x120   25 frames/s in the source   3 frames"]
    for number, line in enumerate(lines):
        expected_HWC = written(line, sheet_HWC.shape[1] - 8, 20)
        assert np.array_equal(sheet_HWC[6 + 20 * number : 24 + 20 * number, 8:], expected_HWC[:18])
    assert [read_number(cell(file, index)[:HEIGHT, :WIDTH]) for index in range(3)] == [0, 1, 2]


def test_large_pictures_are_shrunk_and_small_ones_not_enlarged(tmp_path: Path) -> None:
    jpeg = simplejpeg.encode_jpeg(np.ascontiguousarray(numbered_frame(5, 1000, 400)))
    make_dataset(tmp_path / "out", "arrow", [ok_video("wide", [jpeg], width=1000, height=400)])
    make_sheet(tmp_path / "out", "wide", tmp_path / "sheet.png")
    sheet_HWC = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert read_number(sheet_HWC[56 : 56 + 102, 8 : 8 + 256]) == 5
    assert sheet_HWC.shape[0] < 250


def test_a_long_name_is_wrapped(tmp_path: Path) -> None:
    jpeg = simplejpeg.encode_jpeg(np.ascontiguousarray(numbered_frame(5, WIDTH, HEIGHT)))
    make_dataset(tmp_path / "out", "arrow", [ok_video("x" * 250, [jpeg], width=WIDTH, height=HEIGHT)])
    make_sheet(tmp_path / "out", "x" * 250, tmp_path / "sheet.png")
    sheet_HWC = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert sheet_HWC[:, -4:].min() == 255, "nothing is cut at the edge"


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(2, 60))
def test_spread(num_frames: int, num_wanted: int) -> None:
    indices = spread(num_frames, num_wanted)
    assert len(indices) == min(num_frames, num_wanted)
    assert (indices[0], indices[-1]) == (0, num_frames - 1)
    gaps = np.diff(indices)
    assert len(gaps) == 0 or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_any_name_can_be_drawn(text: str) -> None:
    shown = drawable(text)
    assert shown.isascii()
    assert shown.isprintable()
    length = ImageFont.load_default(14).getlength(shown)
    assert math.isfinite(length)


@pytest.mark.parametrize(
    ("video_id", "words"),
    [
        ("number", "has no video 'number'; did you mean 'numbers'?"),
        ("early", "'early' of {out} failed (truncated: 3 packets gave no frame), so it has no frames"),
        ("unnamed", "'unnamed' of {out} is excluded, so it has no frames"),
    ],
)
def test_videos_without_frames_are_refused(dataset: Path, tmp_path: Path, video_id: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_sheet(dataset, video_id, tmp_path / "sheet.png")
    assert words.format(out=dataset) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sheet.gif", "sheet", "png"])
def test_other_suffixes_are_refused(dataset: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"ends in none of \.png, \.jpg, \.jpeg"):
        make_sheet(dataset, "numbers", tmp_path / name)


def test_a_frame_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    make_dataset(tmp_path / "out", "arrow", [ok_video("bad", [b"\xff\xd8 no picture"])])
    with pytest.raises(DamagedError, match="frame 0 of video 'bad' cannot be decoded"):
        make_sheet(tmp_path / "out", "bad", tmp_path / "sheet.png")
    assert not (tmp_path / "sheet.png").exists()


def test_the_command(prep: Prep, dataset: Path, tmp_path: Path) -> None:
    done = prep("sheet", dataset, "numbers", "--out", tmp_path / "sheet.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"wrote {tmp_path / 'sheet.png'}: 30 frames of numbers\n"
    for arguments, code, words in [
        ((tmp_path, "numbers", "--out", tmp_path / "a.png"), 2, "is not a prepared dataset"),
        ((dataset, "numbers", "--out", tmp_path / "no" / "a.png"), 5, "cannot write"),
        ((dataset, "nmbers", "--out", tmp_path / "a.png"), 2, "did you mean 'numbers'?"),
    ]:
        done = prep("sheet", *arguments)
        assert done.returncode == code
        assert words in done.stderr
        assert "Traceback" not in done.stderr
