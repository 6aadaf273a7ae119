"""`prep adopt`: frame folders of others become a dataset, through the real command."""

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Prep
from crash_points import calls_of, run_until
from datasets_made import draw_jpegs
from frame_trees import SCRIPTS, inodes, names_like, write_frames
from trees import hash_tree

from manifests import open_dataset
from manifests.manifest import FRAMES_FILE, MANIFEST_SCHEMA, read_parquet
from prep.adopt import find_videos
from prep.datasets import source_list
from prep.frame_tree import FrameTree
from prep.verify import verify
from train.dataset import ClipDataset
from train.recipe import TrainRecipe
from train.sampler import Item

UNKNOWN = {
    *("source_bytes", "source_sha256", "container", "codec", "declared_num_frames", "fps", "duration_s"),
    *("source_width", "source_height", "sample_aspect_ratio", "decoder"),
}
"""What frames do not tell."""


def rows_of(out: Path) -> dict[str, dict[str, Any]]:
    with open_dataset(out) as dataset:
        return {row["source"]: row for row in dataset.manifest.to_pylist()}


def adopted(prep: Prep, tree: Path, out: Path, *flags: object, code: int = 0) -> dict[str, Any]:
    done = prep("adopt", tree, "--out", out, "--json", "--quiet", *flags)
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    table: dict[str, Any] = json.loads(done.stdout)
    assert verify(out, deep=True, num_jobs=1).problems == ()
    return table


def refusal(prep: Prep, *arguments: object, code: int = 2) -> str:
    done = prep(*arguments, "--quiet")
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_frames_of_each_script(prep: Prep, tmp_path: Path, script: str) -> None:
    pattern, start = SCRIPTS[script]
    written = {}
    for name, num_frames in {"Run/v 1": 12, "Run/v.2": 1, "Walk/é": 7}.items():
        written[name] = write_frames(tmp_path / "tree" / name, names_like(pattern, num_frames, start), seed=num_frames)
    before, numbers = hash_tree(tmp_path / "tree"), inodes(tmp_path / "tree" / "Run" / "v.2")
    table = adopted(prep, tmp_path / "tree", tmp_path / "out")
    assert table["counts"] == {"ok": 3, "failed": 0, "excluded": 0}
    with open_dataset(tmp_path / "out") as dataset:
        assert dataset.classes == ("Run", "Walk")
        assert dataset.labels.tolist() == [0, 0, 1]
        for row, (name, jpegs) in enumerate(written.items()):
            video = dataset.video(row)
            assert (video["video_id"], video["source"], video["location"]) == (name, name, f"frames/{name}")
            assert (video["width"], video["height"], video["num_frames"]) == (32, 24, len(jpegs))
            assert video["content_crc32"] == zlib.crc32(b"".join(jpegs))
            assert video["num_bytes"] == sum(map(len, jpegs))
            assert {column for column, value in video.items() if value is None} == UNKNOWN | {"failure", "detail"}
            assert dataset.read_frames(row, range(len(jpegs))) == jpegs
    times = read_parquet(tmp_path / "out" / FRAMES_FILE).column("time_ms").to_pylist()
    assert np.isnan(np.concatenate(times)).all()
    assert hash_tree(tmp_path / "tree") == before
    assert inodes(tmp_path / "out" / "frames" / "Run" / "v.2") == numbers  # the same files: nothing is copied
    shutil.rmtree(tmp_path / "tree")
    assert verify(tmp_path / "out", deep=True, num_jobs=1).problems == ()


def damaged(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / name).write_bytes(change(content))


