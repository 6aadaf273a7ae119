"""Crops: which box of the frame, by sizes and a generator."""

import json
import math

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from train.transforms.crops import (
    VIEW_CROPS,
    Box,
    Plan,
    centre_box,
    fixed_offsets,
    jitter_box,
    multi_scale_box,
    random_resized_box,
    scaled_size,
    ten_boxes,
    three_boxes,
    view_plans,
)

RECORDED = ROOT.parent / "shared" / "data" / "parity" / "test_views.json"
sides, seeds = st.integers(1, 4000), st.integers(0, 2**32)


def is_inside(box: Box, width: int, height: int) -> bool:
    return min(box.x, box.y) >= 0 and box.x + box.width <= width and box.y + box.height <= height


# --- Multi-scale ---


def reference_boxes(width: int, height: int) -> set[Box]:
    """All that the multi-scale crop can give, spelled out."""
    base = min(width, height)
    scaled = [int(base * 1.0), int(base * 0.875), int(base * 0.75), int(base * 0.66)]
    boxes = set()
    for i in (0, 1, 2, 3):
        for j in (0, 1, 2, 3):
            if i - j in (-1, 0, 1):
                w, h = scaled[j], scaled[i]
                a, b = (width - w) // 4, (height - h) // 4
                for x, y in (
                    *((0, 0), (4 * a, 0), (0, 4 * b), (4 * a, 4 * b), (2 * a, 2 * b)),
                    *((0, 2 * b), (4 * a, 2 * b), (2 * a, 4 * b), (2 * a, 0)),
                    *((a, b), (3 * a, b), (a, 3 * b), (3 * a, 3 * b)),
                ):
                    boxes.add(Box(x, y, w, h))
    return boxes


@given(sides, sides, seeds)
def test_a_random_crop_is_inside(width: int, height: int, seed: int) -> None:
    box = multi_scale_box(width, height, np.random.default_rng(seed))
    assert is_inside(box, width, height)
    assert min(box.width, box.height) >= 1


@given(st.integers(2, 4000), st.integers(2, 4000), seeds)
def test_a_random_crop_is_one_of_the_reference(width: int, height: int, seed: int) -> None:
    assert multi_scale_box(width, height, np.random.default_rng(seed)) in reference_boxes(width, height)


@pytest.mark.parametrize(("width", "height"), [(340, 256), (256, 454), (64, 64)])
def test_every_crop_of_the_reference_is_drawn(width: int, height: int) -> None:
    rng = np.random.default_rng(0)
    assert {multi_scale_box(width, height, rng) for _ in range(3000)} == reference_boxes(width, height)


def test_sides_differ_by_one_step_at_most() -> None:
    rng = np.random.default_rng(0)
    drawn = {(box.width, box.height) for box in (multi_scale_box(340, 256, rng) for _ in range(500))}
    assert drawn == {
        *((256, 256), (224, 256), (256, 224), (224, 224), (192, 224)),
        *((224, 192), (192, 192), (168, 192), (192, 168), (168, 168)),
    }


def test_thirteen_places() -> None:
    places = fixed_offsets(340, 256, 224, 192)
    assert len(places) == len(set(places)) == 13
    assert {x for x, _ in places} == {0, 29, 58, 87, 116}
    assert {y for _, y in places} == {0, 16, 32, 48, 64}


# --- Random resized ---


