"""What an extraction will take: by arithmetic on made-up samples, and measured on real clips of which all is known."""

import errno
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clips import Clip, write_clip
from datasets_made import draw_jpegs, ok_video, other_video, spool_video
from hypothesis import given
from hypothesis import strategies as st
from trees import hash_tree

from manifests.errors import StoreError, UsageError
from manifests.machine import Space
from manifests.records import Outcome, Source
from manifests.sources import SourceList
from manifests.stores import STORES
from prep import estimate as estimate_module
from prep import sample as sample_module
from prep.commit import commit_group, group_rows
from prep.estimate import (
    Estimate,
    estimate,
    estimate_lines,
    estimate_table,
    extrapolate,
    is_in_doubt,
    require_room,
    rows_left,
    rows_to_come,
)
from prep.extract_video import extract_video
from prep.journal import Entry, Journal
from prep.recipe import ExtractRecipe, Frames, Limits, Store, resolve
from prep.run_folder import Earlier, RunFolder, bind, bound_settings
from prep.sample import Measured, Sample, choose_rows, measure_sample
from prep.versions import pixel_libraries
from prep.workers import Workers

ROOMY = Space(num_bytes=10**12, num_inodes=10**9, block_bytes=4096)
MIB = 2**20


def source_list(sizes: Sequence[int | None], root: Path = Path("/videos")) -> SourceList:
    """Videos 0.avi, 1.avi ... in two folders; those without a size are missing."""
    sources = [
        Source(
            video_id=f"{'ab'[row % 2]}/{row}",
            source=f"{'ab'[row % 2]}/{row}.avi",
            source_bytes=size,
            status=None if size is not None else "failed",
            failure=None if size is not None else "missing",
        )
        for row, size in enumerate(sizes)
    ]
    return SourceList(dataset="folder", root=root, classes=(), sources=tuple(sources))


def settings(store: str = "arrow", videos_per_shard: int = 64, **frames: int) -> ExtractRecipe:
    return resolve(ExtractRecipe(frames=Frames(**frames), store=Store(format=store, videos_per_shard=videos_per_shard)))


# --- Which videos are sampled ---


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 20))
def test_the_sample_is_spread_over_the_bytes(sizes: list[int], num_wanted: int) -> None:
    """Each source is weighted by how many shares of all bytes, laid end to end by size, have their middle in it."""
    rows = list(range(len(sizes)))
    chosen = choose_rows(source_list(sizes), rows, num_wanted)
    by_size = sorted(rows, key=lambda row: sizes[row])
    assert [sizes[row] for row in chosen] == sorted(sizes[row] for row in chosen)
    if sum(sizes) == 0:
        assert chosen == dict.fromkeys(by_size[:num_wanted], 1)
        return
    owners = np.repeat(by_size, [sizes[row] for row in by_size])
    middles = (np.arange(num_wanted) + 0.5) * len(owners) / num_wanted
    assert Counter(chosen) == Counter(owners[middles.astype(int)].tolist())
    for row, size in enumerate(sizes):
        assert chosen.get(row, 0) >= size * num_wanted // sum(sizes)


def test_only_what_is_asked_for_is_sampled() -> None:
    assert set(choose_rows(source_list([5, 5, 5, 5]), [1, 3], 16)) == {1, 3}
    assert choose_rows(source_list([5, 5]), [], 16) == {}


def test_videos_that_may_take_minutes_are_left_out_unless_all_are() -> None:
    assert set(choose_rows(source_list([17 * MIB, 3 * MIB, 16 * MIB]), [0, 1, 2], 16)) == {1, 2}
    assert choose_rows(source_list([19 * MIB, 17 * MIB, 18 * MIB]), [0, 1, 2], 2) == {1: 1, 2: 1}


# --- What follows from a sample ---


