"""Verification: every kind of damage is found and named, at the level that promises it; a good dataset is not accused.

Damage is done by flipping bits of what is there, since overwriting could write what was there already.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import Prep
from datasets_made import CLASSES, draw_jpegs, make_dataset, ok_video, row_of, variety
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import hash_tree

from manifests import open_dataset
from manifests.description import hash_file, read_description, write_description
from manifests.errors import UsageError
from manifests.manifest import read_parquet, write_parquet
from manifests.stores import STORES, arrow
from prep.verify import Problem, Verification, verify

VIDEOS = variety()
NUM_OK = sum(video.outcome.status == "ok" for video in VIDEOS)
NUM_FRAMES = sum(len(video.jpegs) for video in VIDEOS)
MANY = VIDEOS[row_of(VIDEOS, "Juggling/many")]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A dataset in each store; not to be written to."""
    folder = tmp_path_factory.mktemp("good")
    for store in STORES:
        make_dataset(folder / store, store, VIDEOS, classes=CLASSES)
    return {store: folder / store for store in STORES}


@pytest.fixture
def shards(good: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the dataset of shards, to be damaged."""
    return Path(shutil.copytree(good["arrow"], tmp_path / "shards"))


@pytest.fixture
def folders(good: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the dataset of frame folders, to be damaged."""
    return Path(shutil.copytree(good["frames"], tmp_path / "folders"))


@pytest.fixture(params=STORES)
def either(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue({"arrow": "shards", "frames": "folders"}[request.param])
    return path


def quick(folder: Path) -> list[Problem]:
    return list(verify(folder, deep=False, num_jobs=1).problems)


def deep(folder: Path) -> list[Problem]:
    return list(verify(folder, deep=True, num_jobs=2).problems)


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Flip one bit; a negative position counts from the end."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def frame_file(folder: Path, number: int) -> Path:
    return folder / "frames" / "Juggling" / "many" / f"img_{number:05d}.jpg"


def position_in_shard(folder: Path, index: int) -> tuple[Path, int]:
    """Where frame `index` of MANY begins."""
    with open_dataset(folder) as dataset:
        row = dataset.video(row_of(VIDEOS, "Juggling/many"))
    return folder / row["location"], row["data_at"][0] + sum(map(len, MANY.jpegs[:index]))


# --- Good datasets ---


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_good_dataset(good: dict[str, Path], is_deep: bool) -> None:
    for folder in good.values():
        found = verify(folder, deep=is_deep, num_jobs=2)
        looked_at = found.looked_at
        num_frames = NUM_FRAMES if is_deep else 0
        assert found == Verification(num_videos=NUM_OK, num_frames=num_frames, looked_at=looked_at, problems=())
        assert ("contents not read (--deep does)" in looked_at) == (not is_deep)


def test_a_good_dataset_with_a_video_of_many_parts_and_odd_sizes(tmp_path: Path) -> None:
    long = ok_video("long", [jpeg for jpeg in draw_jpegs(1, 10, 801, 603) for _ in range(4)], width=801, height=603)
    jpegs = [jpeg + bytes(1 << 20) for jpeg in long.jpegs]  # what follows the end of a JPEG is ignored
    long = ok_video("long", jpegs, width=801, height=603)
    for store in STORES:
        make_dataset(tmp_path / store, store, [long, VIDEOS[0]])
        assert verify(tmp_path / store, deep=True, num_jobs=2).problems == ()
    with open_dataset(tmp_path / "arrow") as dataset:
        assert len(dataset.video(0)["data_at"]) > 2


def test_nothing_is_written(either: Path) -> None:
    flip(either / "frames.parquet", 100)

    def state() -> dict[str, Any]:
        times = {str(path): (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in either.rglob("*")}
        return {**hash_tree(either), **times, "": either.stat().st_mtime_ns}

    before = state()
    assert deep(either) != []
    assert state() == before


def test_no_dataset_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a prepared dataset: it has no dataset\.json"):
        verify(tmp_path, deep=False, num_jobs=1)


# --- dataset.json, manifest.parquet, frames.parquet ---


def edit(folder: Path, **changes: Any) -> None:
    """Change fields of dataset.json without any check."""
    path = folder / "dataset.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_frames": 7}, f"says num_frames 7, the manifest has {NUM_FRAMES}"),
        ({"num_bytes": 7}, "says num_bytes 7, the manifest has "),
        (
            {"counts": {"ok": 5, "failed": 6, "excluded": 2}},
            "says counts {'ok': 5, 'failed': 6, 'excluded': 2}, the manifest has {'ok': 6, 'failed': 5, 'excluded': 2}",
        ),
        ({"failures": {"decode": 9}}, "says failures {'decode': 9}, the manifest has "),
        ({"subsets": {"all": 13, "train01": 12}}, "says subsets {'all': 13, 'train01': 12}, the manifest has "),
        ({"classes": ["Zähne putzen", "Juggling", ""]}, "the hash of its classes is not its classes_sha256"),
        ({"format_version": 2}, "has format version 2; this program reads version 1"),
        ({"format": "other"}, "its format is not decode-once.dataset"),
        ({"counts": 3}, "has a field that is missing, unknown or makes no sense"),
        ({"recipe": None}, "has a field that is missing, unknown or makes no sense: None is no recipe"),
        ({"extra": 1}, "has a field that is missing, unknown or makes no sense"),
    ],
)
def test_dataset_json_that_says_something_else(either: Path, changes: dict[str, Any], problem: str) -> None:
    edit(either, **changes)
    (found,) = quick(either)
    assert (found.file, found.video_id, found.frame) == ("dataset.json", None, None)
    assert problem in found.problem


