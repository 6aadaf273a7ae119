"""What decoding processes leave is believed only where every byte is as the outcome tells.

Both stores, since one spools a file and the other a folder.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from datasets_made import Video, draw_jpegs, ok_video, spool_video

from manifests.stores import STORES
from prep import spool
from prep.journal import Entry
from prep.run_folder import RunFolder

VIDEO = ok_video("A/x", draw_jpegs(1, 5))


class Spooled:
    """One video in the spool, row 7."""

    def __init__(self, out: Path, store: str, video: Video = VIDEO) -> None:
        self.run = RunFolder(out)
        self.run.make()
        self.entry: Entry = spool_video(self.run, store, 7, video)
        if store == "arrow":
            self.frames = spool.frames_path(self.run.spool, 7, store)
        else:
            self.frames = out / "frames" / video.source.video_id
        self.table = spool.table_path(self.run.spool, 7)

    def is_intact(self) -> bool:
        return spool.is_intact(self.frames, self.table, self.entry.outcome, self.entry.table_crc32)


@pytest.fixture(params=STORES)
def spooled(request: pytest.FixtureRequest, tmp_path: Path) -> Spooled:
    return Spooled(tmp_path, request.param)


def test_names(tmp_path: Path) -> None:
    assert spool.frames_path(tmp_path, 17, "arrow") == tmp_path / "00000017.jpegs"
    assert spool.frames_path(tmp_path, 17, "frames") == tmp_path / "00000017"
    assert spool.table_path(tmp_path, 123456789) == tmp_path / "123456789.table"


def test_what_was_written_is_believed(spooled: Spooled) -> None:
    assert spooled.is_intact()


def test_another_outcome_is_not_believed(spooled: Spooled) -> None:
    for change in ({"num_frames": 4}, {"num_frames": 6}, {"content_crc32": 1}, {"content_crc32": None}):
        outcome = replace(spooled.entry.outcome, **change)  # type: ignore[arg-type]
        assert not spool.is_intact(spooled.frames, spooled.table, outcome, spooled.entry.table_crc32)
    crc32 = spooled.entry.table_crc32 ^ 1
    assert not spool.is_intact(spooled.frames, spooled.table, spooled.entry.outcome, crc32)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def some_file(spooled: Spooled) -> Path:
    return spooled.frames / "img_00003.jpg" if spooled.frames.is_dir() else spooled.frames


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


@pytest.mark.parametrize(
    "harm",
    [
        shorten,
        lengthen,
        lambda path: os.truncate(path, 0),
        lambda path: flip(path, 0),
        lambda path: flip(path, -1),
        os.unlink,
    ],
    ids=["shorter", "longer", "empty", "first byte", "last byte", "missing"],
)
@pytest.mark.parametrize("which", ["frames", "table"])
def test_damage_is_not_believed(spooled: Spooled, which: str, harm: Callable[[Path], None]) -> None:
    harm(some_file(spooled) if which == "frames" else spooled.table)
    assert not spooled.is_intact()


def test_a_table_that_is_a_whole_number_of_frames_shorter(spooled: Spooled) -> None:
    os.truncate(spooled.table, 16 * 4)
    assert not spooled.is_intact()


def test_a_byte_that_moved_from_a_frame_to_the_next(tmp_path: Path) -> None:
    """The bytes end to end are the same, but the frames are not."""
    spooled = Spooled(tmp_path, "frames")
    first, second = (spooled.frames / f"img_0000{number}.jpg" for number in (2, 3))
    second.write_bytes(first.read_bytes()[-1:] + second.read_bytes())
    shorten(first)
    assert not spooled.is_intact()


def test_folders_with_other_files(tmp_path: Path) -> None:
    for index, harm in enumerate(
        [
            lambda folder: (folder / "img_00006.jpg").touch(),
            lambda folder: (folder / "Thumbs.db").touch(),
            lambda folder: (folder / "img_00005.jpg").rename(folder / "img_00006.jpg"),
            lambda folder: (folder / "img_00001.jpg").rename(folder / "img_00000.jpg"),
            shutil.rmtree,
        ]
    ):
        spooled = Spooled(tmp_path / str(index), "frames")
        assert spooled.is_intact()
        harm(spooled.frames)
        assert not spooled.is_intact()


def test_a_writer_takes_the_place_of_whatever_is_there(tmp_path: Path) -> None:
    for store in STORES:
        path = tmp_path / "x"
        for leave in (lambda: None, path.touch, path.mkdir):
            spool.remove(path)
            leave()
            if path.is_dir():
                (path / "img_00009.jpg").touch()
            writer = spool.open_writer(path, store)
            writer.add(b"one")
            writer.add(b"two")
            writer.close()
            if store == "arrow":
                assert path.read_bytes() == b"onetwo"
            else:
                assert {name: (path / name).read_bytes() for name in os.listdir(path)} == {
                    "img_00001.jpg": b"one",
                    "img_00002.jpg": b"two",
                }


def test_removing_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "link").symlink_to("kept")
    spool.remove(tmp_path / "link")
    spool.remove(tmp_path / "link")
    assert sorted(os.listdir(tmp_path)) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["file"]
