"""Files of a prepared dataset that are damaged: the real command finds them, names them by video, file and frame, exits
with 4, and writes nothing.

Bytes are flipped, not overwritten: what is written over may have been there already.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Prep
from datasets_made import CLASSES, make_dataset, variety
from trees import hash_tree

from manifests import open_dataset
from manifests.manifest import FRAMES_FILE, MANIFEST_FILE
from manifests.stores import STORES

NUM_POSITIONS = 400
VIDEO = "Juggling/many"  # 23 frames, in the first shard
FOLDER = f"frames/{VIDEO}"
SHARD = "shards/shard-00000.arrow"

Found = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A dataset in each store; not to be written to."""
    folder = tmp_path_factory.mktemp("whole")
    for store in STORES:
        make_dataset(folder / store, store, variety(), classes=CLASSES)
    return {store: folder / store for store in STORES}


@pytest.fixture
def damaged(whole: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """Makes a copy of the dataset in the given store, to be damaged."""
    return lambda store: Path(shutil.copytree(whole[store], tmp_path / store))


@pytest.fixture
def verify(prep: Prep) -> Callable[[Path, bool], Found]:
    """Run the real command; it must have written nothing, and the exit code must tell what it found."""

    def run(out: Path, deep: bool) -> Found:
        before = state(out)
        done = prep("verify", out, "--json", *(["--deep"] if deep else []))
        assert done.stderr == ""
        found: Found = json.loads(done.stdout)
        assert done.returncode == (4 if found["problems"] else 0)
        assert state(out) == before
        return found

    return run


def state(folder: Path) -> dict[str, Any]:
    """Contents and times of change of all that lies in `folder`."""
    times = {str(path): (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in folder.rglob("*")}
    return {**hash_tree(folder), **times}


def flip(path: Path, position: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0xFF]))


def frame(out: Path, number: int, folder: str = FOLDER) -> Path:
    return out / folder / f"img_{number:05d}.jpg"


def data_at(out: Path) -> int:
    """Where the frames of VIDEO begin in their shard."""
    with open_dataset(out) as dataset:
        row = next(row for row in dataset.rows() if dataset.video(row)["video_id"] == VIDEO)
        return int(dataset.video(row)["data_at"][0])


# --- One damage, one name ---


def lose(out: Path) -> None:
    frame(out, 9).unlink()


def add(out: Path) -> None:
    shutil.copy(frame(out, 1), frame(out, 24))


def swap(out: Path) -> None:
    frame(out, 3).rename(out / "aside")
    frame(out, 4).rename(frame(out, 3))
    (out / "aside").rename(frame(out, 4))


def shift(out: Path) -> None:
    """5 becomes 6, 6 becomes 7 ...: one is missing, one is too many, and all in between are not themselves."""
    for number in range(23, 4, -1):
        frame(out, number).rename(frame(out, number + 1))


def cut(out: Path) -> None:
    os.truncate(frame(out, 7), 100)


def empty(out: Path) -> None:
    os.truncate(frame(out, 23), 0)