def test_what_is_wrong_with_a_folder_is_its_row(prep: Prep, tmp_path: Path) -> None:
    tree = tmp_path / "tree" / "A"
    names = names_like("img_%05d.jpg", 6)
    for name in ("good", "gap", "late", "sizes", "cut", "hollow", "noise", "twice", "flow"):
        write_frames(tree / name, names)
    (tree / "gap" / "img_00003.jpg").unlink()
    (tree / "late" / "img_00001.jpg").unlink()
    (tree / "sizes" / "img_00004.jpg").write_bytes(draw_jpegs(9, 1, 48, 24)[0])
    damaged(tree / "cut", "img_00002.jpg", lambda jpeg: jpeg[: len(jpeg) // 2])
    damaged(tree / "cut", "img_00005.jpg", lambda jpeg: jpeg[: len(jpeg) // 3])
    damaged(tree / "hollow", "img_00006.jpg", lambda jpeg: b"")
    damaged(tree / "noise", "img_00001.jpg", lambda jpeg: b"\x89PNG\r\n\x1a\n" * 9)
    write_frames(tree / "twice", ["img_1.jpg"])
    write_frames(tree / "flow", names_like("flow_x_%05d.jpg", 3))
    (tree / "none").mkdir()
    (tree / "text").mkdir()
    (tree / "text" / "readme.md").write_text("no frame")
    table = adopted(prep, tmp_path / "tree", tmp_path / "out", code=3)
    assert table["counts"] == {"ok": 2, "failed": 9, "excluded": 0}
    found = {
        source.removeprefix("A/"): (row["failure"], row["detail"]) for source, row in rows_of(tmp_path / "out").items()
    }
    assert found.pop("cut")[1].startswith("2 of 6 frames no valid JPEG: 'img_00002.jpg', 'img_00005.jpg' (")
    assert found.pop("noise")[1].startswith("1 of 6 frames no valid JPEG: 'img_00001.jpg' (")
    assert found == {
        "good": (None, None),
        "flow": (
            None,
            "left out 3 files that are no frames: 'flow_x_00001.jpg', 'flow_x_00002.jpg', 'flow_x_00003.jpg'",
        ),
        "gap": ("truncated", "1 frame missing up to 'img_00006.jpg', the first after 'img_00002.jpg'"),
        "late": ("truncated", "the first of 5 frames is 'img_00002.jpg'"),
        "sizes": ("size_change", "32x24 becomes 48x24 at frame 3 ('img_00004.jpg')"),
        "hollow": ("decode", "1 of 6 frames no valid JPEG: 'img_00006.jpg' (it has no bytes)"),
        "twice": ("unreadable", "two frames have the number 1: 'img_00001.jpg', 'img_1.jpg'"),
        "none": ("empty", "the folder is empty"),
        "text": ("no_video", "no frame among 1 file ('readme.md')"),
    }
    assert sorted(os.listdir(tmp_path / "out" / "frames" / "A")) == ["flow", "good"]
    assert not (tmp_path / "out" / ".work").exists()


AWKWARD = [
    "plain.avi",
    "two words.avi",
    "dots.in.it.avi",
    "100%.avi",
    "100%25.avi",
    "été.avi",
    os.fsdecode(b"caf\xe9.avi"),
]


def test_adopting_what_extract_wrote_gives_the_same_rows(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    shutil.copytree(synthetic, videos)
    source = sorted(videos.rglob("*.avi"))[0]
    for name in AWKWARD:
        folder = videos / os.fsdecode(b"cl\xe4ss")
        folder.mkdir(exist_ok=True)
        shutil.copyfile(source, folder / name)
    settings = ["--store", "frames", "--set", "frames.every=4", "--quiet"]
    assert prep("extract", videos, "--out", tmp_path / "out", *settings).returncode == 0
    adopted(prep, tmp_path / "out" / "frames", tmp_path / "again")
    same = [name for name in MANIFEST_SCHEMA.names if name not in UNKNOWN | {"source", "detail"}]
    with open_dataset(tmp_path / "out") as one, open_dataset(tmp_path / "again") as two:
        assert one.classes == two.classes
        assert one.description.classes_sha256 == two.description.classes_sha256
        assert sorted(one.columns(same).to_pylist(), key=str) == sorted(two.columns(same).to_pylist(), key=str)
    frames = [
        {row["video_id"]: (row["num_bytes"], row["crc32"]) for row in read_parquet(out / FRAMES_FILE).to_pylist()}
        for out in (tmp_path / "out", tmp_path / "again")
    ]
    assert frames[0] == frames[1]


def test_lists_tell_labels_and_subsets(prep: Prep, tmp_path: Path) -> None:
    tree = tmp_path / "rawframes"
    for name in ("Run/a", "Run/b", "Walk/c", "Walk/d", "Walk/unlisted"):
        write_frames(tree / name, names_like("img_%05d.jpg", 4))
    (tmp_path / "ucf_train_split_1_rawframes.txt").write_text("Run/a 4 1\nWalk/c 5 0\nWalk/gone 9 0\n")
    (tmp_path / "ucf_val_split_1_rawframes.txt").write_text(f"{tree}/Run/b 4 1\nWalk/d 4 0\n")
    (tmp_path / "order.txt").write_text("Walk\nRun\n")
    lists = [flag for kind in ("train", "val") for flag in ("--list", tmp_path / f"ucf_{kind}_split_1_rawframes.txt")]
    table = adopted(prep, tree, tmp_path / "out", *lists, "--classes", tmp_path / "order.txt")
    assert table["failures"] == {"missing": 1}
    with open_dataset(tmp_path / "out") as dataset:
        assert dataset.classes == ("Walk", "Run")
    rows = rows_of(tmp_path / "out")
    assert (rows["Walk/c"]["num_frames"], rows["Walk/c"]["detail"]) == (4, "a list says 5 frames")
    assert rows["Run/a"]["detail"] is None
    found = {
        source: (row["label"], row["class_name"], row["subsets"], row["status"], row["declared_num_frames"])
        for source, row in rows.items()
    }
    assert found == {
        "Run/a": (1, "Run", ["train01"], "ok", 4),
        "Run/b": (1, "Run", ["val01"], "ok", 4),
        "Walk/c": (0, "Walk", ["train01"], "ok", 5),
        "Walk/d": (0, "Walk", ["val01"], "ok", 4),
        "Walk/gone": (0, "Walk", ["train01"], "failed", None),
        "Walk/unlisted": (-1, None, [], "excluded", None),
    }


@pytest.mark.parametrize("form", ["paddlevideo", "mmaction2", "tsm", None])
def test_a_flat_tree_with_a_list(prep: Prep, tmp_path: Path, form: str | None) -> None:
    for name in ("v a", "v_b"):
        write_frames(tmp_path / "tree" / name, names_like("%06d.jpg", 3))
    (tmp_path / "train.list").write_text("v a 3 0\nv_b 3 2\n")
    flags = [] if form is None else ["--format", form]
    adopted(prep, tmp_path / "tree", tmp_path / "out", "--list", tmp_path / "train.list", *flags)
    found = {source: (row["label"], row["subsets"]) for source, row in rows_of(tmp_path / "out").items()}
    assert found == {"v a": (0, ["train"]), "v_b": (2, ["train"])}


@pytest.mark.parametrize("flags", [["--format", "slowfast"], []])
def test_a_list_of_frames(prep: Prep, tmp_path: Path, flags: list[str]) -> None:
    lines = ["original_vido_id video_id frame_id path labels"]
    for number, (name, label) in enumerate({"78687": 1, "100": 0}.items()):
        write_frames(tmp_path / "tree" / name, names_like(f"{name}_%06d.jpg", 3))
        lines += [f'{name} {number} {frame} {name}/{name}_{frame + 1:06d}.jpg "{label}"' for frame in range(3)]
    (tmp_path / "val.csv").write_text("\n".join(lines) + "\n")
    adopted(prep, tmp_path / "tree", tmp_path / "out", "--list", tmp_path / "val.csv", *flags)
    found = {
        source: (row["label"], row["subsets"], row["declared_num_frames"])
        for source, row in rows_of(tmp_path / "out").items()
    }
    assert found == {"78687": (1, ["val"], 3), "100": (0, ["val"], 3)}


def test_lists_that_name_one_folder_in_several_ways(prep: Prep, tmp_path: Path) -> None:
    for name in ("l1/v_x", "l1/v_y"):
        write_frames(tmp_path / "tree" / name, names_like("img_%05d.jpg", 3, 1))
    (tmp_path / "train.txt").write_text("path num_frames label\nl1/v_x 3 0\nl1/v_y 3 1\nl1/v_x.avi 3 0\n")
    (tmp_path / "val.txt").write_text("v_x 3 0\nV_X.mp4 3 0\nv_y 4 0\nl2/v_y 3 1\n")
    lists = [flag for kind in ("train", "val") for flag in ("--list", tmp_path / f"{kind}.txt")]
    done = prep("adopt", tmp_path / "tree", "--out", tmp_path / "out", *lists)
    assert done.returncode == 0, done.stderr
    assert "leak: train and val share 1 video that is in both: 'l1/v_x'" in prep("report", tmp_path / "out").stdout
    rows = rows_of(tmp_path / "out")
    assert {name: (row["status"], row["label"], row["subsets"]) for name, row in rows.items()} == {
        "l1/v_x": ("ok", 0, ["train", "val"]),
        "l1/v_y": ("excluded", -1, ["train", "val"]),
        "l2/v_y": ("failed", 1, ["val"]),
    }
    assert (rows["l1/v_y"]["failure"], rows["l2/v_y"]["failure"]) == ("duplicate_id", "missing")


def test_lists_that_cannot_be_read(prep: Prep, tmp_path: Path) -> None:
    write_frames(tmp_path / "tree" / "A" / "a", ["1.jpg"])
    (tmp_path / "two.txt").write_text("A/a 1 0\nA/b 0\n")
    (tmp_path / "other.txt").write_text("B/x 1 0\n")
    header = "original_vido_id video_id frame_id path labels"
    (tmp_path / "many.csv").write_text(f'{header}\na 0 0 A/a/1.jpg "0,1"\n')
    (tmp_path / "cut.csv").write_text(f'{header}\na 0 0 A/a/1.jpg "0"\n\nb 0 0 A/b/1.jpg "0"x\nc 0 0 A/c/1.jpg "0"\n')
    (tmp_path / "out.csv").write_text(f'{header}\na 0 0 A/a/1.jpg "0"\nb 0 0 ../b/1.jpg "0"\n')
    (tmp_path / "up.txt").write_text("A/a 1 0\n../b 1 0\n")
    (tmp_path / "frame.txt").write_text("A/a 1 0\nA/a/1.jpg 1 0\n")
    (tmp_path / "times.csv").write_text("path,label,start,end\nA/a,0,1,2.5\n")
    adopt = ["adopt", tmp_path / "tree", "--out", tmp_path / "out", "--list"]
    words = "line 2: names 'A/a' from 1 s to 2.5 s, and frames have no times: leave the times out"
    assert words in refusal(prep, *adopt, tmp_path / "times.csv")
    assert "line 2: expected path num_frames label" in refusal(prep, *adopt, tmp_path / "two.txt", "--format", "tsm")
    assert "no folder under" in refusal(prep, *adopt, tmp_path / "other.txt")
    assert "more than one label (0,1)" in refusal(prep, *adopt, tmp_path / "many.csv")
    assert "expected original_vido_id" in refusal(prep, *adopt, tmp_path / "two.txt", "--format", "slowfast")
    # What comes after a line that makes no sense is not left out.
    assert "cut.csv', line 4: no list of frames" in refusal(prep, *adopt, tmp_path / "cut.csv")
    for name, flags in (("out.csv", []), ("up.txt", ["--format", "tsm"]), ("up.txt", [])):
        said = refusal(prep, *adopt, tmp_path / name, *flags)
        assert "'../b' is no path of a file under the root" in said
    said = refusal(prep, *adopt, tmp_path / "frame.txt")
    assert "'A/a/1.jpg' is named as a video, but it lies in the frame folder of one" in said
    assert not (tmp_path / "out").exists()


def test_a_list_of_frames_of_another_editor(prep: Prep, tmp_path: Path) -> None:
    """With a byte-order mark, other line ends, and a blank line at its end."""
    write_frames(tmp_path / "tree" / "a", ["1.jpg"])
    lines = ["original_vido_id video_id frame_id path labels", 'a 0 0 a/1.jpg "3"', "", ""]
    (tmp_path / "val.csv").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    adopted(prep, tmp_path / "tree", tmp_path / "out", "--list", tmp_path / "val.csv")
    assert rows_of(tmp_path / "out")["a"]["label"] == 3


def test_where_the_dataset_may_lie(prep: Prep, tmp_path: Path) -> None:
    tree = tmp_path / "data" / "frames"
    write_frames(tree / "A" / "a", ["1.jpg"])
    before = hash_tree(tmp_path)
    assert "holds something else" in refusal(prep, "adopt", tree, "--out", tmp_path / "data")
    assert "lies in" in refusal(prep, "adopt", tree, "--out", tree / "out")
    assert hash_tree(tmp_path) == before
    adopted(prep, tree, tmp_path / "data" / "dataset")
    again = refusal(prep, "adopt", tmp_path / "data" / "dataset", "--out", tmp_path / "again")
    assert "is a prepared dataset already: give the folder of frame folders in it, or pack it" in again


def test_beside_the_dataset_file_of_another_program(prep: Prep, tmp_path: Path) -> None:
    write_frames(tmp_path / "tree" / "A" / "a", ["1.jpg"])
    (tmp_path / "tree" / "dataset.json").write_text('{"name": "mine"}')
    adopted(prep, tmp_path / "tree", tmp_path / "out")


def test_a_picture_that_memory_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged header may tell of one: that is the trouble of its video, not of the run."""

    def fail(jpeg: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr("prep.frame_tree.decoded_size", fail)
    write_frames(tmp_path / "tree" / "a", ["1.jpg"])
    found = find_videos(tmp_path / "tree", [], None, None)
    frames = tmp_path / "frames"
    reply = FrameTree(source_list(found.scan, tmp_path / "tree"), {}).take(0, frames, tmp_path / "table")
    assert (reply.outcome.status, reply.outcome.failure) == ("failed", "out_of_memory")
    assert "bytes of '1.jpg'" in str(reply.outcome.detail)
    assert not frames.exists()


def test_where_no_links_can_be_made(prep: Prep, tmp_path: Path) -> None:
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir() or os.stat(shared_memory).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("no second file system at /dev/shm")
    write_frames(tmp_path / "tree" / "A" / "a", ["1.jpg"])
    out = shared_memory / f"decode-once-{os.getpid()}"
    try:
        said = refusal(prep, "adopt", tmp_path / "tree", "--out", out, code=5)
        assert "frames are taken over as hard links, so --out must be on their file system" in said
        assert not (out / "dataset.json").exists()
    finally:
        shutil.rmtree(out, ignore_errors=True)


def test_again_and_with_other_folders(prep: Prep, tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    write_frames(tree / "A" / "a", ["1.jpg"])
    adopted(prep, tree, out)
    before = hash_tree(out)
    done = prep("adopt", tree, "--out", out, "--quiet")
    assert (done.returncode, "nothing to do" in done.stdout) == (0, True)
    write_frames(tree / "A" / "b", ["1.jpg"])
    assert "made of other folders, labels or subsets" in refusal(prep, "adopt", tree, "--out", out)
    assert hash_tree(out) == before
    # What is linked is the file that a symbolic link leads to.
    os.symlink(tree / "A" / "a" / "1.jpg", tree / "A" / "b" / "2.jpg")
    adopted(prep, tree, tmp_path / "other")
    assert not any(path.is_symlink() for path in (tmp_path / "other").rglob("*"))


def test_nothing_is_decoded_into_it(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    write_frames(tmp_path / "tree" / "A" / "a", ["1.jpg"])
    adopted(prep, tmp_path / "tree", tmp_path / "out")
    before = hash_tree(tmp_path / "out")
    for flags in ([], ["--update"], ["--retry", "failed"]):
        said = refusal(prep, "extract", synthetic, "--out", tmp_path / "out", *flags)
        assert "was made by prep adopt: use another --out" in said
    assert hash_tree(tmp_path / "out") == before


def test_what_another_command_began_is_left_to_it(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    out, tree = tmp_path / "out", tmp_path / "tree"
    write_frames(tree / "A" / "a", ["1.jpg"])
    write_frames(tree / "A" / "b", ["1.jpg"])
    calls = calls_of(tmp_path / "log", ["adopt", tree, "--out", tmp_path / "other", "--quiet"])
    assert run_until(tmp_path / "crash", ["adopt", tree, "--out", out, "--quiet"], len(calls) // 2).returncode == -9
    assert "was made by prep adopt: use another --out" in refusal(prep, "extract", synthetic, "--out", out)
    assert "SHA-256 of the packed manifest None" in refusal(prep, "pack", tmp_path / "other", "--out", out)
    adopted(prep, tree, out)
    calls = calls_of(tmp_path / "log2", ["pack", tmp_path / "other", "--out", tmp_path / "packed", "--quiet"])
    begun = ["pack", tmp_path / "other", "--out", tmp_path / "shards", "--quiet"]
    assert run_until(tmp_path / "crash", begun, len(calls) // 2).returncode == -9
    assert "store.format 'arrow', not 'frames'" in refusal(prep, "adopt", tree, "--out", tmp_path / "shards")


def test_it_trains(prep: Prep, tmp_path: Path) -> None:
    for name in ("train/A/a", "train/B/b", "val/A/c"):
        write_frames(tmp_path / "tree" / name, names_like("image_%05d.jpg", 5), seed=len(name))
    adopted(prep, tmp_path / "tree", tmp_path / "out")
    clips = ClipDataset(tmp_path / "out", "train", TrainRecipe(), training=False)
    sample = clips[Item(index=1, num_frames=3, crop_px=16, epoch=0)]
    assert (sample.label, sample.clip_THWC.shape) == (1, (3, 16, 16, 3))