def even_sample(*sizes: int, weight: int = 1) -> Sample:
    """Ten stored bytes for each source byte, in frames of 1000 bytes."""
    videos = [
        Measured(weight, size, num_frames=size // 100, num_bytes=10 * size, num_block_bytes=size // 100 * 4096)
        for size in sizes
    ]
    return Sample(tuple(videos), frames_per_s=50.0, wall_s=1.0)


@pytest.mark.parametrize("store", STORES)
def test_videos_that_are_all_alike(store: str) -> None:
    sources = source_list([1000] * 90 + [5000] * 10)
    rows = range(100)
    found = extrapolate(even_sample(1000, 5000), sources, rows, settings(store, 10), ROOMY, num_jobs=2)
    assert (found.num_videos, found.num_sampled, found.failures) == (100, 2, {})
    assert (found.num_frames, found.num_bytes, found.relative_error) == (1400, 1_400_000, 0.0)
    assert found.wall_s == 1400 / (50 * 2)
    if store == "arrow":
        # The largest shard is there twice while it is put together: ten videos of 5000 source bytes.
        assert 1_400_000 + 500_000 < found.needed_bytes < 1_900_000 + 100 * 2048 + 1400 * 64 + 200 * 4096
        assert 10 < found.needed_inodes < 200
    else:
        assert 1400 * 4096 < found.needed_bytes < 1400 * (4096 + 100) + 250 * 4096 + 100 * 2048
        assert 1400 + 100 + 2 < found.needed_inodes < 1700
    assert found.fits


def test_weights_count() -> None:
    sample = Sample((Measured(3, 100, 3, 300, 0), Measured(1, 100, 7, 700, 0)))
    found = extrapolate(sample, source_list([100] * 40), range(40), settings(), ROOMY, num_jobs=1)
    assert (found.num_frames, found.num_bytes) == (160, 16_000)
    # Ratios 3, 3, 3 and 7: their mean is 4, its variance (1 + 1 + 1 + 9) / 3 / 4, of which 38 of 40 videos are unknown.
    assert found.relative_error == pytest.approx((38 / 40) ** 0.5 / 4)
    assert found.wall_s is None


def test_a_sample_of_everything_has_no_error() -> None:
    sample = Sample((Measured(1, 100, 3, 300, 0), Measured(1, 100, 7, 700, 0)))
    found = extrapolate(sample, source_list([100, 100]), [0, 1], settings(), ROOMY, num_jobs=1)
    assert (found.num_frames, found.num_bytes, found.relative_error) == (10, 1000, 0.0)


def test_failures_count_as_they_are() -> None:
    bad = replace(even_sample(100).videos[0], num_frames=0, num_bytes=0, num_block_bytes=0, failure="decode")
    sample = Sample((bad, *even_sample(100, 100, 100).videos))
    found = extrapolate(sample, source_list([100] * 40), range(40), settings(), ROOMY, num_jobs=1)
    assert (found.num_frames, found.num_bytes, found.failures) == (30, 30_000, {"decode": 1})


def test_nothing_to_do_needs_nothing() -> None:
    found = extrapolate(Sample(), source_list([None]), [], settings(), Space(0, 0, 4096), num_jobs=4)
    assert (found.num_videos, found.needed_bytes, found.needed_inodes, found.fits) == (0, 0, 0, True)
    assert found.is_measured
    assert estimate_lines(found, Path("out")) == ["nothing is left to decode"]


def test_nothing_measured_is_said() -> None:
    found = extrapolate(Sample(), source_list([100]), [0], settings(), ROOMY, num_jobs=4)
    assert not found.is_measured
    assert "cannot tell" in estimate_lines(found, Path("out"))[-1]
    assert estimate_table(found)["is_measured"] is False


def test_sources_without_bytes_give_nothing() -> None:
    sample = Sample((Measured(1, 0, failure="empty"),))
    found = extrapolate(sample, source_list([0, 0]), [0, 1], settings(), ROOMY, num_jobs=4)
    assert (found.num_frames, found.num_bytes, found.relative_error) == (0, 0, None)


def test_on_resume_only_what_is_left_counts() -> None:
    sources = source_list([1000] * 100)
    left = extrapolate(even_sample(1000), sources, range(90, 100), settings("arrow", 10), ROOMY, num_jobs=2)
    assert (left.num_videos, left.num_bytes) == (10, 100_000)
    # The shard of those ten is there twice; so is one of which nine videos are in the spool already.
    one = extrapolate(even_sample(1000), sources, [99], settings("arrow", 10), ROOMY, num_jobs=2)
    assert 10_000 + 100_000 < one.needed_bytes < left.needed_bytes


def test_what_does_not_fit() -> None:
    sources, rows = source_list([1000] * 100), range(100)

    def fits(space: Space, store: str = "frames") -> bool:
        return extrapolate(even_sample(1000), sources, rows, settings(store), space, num_jobs=2).fits

    assert fits(Space(20 * MIB, 2000, 4096))
    assert fits(Space(20 * MIB, None, 4096))
    assert not fits(Space(20 * MIB, 1000, 4096))
    assert not fits(Space(4 * MIB, 2000, 4096))
    assert fits(Space(4 * MIB, 1000, 4096), "arrow")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"free_bytes": 300 * MIB}, "it fits into out"),
        (
            {"free_bytes": 100 * MIB},
            "it does not fit: out needs about 200.0 MiB, of which 100.0 MiB are free",
        ),
        (
            {"free_bytes": 300 * MIB, "free_inodes": 2},
            "it does not fit: out needs about 5,000 inodes, of which 2 are free",
        ),
        (
            {"free_bytes": 0, "free_inodes": 2},
            "it does not fit: out needs about 200.0 MiB, of which 0 B are free, "
            "and about 5,000 inodes, of which 2 are free",
        ),
    ],
)
def test_the_verdict(found: dict[str, int], verdict: str) -> None:
    base = Estimate(100, 16, {"decode": 1}, 4000, 150 * MIB, 0.034, 200 * MIB, 5000, 0, None, 4000.0)
    lines = estimate_lines(replace(base, **found), Path("out"))
    assert lines[:2] == [
        "measured: 16 videos, of which failed: decode 1",
        "expected: 4,000 frames, 150.0 MiB, give or take 3 %; about 1 h 6 min to decode",
    ]
    assert lines[2] == "needed: 200.0 MiB and 5,000 inodes"
    assert lines[-1] == verdict


