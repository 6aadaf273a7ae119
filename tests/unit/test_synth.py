"""The set that `prep synth` draws: its files and lists, and that the order of frames, and only that, tells a class.

T  frames    H  rows, y downwards    W  columns, x to the right    C  R, G, B
"""

import io
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from manifests.errors import UsageError
from prep.drawing import CLASS_PAIRS, HEIGHT_PX, WIDTH_PX, Look, draw_clip, draw_look
from prep.synth import CLASS_NAMES, encode_clip, plan_videos, synthetic_videos, write_synthetic_set

Floats = npt.NDArray[np.floating]

WHITE_ON_BLACK = Look(
    background=np.zeros((HEIGHT_PX, WIDTH_PX, 3), np.float32),
    colour=(1.0, 1.0, 1.0),
    value=1.0,
    shape="disc",
    lopsided="wedge",
    texture="plain",
    texture_depth=0.0,
    texture_period_px=10.0,
    noise=0.0,
)


def files_under(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def decode(video: bytes) -> list[av.VideoFrame]:
    with av.open(io.BytesIO(video), "r") as container:
        return list(container.decode(video=0))


def eight_small_frames(video: bytes) -> Floats:
    """What a small model sees: the brightness (T=8, H=56, W) in [0, 1] of eight frames spread over the video."""
    frames = decode(video)
    middles = [(2 * i + 1) * len(frames) // 16 for i in range(8)]
    size = (WIDTH_PX * 56 // HEIGHT_PX, 56)
    whole = [Image.fromarray(frames[i].to_ndarray(format="rgb24")).convert("L") for i in middles]
    images = [image.resize(size, Image.Resampling.BILINEAR) for image in whole]
    return np.array([np.asarray(image) / 255 for image in images])


# --- Files and lists ---


def test_same_seed_same_bytes_and_another_seed_another_video_everywhere(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        write_synthetic_set(tmp_path / name, num_classes=4, videos_per_class=3, seed=seed)
    first, again, other = (files_under(tmp_path / name) for name in "abc")
    assert first == again
    assert first.keys() == other.keys()
    equal = {path for path in first if first[path] == other[path]}
    assert equal == {"classInd.txt", "trainlist01.txt", "testlist01.txt"}


def test_a_video_is_the_same_whatever_classes_stand_beside_it(tmp_path: Path) -> None:
    few = write_synthetic_set(tmp_path / "few", num_classes=2, videos_per_class=2, seed=1)
    write_synthetic_set(tmp_path / "many", num_classes=6, videos_per_class=2, seed=1)
    for source in few:
        assert (tmp_path / "few" / source).read_bytes() == (tmp_path / "many" / source).read_bytes()


def test_no_two_videos_of_a_set_are_equal(tmp_path: Path) -> None:
    write_synthetic_set(tmp_path, num_classes=4, videos_per_class=4, seed=0)
    contents = list(files_under(tmp_path).values())
    assert len(set(contents)) == len(contents) == 16 + 3


@pytest.mark.parametrize("videos_per_class", [2, 9])
def test_lists_have_the_official_syntax_and_name_each_video_once(tmp_path: Path, videos_per_class: int) -> None:
    sources = write_synthetic_set(tmp_path, num_classes=4, videos_per_class=videos_per_class, seed=0)

    def lines(name: str) -> list[str]:
        text = (tmp_path / name).read_bytes().decode("ascii")
        assert text.endswith("\r\n")
        assert text.count("\r") == text.count("\n") == text.count("\r\n")
        return text.split("\r\n")[:-1]

    assert lines("classInd.txt") == ["1 MoveUp", "2 MoveDown", "3 Grow", "4 Shrink"]
    class_ids = {name: id_ for id_, name in (line.split(" ") for line in lines("classInd.txt"))}
    train = [re.fullmatch(r"((\w+)/v_\2_g\d\d_c\d\d\.avi) (\d+)", line) for line in lines("trainlist01.txt")]
    test = [re.fullmatch(r"((\w+)/v_\2_g\d\d_c\d\d\.avi)", line) for line in lines("testlist01.txt")]
    assert all(train)
    assert all(test)
    assert all(match[3] == class_ids[match[2]] for match in train if match)
    assert {match[2] for match in train if match} == {match[2] for match in test if match} == set(class_ids)
    listed = [match[1] for match in train + test if match]
    assert sorted(listed) == sources == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.avi"))


@given(num_pairs=st.integers(1, len(CLASS_PAIRS)), videos_per_class=st.integers(2, 200))
@settings(max_examples=30, deadline=None)
def test_a_group_is_never_split_and_the_first_ones_are_for_testing(num_pairs: int, videos_per_class: int) -> None:
    videos = plan_videos(2 * num_pairs, videos_per_class)
    assert len({video.source for video in videos}) == len(videos) == 2 * num_pairs * videos_per_class
    group_lists = defaultdict(set)
    clips = defaultdict(set)
    for video in videos:
        match = re.fullmatch(r"(\w+)/v_\1_g(\d\d)_c(\d\d)\.avi", video.source)
        assert match
        group_lists[match[1], int(match[2])].add(video.in_test)
        clips[match[1], int(match[2])].add(int(match[3]))
    assert all(len(lists) == 1 for lists in group_lists.values())
    assert all(numbers == set(range(1, len(numbers) + 1)) for numbers in clips.values())
    for name in {name for name, _ in group_lists}:
        in_test = [group_lists[key] == {True} for key in sorted(group_lists) if key[0] == name]
        assert in_test == sorted(in_test, reverse=True)
        assert in_test[0]
        assert not in_test[-1]
        if len(in_test) >= 4:
            assert 0.15 < sum(in_test) / len(in_test) < 0.4


def test_with_as_many_groups_as_ucf101_the_first_seven_are_for_testing() -> None:
    videos = plan_videos(2, 100)
    assert {video.group_index for video in videos if video.in_test} == set(range(7))
    assert {video.group_index for video in videos if not video.in_test} == set(range(7, 25))


def test_a_group_shares_its_background_in_every_class(tmp_path: Path) -> None:
    # Shapes stay clear of the corners, so the mean of a corner over time is the background there.
    write_synthetic_set(tmp_path, num_classes=4, videos_per_class=4, seed=3)

    def corner(name: str) -> Floats:
        frames = decode((tmp_path / f"{name}.avi").read_bytes())
        mean_HWC: Floats = np.mean([frame.to_ndarray(format="rgb24")[:4, :4] for frame in frames], axis=0)
        return mean_HWC

    one = corner("MoveUp/v_MoveUp_g01_c01")
    for same_group in ("MoveUp/v_MoveUp_g01_c02", "Shrink/v_Shrink_g01_c01"):
        assert np.abs(one - corner(same_group)).max() < 6
    assert np.abs(one - corner("MoveUp/v_MoveUp_g02_c01")).max() > 20


def test_the_list_of_classes_is_written_last(tmp_path: Path) -> None:
    sources = synthetic_videos(tmp_path / "set", num_classes=2, videos_per_class=2, seed=0)
    for source in sources:
        assert (tmp_path / "set" / source).stat().st_size > 1000
        assert not list((tmp_path / "set").glob("*.txt"))
    assert len(list((tmp_path / "set").glob("*.txt"))) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_classes": 0}, "number of classes is 0.*even number from 2 to 24"),
        ({"num_classes": 5}, "number of classes is 5.*even number from 2 to 24"),
        ({"num_classes": 26}, "number of classes is 26.*even number from 2 to 24"),
        ({"num_classes": -2}, "number of classes is -2.*even number from 2 to 24"),
        ({"videos_per_class": 1}, "videos per class is 1: give 2 or more"),
        ({"seed": -1}, "seed is -1: give 0"),
    ],
)
def test_arguments_out_of_range_are_refused_before_anything_is_made(
    tmp_path: Path, wrong: dict[str, int], message: str
) -> None:
    arguments = {"num_classes": 2, "videos_per_class": 2, "seed": 0} | wrong
    with pytest.raises(UsageError, match=message):
        synthetic_videos(tmp_path / "set", **arguments)
    assert not (tmp_path / "set").exists()


def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / ".hidden").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("set", "file"):
        with pytest.raises(UsageError, match=f"{name} is not an empty folder"):
            synthetic_videos(tmp_path / name, num_classes=2, videos_per_class=2, seed=0)
    assert files_under(tmp_path) == {"set/.hidden": b"mine", "file": b"mine"}


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    assert len(write_synthetic_set(tmp_path / "set", num_classes=2, videos_per_class=2, seed=0)) == 4


# --- Videos ---


def test_every_frame_is_a_key_frame_of_mpeg4_in_avi(tmp_path: Path) -> None:
    for source in write_synthetic_set(tmp_path, num_classes=4, videos_per_class=2, seed=0):
        with av.open(str(tmp_path / source)) as container:
            stream = container.streams.video[0]
            assert (container.format.name, stream.codec_context.name) == ("avi", "mpeg4")
            assert (stream.width, stream.height, stream.pix_fmt) == (WIDTH_PX, HEIGHT_PX, "yuv420p")
            assert stream.average_rate == 25
            frames = list(container.decode(stream))
        assert all(frame.key_frame and frame.pict_type == av.video.frame.PictureType.I for frame in frames)
        assert [frame.pts for frame in frames] == list(range(len(frames)))
        assert 24 <= len(frames) <= 40


@pytest.mark.parametrize("class_name", CLASS_NAMES)
def test_decoded_frames_are_those_that_were_drawn(class_name: str) -> None:
    rng = np.random.default_rng(1)
    clip_THWC = draw_clip(class_name, draw_look(rng), rng)
    decoded_THWC = np.array([frame.to_ndarray(format="rgb24") for frame in decode(encode_clip(clip_THWC))])
    assert decoded_THWC.shape == clip_THWC.shape
    error_T = np.abs(decoded_THWC.astype(int) - clip_THWC).mean(axis=(1, 2, 3))
    assert error_T.max() < 6  # colour at half resolution costs most of it


def test_compression_leaves_no_trace_of_the_direction_of_time() -> None:
    rng = np.random.default_rng(2)
    clip_THWC = draw_clip("TurnClockwise", draw_look(rng), rng)
    forwards, backwards = decode(encode_clip(clip_THWC)), decode(encode_clip(clip_THWC[::-1]))
    for one, other in zip(forwards, reversed(backwards), strict=True):
        np.testing.assert_array_equal(one.to_ndarray(), other.to_ndarray())


# --- Classes ---


@pytest.mark.parametrize("pair", CLASS_PAIRS)
def test_the_second_class_of_a_pair_is_the_first_back_to_front(pair: tuple[str, str]) -> None:
    num_frames = set()
    for seed in range(5):
        look = draw_look(np.random.default_rng(seed))
        first_THWC, second_THWC = (draw_clip(name, look, np.random.default_rng(seed)) for name in pair)
        np.testing.assert_array_equal(first_THWC, second_THWC[::-1])
        assert not np.array_equal(first_THWC, second_THWC)
        assert first_THWC.shape[1:] == (HEIGHT_PX, WIDTH_PX, 3)
        assert first_THWC.dtype == second_THWC.dtype == np.uint8
        num_frames.add(len(first_THWC))
    assert len(num_frames) > 1


# What a class is named for, measured: each function gives one number, or an x and a y, for each frame.


def area(gray_THW: Floats) -> Floats:
    return np.array([gray_HW.sum() for gray_HW in gray_THW])


def centre(gray_THW: Floats) -> Floats:
    """The centre of brightness (x, y) in px."""
    weights_THW = gray_THW / gray_THW.sum(axis=(1, 2), keepdims=True)
    _, h, w = gray_THW.shape
    return np.stack([weights_THW.sum(axis=1) @ np.arange(w), weights_THW.sum(axis=2) @ np.arange(h)], axis=1)


def spread(gray_THW: Floats) -> Floats:
    """The standard deviation of brightness along x and y in px."""
    weights_THW = gray_THW / gray_THW.sum(axis=(1, 2), keepdims=True)
    y_H1, x_W = np.arange(gray_THW.shape[1])[:, None], np.arange(gray_THW.shape[2])
    x_T11, y_T11 = centre(gray_THW).T[..., None, None]
    along_x_T = (weights_THW * (x_W - x_T11) ** 2).sum(axis=(1, 2))
    along_y_T = (weights_THW * (y_H1 - y_T11) ** 2).sum(axis=(1, 2))
    spread_T2: Floats = np.sqrt(np.stack([along_x_T, along_y_T], axis=1))
    return spread_T2


def steepest_edge(gray_THW: Floats) -> Floats:
    return np.array([np.abs(np.diff(gray_HW, axis=1)).max() for gray_HW in gray_THW])


def clockwise(gray_THW: Floats) -> Floats:
    """A number that climbs while the centre runs a curve to the right, as seen (y points down)."""
    dx, dy = np.diff(centre(gray_THW), axis=0).T
    return np.cumsum([0, *(dx[:-1] * dy[1:] - dy[:-1] * dx[1:])])


WHAT_CLIMBS: dict[str, Callable[[Floats], Floats]] = {
    "MoveUp": lambda gray_THW: -centre(gray_THW)[:, 1],
    "MoveLeft": lambda gray_THW: -centre(gray_THW)[:, 0],
    "Grow": area,
    "Open": area,
    "Fill": area,
    "Brighten": area,
    "Meet": lambda gray_THW: -spread(gray_THW).sum(axis=1),
    "Gather": lambda gray_THW: -spread(gray_THW).sum(axis=1),
    "Focus": steepest_edge,
    "Squash": lambda gray_THW: spread(gray_THW)[:, 0] - spread(gray_THW)[:, 1],
    "TurnClockwise": clockwise,
    "OrbitClockwise": clockwise,
}


@pytest.mark.parametrize("pair", CLASS_PAIRS)
def test_eight_small_frames_show_what_the_class_is_called(pair: tuple[str, str]) -> None:
    for seed in range(6):
        for name, sign in zip(pair, (1, -1), strict=True):
            video = encode_clip(draw_clip(name, WHITE_ON_BLACK, np.random.default_rng(seed)))
            climbing_T = sign * WHAT_CLIMBS[pair[0]](eight_small_frames(video))
            assert (np.diff(climbing_T) > 0).all(), (name, seed, climbing_T)


@pytest.mark.parametrize("class_name", [first for first, _ in CLASS_PAIRS])
def test_the_motion_stands_out_from_any_background(class_name: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        gray_THW = eight_small_frames(encode_clip(draw_clip(class_name, draw_look(rng), rng)))
        changed_HW = np.abs(gray_THW[-1] - gray_THW[0]) > 0.12
        assert changed_HW.mean() > 0.015, (class_name, seed)


@pytest.mark.parametrize(("pair", "axis"), [(("MoveUp", "MoveDown"), 1), (("MoveLeft", "MoveRight"), 0)])
def test_the_way_of_the_centre_tells_the_class_in_any_look(pair: tuple[str, str], axis: int) -> None:
    for seed in range(10):
        for name, sign in zip(pair, (-1, 1), strict=True):
            rng = np.random.default_rng(seed)
            gray_THW = eight_small_frames(encode_clip(draw_clip(name, draw_look(rng), rng)))
            # Where nothing passes, the median over time is the background, and what differs is the shape.
            shape_THW = np.abs(gray_THW - np.median(gray_THW, axis=0)) > 0.1
            first, last = centre(shape_THW[[0, -1]].astype(float))[:, axis]
            assert sign * (last - first) > 10, (name, seed)
