"""A finished dataset of which something is done again, and runs that stop above a number of failures."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from clips import Clip, write_clip
from conftest import Prep
from trees import hash_tree

from manifests import open_dataset
from manifests.stores import STORES


def draw(path: Path, num_frames: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_clip(path, Clip(name=path.stem, codec="mpeg4", num_frames=num_frames))


def cut(path: Path) -> bytes:
    """Cut a video short, and return what it was."""
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    return whole


def draw_all(folder: Path) -> Path:
    for index, name in enumerate(("A/a", "A/b", "A/c", "B/d", "B/e", "B/f")):
        draw(folder / f"{name}.avi", 4 + index)
    return folder


def extraction(videos: Path, out: Path, store: str) -> list[object]:
    return ["extract", videos, "--out", out, "--store", store, "--set", "store.videos_per_shard=2", "--json"]


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    return draw_all(tmp_path / "videos")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def command(videos: Path, tmp_path: Path, store: str) -> list[object]:
    return extraction(videos, tmp_path / "out", store)


@pytest.fixture(scope="module")
def made(prep: Prep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders by store of what becomes of the videos, and under `failing` of these and one that fails; not to be
    written to."""
    folder = tmp_path_factory.mktemp("made")
    videos = draw_all(folder / "videos")
    for store in STORES:
        assert prep(*extraction(videos, folder / store, store)).returncode == 0
    (videos / "A" / "no.avi").write_bytes(b"no video")
    for store in STORES:
        assert prep(*extraction(videos, folder / "failing" / store, store)).returncode == 3
    return folder


@pytest.fixture
def finished(made: Path, tmp_path: Path, store: str) -> Path:
    """OUT, as `command` would make it."""
    return Path(shutil.copytree(made / store, tmp_path / "out"))


def rows_of(out: Path) -> dict[str, dict[str, Any]]:
    with open_dataset(out) as dataset:
        return {row["video_id"]: row for row in dataset.manifest.to_pylist()}


def same_frames(out: Path, other: Path) -> bool:
    """Whether two datasets have the same rows and frames, wherever these lie."""
    tables = []
    for folder in (out, other):
        rows = rows_of(folder)
        for row in rows.values():
            for name in ("location", "row", "offsets_at", "data_at"):
                del row[name]
        tables.append((rows, (folder / "frames.parquet").read_bytes()))
    return tables[0] == tables[1]


