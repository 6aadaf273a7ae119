"""The real command: scan prints and tells in JSON what it found, and an extraction goes by it."""

import json
import re
import shlex
from pathlib import Path

import pytest
from conftest import ROOT, Prep
from layouts import make_files, write_texts

from manifests import open_dataset
from manifests.sources import read_sources
from prep.datasets import DATASETS


@pytest.fixture
def kinetics(synthetic: Path, tmp_path: Path) -> Path:
    """Four real clips under YouTube names: one twice, one that no table names; and one that only a table names."""
    clips = [path.read_bytes() for path in sorted(synthetic.rglob("*.avi"))[:3]]
    root = tmp_path / "k400"
    make_files(
        root,
        {
            "train/air_drumming/-3B32lodo2M_000059_000069.avi": clips[0],
            "val/abseiling/_dbcJuKJQNs_000040_000050.avi": clips[1],
            "val/_dbcJuKJQNs_000040_000050.avi": clips[1],
            "val/abseiling/0123456789a_000000_000010.avi": clips[2],
        },
    )
    head = "label,youtube_id,time_start,time_end,split,is_cc\r\n"
    write_texts(
        root / "annotations",
        {
            "train.csv": f"{head}air drumming,-3B32lodo2M,59,69,train,0\r\n",
            "val.csv": f"{head}abseiling,_dbcJuKJQNs,40,50,val,0\r\nabseiling,-3B32lodo2M,70,80,val,0\r\n",
        },
    )
    return root


def test_kinetics_from_scan_to_dataset(prep: Prep, kinetics: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources.parquet"
    done = prep("scan", kinetics, "--dataset", "kinetics", "--out", sources, "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert table["reconciliation"]["counts"]["all"] == {
        "num_lines": None, "num_repeated": 0, "num_videos": 5, "num_missing": 1, "num_on_disk": 4, "num_near": 0,
        "num_empty": 0, "num_disagree": 0, "num_identical": 2, "num_unreadable": 0, "num_duplicate": 1,
        "num_excluded": 1, "num_to_decode": 2, "num_classes": 2,
    }  # fmt: skip
    assert table["subsets"] == {"all": 5, "train": 1, "val": 2}
    assert table["not_to_be_decoded"] == {"duplicate_id": 1, "excluded": 1, "missing": 1}
    assert table["reconciliation"]["missing"] == ["-3B32lodo2M_000070_000080.mp4"]
    assert table["reconciliation"]["not_listed"] == ["val/abseiling/0123456789a_000000_000010.avi"]
    assert table["leaks"] == []  # the clip of the same YouTube video is missing

    out = tmp_path / "out"
    done = prep("extract", sources, "--out", out, "--quiet", "--json")
    assert done.returncode == 0, done.stdout  # a copy and a missing video are no failure of the run
    counts = json.loads(done.stdout)
    assert counts["counts"] == {"ok": 2, "failed": 1, "excluded": 2}
    assert counts["failures"] == {"duplicate_id": 1, "missing": 1}
    with open_dataset(out) as dataset:
        ok = {dataset.video(row)["source"]: dataset.video(row)["subsets"] for row in dataset.rows()}
    assert ok == {
        "train/air_drumming/-3B32lodo2M_000059_000069.avi": ["train"],
        "val/abseiling/_dbcJuKJQNs_000040_000050.avi": ["val"],
    }
    done = prep("extract", sources, "--out", out, "--quiet", "--update")
    assert done.returncode == 0, done.stderr
    assert "duplicate_id (1): another file with its id was taken" in prep("report", out).stdout


def test_the_table_is_printed(prep: Prep, kinetics: Path, tmp_path: Path) -> None:
    done = prep("scan", kinetics, "--dataset", "kinetics", "--out", tmp_path / "s.parquet")
    assert done.stdout.splitlines()[1:5] == [
        "subset  lines  videos  missing  on disk  identical  duplicate  excluded  to decode  classes",
        "all         -       5        1        4          2          1         1          2        2",
        "train       1       1        0        1          0          0         0          1        1",
        "val         2       2        1        1          1          0         0          1        1",
    ]
    extracted = prep("extract", kinetics, "--dataset", "kinetics", "--out", tmp_path / "out")
    assert "subset  lines  videos  missing" in extracted.stderr


def test_leaks_classes_and_split(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    sources, order = tmp_path / "s.parquet", tmp_path / "order.txt"
    classes = (synthetic / "classInd.txt").read_text().split()[1::2]
    order.write_text("".join(f"{name}\n" for name in reversed(classes)))
    flags = ["--classes", order, "--split", "0.5,0.5", "--seed", 3]
    done = prep("scan", synthetic, "--out", sources, *flags, "--group", "v_(.*_g[0-9]+)_")
    assert done.returncode == 0, done.stderr
    found = read_sources(sources)
    assert found.classes == tuple(reversed(classes))
    assert all(found.classes[source.label] == Path(source.source).parts[0] for source in found.sources)
    assert sorted(source.subsets for source in found.sources) == [("train",)] * 8 + [("val",)] * 8
    assert "leak: " not in done.stdout
    done = prep("scan", synthetic, "--out", sources, *flags)
    assert "leak: train and val share" in done.stdout


def test_refusals(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    sources = tmp_path / "s.parquet"
    done = prep("scan", synthetic, "--out", sources, "--seed", 3)
    assert (done.returncode, done.stderr) == (2, "prep scan: --seed and --group go with --split\n")
    assert prep("scan", synthetic, "--out", sources).returncode == 0
    done = prep("extract", sources, "--out", tmp_path / "out", "--split", "0.5,0.5", "--dataset", "folder")
    assert (done.returncode, done.stderr) == (
        2,
        f"prep extract: --dataset and --split go with a folder; {sources} holds what they told prep scan\n",
    )
    assert not (tmp_path / "out").exists()


def test_the_commands_of_the_readme(prep: Prep, tmp_path: Path) -> None:
    """Each command of the table of datasets, on a miniature of its layout."""
    write_texts(
        tmp_path,
        {
            "ucfTrainTestlist/classInd.txt": "1 YoYo\r\n",
            "ucfTrainTestlist/trainlist01.txt": "YoYo/v_YoYo_g08_c01.avi 1\r\n",
            "testTrainMulti_7030_splits/wave_test_split1.txt": "x_wave.avi 1 \n",
            "k400/annotations/train.csv": "label,youtube_id,time_start,time_end,split\nwave,-3B32lodo2M,0,10,train\n",
            "labels/labels.json": '{"Holding something": "0"}',
            "labels/train.json": '[{"id": "78687", "template": "Holding [something]"}]',
            "train.csv": "train/wave/a.avi,0\n",
            "val.csv": "val/wave/b.avi,0\n",
        },
    )
    make_files(
        tmp_path,
        [
            "videos/train/wave/a.avi",
            "videos/val/wave/b.avi",
            "UCF-101/YoYo/v_YoYo_g08_c01.avi",
            "hmdb51/wave/x_wave.avi",
            "k400/train/wave/-3B32lodo2M_000000_000010.mp4",
            "20bn-something-something-v2/78687.webm",
        ],
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\| `(\w+)` \|.*\| `prep (scan .*)` \|$", readme, re.MULTILINE)
    assert [dataset for dataset, _ in commands] == list(DATASETS)
    for dataset, command in commands:
        done = prep(*shlex.split(command), cwd=tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        found = read_sources(tmp_path / "sources.parquet")
        assert found.dataset == dataset
        assert all(source.status is None and source.label == 0 and source.subsets for source in found.sources)
