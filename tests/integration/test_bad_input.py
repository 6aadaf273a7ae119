"""What users get wrong: one clear sentence, the right exit code, no traceback, and the good videos are prepared."""

import json
from pathlib import Path

import pytest
from conftest import Prep

from manifests import open_dataset


@pytest.fixture
def videos(synthetic: Path, tmp_path: Path) -> Path:
    """Two good videos in a folder of their own."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for source in sorted(synthetic.rglob("*.avi"))[:2]:
        (folder / source.name).symlink_to(source)
    return folder


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["extract", "nowhere", "--out", "out"], "no such folder: 'nowhere'"),
        (["extract", "empty", "--out", "out"], "no videos under 'empty'"),
        (["extract", "videos", "--out", "out", "--store", "zip"], "invalid choice: 'zip'"),
        (["extract", "videos", "--out", "out", "--decoder", "vlc"], "invalid choice: 'vlc'"),
        (["extract", "videos", "--out", "out", "--dataset", "imagenet"], "invalid choice: 'imagenet'"),
        (["extract", "videos", "--out", "out", "--jobs", "two"], "invalid int value: 'two'"),
        (["extract", "videos", "--out", "out", "--jobs", "0"], "--jobs is at least 1, not 0"),
        (["extract", "videos", "--out", "out", "--set", "frames.qualty=9"], "did you mean frames.quality?"),
        (["extract", "videos", "--out", "out", "--set", "frames.quality"], "--set takes KEY=VALUE"),
        (["extract", "videos", "--out", "out", "--set", "frames.quality=high"], "takes a whole number, not 'high'"),
        (["extract", "videos", "--out", "out", "--set", "frames.quality=101"], "[1, 100], not 101"),
        (["extract", "videos", "--out", "out", "--recipe", "nowhere.toml"], "cannot read the recipe nowhere.toml"),
        (["extract", "videos", "--out", "out", "--recipe", "typo.toml"], "did you mean frames.short_side_px?"),
        (["extract", "videos", "--out", "other"], "other holds something else ('letter.txt'"),
        (["extract", "videos", "--out", "letter.txt"], "letter.txt is a file"),
        (["extract", "letter.txt", "--out", "out"], "letter.txt is not a source list"),
        (["extract", "videos", "--out", "out", "--annotations", "empty"], "--annotations"),
        (["extract", "videos", "--out", "out", "--dataset", "ucf101"], "classInd.txt"),
        (["scan", "nowhere", "--out", "sources.parquet"], "no such folder: 'nowhere'"),
        (["verify", "videos"], "videos is not a prepared dataset"),
        (["report", "nowhere"], "nowhere is not a prepared dataset"),
        (["synth", "other"], "other"),
        (["synth", "new", "--classes", "3"], "3"),
        (["extract", "videos"], "required: --out"),
        ([], "required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
    ],
)
def test_usage(prep: Prep, videos: Path, arguments: list[str], sentence: str) -> None:
    folder = videos.parent
    (folder / "empty").mkdir()
    (folder / "other").mkdir()
    (folder / "other" / "letter.txt").write_text("dear reader\n")
    (folder / "letter.txt").write_text("dear reader\n")
    (folder / "typo.toml").write_text("[frames]\nshort_side = 224\n")
    done = prep(*arguments, cwd=folder)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (folder / "out").exists()


def test_bad_videos_cost_themselves_only(prep: Prep, videos: Path, tmp_path: Path) -> None:
    (videos / "zero.avi").touch()
    (videos / "text.mp4").write_text("this is not a video\n" * 50)
    whole = sorted(videos.glob("v_*.avi"))[0].read_bytes()
    (videos / "cut.avi").write_bytes(whole[: len(whole) * 2 // 3])
    out = tmp_path / "out"
    done = prep("extract", videos, "--out", out)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "failed: zero.avi: empty" in done.stderr
    with open_dataset(out) as dataset:
        rows = {row["source"]: (row["status"], row["failure"]) for row in dataset.manifest.to_pylist()}
        assert len(dataset.rows()) == 2
    assert {name: rows[name] for name in ("zero.avi", "text.mp4", "cut.avi")} == {
        "zero.avi": ("failed", "empty"),
        "text.mp4": ("failed", "unreadable"),
        "cut.avi": ("failed", "truncated"),
    }
    assert len(rows) == 5
    assert prep("verify", out, "--deep").returncode == 0
    # The exit code says how the dataset is, also when there is nothing left to do.
    assert prep("extract", videos, "--out", out).returncode == 3


def test_all_videos_bad(prep: Prep, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "zero.avi").touch()
    for _ in range(2):
        done = prep("extract", "videos", "--out", "out", cwd=tmp_path)
        assert done.returncode == 6
        assert "none of 1 video is ok (empty 1)" in done.stderr
        assert not (tmp_path / "out" / "dataset.json").exists()


def test_other_settings_or_sources_are_refused_by_name(prep: Prep, videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert prep("extract", videos, "--out", out, "--quiet").returncode == 0
    other = prep("extract", videos, "--out", out, "--set", "frames.quality=80", "--store", "frames")
    assert other.returncode == 2
    assert "frames.quality 90, not 80" in other.stderr
    assert "store.format 'arrow', not 'frames'" in other.stderr
    # Limits decide no bytes.
    assert prep("extract", videos, "--out", out, "--set", "limits.timeout_s=5").returncode == 0
    (videos / "new.avi").touch()
    more = prep("extract", videos, "--out", out)
    assert more.returncode == 2
    assert "1 new video, 0 gone, 0 with another size" in more.stderr


def test_missing_videos_are_rows_but_no_failure(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for path in synthetic.glob("*.txt"):
        (videos / path.name).write_bytes(path.read_bytes())
    present = sorted(synthetic.rglob("*.avi"))[:3]
    for path in present:
        (videos / path.name).symlink_to(path)  # flat, as some mirrors have it
    done = prep("extract", videos, "--dataset", "ucf101", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failures"] == {"missing": 13}
    with open_dataset(tmp_path / "out") as dataset:
        assert len(dataset) == 16
        assert [dataset.video(row)["class_name"] for row in dataset.rows()] == [p.parent.name for p in present]


def test_errors_in_json(prep: Prep, tmp_path: Path) -> None:
    done = prep("extract", "nowhere", "--out", "out", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"error": "no such folder: 'nowhere'", "exit_code": 2}
