"""The report: every number counted here again, and the text that users read."""

from pathlib import Path

import pytest
from datasets_made import CLASSES, Video, draw_jpegs, make_dataset, ok_video, other_video, variety

from manifests.errors import DamagedError, UsageError
from manifests.machine import format_bytes
from manifests.records import FAILURE_KINDS
from manifests.stores import STORES
from prep.report import SubsetCounts, make_report, report_lines

VIDEOS = variety()
OK = [video for video in VIDEOS if video.outcome.status == "ok"]


@pytest.fixture(scope="module", params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / request.param
    make_dataset(out, request.param, VIDEOS, classes=(*CLASSES, "Nobody"))
    return out


def counts(videos: list[Video]) -> SubsetCounts:
    ok = [video for video in videos if video.outcome.status == "ok"]
    return SubsetCounts(
        num_videos=len(videos),
        num_ok=len(ok),
        num_frames=sum(len(video.jpegs) for video in ok),
        num_bytes=sum(len(jpeg) for video in ok for jpeg in video.jpegs),
    )


def test_numbers(folder: Path) -> None:
    report = make_report(folder)
    assert report.description.counts == {"ok": 6, "failed": 5, "excluded": 2}
    assert report.subsets == {
        "all": counts(VIDEOS),
        "test01": counts([video for video in VIDEOS if "test01" in video.source.subsets]),
        "test02": counts([video for video in VIDEOS if "test02" in video.source.subsets]),
        "train01": counts([video for video in VIDEOS if "train01" in video.source.subsets]),
    }
    assert report.subsets["train01"] == SubsetCounts(
        num_videos=5, num_ok=4, num_frames=31, num_bytes=report.subsets["train01"].num_bytes
    )
    assert report.description.num_frames == 1 + 23 + 4 + 5 + 2 + 3
    assert report.description.num_bytes == report.subsets["all"].num_bytes
    assert report.median_num_frames == 3.5
    assert report.sizes == {"32x24": 5, "64x48": 1}
    assert report.empty_classes == ("Nobody",)
    assert report.remarks == [("Juggling/many.avi", "kept although 2 packets cannot be decoded")]
    assert report.num_could_be_kept == 1  # neither the one-picture video, nor the one without a frame


def test_failures_are_listed_by_kind_in_the_order_of_the_documentation(folder: Path) -> None:
    failures = make_report(folder).failures
    assert failures == {
        "missing": [("gone.avi", None)],
        "decode": [
            ("bad.avi", "3 packets cannot be decoded"),
            ("x2.avi", "every frame is the same picture; 9 packets cannot be decoded"),
            ("x3.avi", "no frame can be decoded"),
        ],
        "too_short": [("short.avi", "1 frames, fewer than limits.min_frames=2")],
        "crashed": [("x1.avi", "the decoding process died of SIGSEGV")],
    }
    assert list(failures) == [kind for kind in FAILURE_KINDS if kind in failures]


def test_text(folder: Path) -> None:
    size = {name: format_bytes(c.num_bytes) for name, c in make_report(folder).subsets.items()}
    lines = report_lines(make_report(folder))
    assert lines[0] == "dataset    folder, 13 videos, 4 classes"
    assert lines[1] == "status     6 ok, 5 failed, 2 excluded"
    assert lines[2] == f"frames     38 (3.5 a video in the median), {size['all']}, 32x24 (5), 64x48 (1)"
    assert lines[3] == (
        "recipe     decoder=pyav, frames.short_side_px=256, frames.enlarge=False, frames.square_pixels=False, "
        f"frames.quality=90, frames.every=1, frames.fps=0.0, store.format={folder.name}, store.videos_per_shard=3"
    )
    assert lines[4] == "made with  av 1.2.3, libavcodec 61.0.0"
    table = lines[lines.index("") + 1 :][:5]
    cells = [line.split(maxsplit=4) for line in table]
    assert cells == [
        ["subset", "videos", "ok", "frames", "bytes"],
        ["all", "13", "6", "38", size["all"]],
        ["test01", "2", "1", "5", size["test01"]],
        ["test02", "1", "1", "23", size["test02"]],
        ["train01", "5", "4", "31", size["train01"]],
    ]
    assert len({len(line) for line in table}) == 1  # columns stand below each other
    rest = lines[lines.index("not ok, by kind:") :]
    assert rest == [
        "not ok, by kind:",
        f"  missing (1): {FAILURE_KINDS['missing']}",
        "    gone.avi",
        f"  decode (3): {FAILURE_KINDS['decode']}",
        "    bad.avi: 3 packets cannot be decoded",
        "    x2.avi: every frame is the same picture; 9 packets cannot be decoded",
        "    x3.avi: no frame can be decoded",
        f"  too_short (1): {FAILURE_KINDS['too_short']}",
        "    short.avi: 1 frames, fewer than limits.min_frames=2",
        f"  crashed (1): {FAILURE_KINDS['crashed']}",
        "    x1.avi: the decoding process died of SIGSEGV",
        "",
        "excluded, since no annotation names them (1):",
        "    other.avi",
        "",
        "ok, with a remark (1):",
        "    Juggling/many.avi: kept although 2 packets cannot be decoded",
        "1 failed video would be kept by the same prep extract "
        "with --retry failed:decode --set limits.keep_damaged=true",
        "classes without an ok video: Nobody",
    ]


def test_a_dataset_without_any_trouble(tmp_path: Path) -> None:
    make_dataset(tmp_path / "out", "arrow", [VIDEOS[0]], classes=CLASSES[:1])
    lines = report_lines(make_report(tmp_path / "out"))
    assert lines[-1].startswith("train01")
    assert len(lines) == 9


def test_many_failures_and_many_sizes_are_cut_short(tmp_path: Path) -> None:
    videos = [ok_video(f"ok{width}", draw_jpegs(width, 1, width, 24), width=width) for width in range(32, 44, 2)]
    videos += [other_video(f"bad{number}", "failed", "empty") for number in range(1234)]
    make_dataset(tmp_path / "out", "frames", videos, videos_per_shard=2000)
    report = make_report(tmp_path / "out")
    assert len(report.failures["empty"]) == 1234
    lines = report_lines(report)
    assert "32x24 (1), 34x24 (1), 36x24 (1), 38x24 (1) and 2 other sizes" in lines[2]
    start = lines.index("  empty (1,234): the file has no bytes, or the frame folder no files")
    assert lines[start + 1 :] == [
        "    bad0.avi",
        "    bad1.avi",
        "    bad2.avi",
        "    and 1,231 more; --json names all",
    ]
    assert "status     6 ok, 1,234 failed, 0 excluded" in lines


def test_the_common_size_comes_first(tmp_path: Path) -> None:
    wide = ok_video("wide", draw_jpegs(1, 1, 40, 24), width=40)
    videos = [wide, VIDEOS[0], VIDEOS[1]]
    make_dataset(tmp_path / "out", "arrow", videos)
    assert list(make_report(tmp_path / "out").sizes.items()) == [("32x24", 2), ("40x24", 1)]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a prepared dataset"):
        make_report(tmp_path)
    make_dataset(tmp_path / "out", "arrow", [VIDEOS[0]])
    (tmp_path / "out" / "manifest.parquet").write_bytes(b"PAR1")
    with pytest.raises(DamagedError, match="SHA-256"):
        make_report(tmp_path / "out")


def test_leaks_between_subsets(tmp_path: Path) -> None:
    """By the ok videos: in both subsets, of one group, of one YouTube video, of the same bytes."""
    same = {"source_sha256": "5" * 64}
    videos = [
        ok_video("a", draw_jpegs(1, 1), subsets=("test01", "train01")),
        ok_video("v_YoYo_g01_c01", draw_jpegs(2, 1), subsets=("train01",)),
        ok_video("v_YoYo_g01_c02", draw_jpegs(3, 1), subsets=("test01",)),
        ok_video("-_345678901_000000_000010", draw_jpegs(4, 1), subsets=("train01",)),
        ok_video("-_345678901_000020_000030", draw_jpegs(5, 1), subsets=("test01",)),
        ok_video("x", draw_jpegs(6, 1), subsets=("train01",), **same),
        ok_video("y", draw_jpegs(7, 1), subsets=("test01",), **same),
        other_video("z", "failed", "decode", subsets=("test01",), **same),
    ]
    make_dataset(tmp_path / "out", "arrow", videos)
    report = make_report(tmp_path / "out")
    assert [(leak.kind, leak.subsets, leak.shared) for leak in report.leaks] == [
        ("video", ("test01", "train01"), (("a.avi",),)),
        ("group", ("test01", "train01"), (("v_YoYo_g01_c02.avi", "v_YoYo_g01_c01.avi"),)),
        ("youtube", ("test01", "train01"), (("-_345678901_000020_000030.avi", "-_345678901_000000_000010.avi"),)),
        ("bytes", ("test01", "train01"), (("y.avi", "x.avi"),)),
    ]
    assert report_lines(report)[-4:] == [
        "leak: test01 and train01 share 1 video that is in both: 'a.avi'",
        "leak: test01 and train01 share 1 group of takes of one scene (gNN of UCF-101): 'v_YoYo_g01_c02.avi' and "
        "'v_YoYo_g01_c01.avi'",
        "leak: test01 and train01 share 1 YouTube video with clips in both: '-_345678901_000020_000030.avi' and "
        "'-_345678901_000000_000010.avi'",
        "leak: test01 and train01 share 1 set of files that are the same byte for byte: 'y.avi' and 'x.avi'",
    ]
