"""`train bench ops`: steps in turn, and its table, on shapes that take no time."""

import argparse
import json
from typing import Any

import pytest
from conftest import Prep
from paddle_import import paddle

from manifests.errors import UsageError
from train.bench import interleaved, ops
from train.bench.interleaved import measure
from train.device import set_cpu_threads

pytestmark = pytest.mark.usefixtures("threads_as_before")


@pytest.fixture
def threads_as_before() -> Any:
    yield
    set_cpu_threads(1)


def test_every_step_has_its_turn_in_every_round_in_another_order() -> None:
    ran: list[str] = []
    samples = measure({name: (lambda name=name: ran.append(name)) for name in "abcde"}, 0.0, 6)
    rounds = [ran[i : i + 5] for i in range(0, len(ran), 5)]
    assert rounds[0] == list("abcde")  # without measuring
    assert [sorted(names) for names in rounds] == [list("abcde")] * 7
    assert len({tuple(names) for names in rounds[1:]}) > 1
    assert {name: len(sample.seconds) for name, sample in samples.items()} == dict.fromkeys("abcde", 6)


def test_rounds_go_on_for_the_time_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(interleaved.time, "monotonic", lambda: float(next(clock)))
    assert len(measure({"a": lambda: None}, 9.5, 1)["a"].seconds) == 10


def test_the_most_memory_of_a_step() -> None:
    """One that holds 4 MB for a moment, after one that held 8."""

    def hold(num_floats: int) -> None:
        paddle.ones([num_floats])

    samples = measure({"large": lambda: hold(2 << 20), "small": lambda: hold(1 << 20)}, 0.0, 1)
    if samples["small"].peak_bytes is None:
        pytest.skip("this Paddle cannot tell")
    assert samples["large"].peak_bytes - samples["small"].peak_bytes == 4 << 20
    assert samples["small"].peak_bytes >= 4 << 20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "SHAPES", ((16, 8, 2, 2), (8, 16, 4, 3)))


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    assert ops.run(argparse.Namespace(**{"seconds": 0.01, "json": False, "quiet": True, **options})) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.usefixtures("small")
def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    title, note, _, head, *rows = run(capsys).splitlines()
    assert title.startswith(f"temporal shift of 0.125 each way over 8 frames; Paddle {paddle.__version__}, cpu, ")
    assert "train uses 'rows' here" in note
    assert head.split()[:3] == ["shape", "version", "forward"]
    names = ["composed", "fused", "split", "rows"]
    assert [row.split()[:2] for row in rows] == [[shape, name] for shape in ("16x8x2x2", "8x16x4x3") for name in names]


@pytest.mark.usefixtures("small")
def test_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    table = json.loads(run(capsys, json=True))
    assert (table["num_frames"], table["share"], table["in_use"]) == (8, 1 / 8, "rows")
    by_version = {(tuple(row["shape"]), row["version"]): row for row in table["rows"]}
    assert len(by_version) == 8
    for (shape, _), row in by_version.items():
        composed = by_version[shape, "composed"]
        for part in ("forward", "forward_backward"):
            assert row[f"{part}_s"] > 0
            assert row[f"{part}_x_composed"] == pytest.approx(composed[f"{part}_s"] / row[f"{part}_s"])
        assert row["num_rounds"] >= 3


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_no_time(seconds: float) -> None:
    with pytest.raises(UsageError, match="--seconds is above 0, not"):
        ops.run(argparse.Namespace(seconds=seconds, json=False, quiet=True))


def test_the_command(train: Prep) -> None:
    done = train("bench", "speed")
    assert done.returncode == 2
    assert "invalid choice: 'speed' (choose from" in done.stderr
    done = train("bench", "ops", "--seconds", 0)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "train bench: --seconds is above 0, not 0\n")
