"""The contract of both stores: the frames that were written come back, byte for byte, and nothing else ever does.

Arrays: num_bytes_N int64, sizes of the frames of a video.
"""

import gc
import multiprocessing
import os
import pickle
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets_made import CLASSES, Video, draw_jpegs, make_dataset, ok_video, row_of, variety
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manifests import Dataset, open_dataset
from manifests import dataset as dataset_module
from manifests.errors import DamagedError
from manifests.names import frame_file_name
from manifests.stores import STORES, arrow, frames

VIDEOS = variety()
OK_ROWS = [row for row, video in enumerate(VIDEOS) if video.outcome.status == "ok"]


@pytest.fixture(scope="module", params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of VIDEOS in each store; not to be written to."""
    out = tmp_path_factory.mktemp("stores") / request.param
    make_dataset(out, request.param, VIDEOS, classes=CLASSES)
    return out


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def large_video(rng: np.random.Generator) -> Video:
    """Of 44 MB, with an empty frame and one that is larger than a part may be; what a frame holds does not matter."""
    sizes = [5_000_000, 6_000_000, 0, 1, *[100_000] * 60, 17_000_000, 5_000_000, 5_000_000, 77]
    return ok_video("large", [rng.bytes(size) for size in sizes], label=0, class_name="Juggling")


# --- What was written comes back ---


def test_every_frame_of_every_ok_video_comes_back(folder: Path) -> None:
    with open_dataset(folder) as dataset:
        assert dataset.rows().tolist() == OK_ROWS
        for row in OK_ROWS:
            assert dataset.read_frames(row, range(len(VIDEOS[row].jpegs))) == list(VIDEOS[row].jpegs)


@given(data=st.data())
@settings(deadline=None)
def test_frames_come_in_any_order_and_as_often_as_asked(folder: Path, data: st.DataObject) -> None:
    with open_dataset(folder) as dataset:
        for _ in range(3):
            row = data.draw(st.sampled_from(OK_ROWS))
            jpegs = VIDEOS[row].jpegs
            indices = data.draw(st.lists(st.integers(0, len(jpegs) - 1), max_size=30))
            assert dataset.read_frames(row, indices) == [jpegs[index] for index in indices]


def test_numpy_rows_and_indices_will_do(folder: Path) -> None:
    with open_dataset(folder) as dataset:
        row = dataset.rows("test02")[0]
        assert isinstance(row, np.int64)
        assert dataset.read_frames(row, np.array([22, 0])) == [VIDEOS[row].jpegs[22], VIDEOS[row].jpegs[0]]


@pytest.mark.parametrize("store", STORES)
def test_a_video_of_several_parts(store: str, tmp_path: Path, rng: np.random.Generator) -> None:
    video = large_video(rng)
    make_dataset(tmp_path / "out", store, [VIDEOS[0], video, VIDEOS[1]], classes=CLASSES)
    with open_dataset(tmp_path / "out") as dataset:
        assert dataset.read_frames(1, range(len(video.jpegs))) == list(video.jpegs)
        backwards = range(len(video.jpegs) - 1, -1, -3)
        assert dataset.read_frames(1, backwards) == list(video.jpegs[::-3])
        assert dataset.read_frames(2, [22, 3]) == [VIDEOS[1].jpegs[22], VIDEOS[1].jpegs[3]]
        placed = dataset.video(1)
    if store == "arrow":
        assert placed["row"] == 1
        num_parts = len(placed["data_at"])
        parts = arrow.read_parts(tmp_path / "out" / placed["location"])
        assert [part.video_id for part in parts] == ["Juggling/one", *["large"] * num_parts, "Juggling/many"]
        assert num_parts > 3
        assert max(sum(part.num_bytes) for part in parts) == 17_000_000  # a single frame, which nothing can split


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_both_stores_hold_the_same(tmp_path: Path) -> None:
    tables = {}
    for store in STORES:
        make_dataset(tmp_path / store, store, VIDEOS, classes=CLASSES)
        with open_dataset(tmp_path / store) as dataset:
            tables[store] = dataset.manifest.drop_columns(["location", "row", "offsets_at", "data_at"])
    assert tables["arrow"].equals(tables["frames"])
    sums = tables["arrow"].column("content_crc32").to_pylist()
    assert [sums[row] for row in OK_ROWS] == [zlib.crc32(b"".join(VIDEOS[row].jpegs)) for row in OK_ROWS]
    assert (tmp_path / "arrow/frames.parquet").read_bytes() == (tmp_path / "frames/frames.parquet").read_bytes()


def test_a_dataset_lies_where_it_lies_whatever_its_name(tmp_path: Path, store_name: str) -> None:
    """pyarrow takes no path that is not UTF-8, so it must be given none."""
    out = tmp_path / os.fsdecode(b"caf\xe9")
    make_dataset(out, store_name, VIDEOS, classes=CLASSES)
    with open_dataset(out) as dataset:
        assert [dataset.read_frames(row, [0]) for row in OK_ROWS] == [[VIDEOS[row].jpegs[0]] for row in OK_ROWS]
    assert os.listdir(os.fsencode(tmp_path)) == [b"caf\xe9"]


@pytest.fixture(params=STORES)
def store_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


# --- What other programs see ---


def test_a_shard_is_an_arrow_file_that_plain_pyarrow_opens(tmp_path: Path, rng: np.random.Generator) -> None:
    videos = [VIDEOS[1], large_video(rng), VIDEOS[6], ok_video("no class", draw_jpegs(9, 2))]
    make_dataset(tmp_path / "out", "arrow", videos, videos_per_shard=9, classes=CLASSES)
    with pa.OSFile(str(tmp_path / "out/shards/shard-00000.arrow")) as file, pa.ipc.open_file(file) as reader:
        assert reader.schema == pa.schema(
            {
                "video_id": pa.string(),
                "first_frame": pa.int64(),
                "label": pa.int32(),
                "class_name": pa.string(),
                "frames": pa.list_(pa.binary()),
            }
        )
        assert reader.schema.metadata == {b"format": b"decode-once.shard", b"format_version": b"1"}
        batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
    for batch in batches:
        batch.validate(full=True)
    assert {batch.num_rows for batch in batches} == {1}
    rows = [batch.to_pylist()[0] for batch in batches]
    for video in videos:
        parts = [row for row in rows if row["video_id"] == video.source.video_id]
        assert [jpeg for part in parts for jpeg in part["frames"]] == list(video.jpegs)
        starts = np.cumsum([0, *(len(part["frames"]) for part in parts)])[:-1]
        assert [part["first_frame"] for part in parts] == starts.tolist()
        classes = {(part["label"], part["class_name"]) for part in parts}
        assert classes == {(video.source.label, video.source.class_name)}


def test_a_shard_is_not_compressed(tmp_path: Path) -> None:
    zeros = ok_video("zeros", [bytes(100_000)] * 3)
    make_dataset(tmp_path / "out", "arrow", [zeros, VIDEOS[1]])
    shard = (tmp_path / "out/shards/shard-00000.arrow").read_bytes()
    assert len(shard) > 300_000
    assert all(jpeg in shard for jpeg in VIDEOS[1].jpegs)


def test_the_positions_of_the_manifest_are_enough_to_read_a_frame(tmp_path: Path, rng: np.random.Generator) -> None:
    """The documented way for other programs: pyarrow for the manifest, and reads at its positions."""
    videos = [VIDEOS[1], large_video(rng), VIDEOS[2]]
    make_dataset(tmp_path / "out", "arrow", videos, classes=CLASSES)
    manifest = pq.read_table(tmp_path / "out" / "manifest.parquet").to_pylist()

    def read_frame(row: dict[str, Any], index: int) -> bytes:
        num_frames, num_parts = row["num_frames"], len(row["data_at"])
        (part,) = (
            p for p in range(num_parts) if num_frames * p // num_parts <= index < num_frames * (p + 1) // num_parts
        )
        shard = os.open(tmp_path / "out" / row["location"], os.O_RDONLY)
        try:
            at = row["offsets_at"][part] + 4 * (index - num_frames * part // num_parts)
            start, stop = (int.from_bytes(os.pread(shard, 4, at + skip), "little", signed=True) for skip in (0, 4))
            return os.pread(shard, stop - start, row["data_at"][part] + start)
        finally:
            os.close(shard)

    for video, row in zip(videos, manifest, strict=True):
        assert [read_frame(row, index) for index in range(len(video.jpegs))] == list(video.jpegs)


def test_frame_folders_are_named_as_documented(tmp_path: Path) -> None:
    make_dataset(tmp_path / "out", "frames", VIDEOS, classes=CLASSES)
    found = {p.relative_to(tmp_path / "out/frames").as_posix() for p in (tmp_path / "out/frames").rglob("*.jpg")}
    assert found == {
        f"{VIDEOS[row].source.video_id}/img_{number:05d}.jpg"
        for row in OK_ROWS
        for number in range(1, len(VIDEOS[row].jpegs) + 1)
    }


def test_nothing_else_lies_in_a_dataset(folder: Path) -> None:
    names = {"dataset.json", "manifest.parquet", "frames.parquet"}
    assert set(os.listdir(folder)) == names | {arrow.FOLDER if folder.name == "arrow" else frames.FOLDER}
    if folder.name == "arrow":
        # Three videos a shard: none of group 3 is ok, and no other shard takes its number.
        assert sorted(os.listdir(folder / "shards")) == [f"shard-{group:05d}.arrow" for group in (0, 1, 2, 4)]


def test_frames_parquet_tells_sizes_sums_and_times(folder: Path) -> None:
    table = pq.read_table(folder / "frames.parquet").to_pylist()
    assert [row["video_id"] for row in table] == [VIDEOS[row].source.video_id for row in OK_ROWS]
    for row, entry in zip(OK_ROWS, table, strict=True):
        jpegs = VIDEOS[row].jpegs
        assert entry["num_bytes"] == [len(jpeg) for jpeg in jpegs]
        assert entry["crc32"] == [zlib.crc32(jpeg) for jpeg in jpegs]
        assert entry["time_ms"] == [40.0 * index for index in range(len(jpegs))]


# --- Parts ---


def fits(num_bytes_N: list[int], num_parts: int, limit: int) -> bool:
    """Whether no part is above the limit; spelled out."""
    num_frames = len(num_bytes_N)
    part_of = [0] * num_frames
    for part in range(num_parts):
        for frame in range(num_frames):
            if frame >= num_frames * part // num_parts:
                part_of[frame] = part
    sums = [0] * num_parts
    for frame, part in enumerate(part_of):
        sums[part] += num_bytes_N[frame]
    return max(sums) <= limit


@given(num_bytes_N=st.lists(st.integers(0, 20), min_size=1, max_size=12), limit=st.integers(1, 40))
@example(num_bytes_N=[0, 0], limit=1)
@example(num_bytes_N=[9], limit=1)
@settings(max_examples=300)
def test_as_few_parts_as_the_limit_allows(num_bytes_N: list[int], limit: int) -> None:
    num_frames = len(num_bytes_N)
    fitting = [num_parts for num_parts in range(1, num_frames + 1) if fits(num_bytes_N, num_parts, limit)]
    expected = min(fitting, default=num_frames)
    assert arrow.count_parts(np.array(num_bytes_N, np.int64), limit) == expected


@given(num_frames=st.integers(1, 2000), data=st.data())
def test_parts_cover_all_frames_without_gap(num_frames: int, data: st.DataObject) -> None:
    num_parts = data.draw(st.integers(1, num_frames))
    bounds = arrow.part_bounds(num_frames, num_parts)
    assert [index for start, stop in bounds for index in range(start, stop)] == list(range(num_frames))
    lengths = [stop - start for start, stop in bounds]
    assert min(lengths) >= 1
    assert max(lengths) - min(lengths) <= 1


@given(
    videos=st.lists(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=9), min_size=1, max_size=4),
    limit=st.integers(1, 30),
)
@settings(max_examples=60, deadline=None)
def test_shards_of_any_content_and_any_parts(videos: list[list[bytes]], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(arrow, "count_parts", partial(arrow.count_parts, max_part_bytes=limit))
        spooled = []
        for index, jpegs in enumerate(videos):
            path = Path(name, f"{index}.jpegs")
            writer = arrow.SpoolWriter(path)
            for jpeg in jpegs:
                writer.add(jpeg)
            writer.close()
            num_bytes_N = np.array([len(jpeg) for jpeg in jpegs], np.int64)
            spooled.append(
                arrow.SpooledVideo(video_id=str(index), label=-1, class_name=None, spool=path, num_bytes_N=num_bytes_N)
            )
        shard = Path(name, "shard")
        arrow.write_shard(shard, spooled)
        placed = arrow.placements("shard", arrow.read_parts(shard))
        descriptor = os.open(shard, os.O_RDONLY)
        for index, jpegs in enumerate(videos):
            at = placed[str(index)]
            indices = list(range(len(jpegs)))[::-1]
            found = arrow.read_frames(descriptor, len(jpegs), at.offsets_at, at.data_at, indices)
            assert found == jpegs[::-1]
        os.close(descriptor)


# --- What is not there is an error, never another frame ---


@pytest.mark.parametrize("index", [-1, 23, 24, 2**40])
def test_a_frame_that_the_video_does_not_have(folder: Path, index: int) -> None:
    row = row_of(VIDEOS, "Juggling/many")
    with open_dataset(folder) as dataset:
        with pytest.raises(IndexError, match=rf"^video Juggling/many has frames \[0, 23\), not {index}$"):
            dataset.read_frames(row, [0, index])
        assert dataset.read_frames(row, [22]) == [VIDEOS[row].jpegs[22]]


def test_a_video_that_is_not_ok_has_no_frames(folder: Path) -> None:
    with open_dataset(folder) as dataset, pytest.raises(IndexError, match=r"video bad has frames \[0, 0\), not 0"):
        dataset.read_frames(row_of(VIDEOS, "bad"), [0])


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    os.truncate(path, 0)


def make_a_folder_of(path: Path) -> None:
    path.unlink()
    path.mkdir()


def the_store_of(dataset: Dataset, row: int, index: int) -> Path:
    """The file that a frame lies in."""
    video = dataset.video(row)
    path = dataset.folder / video["location"]
    return path if video["row"] >= 0 else path / frame_file_name(index)


@pytest.mark.parametrize("harm", [remove, make_a_folder_of])
def test_a_file_that_is_gone_is_named_with_its_video(copy: Path, harm: Callable[[Path], None]) -> None:
    row = row_of(VIDEOS, "Zähne putzen/日本 🎥")
    with open_dataset(copy) as dataset:
        harm(the_store_of(dataset, row, 3))
        with pytest.raises(DamagedError) as caught:
            dataset.read_frames(row, [3])
        location = dataset.video(row)["location"]
    assert "cannot read frames of video Zähne putzen/日本 🎥 in" in str(caught.value)
    assert location in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_shard_that_is_cut_gives_whole_frames_or_an_error(tmp_path: Path) -> None:
    make_dataset(tmp_path / "out", "arrow", VIDEOS, classes=CLASSES)
    row = row_of(VIDEOS, "Juggling/many")
    jpegs = VIDEOS[row].jpegs
    with open_dataset(tmp_path / "out") as dataset:
        video = dataset.video(row)
        shard = tmp_path / "out" / video["location"]
        cut = video["data_at"][0] + sum(map(len, jpegs[:10])) + 5
        os.truncate(shard, cut)
        assert dataset.read_frames(row, range(10)) == list(jpegs[:10])
        with pytest.raises(DamagedError, match=r"video Juggling/many in shards/shard-00000.arrow row 1: .* early"):
            dataset.read_frames(row, [10])
        empty(shard)
        with pytest.raises(DamagedError, match=r"the file ends 96 bytes early at position \d+$"):
            dataset.read_frames(row, [0])


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_flipped_bit_in_the_offsets_never_moves_another_frame_in(
    arrow_copy: tuple[Path, bytes], data: st.DataObject
) -> None:
    """A frame keeps its bytes, or becomes longer or shorter, or is an error; it never is quietly another frame."""
    shard, good = arrow_copy
    row = row_of(VIDEOS, "Juggling/many")
    jpegs = VIDEOS[row].jpegs
    with open_dataset(shard.parent.parent) as dataset:
        video = dataset.video(row)
        position = video["offsets_at"][0] + data.draw(st.integers(0, 4 * len(jpegs) + 3))
        shard.write_bytes(flipped(good, position, data.draw(st.integers(0, 7))))
        for index in range(len(jpegs)):
            try:
                (jpeg,) = dataset.read_frames(row, [index])
            except DamagedError as error:
                assert "Juggling/many" in str(error)  # noqa: PT017 - an error is one of two right answers
            else:
                others = [other for other in jpegs if other != jpegs[index]]
                assert jpeg not in others


@pytest.fixture(scope="module")
def arrow_copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A shard to be damaged again and again, and its good bytes."""
    out = tmp_path_factory.mktemp("flips") / "out"
    make_dataset(out, "arrow", VIDEOS, classes=CLASSES)
    shard = out / "shards/shard-00000.arrow"
    return shard, shard.read_bytes()


def flipped(data: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


def test_offsets_that_make_no_sense(arrow_copy: tuple[Path, bytes]) -> None:
    shard, good = arrow_copy
    row = row_of(VIDEOS, "Juggling/many")
    with open_dataset(shard.parent.parent) as dataset:
        at = dataset.video(row)["offsets_at"][0]
        shard.write_bytes(flipped(good, at + 4 * 7 + 3, 7))  # the sign of the offset of frame 7
        for index in (6, 7):
            with pytest.raises(DamagedError, match=f"frame {index} has no sensible offsets"):
                dataset.read_frames(row, [index])
        assert dataset.read_frames(row, [5, 8]) == [VIDEOS[row].jpegs[5], VIDEOS[row].jpegs[8]]


def test_what_is_no_shard_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    for content in (b"", b"ARROW1", b"ARROW1\0\0" + bytes(1000), bytes(5000)):
        path.write_bytes(content)
        with pytest.raises((pa.ArrowException, ValueError, OSError)):
            arrow.read_parts(path)
    schema = pa.schema({"frames": pa.list_(pa.binary())})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch({"frames": [[b"x"]]}, schema=schema))
    with pytest.raises(pa.ArrowInvalid, match="not a shard of format version 1"):
        arrow.read_parts(path)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, arrow.SHARD_SCHEMA) as writer:
        two_rows = {"video_id": ["a", "b"], "first_frame": [0, 0], "label": [0, 0], "class_name": ["", ""]}
        writer.write_batch(pa.record_batch({**two_rows, "frames": [[b"x"], [b"y"]]}, schema=arrow.SHARD_SCHEMA))
    with pytest.raises(pa.ArrowInvalid, match="one row, this one has 2"):
        arrow.read_parts(path)