def flip_in_folder(out: Path) -> None:
    flip(frame(out, 2), frame(out, 2).stat().st_size // 2)


def exchange(out: Path) -> None:
    """A whole frame in place of that of another video."""
    other = frame(out, 1, "frames/Juggling/one")
    other.rename(out / "aside")
    frame(out, 12).rename(other)
    (out / "aside").rename(frame(out, 12))


def make_a_folder(out: Path) -> None:
    frame(out, 5).unlink()
    frame(out, 5).mkdir()


def lose_folder(out: Path) -> None:
    shutil.rmtree(out / FOLDER)


def add_folder(out: Path) -> None:
    shutil.copytree(out / FOLDER, out / "frames" / "Juggling" / "again")


def lose_shard(out: Path) -> None:
    (out / SHARD).unlink()


def add_shard(out: Path) -> None:
    shutil.copy(out / SHARD, out / "shards" / "shard-00007.arrow")


def flip_in_shard(out: Path) -> None:
    flip(out / SHARD, data_at(out) + 50)


def damage(name: str) -> Callable[[Path], None]:
    return lambda out: flip(out / name, (out / name).stat().st_size // 2)


EVERY_FRAME = range(23)


@pytest.mark.parametrize(
    ("store", "break_it", "named_quickly", "named_deeply"),
    [
        ("frames", lose, {(f"{FOLDER}/img_00009.jpg", VIDEO, 8)}, set()),
        ("frames", add, {(f"{FOLDER}/img_00024.jpg", VIDEO, None)}, set()),
        ("frames", swap, None, {(f"{FOLDER}/img_00003.jpg", VIDEO, 2), (f"{FOLDER}/img_00004.jpg", VIDEO, 3)}),
        ("frames", shift, {(f"{FOLDER}/img_00005.jpg", VIDEO, 4), (f"{FOLDER}/img_00024.jpg", VIDEO, None)},
         {(f"{FOLDER}/img_{number:05d}.jpg", VIDEO, number - 1) for number in range(6, 24)}),
        ("frames", cut, {(f"{FOLDER}/img_00007.jpg", VIDEO, 6)}, set()),
        ("frames", empty, {(f"{FOLDER}/img_00023.jpg", VIDEO, 22)}, set()),
        ("frames", flip_in_folder, set(), {(f"{FOLDER}/img_00002.jpg", VIDEO, 1)}),
        ("frames", exchange, None,
         {("frames/Juggling/one/img_00001.jpg", "Juggling/one", 0), (f"{FOLDER}/img_00012.jpg", VIDEO, 11)}),
        ("frames", make_a_folder, None, {(f"{FOLDER}/img_00005.jpg", VIDEO, 4)}),
        ("frames", lose_folder, {(FOLDER, VIDEO, None)}, set()),
        ("frames", add_folder, {("frames/Juggling/again", None, None)}, set()),
        ("arrow", lose_shard, {(SHARD, None, None)}, set()),
        ("arrow", add_shard, {("shards/shard-00007.arrow", None, None)}, set()),
        ("arrow", flip_in_shard, set(), {(SHARD, VIDEO, 0)}),
        *((store, damage(name), {(name, None, None)}, set())
          for store in STORES for name in ("dataset.json", MANIFEST_FILE, FRAMES_FILE)),
    ],
)  # fmt: skip
def test_each_damage_is_named(
    damaged: Callable[[str], Path],
    verify: Callable[[Path, bool], Found],
    store: str,
    break_it: Callable[[Path], None],
    named_quickly: set[tuple[str, str | None, int | None]] | None,
    named_deeply: set[tuple[str, str | None, int | None]],
) -> None:
    """`named_deeply` is what the deep level adds; the quick one may know of it by chance, by a size (None)."""
    out = damaged(store)
    break_it(out)
    quick, deep = (
        {(problem["file"], problem["video_id"], problem["frame"]) for problem in verify(out, is_deep)["problems"]}
        for is_deep in (False, True)
    )
    assert deep == (named_quickly or set()) | named_deeply
    assert quick <= deep
    if named_quickly is not None:
        assert named_quickly <= quick


def test_the_table_and_its_total(damaged: Callable[[str], Path], prep: Prep) -> None:
    out = damaged("frames")
    lose(out)
    add(out)
    size = frame(out, 7).stat().st_size
    cut(out)
    done = prep("verify", out)
    assert done.returncode == 4
    assert done.stdout.splitlines() == [
        "file                                video          frame  problem",
        f"{FOLDER}/img_00009.jpg  {VIDEO}  8      is missing",
        f"{FOLDER}/img_00024.jpg  {VIDEO}  -      is no frame of the video",
        f"{FOLDER}/img_00007.jpg  {VIDEO}  6      has 100 bytes, not {size}",
        f"{out}: 6 ok videos, compared names, counts and sizes of files, frame contents not read (--deep does): "
        "3 problems",
    ]


def test_a_name_with_line_ends_stays_one_line(damaged: Callable[[str], Path], prep: Prep) -> None:
    out = damaged("frames")
    (out / "frames" / "two\nlines\t").mkdir()
    done = prep("verify", out)
    head, line, _ = done.stdout.splitlines()
    assert line.startswith(r"frames/two\nlines\t  -      -      no video")
    assert head.index("problem") == line.index("no video")


# --- A shard ---


@pytest.mark.parametrize("place", [0.0, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.99, 0.999, -1, -10])
def test_a_shard_cut_short(damaged: Callable[[str], Path], verify: Callable[[Path, bool], Found], place: float) -> None:
    """At a share of its length, or so many bytes before its end."""
    out = damaged("arrow")
    size = (out / SHARD).stat().st_size
    os.truncate(out / SHARD, size + int(place) if place < 0 else int(size * place))
    for is_deep in (False, True):
        (problem,) = verify(out, is_deep)["problems"]
        assert (problem["file"], problem["video_id"], problem["frame"]) == (SHARD, None, None)
        assert problem["problem"].startswith("is not a whole shard: ")


VERIFY_EACH = """
import json, os, pathlib, sys
from manifests.dataset import open_dataset
from prep.verify import verify

out, shard, positions = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
whole = shard.read_bytes()


def readable(is_whole=False):
    with open_dataset(out) as dataset:
        rows = [row for row in dataset.rows() if out / dataset.video(row)["location"] == shard]
        try:
            return [dataset.read_frames(row, range(dataset.num_frames[row])) for row in rows]
        except Exception:
            return None


before = readable()
assert before
for position in positions:
    data = bytearray(whole)
    data[position] ^= 0xFF
    shard.write_bytes(data)
    found = verify(out, deep=True, num_jobs=1).problems
    files = sorted({problem.file for problem in found})
    print(json.dumps({"position": position, "files": files, "is_same": readable() == before}), flush=True)
"""


@pytest.mark.parametrize("seed", range(2))
def test_flipped_bytes_of_a_shard(damaged: Callable[[str], Path], seed: int) -> None:
    """Never a crash, and found wherever a reader would get other bytes. In a process of its own, to survive one."""
    out = damaged("arrow")
    positions = random.Random(seed).sample(range((out / SHARD).stat().st_size), NUM_POSITIONS // 2)
    done = subprocess.run(
        [sys.executable, "-c", VERIFY_EACH, out, out / SHARD, json.dumps(positions)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["position"] for result in results] == positions
    assert all(result["files"] in ([], [SHARD]) for result in results)
    missed = [result["position"] for result in results if not result["files"] and not result["is_same"]]
    assert not missed
    num_found = sum(bool(result["files"]) for result in results)
    assert num_found > len(positions) * 0.8  # the rest is padding, or what no reader of ours looks at


@pytest.mark.parametrize("is_deep", [False, True])
def test_the_real_command_on_flipped_bytes(
    damaged: Callable[[str], Path], verify: Callable[[Path, bool], Found], is_deep: bool
) -> None:
    """Of the places that decide most: the ends of the shard, where Arrow keeps its magic and its footer."""
    out = damaged("arrow")
    size = (out / SHARD).stat().st_size
    for position in (0, 12, size - 1, size - 8, size - 40):
        flip(out / SHARD, position)
        found = verify(out, is_deep)
        assert {problem["file"] for problem in found["problems"]} <= {SHARD}
        flip(out / SHARD, position)
    assert verify(out, is_deep)["problems"] == []


# --- An open run ---


@pytest.mark.parametrize("store", STORES)
def test_what_an_open_update_has_there_is_no_problem(
    damaged: Callable[[str], Path], verify: Callable[[Path, bool], Found], store: str
) -> None:
    out = damaged(store)
    if store == "arrow":
        add_shard(out)
        (out / "shards" / ".tmp-0a1b2c3d").touch()
    else:
        add_folder(out)
        shutil.copytree(out / FOLDER, out / "frames-2" / VIDEO)
    assert len(verify(out, False)["problems"]) == 2
    (out / ".work").mkdir()
    for is_deep in (False, True):
        found = verify(out, is_deep)
        assert found["problems"] == []
        (remark,) = found["remarks"]
        assert remark.startswith(
            f"{out / '.work'} is there: a run is open or was stopped; left out 2 files and folders"
        )


@pytest.mark.parametrize("store", STORES)
def test_an_open_update_excuses_nothing_else(
    damaged: Callable[[str], Path], verify: Callable[[Path, bool], Found], prep: Prep, store: str
) -> None:
    out = damaged(store)
    (out / ".work").mkdir()
    (lose_shard if store == "arrow" else add)(out)
    found = verify(out, False)
    assert len(found["problems"]) == 1
    assert len(found["remarks"]) == 1
    assert "remark: " in prep("verify", out).stdout