def test_dataset_json_that_is_garbage(either: Path) -> None:
    for content in (b"", b"{", b"\xff\xfe", b"[]", bytes(300)):
        (either / "dataset.json").write_bytes(content)
        (found,) = deep(either)
        assert found.file == "dataset.json"


@given(data=st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("name", ["manifest.parquet", "frames.parquet"])
def test_any_flipped_bit_of_a_table(good: dict[str, Path], name: str, data: st.DataObject) -> None:
    path = good["arrow"] / name
    whole = path.read_bytes()
    try:
        flip(path, data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7)))
        (found,) = quick(good["arrow"])
    finally:
        path.write_bytes(whole)
    assert found.file == name
    assert "SHA-256" in found.problem


def test_tables_that_are_missing_or_cut(either: Path) -> None:
    for name in ("frames.parquet", "manifest.parquet"):
        os.truncate(either / name, 50)
        assert [problem.file for problem in quick(either)] == [name]
        (either / name).unlink()
        (found,) = deep(either)
        assert found.file == name
        assert "No such file" in found.problem


def test_without_frames_parquet_the_frames_are_still_looked_at(either: Path) -> None:
    (either / "frames.parquet").unlink()
    found = verify(either, deep=True, num_jobs=1)
    assert found.num_frames == NUM_FRAMES
    assert [problem.file for problem in found.problems] == ["frames.parquet"]
    if either.name == "shards":
        shard, position = position_in_shard(either, 4)
        flip(shard, position + 40)
    else:
        flip(frame_file(either, 5), 40)
    (_, damaged) = deep(either)
    assert damaged.video_id == "Juggling/many"


def reseal(folder: Path, name: str, table: pa.Table) -> None:
    """Replace a table as if it had been sealed so."""
    write_parquet(folder / name, table)
    field = {"manifest.parquet": "manifest_sha256", "frames.parquet": "frames_sha256"}[name]
    write_description(folder, replace(read_description(folder), **{field: hash_file(folder / name)}))


