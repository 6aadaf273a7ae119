"""--retry and --update, killed before each change that they make to the disk, and under a program that reads."""

import errno
import os
import random
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from clips import Clip, write_clip
from conftest import Prep
from crash_points import calls_of, run_until
from stand_in import CALLS, bad_disk
from trees import hash_tree

from manifests import open_dataset
from manifests.dataset import Dataset
from manifests.stores import STORES
from prep.verify import verify

CRASHES_TRIED = int(os.environ.get("DECODE_ONCE_CRASHES", "5"))
NUM_MOMENTS = int(os.environ.get("DECODE_ONCE_KILLS", "12")) // 3


def draw(path: Path, num_frames: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_clip(path, Clip(name=path.stem, codec="mpeg4", num_frames=num_frames))


def draw_all(folder: Path) -> Path:
    """Six videos of two classes, one of them broken."""
    for name, num_frames in (("A/a", 3), ("A/b", 4), ("A/c", 5), ("B/d", 6), ("B/e", 7)):
        draw(folder / f"{name}.avi", num_frames)
    (folder / "B" / "f.avi").write_bytes(b"no video\n" * 99)
    return folder


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    return draw_all(tmp_path / "videos")


def change(videos: Path) -> None:
    """One video changes, one goes, one is mended, two are new, of which one is of a new class, the first of all."""
    draw(videos / "A" / "b.avi", 9)
    (videos / "B" / "d.avi").unlink()
    draw(videos / "B" / "f.avi", 2)
    draw(videos / "A" / "bb.avi", 8)
    draw(videos / "0" / "z.avi", 4)


def command(videos: Path, out: Path, store: str, *more: object) -> list[object]:
    settings = ["--store", store, "--set", "store.videos_per_shard=2", "--quiet", "--jobs", 1]
    return ["extract", videos, "--out", out, *settings, *more]


Calls = list[list[str]]


@dataclass(frozen=True)
class Made:
    """The dataset of the six videos in one store, what becomes of it with --update after `change`, and the calls that
    made each; not to be written to."""

    old: Path
    new: Path
    calls_of_old: Calls
    calls_of_new: Calls


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """By store."""
    folder = tmp_path_factory.mktemp("made")
    videos = draw_all(folder / "videos")
    old = {store: folder / "old" / store for store in STORES}
    new = {store: folder / "new" / store for store in STORES}
    (folder / "old").mkdir()
    calls_of_old = {store: calls_of(folder / f"{store} old", command(videos, old[store], store)) for store in STORES}
    shutil.copytree(folder / "old", folder / "new")
    change(videos)
    calls_of_new = {
        store: calls_of(folder / f"{store} new", command(videos, new[store], store, "--update")) for store in STORES
    }
    return {store: Made(old[store], new[store], calls_of_old[store], calls_of_new[store]) for store in STORES}


def commit_of(calls: Calls) -> int:
    """The number of the call that puts dataset.json there, or another one in its place."""
    return next(index for index, call in enumerate(calls) if call[-1].endswith("/dataset.json"))


def contents(dataset: Dataset) -> dict[str, int]:
    """The CRC-32 of the frames of each ok video as they are read, which must be what the manifest says."""
    found = {}
    for row in dataset.rows():
        video = dataset.video(int(row))
        frames = dataset.read_frames(int(row), range(video["num_frames"]))
        found[video["video_id"]] = zlib.crc32(b"".join(frames))
        assert found[video["video_id"]] == video["content_crc32"]
    return found


def contents_of(out: Path) -> dict[str, int]:
    with open_dataset(out) as dataset:
        return contents(dataset)


@pytest.mark.parametrize("store", STORES)
def test_an_update_killed_at_any_moment(
    prep: Prep, videos: Path, made: dict[str, Made], tmp_path: Path, store: str
) -> None:
    """The dataset is always the old one or the new one, whole; and the same command ends with the same bytes."""
    old, new, calls = made[store].old, made[store].new, made[store].calls_of_new
    change(videos)
    before, after, expected = contents_of(old), contents_of(new), hash_tree(new)
    assert (len(before), len(after)) == (5, 7)
    assert verify(new, deep=True, num_jobs=1).problems == ()
    fresh = tmp_path / "fresh"
    assert prep(*command(videos, fresh, store)).returncode == 0
    assert contents_of(fresh) == after
    step = max(1, len(calls) // CRASHES_TRIED)
    # The last calls, around dataset.json, are all tried.
    commit = commit_of(calls)
    for number in [*range(0, commit - 6, step), *range(commit - 6, min(len(calls), commit + 7))]:
        out = tmp_path / "out"
        shutil.copytree(old, out)
        killed = run_until(tmp_path / "crash", command(videos, out, store, "--update"), number)
        assert killed.returncode == -9, calls[number]
        assert contents_of(out) == (before if number <= commit else after), calls[number]
        assert verify(out, deep=True, num_jobs=1).problems == (), calls[number]
        resumed = prep(*command(videos, out, store, "--update"))
        assert resumed.returncode == 0, (resumed.stderr, calls[number])
        assert hash_tree(out) == expected, calls[number]
        shutil.rmtree(out)


@pytest.mark.parametrize("store", STORES)
def test_an_update_that_is_dropped_leaves_the_dataset_of_before(
    prep: Prep, videos: Path, made: dict[str, Made], tmp_path: Path, store: str
) -> None:
    """Another request is refused while one is open; by force it takes the place of that, whenever that was killed."""
    old = made[store].old
    whole = (videos / "A" / "a.avi").read_bytes()
    draw(videos / "A" / "a.avi", 9)
    new = tmp_path / "new"
    shutil.copytree(old, new)
    calls = calls_of(tmp_path / "log", command(videos, new, store, "--update"))
    commit = commit_of(calls)
    before = contents_of(old)
    for number in (commit - 7, commit - 4, commit - 2, commit):
        out = tmp_path / "out"
        shutil.copytree(old, out)
        draw(videos / "A" / "a.avi", 9)
        assert run_until(tmp_path / "crash", command(videos, out, store, "--update"), number).returncode == -9
        refused = prep(*command(videos, out, store, "--retry", "changed"))
        assert (refused.returncode, "have it dropped by --force" in refused.stderr) == (2, True), calls[number]
        (videos / "A" / "a.avi").write_bytes(whole)
        dropped = prep(*command(videos, out, store, "--retry", "changed", "--force"))
        assert dropped.returncode == 3, dropped.stderr
        assert contents_of(out) == before
        assert not (out / ".work").exists()
        assert verify(out, deep=True, num_jobs=1).problems == ()
        assert prep(*command(videos, out, store, "--retry", "damaged")).returncode == 3
        shutil.rmtree(out)


@pytest.fixture(scope="module")
def calls_with_one_more(made: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Calls]:
    """Of an update by a new video, by store."""
    folder = tmp_path_factory.mktemp("one more")
    videos = draw_all(folder / "videos")
    draw(videos / "A" / "new.avi", 9)
    for store in STORES:
        shutil.copytree(made[store].old, folder / store)
    return {
        store: calls_of(folder / f"{store} log", command(videos, folder / store, store, "--update")) for store in STORES
    }


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("then", ["nothing to do", "refused", "plain"])
def test_what_a_dropped_update_stored_does_not_stay(
    prep: Prep,
    videos: Path,
    made: dict[str, Made],
    calls_with_one_more: dict[str, Calls],
    tmp_path: Path,
    store: str,
    then: str,
) -> None:
    """Also where nothing comes of the next run, since the new video is gone again or the run is refused."""
    out = tmp_path / "out"
    shutil.copytree(made[store].old, out)
    expected = hash_tree(out)
    draw(videos / "A" / "new.avi", 9)
    calls = calls_with_one_more[store]
    commits = [call[0] == "replace" and call[-1].endswith("/00000.manifest.parquet") for call in calls]
    stored = commits.index(True)
    assert run_until(tmp_path / "crash", command(videos, out, store, "--update"), stored + 1).returncode == -9
    assert {path for path in hash_tree(out).keys() - expected.keys() if not path.startswith(".work/")}
    (videos / "A" / "new.avi").unlink()
    if then == "refused":
        for path in (videos / "A").iterdir():
            path.rename(tmp_path / path.name)
        (videos / "B" / "d.avi").unlink()
        assert prep(*command(videos, out, store, "--update")).returncode == 2
    elif then == "plain":
        finished = prep(*command(videos, out, store))
        assert "--update was begun here and not finished" in finished.stdout
        assert prep(*command(videos, out, store, "--retry", "changed", "--force")).returncode == 3
    else:
        done = prep(*command(videos, out, store, "--update"))
        assert (done.returncode, "nothing to do" in done.stdout) == (3, True), done.stderr
    assert hash_tree(out) == expected


@pytest.mark.parametrize("broken", ["run.json", "plan.json", "sources.parquet"])
def test_an_update_whose_state_is_broken_is_begun_anew(
    prep: Prep, videos: Path, made: dict[str, Made], tmp_path: Path, broken: str
) -> None:
    out, calls = tmp_path / "out", made["arrow"].calls_of_new
    shutil.copytree(made["arrow"].old, out)
    change(videos)
    number = next(index for index, call in enumerate(calls) if call[-1].endswith("shard-00005.arrow"))
    assert run_until(tmp_path / "crash", command(videos, out, "arrow", "--update"), number).returncode == -9
    (out / ".work" / broken).write_bytes(b"{")
    assert prep(*command(videos, out, "arrow", "--update")).returncode == 0
    assert contents_of(out) == contents_of(made["arrow"].new)
    assert verify(out, deep=True, num_jobs=1).problems == ()


@pytest.mark.parametrize("store", STORES)
def test_a_new_dataset_killed_at_any_moment(
    prep: Prep, videos: Path, made: dict[str, Made], tmp_path: Path, store: str
) -> None:
    calls, expected = made[store].calls_of_old, hash_tree(made[store].old)
    for number in range(0, len(calls), max(1, len(calls) // CRASHES_TRIED)):
        out = tmp_path / "out"
        killed = run_until(tmp_path / "crash", command(videos, out, store), number)
        assert killed.returncode == -9, calls[number]
        resumed = prep(*command(videos, out, store))
        assert resumed.returncode == 3, (resumed.stderr, calls[number])
        assert hash_tree(out) == expected, calls[number]
        shutil.rmtree(out)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("is_update", [False, True])
def test_names_follow_data(made: dict[str, Made], store: str, is_update: bool) -> None:
    """As a power cut needs it: what is renamed was synced before, and dataset.json comes after the synced names of all
    that it tells of, and of what keeps the one before valid until then."""
    out = made[store].new if is_update else made[store].old
    calls = made[store].calls_of_new if is_update else made[store].calls_of_old
    synced: set[str] = set()
    unsynced_names: set[str] = set()
    for name, *paths in calls:
        if name == "fsync":
            synced.add(paths[0])
            unsynced_names = {path for path in unsynced_names if str(Path(path).parent) != paths[0]}
        elif name == "replace":
            assert paths[0] in synced, paths
            if paths[1] == str(out / "dataset.json"):
                assert not unsynced_names
            unsynced_names.add(paths[1])
        elif name == "link":
            unsynced_names.add(paths[1])
    assert not unsynced_names
    replaced = [Path(call[2]).name for call in calls if call[0] == "replace"]
    assert replaced[-3:] == ["frames.parquet", "manifest.parquet", "dataset.json"]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("call", CALLS)
def test_an_update_on_a_disk_that_goes_bad(
    prep: Prep, videos: Path, made: dict[str, Made], tmp_path: Path, store: str, call: str
) -> None:
    """At any moment the dataset in OUT is a whole one, and the same command goes on once the disk is good again."""
    old, new = made[store].old, made[store].new
    change(videos)
    before, after, expected = contents_of(old), contents_of(new), hash_tree(new)
    chance = random.Random(f"{store} {call}")
    num_calls, num_failures = 0, 0
    while num_failures < NUM_MOMENTS:
        out = tmp_path / "out"
        shutil.copytree(old, out)
        env = bad_disk(tmp_path, out, call, errno.EIO, after=num_calls)
        done = prep(*command(videos, out, store, "--update"), env=env)
        assert contents_of(out) in (before, after)
        if done.returncode != 0:
            assert done.returncode == 5, done.stderr
            assert "Input/output error" in done.stderr
            assert prep(*command(videos, out, store, "--update")).returncode == 0
        assert hash_tree(out) == expected
        shutil.rmtree(out)
        if done.returncode == 0:
            break  # there are no more such calls
        num_failures += 1
        num_calls += 1 if call == "mkdir" else chance.randint(1, 12)
    assert num_failures > 1


@pytest.mark.parametrize("store", STORES)
def test_under_programs_that_read(prep: Prep, videos: Path, made: dict[str, Made], tmp_path: Path, store: str) -> None:
    """Whoever opened a dataset reads it to its end, through any number of updates of the same video, also one that has
    not read before; what was replaced goes once nobody reads it."""
    out = tmp_path / "out"
    shutil.copytree(made[store].old, out)
    expected = contents_of(out)
    with open_dataset(out) as first, open_dataset(out) as late:
        assert contents(first) == expected
        change(videos)
        updated = prep(*command(videos, out, store, "--update"))
        assert updated.returncode == 0, updated.stderr
        assert "a program still reads what was replaced" in updated.stdout
        assert contents(first) == expected
        second_expected = contents_of(out)
        assert len(second_expected) == 7
        checked = prep("verify", out, "--deep")
        assert (checked.returncode, "remark: " in checked.stdout) == (0, True), checked.stdout
        with open_dataset(out) as second:
            for num_frames in (11, 12, 13):
                draw(videos / "A" / "b.avi", num_frames)
                assert prep(*command(videos, out, store, "--update")).returncode == 0
            assert contents(second) == second_expected
        assert contents(first) == expected
        assert contents(late) == expected
    done = prep(*command(videos, out, store))
    assert (done.returncode, "nothing to do" in done.stdout) == (0, True)
    assert not (out / ".work").exists()
    with open_dataset(out) as dataset:
        named = {video["location"] for video in dataset.manifest.to_pylist()}
    if store == "arrow":
        assert {f"shards/{name}" for name in os.listdir(out / "shards")} == named
    else:
        assert {path.parent.relative_to(out).as_posix() for path in out.rglob("*.jpg")} == named
    assert prep("verify", out, "--deep").returncode == 0
