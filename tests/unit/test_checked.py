"""A library that gives anything but the frames of the video is found out."""

from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame
from clips import Clip, numbered_frames, read_number, write_clip

from prep.decoders.checked import CheckedDecoder, path_by_descriptor
from prep.decoders.interface import VideoError
from prep.geometry import Orientation, Size

Pictures = list[npt.NDArray[np.uint8]]

NUM_FRAMES = 12


def moving_slowly() -> Pictures:
    """A ramp that moves a pixel a frame: neighbours are a level or so apart."""
    columns = np.arange(96 + NUM_FRAMES) * 2
    return [np.tile(columns[i : i + 96, None], (72, 1, 3)).astype(np.uint8) for i in range(NUM_FRAMES)]


def dark() -> Pictures:
    """A dim grid on black."""
    return [(frame_HWC // 12).astype(np.uint8) for frame_HWC in numbered_frames(NUM_FRAMES)]


def frames_with(change: Callable[[Pictures], Iterable[object]], pictures: Pictures, path: Path) -> list[int]:
    """Decode a lossless video of `pictures` with a library that gives what `change` makes of them. Returns the indices
    of the frames."""
    write_clip(path, Clip(name="", codec="ffv1", num_frames=len(pictures)), pictures)

    def read(_: Path, orientation: Orientation) -> Generator[VideoFrame, None, None]:
        assert orientation == Orientation()
        for picture in change(pictures):
            yield VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")

    given = []
    with CheckedDecoder(path, "fake", "1.0", read) as decoder:
        for index, frame in enumerate(decoder.frames()):
            assert frame.size == Size(96, 72)
            given.append(index)
        assert decoder.version == "fake 1.0"
        assert decoder.tally.num_packets == len(pictures)
    return given


SCENES = [lambda: list(numbered_frames(NUM_FRAMES)), moving_slowly, dark]
SCENE_IDS = ["numbers", "slow", "dark"]


@pytest.mark.parametrize("scene", SCENES, ids=SCENE_IDS)
def test_the_right_frames_pass(scene: Callable[[], Pictures], tmp_path: Path) -> None:
    assert frames_with(lambda pictures: pictures, scene(), tmp_path / "clip.mkv") == list(range(NUM_FRAMES))


@pytest.mark.parametrize("scene", SCENES, ids=SCENE_IDS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p[:-1], "gives no more, though more follow"),
        (lambda p: [], "gives no more, though more follow"),
        (lambda p: [*p, p[-1]], "goes on, though the video ends"),
        (lambda p: [*p[:5], p[4], *p[5:-1]], "gives "),  # one frame twice
        (lambda p: [*p[:5], *p[6:], p[-1]], "(gives|turns out)"),  # one left out, and the last one twice for it
        (lambda p: [p[0], *p[:-1]], "gives "),  # all one too late
        (lambda p: [*p[1:], p[-1]], "(gives|turns out)"),  # all one too early
        (lambda p: [*p[:7], np.zeros_like(p[7]), *p[8:]], "gives another picture"),
        (lambda p: [np.zeros_like(picture) for picture in p], "gives another picture"),
        (lambda p: [picture[:, ::-1] for picture in p], "gives another picture"),
        (lambda p: [picture[:-2] for picture in p], "gives a picture of 96x70 for one of 96x72"),
    ],
)
def test_other_frames_do_not(
    scene: Callable[[], Pictures], change: Callable[[Pictures], Iterable[object]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(VideoError, match=words) as caught:
        frames_with(change, scene(), tmp_path / "clip.mkv")
    assert caught.value.kind in ("decode", "unsupported")
    assert "fake" in caught.value.detail


def test_pixels_are_those_of_the_library_and_times_those_of_the_file(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mkv", Clip(name="", codec="ffv1", num_frames=NUM_FRAMES))

    def read(_: Path, orientation: Orientation) -> Generator[VideoFrame, None, None]:
        for frame_HWC in numbered_frames(NUM_FRAMES):
            brighter_HWC = frame_HWC + np.uint8(2)
            yield VideoFrame.from_ndarray(brighter_HWC, format="rgb24")

    with CheckedDecoder(path, "fake", "1.0", read) as decoder:
        for number, frame in enumerate(decoder.frames()):
            y_HW = frame.planes(frame.size)[0]
            assert read_number(y_HW) == number
            assert (y_HW.min(), y_HW.max()) == (22, 238)
            assert frame.time_s == pytest.approx(number / 25)


def test_a_file_that_vanishes_is_unreadable(tmp_path: Path) -> None:
    """Not an OSError: that would stop the run as if the store could not be written."""
    with pytest.raises(VideoError, match="No such file") as caught, path_by_descriptor(tmp_path / "gone.avi"):
        pass
    assert caught.value.kind == "unreadable"