def test_a_frame_table_that_lists_other_frames(either: Path) -> None:
    table = read_parquet(either / "frames.parquet")
    rows = table.to_pylist()
    missing = rows.pop(0)["video_id"]
    rows[0]["num_bytes"].pop()
    reseal(either, "frames.parquet", pa.Table.from_pylist(rows, table.schema))
    for problems in (quick(either), deep(either)):
        assert problems == [
            Problem(file="frames.parquet", video_id=missing, problem="lists 0 frames, the manifest 1"),
            Problem(file="frames.parquet", video_id="Juggling/many", problem="lists 22 frames, the manifest 23"),
        ]


def test_tables_with_other_columns(either: Path) -> None:
    table = read_parquet(either / "frames.parquet")
    reseal(either, "frames.parquet", table.drop_columns(["time_ms"]))
    (found,) = quick(either)
    assert (found.file, found.problem) == (
        "frames.parquet",
        "cannot be read: it does not have the columns of a frame table",
    )
    reseal(either, "manifest.parquet", read_parquet(either / "manifest.parquet").drop_columns(["codec"]))
    (found,) = quick(either)
    assert found.file == "manifest.parquet"
    assert "does not have the columns of a manifest" in found.problem


# --- Shards ---


def test_a_flipped_bit_of_a_frame_in_a_shard(shards: Path) -> None:
    shard, position = position_in_shard(shards, 7)
    flip(shard, position + 100, 5)
    assert quick(shards) == []
    assert deep(shards) == [
        Problem(
            file="shards/shard-00000.arrow",
            video_id="Juggling/many",
            frame=7,
            problem="its bytes have changed: the CRC-32 differs",
        )
    ]


def test_every_damaged_frame_is_named(shards: Path) -> None:
    for index in (0, 1, 22):
        shard, position = position_in_shard(shards, index)
        flip(shard, position + len(MANY.jpegs[index]) - 1)
    assert [problem.frame for problem in deep(shards)] == [0, 1, 22]