def test_a_disk_that_fills_while_a_shard_is_written(tmp_path: Path, rng: np.random.Generator) -> None:
    """/dev/full refuses every byte."""
    spool = tmp_path / "spool"
    spool.write_bytes(rng.bytes(500_000))
    video = arrow.SpooledVideo(
        video_id="a", label=0, class_name=None, spool=spool, num_bytes_N=np.array([500_000], np.int64)
    )
    with pytest.raises(OSError, match="No space left on device"):
        arrow.write_shard(Path("/dev/full"), [video])


# --- Sharing ---


def read_all(dataset: Dataset) -> list[list[bytes]]:
    return [dataset.read_frames(row, range(len(VIDEOS[row].jpegs))) for row in OK_ROWS]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # pyarrow has threads; from Python 3.12 on
def test_forked_processes_read_through_the_same_files(folder: Path) -> None:
    expected = [list(VIDEOS[row].jpegs) for row in OK_ROWS]
    context = multiprocessing.get_context("fork")

    def in_child(connection: Any) -> None:
        connection.send([read_all(dataset) for _ in range(20)] == [expected] * 20)

    with open_dataset(folder) as dataset:
        assert read_all(dataset) == expected  # so that the files are open before the fork
        pairs = [context.Pipe(duplex=False) for _ in range(2)]
        children = [context.Process(target=in_child, args=(sender,)) for _, sender in pairs]
        for child in children:
            child.start()
        for _ in range(20):
            assert read_all(dataset) == expected
        for (receiver, sender), child in zip(pairs, children, strict=True):
            assert receiver.poll(60)
            assert receiver.recv() is True
            child.join()
            receiver.close()
            sender.close()
        assert read_all(dataset) == expected