def test_retry_failed_with_other_limits(prep: Prep, command: list[object], videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cut(videos / "A" / "b.avi")
    whole = cut(videos / "B" / "e.avi")
    assert prep(*command, "--set", "limits.min_frames=5").returncode == 3
    before = rows_of(out)
    assert [(row["status"], row["failure"]) for row in before.values()] == [
        ("excluded", "too_short"),
        ("failed", "truncated"),
        ("ok", None),
        ("ok", None),
        ("failed", "truncated"),
        ("ok", None),
    ]
    (videos / "B" / "e.avi").write_bytes(whole)  # fetched again
    done = prep(*command, "--retry", "failed:timeout")
    assert done.returncode == 2
    assert "take them over with --update" in done.stderr
    assert not (out / ".work").exists()
    done = prep(*command, "--retry", "failed")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (3, 3)
    assert prep(*command[:3], tmp_path / "fresh", *command[4:]).returncode == 3
    assert same_frames(out, tmp_path / "fresh")
    after = rows_of(out)
    for kept in ("A/c", "B/d", "B/f"):
        assert after[kept] == before[kept]
    assert prep("verify", out, "--deep").returncode == 0
    done = prep(*command, "--retry", "failed:timeout")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (3, 0)


@pytest.mark.parametrize(
    "damage", ["a flipped byte", "a lost file", "an extra file", "frames.parquet", "no frames.parquet"]
)
def test_retry_damaged(
    prep: Prep, command: list[object], videos: Path, made: Path, tmp_path: Path, store: str, damage: str
) -> None:
    out, whole = tmp_path / "out", made / "failing" / store
    (videos / "A" / "no.avi").write_bytes(b"no video")
    shutil.copytree(whole, out)
    victim = sorted(path for path in out.rglob("*") if path.suffix in (".arrow", ".jpg"))[-1]
    if damage == "a flipped byte":
        content = bytearray(victim.read_bytes())
        content[content.rindex(b"\xff\xda") + 40] ^= 1  # within the last picture
        victim.write_bytes(content)
    elif damage == "a lost file":
        victim.unlink()
    elif damage == "an extra file":
        shutil.copy(victim, victim.with_name("shard-00099.arrow" if victim.suffix == ".arrow" else "img_09999.jpg"))
    elif damage == "frames.parquet":
        (out / "frames.parquet").write_bytes(b"PAR1")
    else:
        (out / "frames.parquet").unlink()
    assert prep("verify", out, "--deep").returncode == 4
    damaged = hash_tree(out)
    wrong = prep(*command, "--retry", "damaged", "--set", "frames.quality=50")
    assert (wrong.returncode, "frames.quality 90, not 50" in wrong.stderr) == (2, True)
    assert hash_tree(out) == damaged
    done = prep(*command, "--retry", "damaged")
    assert done.returncode == 3, done.stderr
    checked = prep("verify", out, "--deep")
    assert checked.returncode == 0, checked.stdout
    assert same_frames(out, whole)
    assert not (out / ".work").exists()


def test_retry_changed_and_update(
    prep: Prep, command: list[object], videos: Path, finished: Path, tmp_path: Path
) -> None:
    out, whole = finished, hash_tree(finished)
    done = prep(*command, "--retry", "changed")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (0, 0)
    assert hash_tree(out) == whole
    draw(videos / "A" / "c.avi", 8)
    done = prep(*command, "--retry", "changed")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (0, 1)
    assert json.loads(done.stdout)["changes"]["num_decoded_again"] == 1
    assert rows_of(out)["A/c"]["num_frames"] == 8
    draw(videos / "A" / "new.avi", 3)
    done = prep(*command, "--retry", "changed")
    assert done.returncode == 2
    assert "1 new video, 0 gone, 0 with another size, label or subset; restore them, take them over" in done.stderr
    done = prep(*command)
    assert (done.returncode, "take them over with --update" in done.stderr) == (2, True)
    done = prep(*command, "--update")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (0, 1)
    assert f"{out}: 1 new, 0 gone (their frames are deleted), 0 decoded again" in done.stderr
    assert prep(*command[:3], tmp_path / "fresh", *command[4:]).returncode == 0
    assert same_frames(out, tmp_path / "fresh")
    updated = hash_tree(out)
    done = prep(*command, "--update")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (0, 0)
    assert hash_tree(out) == updated


def test_a_video_whose_id_becomes_another(
    prep: Prep, command: list[object], videos: Path, finished: Path, tmp_path: Path
) -> None:
    """A second file of the same stem makes both take their whole name; the first one is not decoded again."""
    out = finished
    shutil.copy(videos / "B" / "d.avi", videos / "A" / "a.mkv")
    draw(videos / "A" / "b.avi.d" / "deeper.avi", 2)
    done = prep(*command, "--update")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (0, 2)
    assert set(rows_of(out)) >= {"A/a.avi", "A/a.mkv"}
    assert prep(*command[:3], tmp_path / "fresh", *command[4:]).returncode == 0
    assert same_frames(out, tmp_path / "fresh")
    assert prep("verify", out, "--deep").returncode == 0


def test_what_is_refused(prep: Prep, command: list[object], videos: Path, tmp_path: Path) -> None:
    new = prep(*command, "--retry", "failed")
    assert new.returncode == 2
    assert "is not a finished dataset; --retry failed is for one" in new.stderr
    assert not (tmp_path / "out").exists()
    assert prep(*command, "--update", "--retry", "failed").returncode == 2
    assert prep(*command, "--retry", "everything").returncode == 2
    assert prep(*command, "--max-failures", "many").returncode == 2
    assert prep(*command, "--limit", "0").returncode == 2
    assert prep(*command, "--update").returncode == 0  # of nothing, which is an extraction
    assert prep("verify", tmp_path / "out", "--deep").returncode == 0


def test_an_update_that_would_leave_no_ok_video(
    prep: Prep, command: list[object], videos: Path, finished: Path
) -> None:
    before = hash_tree(finished)
    for path in videos.rglob("*.avi"):
        path.write_bytes(b"no video")
    done = prep(*command, "--update")
    assert done.returncode == 6
    assert f"none of 6 videos is ok (unreadable 6), so {finished} stays as it was" in done.stderr
    after = hash_tree(finished)
    assert {path: after.get(path) for path in before} == before
    assert prep("verify", finished, "--deep").returncode == 0


def test_too_many_failures_stop_a_run_that_goes_on_once_they_are_mended(
    prep: Prep, command: list[object], videos: Path, made: Path, tmp_path: Path, store: str
) -> None:
    out = tmp_path / "out"
    whole = {path: cut(path) for path in (videos / "A" / "b.avi", videos / "B" / "d.avi", videos / "B" / "e.avi")}
    stopped = prep(*command, "--jobs", 1, "--max-failures", 1)
    assert stopped.returncode == 6
    assert "more than 1 of 6 videos failed (truncated 2), so the run stops" in stopped.stderr
    assert not (out / "dataset.json").exists()
    stopped = prep(*command, "--jobs", 1, "--max-failures", "20%")
    assert (stopped.returncode, "more than 20% of 6 videos failed" in stopped.stderr) == (6, True)
    for path, content in whole.items():
        path.write_bytes(content)
    done = prep(*command, "--max-failures", 0)
    assert done.returncode == 0, done.stderr
    assert hash_tree(out) == hash_tree(made / store)


def test_an_update_that_stopped_goes_on_with_mended_files(
    prep: Prep, command: list[object], videos: Path, finished: Path, tmp_path: Path
) -> None:
    """And is begun anew when there are other videos by then."""
    out = finished
    for name, num_frames in (("A/b", 11), ("B/d", 12), ("B/e", 13)):
        draw(videos / f"{name}.avi", num_frames)
    whole = cut(videos / "B" / "d.avi")
    stopped = prep(*command, "--update", "--jobs", 1, "--max-failures", 0)
    assert stopped.returncode == 6, stopped.stderr
    (videos / "B" / "d.avi").write_bytes(whole)
    done = prep(*command, "--update", "--max-failures", 0)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["num_attempted"] == 2  # A/b was done before
    cut(videos / "B" / "d.avi")
    assert prep(*command, "--update", "--jobs", 1, "--max-failures", 0).returncode == 6
    (videos / "B" / "d.avi").write_bytes(whole)
    draw(videos / "A" / "late.avi", 3)
    done = prep(*command, "--update")
    assert (done.returncode, "the run with --update that was begun is dropped" in done.stderr) == (0, True)
    assert prep(*command[:3], tmp_path / "fresh", *command[4:]).returncode == 0
    assert same_frames(out, tmp_path / "fresh")
    assert prep("verify", out, "--deep").returncode == 0


def test_frames_are_not_given_up_for_files_that_are_away(
    prep: Prep, command: list[object], videos: Path, tmp_path: Path
) -> None:
    """A list names them still; a folder that is not mounted is not the end of what was made of it."""
    out, listed = tmp_path / "out", tmp_path / "sources.parquet"
    assert prep("scan", videos, "--out", listed).returncode == 0
    from_list = [command[0], listed, *command[2:]]
    assert prep(*from_list).returncode == 0
    before = hash_tree(out)
    (videos / "B").rename(tmp_path / "away")
    for flags in (["--retry", "changed"], ["--update"]):
        done = prep(*from_list, *flags)
        assert done.returncode == 2
        assert "No such file or directory; bring it back, or scan again" in done.stderr
        assert hash_tree(out) == before


def test_an_update_that_cannot_fit_is_not_begun(prep: Prep, videos: Path, tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", mount], check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs is not allowed here")
    try:
        out = mount / "out"
        assert prep("extract", videos, "--out", out).returncode == 0
        before = hash_tree(out)
        for index in range(40):
            draw(videos / "C" / f"c{index:02d}.avi", 40)
        refused = prep("extract", videos, "--out", out, "--update")
        assert refused.returncode == 5
        assert "begin all the same with --force" in refused.stderr
        assert hash_tree(out) == before
    finally:
        subprocess.run(["umount", mount], check=True)


def test_other_limits_leave_what_is_ok_however_it_is_grouped(
    prep: Prep, command: list[object], videos: Path, tmp_path: Path
) -> None:
    """Also what was committed in one group with what is tried again."""
    cut(videos / "B" / "f.avi")
    for size in (1, 2, 64):
        out = tmp_path / f"out{size}"
        grouped = [*command[:3], out, *command[4:], "--set", f"store.videos_per_shard={size}"]
        assert prep(*grouped, "--jobs", 1, "--max-failures", 0).returncode == 6
        done = prep(*grouped, "--set", "limits.min_frames=6", "--json")
        assert done.returncode == 3
        # All but the broken one were ok before, with 4 to 8 frames.
        assert json.loads(done.stdout)["counts"] == {"ok": 5, "failed": 1, "excluded": 0}
        assert json.loads(done.stdout)["num_attempted"] == 1
        assert prep("verify", out, "--deep").returncode == 0


def test_a_group_that_loses_its_last_ok_video_leaves_no_shard(
    prep: Prep, command: list[object], videos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    cut(videos / "B" / "f.avi")
    assert prep(*command, "--jobs", 1, "--max-failures", 0).returncode == 6
    for name in ("A/a", "A/b"):
        (videos / f"{name}.avi").write_bytes(b"no video any more")
    done = prep(*command)
    assert (done.returncode, json.loads(done.stdout)["counts"]["ok"]) == (3, 3)
    assert prep("verify", out, "--deep").returncode == 0


def test_the_first_videos_and_then_the_others(
    prep: Prep, command: list[object], made: Path, tmp_path: Path, store: str
) -> None:
    few = prep(*command, "--limit", 2)
    assert (few.returncode, json.loads(few.stdout)["counts"]["ok"]) == (0, 2)
    done = prep(*command, "--update")
    assert (done.returncode, json.loads(done.stdout)["num_attempted"]) == (0, 4)
    assert same_frames(tmp_path / "out", made / store)