def test_a_shard_that_is_cut(shards: Path) -> None:
    path = shards / "shards" / "shard-00001.arrow"
    size = path.stat().st_size
    for num_bytes in (size - 1, size // 2, 10, 0):
        os.truncate(path, num_bytes)
        for problems in (quick(shards), deep(shards)):
            (found,) = problems
            assert found.file == "shards/shard-00001.arrow"
            assert "is not a whole shard" in found.problem


def test_a_shard_that_is_missing(shards: Path) -> None:
    (shards / "shards" / "shard-00000.arrow").unlink()
    for is_deep in (False, True):
        found = verify(shards, deep=is_deep, num_jobs=1)
        assert found.problems == (Problem(file="shards/shard-00000.arrow", problem="is missing, and with it 3 videos"),)
    assert found.num_frames == NUM_FRAMES - 1 - 23 - 4


def test_all_shards_are_missing(shards: Path) -> None:
    shutil.rmtree(shards / "shards")
    assert [problem.file for problem in quick(shards)] == [f"shards/shard-0000{group}.arrow" for group in (0, 1, 2, 4)]


def test_a_shard_too_many(shards: Path) -> None:
    shutil.copy(shards / "shards" / "shard-00000.arrow", shards / "shards" / "shard-00003.arrow")
    (shards / "shards" / ".tmp-00000000").touch()
    assert quick(shards) == [
        Problem(file="shards/.tmp-00000000", problem="no video of the manifest lies in it"),
        Problem(file="shards/shard-00003.arrow", problem="no video of the manifest lies in it"),
    ]


def test_shards_that_changed_places(shards: Path) -> None:
    first, second = (shards / "shards" / f"shard-0000{group}.arrow" for group in (1, 2))
    first.rename(shards / "x")
    second.rename(first)
    (shards / "x").rename(second)
    found = [(problem.file, problem.video_id, problem.problem) for problem in quick(shards)]
    assert found == [
        ("shards/shard-00001.arrow", "Zähne putzen/日本 🎥", "is not in its shard"),
        ("shards/shard-00001.arrow", "nameless class", "is in the shard, but not in the manifest"),
        ("shards/shard-00002.arrow", "nameless class", "is not in its shard"),
        ("shards/shard-00002.arrow", "Zähne putzen/日本 🎥", "is in the shard, but not in the manifest"),
    ]


def write_again(shards: Path, tmp_path: Path, change: Callable[[list[arrow.SpooledVideo]], None]) -> list[Problem]:
    """Write shard 0 anew from its three videos after `change`, and verify."""
    spooled = []
    for video in VIDEOS[:3]:
        spool = tmp_path / f"{len(spooled)}.jpegs"
        spool.write_bytes(b"".join(video.jpegs))
        sizes = np.array([len(jpeg) for jpeg in video.jpegs], np.int64)
        source = video.source
        spooled.append(
            arrow.SpooledVideo(
                video_id=source.video_id,
                label=source.label,
                class_name=source.class_name,
                spool=spool,
                num_bytes_N=sizes,
            )
        )
    change(spooled)
    arrow.write_shard(shards / "shards" / "shard-00000.arrow", spooled)
    problems = quick(shards)
    assert problems == deep(shards)
    assert {problem.file for problem in problems} <= {"shards/shard-00000.arrow"}
    return problems


def test_a_shard_written_anew_is_the_same(shards: Path, tmp_path: Path) -> None:
    assert write_again(shards, tmp_path, lambda spooled: None) == []


def test_a_shard_in_another_order(shards: Path, tmp_path: Path) -> None:
    found = write_again(shards, tmp_path, lambda spooled: spooled.reverse())
    assert {problem.problem for problem in found} == {"lies elsewhere in the shard than the manifest says"}
    assert len(found) == 3


def test_a_shard_with_another_label(shards: Path, tmp_path: Path) -> None:
    def change(spooled: list[arrow.SpooledVideo]) -> None:
        spooled[1] = replace(spooled[1], label=1)
        spooled[2] = replace(spooled[2], class_name="Zähne PUTZEN")

    found = write_again(shards, tmp_path, change)
    assert [problem.video_id for problem in found] == ["Juggling/many", "caf%E9/100%2541"]
    assert {problem.problem for problem in found} == {"has another class in the shard than in the manifest"}


def test_a_shard_with_a_frame_less(shards: Path, tmp_path: Path) -> None:
    def change(spooled: list[arrow.SpooledVideo]) -> None:
        spooled[2] = replace(spooled[2], num_bytes_N=spooled[2].num_bytes_N[:3])

    (found,) = write_again(shards, tmp_path, change)
    assert (found.video_id, found.problem) == ("caf%E9/100%2541", "has 3 frames in the shard, 4 in the manifest")


def test_a_shard_with_other_borders_between_frames(shards: Path, tmp_path: Path) -> None:
    def change(spooled: list[arrow.SpooledVideo]) -> None:
        sizes = spooled[2].num_bytes_N.copy()
        sizes[1] -= 1
        sizes[2] += 1
        spooled[2] = replace(spooled[2], num_bytes_N=sizes)

    sizes = [len(jpeg) for jpeg in VIDEOS[2].jpegs]
    first, second = write_again(shards, tmp_path, change)
    assert (first.frame, first.problem) == (1, f"has {sizes[1] - 1} bytes, not {sizes[1]}")
    assert (second.frame, second.problem) == (2, f"has {sizes[2] + 1} bytes, not {sizes[2]}")


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_of_the_offsets(shards: Path, bit: int) -> None:
    with open_dataset(shards) as dataset:
        row = dataset.video(row_of(VIDEOS, "Juggling/many"))
    for byte in (0, 1, 3):
        position = row["offsets_at"][0] + 4 * 5 + byte
        flip(shards / row["location"], position, bit)
        assert quick(shards) != []
        assert deep(shards) != []
        flip(shards / row["location"], position, bit)
    assert quick(shards) == []


FLIP_ALL = """
import pathlib, sys
from manifests.stores import arrow
path, start, num_bytes = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
whole = path.read_bytes()
for position in range(8 * start, 8 * (start + num_bytes)):
    data = bytearray(whole)
    data[position // 8] ^= 1 << position % 8
    path.write_bytes(data)
    try:
        arrow.read_parts(path)
    except ValueError:
        print("refused")
"""


@pytest.mark.parametrize("text", ["Juggling/many", "Zähne putzen"])
def test_damage_does_not_crash_pyarrow(shards: Path, text: str) -> None:
    """It reads wherever the offsets of a text point, unless told to look first. In another process, to survive it."""
    shard = shards / "shards" / "shard-00000.arrow"
    at = shard.read_bytes().index(text.encode().ljust(16, b"\0")) - 8
    command = [sys.executable, "-c", FLIP_ALL, shard, str(at), "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("refused") > 32


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_damage_crashes_the_verification(good: dict[str, Path], data: st.DataObject) -> None:
    shard = good["arrow"] / "shards" / "shard-00000.arrow"
    whole = shard.read_bytes()
    try:
        for _ in range(data.draw(st.integers(1, 3))):
            flip(shard, data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7)))
        found = deep(good["arrow"])
    finally:
        shard.write_bytes(whole)
    assert {problem.file for problem in found} <= {"shards/shard-00000.arrow"}