def test_a_pickled_dataset_opens_its_own_files(folder: Path) -> None:
    with open_dataset(folder) as dataset:
        before = read_all(dataset)
        pickled = pickle.dumps(dataset)
    # Whatever the numbers of the closed files stand for now must not be read.
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
    with pickle.loads(pickled) as copied:
        assert read_all(copied) == before
        assert copied.description == dataset.description
    for descriptor in others:
        os.close(descriptor)


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_few_files_stay_open_and_none_after_closing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "_MAX_OPEN_SHARDS", 2)
    before = open_files()
    dataset = open_dataset(folder)
    for _ in range(2):
        for row in OK_ROWS:
            dataset.read_frames(row, [0])
            assert open_files() <= before + 2 + 2  # two shards, dataset.json, which is held, and the manifest
    dataset.close()
    assert open_files() == before


def test_threads_may_share_a_dataset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are more shards than files may be open, so that each thread closes what others opened."""
    monkeypatch.setattr(dataset_module, "_MAX_OPEN_SHARDS", 1)
    before = open_files()
    failures: list[str] = []

    def read(first: int) -> None:
        try:
            for turn in range(300):
                row = OK_ROWS[(first + turn) % len(OK_ROWS)]
                index = turn % len(VIDEOS[row].jpegs)
                if dataset.read_frames(row, [index]) != [VIDEOS[row].jpegs[index]]:
                    failures.append(f"another frame came for {index} of {row}")
        except Exception as error:
            failures.append(repr(error))

    with open_dataset(folder) as dataset:
        threads = [threading.Thread(target=read, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert open_files() == before