def literal_random_resized(width: int, height: int, rng: np.random.Generator) -> Box:
    """mmaction2's RandomResizedCrop.get_crop_bbox, step by step, over the same draws."""
    area = width * height
    aspect_ratios = [math.exp(value) for value in rng.uniform(math.log(3 / 4), math.log(4 / 3), 10)]
    target_areas = [value * area for value in rng.uniform(0.08, 1.0, 10)]
    for i in range(10):
        candidate_width = round(math.sqrt(target_areas[i] * aspect_ratios[i]))
        candidate_height = round(math.sqrt(target_areas[i] / aspect_ratios[i]))
        if 0 < candidate_width <= width and 0 < candidate_height <= height:
            left = rng.integers(0, width - candidate_width + 1)
            top = rng.integers(0, height - candidate_height + 1)
            return Box(int(left), int(top), candidate_width, candidate_height)
    crop_size = min(height, width)
    return Box((width - crop_size) // 2, (height - crop_size) // 2, crop_size, crop_size)


@given(sides, sides, seeds)
def test_a_random_resized_crop_is_that_of_mmaction2(width: int, height: int, seed: int) -> None:
    box = random_resized_box(width, height, np.random.default_rng(seed))
    assert box == literal_random_resized(width, height, np.random.default_rng(seed))
    assert is_inside(box, width, height)
    assert min(box.width, box.height) >= 1


def test_areas_and_ratios_of_random_resized_crops() -> None:
    rng = np.random.default_rng(0)
    boxes = [random_resized_box(340, 256, rng, area=(0.25, 0.5)) for _ in range(2000)]
    areas = np.array([box.width * box.height for box in boxes]) / (340 * 256)
    ratios = np.log([box.width / box.height for box in boxes])
    assert 0.24 < areas.min() < 0.26
    assert 0.49 < areas.max() < 0.51
    assert abs(np.mean(ratios)) < 0.02  # as many wide ones as tall ones
    assert -math.log(4 / 3) - 0.02 < ratios.min()
    assert ratios.max() < math.log(4 / 3) + 0.02


def test_a_frame_that_no_ratio_fits() -> None:
    assert random_resized_box(1000, 10, np.random.default_rng(0), area=(0.9, 1.0)) == Box(495, 0, 10, 10)


# --- Short-side jitter ---


@given(st.integers(16, 2000), st.integers(16, 2000), seeds)
def test_a_jittered_crop_covers_what_the_cut_of_a_scaled_frame_covers(width: int, height: int, seed: int) -> None:
    """PySlowFast scales first: scale by the drawn short side, then cut 224 x 224 at a drawn offset."""
    rng = np.random.default_rng(seed)
    box = jitter_box(width, height, 224, (256, 320), np.random.default_rng(seed))
    short_px = round(rng.uniform(256, 320))
    if width <= height:
        scaled_width, scaled_height = short_px, math.floor(height / width * short_px)
    else:
        scaled_width, scaled_height = math.floor(width / height * short_px), short_px
    x, y = rng.integers(scaled_width - 224 + 1), rng.integers(scaled_height - 224 + 1)
    step_x, step_y = width / scaled_width, height / scaled_height
    assert is_inside(box, width, height)
    assert abs(box.x - x * step_x) <= 0.5 + 1e-9
    assert abs(box.x + box.width - (x + 224) * step_x) <= 0.5 + 1e-9
    assert abs(box.y - y * step_y) <= 0.5 + 1e-9
    assert abs(box.y + box.height - (y + 224) * step_y) <= 0.5 + 1e-9


def test_jitter_reaches_every_edge_and_both_ends() -> None:
    rng = np.random.default_rng(0)
    boxes = [jitter_box(340, 256, 224, (256, 320), rng) for _ in range(8000)]
    assert {min(box.x for box in boxes), min(box.y for box in boxes)} == {0}
    assert max(box.x + box.width for box in boxes) == 340
    assert max(box.y + box.height for box in boxes) == 256
    assert min(box.height for box in boxes) == 179  # 224 of 320
    assert max(box.height for box in boxes) == 224  # 224 of 256


def test_jitter_never_cuts_outside_of_a_small_scaled_frame() -> None:
    assert jitter_box(100, 100, 224, (128, 160), np.random.default_rng(0)) == Box(0, 0, 100, 100)


# --- Evaluation ---


@given(sides, sides)
def test_the_centre_crop_is_a_square_in_the_middle(width: int, height: int) -> None:
    box = centre_box(width, height)
    assert is_inside(box, width, height)
    assert box.width == box.height >= 1
    assert abs(box.width - min(width, height) * 7 / 8) <= 0.5
    assert abs(box.x - (width - box.x - box.width)) <= 1
    assert abs(box.y - (height - box.y - box.height)) <= 1


def test_a_known_centre_crop() -> None:
    assert centre_box(340, 256) == Box(58, 16, 224, 224)
    assert centre_box(256, 340) == Box(16, 58, 224, 224)


@given(sides, sides)
def test_three_crops_share_the_long_side(width: int, height: int) -> None:
    first, middle, last = three_boxes(width, height)
    side = min(width, height)
    assert all(is_inside(box, width, height) for box in (first, middle, last))
    assert {(box.width, box.height) for box in (first, middle, last)} == {(side, side)}
    assert (first.x, first.y) == (0, 0)
    assert (last.x + side, last.y + side) == (width, height)
    assert middle.x - (width - side) / 2 in (0, 0.5)
    assert middle.y - (height - side) / 2 in (0, 0.5)


def test_three_crops_are_those_of_pyslowfast_and_paddlevideo() -> None:
    """They scale the short side to the crop first: a box of ours is their cut, to half a pixel of the larger scale."""
    if not RECORDED.is_file():
        pytest.skip(f"the recorded views are not there: {RECORDED}")
    recorded = json.loads(RECORDED.read_text())["crop_offsets"]
    assert len(recorded) == 16
    for name, entry in recorded.items():
        size, _, short = name.partition("->")
        width, height = map(int, size.split("x"))
        assert list(scaled_size(width, height, int(short))) == entry["scaled"], name
        scale = min(width, height) / int(short)
        for box, (x, y) in zip(three_boxes(width, height), entry["offsets"], strict=True):
            assert abs(box.x - x * scale) <= max(1, scale), name
            assert abs(box.y - y * scale) <= max(1, scale), name
    same = three_boxes(340, 256)
    assert [[box.x, box.y] for box in same] == recorded["340x256->256"]["offsets"]
    assert [[box.x, box.y] for box in three_boxes(256, 455)] == [[0, 0], [0, 100], [0, 199]]


def test_ten_crops_are_corners_and_centre_and_their_mirror_images() -> None:
    """Places of mmaction2's TenCrop for 340 x 256 and crop 224: steps of 29 and 8."""
    boxes = ten_boxes(340, 256)
    assert [(box.x, box.y) for box, _ in boxes[::2]] == [(0, 0), (116, 0), (0, 32), (116, 32), (58, 16)]
    assert [box for box, _ in boxes[::2]] == [box for box, _ in boxes[1::2]]
    assert [flip for _, flip in boxes] == [False, True] * 5
    assert {(box.width, box.height) for box, _ in boxes} == {(224, 224)}


@pytest.mark.parametrize("crops", VIEW_CROPS)
@given(width=sides, height=sides, crop_px=st.integers(1, 300))
def test_views_are_as_many_as_said(crops: str, width: int, height: int, crop_px: int) -> None:
    plans = view_plans(width, height, crops, crop_px)
    assert len(plans) == VIEW_CROPS[crops]
    assert all(is_inside(plan.box, width, height) for plan in plans)
    assert {(plan.width, plan.height) for plan in plans} == {(crop_px, crop_px)}
    assert view_plans(width, height, "centre", crop_px) == (Plan(centre_box(width, height), crop_px, crop_px),)
