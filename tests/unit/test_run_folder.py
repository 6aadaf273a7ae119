"""The state of an open run: what OUT is, and what binds the runs that share it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from manifests.errors import DamagedError, StoreError, UsageError
from manifests.records import Source
from manifests.sources import SourceList
from prep.recipe import ExtractRecipe, Frames, Limits, Store
from prep.run_folder import (
    Earlier,
    RunFolder,
    bind,
    bound_settings,
    note,
    remove_temporaries,
    require_equal_settings,
    state_of,
)

LIBRARIES = {"av": "1.2.3", "libavcodec": "61.0.0"}
RECIPE = ExtractRecipe(decoder="pyav")
SOURCES = SourceList(
    dataset="folder",
    root=Path("/videos"),
    classes=("A", "B"),
    sources=tuple(
        Source(video_id=f"A/{name}", source=f"A/{name}.avi", source_bytes=10, label=0, class_name="A") for name in "xyz"
    ),
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "out")
    made.make()
    return made


# --- What OUT is ---


def test_new_open_sealed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert state_of(out) == "new"
    out.mkdir()
    assert state_of(out) == "new"
    run = RunFolder(out)
    run.make()
    assert state_of(out) == "open"
    (out / "shards").mkdir()
    assert state_of(out) == "open"
    (out / "dataset.json").write_text('{"format": "decode-once.dataset"}')
    assert state_of(out) == "sealed"
    assert os.listdir(tmp_path) == ["out"]


def test_making_is_done_once(run: RunFolder) -> None:
    (run.spool / "00000001.jpegs").touch()
    run.make()
    assert sorted(os.listdir(run.work)) == ["groups", "spool"]
    assert os.listdir(run.spool) == ["00000001.jpegs"]


def test_folders_above_are_made_too(tmp_path: Path) -> None:
    RunFolder(tmp_path / "a" / "b" / "out").make()
    assert state_of(tmp_path / "a" / "b" / "out") == "open"


def test_an_out_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(UsageError) as caught:
        state_of(tmp_path / "out")
    expected = f"{tmp_path / 'out'} is a file; --out takes a folder that is new, empty or of an earlier run"
    assert str(caught.value) == expected


def test_an_out_that_holds_something_else(tmp_path: Path) -> None:
    for name in ("photo.jpg", "letter.txt", ".hidden"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError) as caught:
        state_of(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} holds something else ('.hidden', 'letter.txt', 'photo.jpg'); "
        "--out takes a folder that is new, empty or of an earlier run"
    )


def test_an_out_where_nothing_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write .*/file/out: Not a directory; mend that"):
        RunFolder(tmp_path / "file" / "out").make()


def test_an_out_that_is_a_link_into_nowhere(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("nowhere")
    with pytest.raises(StoreError, match="cannot write"):
        RunFolder(tmp_path / "out").make()


# --- What binds ---


def test_what_decides_the_bytes_is_bound_and_nothing_else() -> None:
    assert bound_settings(RECIPE, LIBRARIES) == {
        "decoder": "pyav",
        "frames.short_side_px": 256,
        "frames.enlarge": False,
        "frames.square_pixels": False,
        "frames.quality": 90,
        "frames.every": 1,
        "frames.fps": 0.0,
        "store.format": "arrow",
        "store.videos_per_shard": 64,
        "version of av": "1.2.3",
        "version of libavcodec": "61.0.0",
    }


def test_the_same_settings_may_resume(run: RunFolder) -> None:
    bound = bound_settings(RECIPE, LIBRARIES)
    bind(run, bound, Limits(), SOURCES)
    assert json.loads(run.settings.read_text())["bound"] == bound
    before = {path: path.stat().st_mtime_ns for path in run.work.rglob("*")}
    bind(run, bound, Limits(), SOURCES)
    assert {path: path.stat().st_mtime_ns for path in run.work.rglob("*")} == before


def test_limits_and_the_root_may_change(run: RunFolder) -> None:
    bind(run, bound_settings(RECIPE, LIBRARIES), Limits(), SOURCES)
    other = replace(RECIPE, limits=Limits(timeout_s=1, keep_damaged=True))
    bound = bound_settings(other, LIBRARIES)
    assert bind(run, bound, Limits(), replace(SOURCES, root=Path("/mnt/videos"))).is_equal
    assert bind(run, bound, other.limits, SOURCES) == Earlier(other_limits=True)
    note(run, bound, other.limits, SOURCES, None)
    assert bind(run, bound, other.limits, SOURCES).is_equal
    note(run, bound, None, SOURCES, None)
    assert bind(run, bound, other.limits, SOURCES) == Earlier(other_limits=True)


def test_other_settings_are_named(run: RunFolder) -> None:
    bind(run, bound_settings(RECIPE, LIBRARIES), Limits(), SOURCES)
    other = replace(RECIPE, frames=Frames(quality=80, every=2), store=Store(format="frames"))
    with pytest.raises(UsageError) as caught:
        bind(run, bound_settings(other, {"av": "1.2.4", "libavcodec": "61.0.0"}), Limits(), SOURCES)
    assert str(caught.value) == (
        f"{run.out} was made with frames.quality 90, not 80; frames.every 1, not 2; "
        "store.format 'arrow', not 'frames'; version of av '1.2.3', not '1.2.4': use the same settings or another --out"
    )


def test_settings_that_only_one_side_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"was made with old 1, not None; new None, not 2: use the same settings"):
        require_equal_settings(tmp_path, {"old": 1, "same": 0}, {"same": 0, "new": 2})
    require_equal_settings(tmp_path, {"a": 1}, {"a": 1})


def refusal(run: RunFolder, now: SourceList) -> str:
    bound = bound_settings(RECIPE, LIBRARIES)
    bind(run, bound, Limits(), SOURCES)
    with pytest.raises(UsageError) as caught:
        bind(run, bound, Limits(), now)
    return str(caught.value)


def test_another_dataset_is_named(run: RunFolder) -> None:
    expected = f"{run.out} was made as --dataset folder, not ucf101: use another --out"
    assert refusal(run, replace(SOURCES, dataset="ucf101")) == expected


def test_other_sources_are_counted(run: RunFolder) -> None:
    x, y, _ = SOURCES.sources
    new = Source(video_id="B/n", source="B/n.avi", source_bytes=1)
    changed = (replace(x, source_bytes=11), replace(y, subsets=("train",)), new, replace(new, source="B/m.avi"))
    assert refusal(run, replace(SOURCES, sources=changed)) == (
        f"{run.out} was made from other sources: 2 new videos, 1 gone, "
        "2 with another size, label or subset; restore them or use another --out"
    )


@pytest.mark.parametrize(
    "now",
    [replace(SOURCES, classes=("A", "C")), replace(SOURCES, sources=SOURCES.sources[::-1])],
    ids=["classes", "order"],
)
def test_the_order_counts(run: RunFolder, now: SourceList) -> None:
    assert refusal(run, now) == (
        f"{run.out} was made from other sources: the classes or the order of the videos are others; "
        "restore them or use another --out"
    )


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 50, b"\xff", b"[]", b"null"])
def test_settings_that_cannot_be_read(run: RunFolder, content: bytes) -> None:
    bind(run, {}, Limits(), SOURCES)
    run.settings.write_bytes(content)
    with pytest.raises(DamagedError) as caught:
        bind(run, {}, Limits(), SOURCES)
    assert str(caught.value).startswith(f"cannot read {run.settings}: ")
    assert str(caught.value).endswith(f"; remove {run.out} and begin again")


def test_a_run_that_was_killed_before_it_was_bound_is_bound_anew(run: RunFolder) -> None:
    """The sources are written first, so without settings they count for nothing."""
    bind(run, bound_settings(RECIPE, LIBRARIES), Limits(), SOURCES)
    run.settings.unlink()
    run.sources.write_bytes(b"half")
    bind(run, bound_settings(RECIPE, LIBRARIES), Limits(), replace(SOURCES, dataset="ucf101"))
    assert "--dataset ucf101" in refusal_of_original(run)


def refusal_of_original(run: RunFolder) -> str:
    with pytest.raises(UsageError) as caught:
        bind(run, bound_settings(RECIPE, LIBRARIES), Limits(), SOURCES)
    return str(caught.value)


def test_an_out_whose_name_is_not_utf8(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / os.fsdecode(b"caf\xe9"))
    run.make()
    bind(run, {"a": 1}, Limits(), SOURCES)
    bind(run, {"a": 1}, Limits(), SOURCES)
    assert state_of(run.out) == "open"


# --- What a killed run leaves ---


def test_temporary_files_are_removed_and_nothing_else(run: RunFolder) -> None:
    (run.out / "shards").mkdir()
    (run.out / "frames").mkdir()
    for folder in (run.out, run.out / "shards", run.work, run.groups):
        (folder / ".tmp-0123abcd").touch()
        (folder / "kept.tmp-").touch()
    (run.spool / ".tmp-kept").touch()
    remove_temporaries(run.out)
    left = {path.relative_to(run.out).as_posix() for path in run.out.rglob("*") if path.is_file()}
    assert left == {
        "kept.tmp-",
        "shards/kept.tmp-",
        ".work/kept.tmp-",
        ".work/groups/kept.tmp-",
        ".work/spool/.tmp-kept",
    }