# --- Real samples ---


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips a/0.avi, b/1.avi ... of pictures between plain and noisy, in several sizes and lengths."""
    root, rng = tmp_path_factory.mktemp("clips"), np.random.default_rng(5)
    for name in "ab":
        (root / name).mkdir()
    for row in range(24):
        width, height = [(64, 48), (96, 72), (128, 96)][row % 3]
        clip = Clip(name=str(row), codec="mpeg4", width=width, height=height, options={"qscale": "3"})
        noise = rng.uniform(5, 60)
        frames = [
            np.clip(128 + noise * rng.standard_normal((height, width, 3)), 0, 255).astype(np.uint8)
            for _ in range(int(rng.integers(5, 20)))
        ]
        write_clip(root / "ab"[row % 2] / f"{row}.avi", clip, frames)
    return root


def sizes_of(root: Path, num_videos: int) -> list[int]:
    return [(root / "ab"[row % 2] / f"{row}.avi").stat().st_size for row in range(num_videos)]


class Total:
    """Takes frames and adds up."""

    num_frames = num_bytes = num_blocks = 0

    def add(self, jpeg: bytes) -> None:
        self.num_frames += 1
        self.num_bytes += len(jpeg)
        self.num_blocks += -(-len(jpeg) // 4096)


@pytest.mark.parametrize("store", STORES)
def test_the_estimate_is_near_the_truth(clips: Path, tmp_path: Path, store: str) -> None:
    sources = source_list(sizes_of(clips, 24), clips)
    recipe, total = settings(store, 8, short_side_px=0), Total()
    for source in sources.sources:
        assert extract_video(clips / source.source, recipe, total, lambda: None)[0].status == "ok"
    found = estimate(sources, range(24), recipe, tmp_path / "out", num_jobs=2, num_sampled=8)
    assert 4 <= found.num_sampled <= 8
    assert found.num_frames == pytest.approx(total.num_frames, rel=0.25)
    assert found.num_bytes == pytest.approx(total.num_bytes, rel=0.25)
    assert found.relative_error is not None
    assert 0 < found.relative_error < 0.25
    if store == "frames":
        assert found.needed_inodes == pytest.approx(total.num_frames + 24, rel=0.25)
    assert found.fits
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("store", STORES)
def test_a_sample_of_every_video_is_exact(
    clips: Path, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is measured is what extract_video gives, block by block; and nothing stays in the temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sources, recipe = source_list(sizes_of(clips, 3), clips), settings(store, short_side_px=0)
    sample = measure_sample(sources, {1: 2, 0: 1, 2: 1}, recipe, num_jobs=1, block_bytes=4096, limit_s=60)
    expected = []
    for row, weight in ((1, 2), (0, 1), (2, 1)):
        total, source = Total(), sources.sources[row]
        extract_video(clips / source.source, recipe, total, lambda: None)
        blocks = total.num_blocks * 4096
        expected.append(Measured(weight, source.source_bytes or 0, total.num_frames, total.num_bytes, blocks))
    assert sorted(sample.videos, key=lambda video: video.source_bytes) == sorted(
        expected, key=lambda video: video.source_bytes
    )
    assert list(tmp_path.iterdir()) == []


def with_bad_videos(clips: Path, root: Path, good: int, bad: int) -> SourceList:
    """The first `good` clips, and then `bad` files of a size that is as likely to be sampled."""
    sizes = sizes_of(clips, good)
    for name in "ab":
        (root / name).mkdir(parents=True)
    for row in range(good):
        (root / "ab"[row % 2] / f"{row}.avi").symlink_to(clips / "ab"[row % 2] / f"{row}.avi")
    for row in range(good, good + bad):
        (root / "ab"[row % 2] / f"{row}.avi").write_bytes(b"not a video. " * 1000)
    return source_list([*sizes, *[13_000] * bad], root)


def test_bad_videos_in_the_sample(clips: Path, tmp_path: Path) -> None:
    sources = with_bad_videos(clips, tmp_path / "videos", 4, 2)
    good = estimate(sources, range(4), settings(), tmp_path / "out", num_jobs=1)
    found = estimate(sources, range(6), settings(), tmp_path / "out", num_jobs=1)
    assert found.failures == {"unreadable": 2}
    assert found.num_sampled == 6
    assert found.num_bytes == pytest.approx(good.num_bytes, rel=0.25)


def test_all_are_bad(clips: Path, tmp_path: Path) -> None:
    sources = with_bad_videos(clips, tmp_path / "videos", 0, 3)
    found = estimate(sources, range(3), settings(), tmp_path / "out", num_jobs=2)
    assert (found.num_sampled, found.num_frames, found.num_bytes, found.wall_s) == (3, 0, 0, None)
    assert found.failures == {"unreadable": 3}
    assert found.is_measured
    assert found.fits


def test_no_video_and_one_video(clips: Path, tmp_path: Path) -> None:
    sources = source_list(sizes_of(clips, 3), clips)
    assert estimate(sources, [], settings(), tmp_path / "out", num_jobs=2).num_sampled == 0
    one = estimate(sources, [1], settings(), tmp_path / "out", num_jobs=2)
    total = Total()
    extract_video(clips / "b" / "1.avi", settings(), total, lambda: None)
    assert (one.num_videos, one.num_sampled, one.num_frames, one.num_bytes) == (1, 1, total.num_frames, total.num_bytes)
    assert one.wall_s is None


def with_a_hang(clips: Path, root: Path) -> SourceList:
    """Three clips, and as the largest a pipe, of which a read never returns."""
    sources = with_bad_videos(clips, root, 3, 0)
    os.mkfifo(root / "b" / "3.avi")
    return source_list([source.source_bytes for source in sources.sources] + [50_000], root)


def test_a_video_that_hangs_costs_its_limit(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = with_a_hang(clips, tmp_path / "videos")
    monkeypatch.setattr(sample_module, "_MAX_TIMEOUT_S", 3.0)
    found = estimate(sources, range(4), settings(), tmp_path / "out", num_jobs=2)
    assert found.failures == {"timeout": 1}
    assert found.num_sampled == 4


def test_what_is_not_done_in_time_is_left_out(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(sample_module, "_MAX_TIMEOUT_S", 250.0)
    sources = with_a_hang(clips, tmp_path / "videos")
    recipe = replace(settings(), limits=Limits(timeout_s=250))
    nothing = estimate(sources, [3], recipe, tmp_path / "out", num_jobs=1, limit_s=0.1)
    assert (nothing.num_sampled, nothing.is_measured) == (0, False)

    @contextmanager
    def stop_at_the_pipe(limit_s: float, workers: Workers) -> Iterator[None]:
        """Time is up when the pipe is read, hence after the smaller video."""

        def wait_and_stop() -> None:
            descriptor = os.open(tmp_path / "videos" / "b" / "3.avi", os.O_WRONLY)
            workers.stop()
            os.close(descriptor)

        thread = threading.Thread(target=wait_and_stop)
        thread.start()
        yield
        thread.join()

    monkeypatch.setattr(sample_module, "_stop_after", stop_at_the_pipe)
    found = estimate(sources, [2, 3], recipe, tmp_path / "out", num_jobs=1)
    alone = Total()
    extract_video(clips / "a" / "2.avi", recipe, alone, lambda: None)
    assert (found.num_videos, found.num_sampled, found.failures) == (2, 1, {})
    small_bytes = sources.sources[2].source_bytes or 0
    assert found.num_bytes == round(alone.num_bytes * (small_bytes + 50_000) / small_bytes)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_no_temporary_folder(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match="No such file or directory; set TMPDIR to a folder with room"):
        estimate(source_list(sizes_of(clips, 1), clips), [0], settings(), tmp_path / "out", num_jobs=1)


# --- When a run is refused ---


def fake_disk(monkeypatch: pytest.MonkeyPatch, num_bytes: int, num_inodes: int | None) -> None:
    """All file systems have blocks of 4096 bytes, and so much is free."""
    blocks, files = num_bytes // 4096, 0 if num_inodes is None else 10**6
    values = (4096, 4096, 10**9, blocks, blocks, files, num_inodes or 0, num_inodes or 0, 0, 255)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))


def no_sample(*arguments: object, **options: object) -> Sample:
    raise AssertionError("a sample was measured")


def test_where_there_is_plenty_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_module, "measure_sample", no_sample)
    fake_disk(monkeypatch, 300 * 100 * 1000, 100 * 1000)
    sources = source_list([1000] * 100)
    assert require_room(sources, range(100), settings("frames"), tmp_path / "out", num_jobs=2) is None
    fake_disk(monkeypatch, 200 * 100 * 1000, 100 * 1000)
    with pytest.raises(AssertionError, match="a sample was measured"):
        require_room(sources, range(100), settings("frames"), tmp_path / "out", num_jobs=2)
    # Of few the sample would be much of the work.
    assert require_room(sources, range(23), settings("frames"), tmp_path / "out", num_jobs=2) is None


def test_what_is_in_doubt() -> None:
    sources, rows = source_list([128_000] * 10), range(10)
    enough = Space(256 * 1_280_000, 10_000 + 40, 4096)
    assert not is_in_doubt(sources, rows, settings("frames"), enough)
    assert is_in_doubt(sources, rows, settings("frames"), replace(enough, num_bytes=enough.num_bytes - 1))
    assert is_in_doubt(sources, rows, settings("frames"), replace(enough, num_inodes=10_000))
    assert not is_in_doubt(sources, rows, settings("arrow"), replace(enough, num_inodes=10_000))
    assert not is_in_doubt(sources, rows, settings("frames"), replace(enough, num_inodes=None))
    enlarged = replace(settings(), frames=Frames(short_side_px=1080, enlarge=True))
    assert is_in_doubt(sources, rows, enlarged, ROOMY)


@pytest.mark.parametrize("store", STORES)
def test_a_run_that_cannot_fit_is_refused(
    clips: Path, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, out = source_list(sizes_of(clips, 24), clips), tmp_path / "out"
    fake_disk(monkeypatch, 40_960, None)
    with pytest.raises(StoreError, match=r"out needs about .* MiB, of which 40.0 KiB are free: free space") as no:
        require_room(sources, range(24), settings(store), out, num_jobs=2)
    assert "lower frames.short_side_px or frames.quality" in str(no.value)
    assert ("--store arrow" in str(no.value)) == (store == "frames")
    assert str(no.value).endswith("with --force")
    assert not out.exists()
    # A run that has begun cannot change its settings.
    RunFolder(out).make()
    with pytest.raises(StoreError) as no:
        require_room(sources, range(24), settings(store), out, num_jobs=2)
    assert "frames." not in str(no.value)
    fake_disk(monkeypatch, sum(sizes_of(clips, 24)) * 100, None)
    found = require_room(sources, range(24), settings(store), out, num_jobs=2)
    assert found is not None
    assert found.num_sampled <= 8


def test_too_few_inodes(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = source_list(sizes_of(clips, 24), clips)
    fake_disk(monkeypatch, 10**12, 100)
    with pytest.raises(StoreError, match=r"out needs about \d+ inodes, of which 100 are free") as no:
        require_room(sources, range(24), settings("frames"), tmp_path / "out", num_jobs=2)
    assert "frames.quality" not in str(no.value)
    assert require_room(sources, range(24), settings("arrow"), tmp_path / "out", num_jobs=2) is None


def test_a_disk_that_does_not_tell(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> os.statvfs_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "statvfs", fail)
    for function in (estimate, require_room):
        with pytest.raises(StoreError, match="Input/output error"):
            function(source_list([100]), [0], settings(), tmp_path / "out", num_jobs=1)


# --- Which rows are left ---

VIDEOS = [
    ok_video("A/0", draw_jpegs(0, 3)),
    other_video("A/1", "failed", "decode"),
    ok_video("A/2", draw_jpegs(2, 2)),
    ok_video("A/3", draw_jpegs(3, 4)),
    ok_video("B/4", draw_jpegs(4, 1)),
    other_video("B/5", "failed", "decode"),
    other_video("B/6", "failed", "missing"),
]


@pytest.fixture(params=STORES)
def begun(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[RunFolder, SourceList, ExtractRecipe]:
    """Group 0 (rows 0 to 2) is committed, rows 3 and 5 are done, row 4 is not, and row 6 is settled by the scan."""
    sources = [video.source for video in VIDEOS]
    sources[6] = replace(sources[6], status="failed", failure="missing", source_bytes=None)
    listed = SourceList(dataset="folder", root=Path("/videos"), classes=(), sources=tuple(sources))
    recipe = settings(request.param, 3)
    run = RunFolder(tmp_path / "out")
    run.make()
    bind(run, bound_settings(recipe, pixel_libraries(recipe.decoder)), recipe.limits, listed)
    with Journal(run.journal) as journal:
        entries = {row: spool_video(run, request.param, row, VIDEOS[row]) for row in (0, 1, 2, 3, 5)}
        for entry in entries.values():
            journal.add(entry)
        journal.add(Entry(6, Outcome(status="failed", failure="missing"), 0))
    commit_group(run, request.param, 0, sources[:3], [entries[row] for row in group_rows(7, 3)[0]])
    return run, listed, recipe


def test_what_is_done_is_not_counted(begun: tuple[RunFolder, SourceList, ExtractRecipe]) -> None:
    run, sources, recipe = begun
    before = hash_tree(run.out)
    assert rows_to_come(sources, recipe, run.out) == [4]
    # With other limits what failed is tried again, whether its group is finished or not.
    other = replace(recipe, limits=Limits(timeout_s=5))
    assert rows_to_come(sources, other, run.out) == [1, 4, 5]
    assert rows_left(run, sources, 3, Earlier(changed_rows=frozenset({2, 3}))) == [2, 3, 4]
    assert hash_tree(run.out) == before


def test_what_the_spool_lost_is_left(begun: tuple[RunFolder, SourceList, ExtractRecipe]) -> None:
    run, sources, recipe = begun
    for path in run.spool.glob("*.table"):
        path.unlink()
    assert rows_to_come(sources, recipe, run.out) == [3, 4]


def test_other_settings_are_refused(begun: tuple[RunFolder, SourceList, ExtractRecipe]) -> None:
    run, sources, recipe = begun
    other = replace(recipe, frames=Frames(quality=80))
    with pytest.raises(UsageError, match=r"frames\.quality 90, not 80"):
        rows_to_come(sources, other, run.out)


def test_of_a_new_dataset_all_rows_are_left(tmp_path: Path) -> None:
    assert rows_to_come(source_list([5, None, 7]), settings(), tmp_path / "out") == [0, 2]
    assert list(tmp_path.iterdir()) == []