# --- Frame folders ---

LOCATION = "frames/Juggling/many"


def test_a_frame_that_is_missing(folders: Path) -> None:
    frame_file(folders, 9).unlink()
    expected = [Problem(file=f"{LOCATION}/img_00009.jpg", video_id="Juggling/many", frame=8, problem="is missing")]
    assert quick(folders) == expected
    assert deep(folders) == expected


def test_a_frame_too_many(folders: Path) -> None:
    shutil.copy(frame_file(folders, 1), frame_file(folders, 24))
    (folders / LOCATION / "Thumbs.db").touch()
    for problems in (quick(folders), deep(folders)):
        assert [(problem.file, problem.problem) for problem in problems] == [
            (f"{LOCATION}/Thumbs.db", "is no frame of the video"),
            (f"{LOCATION}/img_00024.jpg", "is no frame of the video"),
        ]


def test_frames_that_were_numbered_anew(folders: Path) -> None:
    """From 0, as some tools count: one frame is out, one is missing, and those between are not themselves."""
    for number in range(1, 24):
        frame_file(folders, number).rename(frame_file(folders, number - 1))
    found = deep(folders)
    assert (found[0].file, found[0].problem) == (f"{LOCATION}/img_00023.jpg", "is missing")
    assert (found[1].file, found[1].problem) == (f"{LOCATION}/img_00000.jpg", "is no frame of the video")
    assert {problem.frame for problem in found[2:]} == set(range(22))
    assert quick(folders)[:2] == found[:2]


def test_two_frames_that_changed_places(folders: Path) -> None:
    first, second = frame_file(folders, 3), frame_file(folders, 12)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert {problem.frame for problem in deep(folders)} == {2, 11}


def test_an_empty_frame(folders: Path) -> None:
    os.truncate(frame_file(folders, 1), 0)
    size = len(MANY.jpegs[0])
    expected = Problem(
        file=f"{LOCATION}/img_00001.jpg", video_id="Juggling/many", frame=0, problem=f"has 0 bytes, not {size}"
    )
    assert quick(folders) == [expected]
    assert deep(folders) == [expected]


def test_a_frame_of_the_same_size_with_other_bytes(folders: Path) -> None:
    flip(frame_file(folders, 23), 200)
    assert quick(folders) == []
    (found,) = deep(folders)
    assert (found.file, found.frame) == (f"{LOCATION}/img_00023.jpg", 22)
    assert found.problem == "its bytes have changed: the CRC-32 differs"


def test_another_jpeg_in_place_of_a_frame(folders: Path) -> None:
    (other,) = draw_jpegs(99, 1, 40, 24)
    frame_file(folders, 2).write_bytes(other)
    (found,) = quick(folders)
    assert (found.frame, found.problem) == (1, f"has {len(other)} bytes, not {len(MANY.jpegs[1])}")
    assert len(deep(folders)) == 1


