"""What an unfinished run left: what can be believed is kept, and everything else is gone, to be done again."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from datasets_made import draw_jpegs, ok_video, other_video, spool_video
from trees import hash_tree

from manifests.stores import STORES, frames
from prep import spool
from prep.commit import commit_group, frames_part, group_rows, manifest_part
from prep.journal import Entry, Journal
from prep.recover import Recovered, recover
from prep.run_folder import Earlier, RunFolder

VIDEOS = [
    ok_video("A/0", draw_jpegs(0, 3)),
    other_video("A/1", "failed", "decode"),
    ok_video("A/2", draw_jpegs(2, 2)),
    ok_video("A/3", draw_jpegs(3, 4)),
    ok_video("B/4/deep", draw_jpegs(4, 1)),
    other_video("B/5", "excluded", "too_short"),
    ok_video("B/6", draw_jpegs(6, 2)),
]
GROUPS = group_rows(len(VIDEOS), 3)
SOURCES = [video.source for video in VIDEOS]
GROUP_0 = Counter({"ok": 2, "decode": 1})


class OpenRun:
    """Group 0 is committed; rows 3, 5 and 6 are done and journaled; row 4 was never begun."""

    def __init__(self, out: Path, store: str) -> None:
        self.store = store
        self.run = RunFolder(out)
        self.run.make()
        with Journal(self.run.journal) as journal:
            self.entries = {row: spool_video(self.run, store, row, VIDEOS[row]) for row in (0, 1, 2, 3, 5, 6)}
            for entry in self.entries.values():
                journal.add(entry)
        commit_group(self.run, store, 0, SOURCES[:3], [self.entries[row] for row in GROUPS[0]])

    def recover(self) -> Recovered:
        return recover(self.run, self.store, SOURCES, GROUPS)

    def frames_of(self, row: int) -> Path:
        """Where the frames of an uncommitted row wait."""
        if self.store == "arrow":
            return spool.frames_path(self.run.spool, row, "arrow")
        return self.run.out / frames.location_of(SOURCES[row].video_id)

    def table_of(self, row: int) -> Path:
        return spool.table_path(self.run.spool, row)

    def some_file_of(self, row: int) -> Path:
        path = self.frames_of(row)
        return path / "img_00001.jpg" if path.is_dir() else path


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenRun:
    return OpenRun(tmp_path / "out", request.param)


def test_groups_are_consecutive_rows() -> None:
    assert group_rows(7, 3) == [range(0, 3), range(3, 6), range(6, 7)]
    assert group_rows(6, 3) == [range(0, 3), range(3, 6)]
    assert group_rows(2, 64) == [range(0, 2)]
    assert group_rows(0, 3) == []


def test_what_is_whole_is_believed_and_kept(opened: OpenRun) -> None:
    before = hash_tree(opened.run.out)
    expected = Recovered({0: GROUP_0}, {row: opened.entries[row] for row in (3, 5, 6)})
    assert opened.recover() == expected
    assert hash_tree(opened.run.out) == before
    assert opened.recover() == expected


def test_a_run_that_did_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "out")
    run.make()
    assert recover(run, "arrow", SOURCES, GROUPS) == Recovered({}, {})


def test_the_rest_can_be_done_and_gives_the_same(opened: OpenRun, tmp_path: Path) -> None:
    found = opened.recover()
    entry = spool_video(opened.run, opened.store, 4, VIDEOS[4])
    entries = found.entries | {4: entry}
    for group in (1, 2):
        commit_group(
            opened.run,
            opened.store,
            group,
            [SOURCES[row] for row in GROUPS[group]],
            [entries[row] for row in GROUPS[group]],
        )
    undisturbed = RunFolder(tmp_path / "undisturbed")
    undisturbed.make()
    for group, rows in enumerate(GROUPS):
        spooled = [spool_video(undisturbed, opened.store, row, VIDEOS[row]) for row in rows]
        commit_group(undisturbed, opened.store, group, [SOURCES[row] for row in rows], spooled)
    (opened.run.journal).unlink()
    assert hash_tree(opened.run.out) == hash_tree(undisturbed.out)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 16
    path.write_bytes(data)


def lengthen(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"\0")


HARMS: dict[str, Callable[[Path], None]] = {
    "shorter": lambda path: os.truncate(path, path.stat().st_size - 1),
    "empty": lambda path: os.truncate(path, 0),
    "longer": lengthen,
    "first byte": lambda path: flip(path, 0),
    "last byte": lambda path: flip(path, -1),
    "missing": os.unlink,
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("which", ["frames", "table"])
def test_damage_is_done_again_and_removed(opened: OpenRun, which: str, harm: str) -> None:
    HARMS[harm](opened.some_file_of(3) if which == "frames" else opened.table_of(3))
    found = opened.recover()
    assert found == Recovered({0: GROUP_0}, {row: opened.entries[row] for row in (5, 6)})
    assert not opened.frames_of(3).exists()
    assert not opened.table_of(3).exists()
    assert opened.frames_of(6).exists()
    assert opened.table_of(6).exists()
    # It can be done again in the same place.
    assert spool_video(opened.run, opened.store, 3, VIDEOS[3]) == opened.entries[3]


@pytest.mark.parametrize(
    "harm",
    [
        shutil.rmtree,
        lambda folder: (folder / "img_00005.jpg").touch(),
        lambda folder: (folder / "img_00004.jpg").unlink(),
        lambda folder: (folder / "img_00004.jpg").rename(folder / "img_00005.jpg"),
        lambda folder: (folder / "more").mkdir(),
        lambda folder: shutil.copy(folder / "img_00001.jpg", folder / "img_00002.jpg"),
    ],
    ids=["no folder", "extra frame", "missing frame", "renamed frame", "extra folder", "another frame"],
)
def test_a_frame_folder_that_is_not_whole(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    opened = OpenRun(tmp_path / "out", "frames")
    harm(opened.frames_of(3))
    assert set(opened.recover().entries) == {5, 6}
    assert not opened.frames_of(3).exists()


def journal_of(run: RunFolder, entries: Sequence[Entry]) -> None:
    run.journal.unlink()
    with Journal(run.journal) as journal:
        for entry in entries:
            journal.add(entry)


def test_what_the_journal_lost_is_done_again(opened: OpenRun) -> None:
    """Whole frames count for nothing without their entry: nobody knows what became of the video."""
    journal_of(opened.run, [opened.entries[6]])
    assert opened.recover() == Recovered({0: GROUP_0}, {6: opened.entries[6]})
    assert not opened.frames_of(3).exists()
    assert not opened.table_of(3).exists()


def test_a_journal_that_is_lost_keeps_the_finished_groups(opened: OpenRun) -> None:
    opened.run.journal.unlink()
    committed = {
        path: digest for path, digest in hash_tree(opened.run.out).items() if not path.startswith(".work/spool")
    }
    assert opened.recover() == Recovered({0: GROUP_0}, {})
    kept = hash_tree(opened.run.out)
    assert set(kept) <= set(committed)
    assert {path for path in committed if "groups" in path or "shard" in path or "A/0" in path or "A/2" in path} <= set(
        kept
    )
    assert os.listdir(opened.run.spool) == []


def test_a_group_whose_shard_is_gone_is_done_again(tmp_path: Path) -> None:
    opened = OpenRun(tmp_path / "out", "arrow")
    (tmp_path / "out" / "shards" / "shard-00000.arrow").unlink()
    # Its failed row needs no frames; the others had theirs in the shard.
    assert opened.recover() == Recovered({}, {row: opened.entries[row] for row in (1, 3, 5, 6)})


def test_a_group_without_an_ok_video_has_no_shard(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "out")
    run.make()
    failed = Entry(0, VIDEOS[1].outcome, 0)
    commit_group(run, "arrow", 0, [SOURCES[1]], [failed])
    assert recover(run, "arrow", [SOURCES[1]], [range(0, 1)]) == Recovered({0: Counter({"decode": 1})}, {})


def test_rows_of_a_group_that_cannot_be_read_are_done_again(opened: OpenRun) -> None:
    os.truncate(manifest_part(opened.run, 0), 20)
    assert opened.recover() == Recovered({}, {row: opened.entries[row] for row in (1, 3, 5, 6)})
    assert not manifest_part(opened.run, 0).exists()
    assert not (opened.run.out / "shards" / "shard-00000.arrow").exists()


def test_other_limits_bring_back_what_is_ok_of_a_group(opened: OpenRun) -> None:
    found = recover(opened.run, opened.store, SOURCES, GROUPS, Earlier(other_limits=True))
    assert found == Recovered({}, {row: opened.entries[row] for row in (0, 2, 3, 6)})
    assert not manifest_part(opened.run, 0).exists()
    assert not (opened.run.out / "shards" / "shard-00000.arrow").exists()
    assert opened.recover() == found  # as it is written now
    commit_group(opened.run, opened.store, 0, SOURCES[:3], [found.entries[0], opened.entries[1], found.entries[2]])
    assert opened.recover().finished == {0: GROUP_0}


def test_a_changed_file_is_decoded_again_and_its_neighbours_are_not(opened: OpenRun) -> None:
    found = recover(opened.run, opened.store, SOURCES, GROUPS, Earlier(changed_rows=frozenset({2, 3})))
    assert found == Recovered({}, {row: opened.entries[row] for row in (0, 1, 5, 6)})


@pytest.mark.parametrize("damage", ["frames", "part"])
def test_what_cannot_be_brought_back_is_decoded_again(tmp_path: Path, damage: str) -> None:
    opened = OpenRun(tmp_path / "out", "arrow")
    if damage == "frames":
        shard = opened.run.out / "shards" / "shard-00000.arrow"
        content = bytearray(shard.read_bytes())
        content[content.rindex(b"\xff\xda") + 20] ^= 1  # within the last frame of row 2
        shard.write_bytes(content)
    else:
        os.truncate(frames_part(opened.run, 0), 20)
    found = recover(opened.run, "arrow", SOURCES, GROUPS, Earlier(other_limits=True))
    assert set(found.entries) == ({0, 3, 6} if damage == "frames" else {3, 6})


def test_an_entry_that_tells_of_another_result_is_not_believed(opened: OpenRun) -> None:
    wrong = opened.entries[3]
    for entry in (
        replace(wrong, table_crc32=wrong.table_crc32 ^ 1),
        replace(wrong, outcome=replace(wrong.outcome, content_crc32=1)),
        replace(wrong, outcome=replace(wrong.outcome, num_frames=3)),
    ):
        again = OpenRun(opened.run.out.parent / f"out{entry.table_crc32}{entry.outcome.num_frames}", opened.store)
        journal_of(again.run, [entry])
        assert again.recover() == Recovered({0: GROUP_0}, {})
        shutil.rmtree(again.run.out)


def test_the_last_entry_counts(opened: OpenRun) -> None:
    """A video that crashed and was tried again."""
    failed = Entry(3, other_video("A/3", "failed", "crashed").outcome, 0)
    journal_of(opened.run, [failed, opened.entries[3]])
    assert opened.recover().entries == {3: opened.entries[3]}


def test_rows_that_failed_need_no_files(opened: OpenRun) -> None:
    failed = Entry(4, other_video("B/4/deep", "failed", "crashed").outcome, 0)
    journal_of(opened.run, [failed])
    assert opened.recover().entries == {4: failed}


def test_leftovers_of_killed_children_are_removed(opened: OpenRun) -> None:
    (opened.run.spool / "00000004.jpegs").write_bytes(b"half")
    (opened.run.spool / "00000004").mkdir()
    (opened.run.spool / "00000004" / "img_00001.jpg").write_bytes(b"half")
    (opened.run.spool / "00000004.table").write_bytes(b"half")
    (opened.run.spool / "00000099.jpegs").touch()
    kept = {path.name for path in (opened.frames_of(3), opened.table_of(3), opened.frames_of(6), opened.table_of(6))}
    opened.recover()
    assert set(os.listdir(opened.run.spool)) == {name for name in kept if opened.store == "arrow" or "table" in name}


def test_temporary_files_are_removed(opened: OpenRun) -> None:
    (opened.run.out / "shards").mkdir(exist_ok=True)
    left = [folder / ".tmp-01234567" for folder in (opened.run.out, opened.run.out / "shards", opened.run.groups)]
    for path in left:
        path.write_bytes(b"half")
    opened.recover()
    assert [path for path in left if path.exists()] == []


def test_frame_folders_that_were_renamed_but_not_journaled_are_removed(tmp_path: Path) -> None:
    opened = OpenRun(tmp_path / "out", "frames")
    spool_video(opened.run, "frames", 4, VIDEOS[4])
    assert opened.frames_of(4).exists()
    assert 4 not in opened.recover().entries
    assert not opened.frames_of(4).exists()