def test_a_folder_too_many(folders: Path) -> None:
    shutil.copytree(folders / "frames" / "deep", folders / "frames" / "Juggling" / "deep")
    (folders / "frames" / "letter.txt").touch()
    (folders / "frames" / "Juggling" / "link").symlink_to("many")
    found = {(problem.file, problem.problem) for problem in quick(folders)}
    assert found == {
        ("frames/Juggling/deep", "no video of the manifest lies in it"),
        ("frames/Juggling/link", "no video of the manifest lies in it"),
        ("frames/letter.txt", "no video of the manifest has this file"),
    }


def test_a_folder_that_is_missing(folders: Path) -> None:
    shutil.rmtree(folders / LOCATION)
    expected = [Problem(file=LOCATION, video_id="Juggling/many", problem="its folder is missing")]
    assert quick(folders) == expected
    assert deep(folders) == expected
    shutil.rmtree(folders / "frames")
    assert len(quick(folders)) == NUM_OK


def test_a_video_renamed(folders: Path) -> None:
    (folders / LOCATION).rename(folders / "frames" / "Juggling" / "few")
    assert {(problem.file, problem.video_id) for problem in quick(folders)} == {
        (LOCATION, "Juggling/many"),
        ("frames/Juggling/few", None),
    }


def test_stray_shards_beside_frame_folders_and_stray_folders_beside_shards(
    good: dict[str, Path], folders: Path
) -> None:
    shutil.copytree(good["arrow"] / "shards", folders / "shards")
    shutil.copytree(folders / LOCATION, folders / "frames-2" / LOCATION)
    assert {problem.file for problem in quick(folders)} == {"shards", "frames-2"}


# --- What was wrong from the start ---


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    ("jpegs", "fields", "problem"),
    [
        ([b"this is no JPEG, but its CRC is right"], {}, "is no valid JPEG"),
        (draw_jpegs(1, 1, 40, 24), {}, "is 40x24, the manifest says 32x24"),
        (draw_jpegs(1, 1), {"content_crc32": 1}, "the CRC-32 of all its frames is not that of the manifest"),
    ],
    ids=["no JPEG", "other size", "other content"],
)
def test_a_dataset_that_was_sealed_wrong(
    tmp_path: Path, store: str, jpegs: list[bytes], fields: dict[str, Any], problem: str
) -> None:
    make_dataset(tmp_path / "out", store, [VIDEOS[0], ok_video("wrong", jpegs, **fields)])
    assert quick(tmp_path / "out") == []
    (found,) = deep(tmp_path / "out")
    assert found.video_id == "wrong"
    assert problem in found.problem


@pytest.mark.parametrize("store", STORES)
def test_a_folder_whose_name_is_not_utf8(tmp_path: Path, store: str) -> None:
    out = tmp_path / os.fsdecode(b"caf\xe9")
    make_dataset(out, store, VIDEOS, classes=CLASSES)
    assert deep(out) == []
    (out / store.replace("arrow", "shards") / os.fsdecode(b"\xff")).touch()
    (found,) = deep(out)
    assert os.fsencode(found.file).endswith(b"/\xff")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii:strict"])
def test_names_that_no_text_can_hold_are_shown_escaped(tmp_path: Path, prep: Prep, encoding: str) -> None:
    out = tmp_path / os.fsdecode(b"caf\xe9")
    make_dataset(out, "frames", VIDEOS, classes=(*CLASSES, "nu\u00df"))
    for command in (["verify", out, "--deep"], ["report", out]):
        done = prep(*command, env={**os.environ, "PYTHONIOENCODING": encoding})
        assert (done.returncode, done.stderr) == (0, "")
    assert ("nu\u00df" if encoding.startswith("utf") else r"nu\xdf") in done.stdout
    (out / "frames" / os.fsdecode(b"\xff")).touch()
    done = prep("verify", out, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.returncode == 4
    assert r"frames/\udcff  -      -      no video of the manifest has this file" in done.stdout
    assert r"caf\udce9: 6 ok videos" in done.stdout
