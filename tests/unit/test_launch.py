"""Processes that are started together, and end as one. Here they are scripts of a line or two."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manifests.errors import Error, Interrupted, UsageError
from train import launch
from train.launch import Layout, layout_of, run_ranks

RANK = "import os, signal, sys, time\nfrom train.launch import settle_in\nrank = int(os.environ['PADDLE_TRAINER_ID'])\n"

HANDLERS = """
got = []
def note(number, frame):
    got.append(signal.Signals(number).name)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, note)
settle_in()
"""


def run(code: str, layout: Layout = Layout(2)) -> int:  # noqa: B008 - frozen
    return run_ranks(layout, ["-c", RANK + code])


def test_variables_of_every_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the second of two machines, with three each."""
    monkeypatch.setenv("MASTER_ADDR", "of another launcher")
    code = "import json\nopen(sys.argv[1] + f'/{rank}', 'w').write(json.dumps(dict(os.environ)))"
    assert run_ranks(Layout(3, 2, 1, "10.0.0.1:29500"), ["-c", RANK + code, str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4", "5"]
    for rank in (3, 4, 5):
        found = json.loads((tmp_path / str(rank)).read_text())
        assert found["PADDLE_MASTER"] == found["PADDLE_TRAINER_ENDPOINTS"].split(",")[0] == "10.0.0.1:29500"
        assert found["PADDLE_TRAINERS_NUM"] == found["PADDLE_GLOBAL_SIZE"] == "6"
        assert found["PADDLE_CURRENT_ENDPOINT"] == found["PADDLE_TRAINER_ENDPOINTS"].split(",")[rank]
        assert (found["PADDLE_LOCAL_SIZE"], found["PADDLE_NNODES"]) == ("3", "2")
        assert found["FLAGS_selected_gpus"] == found["PADDLE_LOCAL_RANK"] == str(rank - 3)
        assert "MASTER_ADDR" not in found


def test_the_first_one_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("print('result', rank)\nprint('note', rank, file=sys.stderr)") == 0
    assert capfd.readouterr() == ("result 0\n", "note 0\n")


def test_a_module_of_the_users_does_not_shadow_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('the wrong module was imported')\n")
    monkeypatch.chdir(tmp_path)
    assert run_ranks(Layout(2), ["-c", "import train.launch"]) == 0


@pytest.mark.parametrize("code", [0, 130])
def test_one_that_the_first_leaves_behind(code: int) -> None:
    """Gloo aborts it while the first, whose word counts, is still on its way out."""
    assert run(f"if rank:\n    os.abort()\ntime.sleep(0.5)\nsys.exit({code})") == code


def test_one_that_aborts_alone(tmp_path: Path) -> None:
    sign = str(tmp_path / "sign")
    wait = f"while not os.path.exists({sign!r}):\n    time.sleep(0.01)\ntime.sleep(0.5)"
    with pytest.raises(Error, match=r"^process 1 of 2 was killed by SIGABRT, and the others with it$"):
        run(f"if rank:\n    open({sign!r}, 'w').close()\n    os.abort()\n{wait}\nsys.exit(3)")


def test_what_ends_all_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever is first."""
    assert run("time.sleep(0.3 * (1 - rank))\nprint('train fit: no such data', file=sys.stderr)\nsys.exit(2)") == 2
    assert capfd.readouterr().err == "train fit: no such data\n"


def test_one_that_fails_ends_all_with_its_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_SAME_END_WITHIN_S", 0.2)
    code = (
        "if rank == 0: time.sleep(60)\nprint('a warning\\ntrain fit: shard 3 is damaged', file=sys.stderr)\nsys.exit(4)"
    )
    with pytest.raises(Error, match=r"^shard 3 is damaged$") as caught:
        run(code)
    assert caught.value.exit_code == 4
    assert capfd.readouterr().err == "a warning\n"
    with pytest.raises(Error, match=r"^process 1 of 2 ended without a word$"):
        run("if rank == 0: time.sleep(60)\nsys.exit(1)")


@pytest.mark.parametrize("killed", [0, 1])
def test_one_that_is_killed_ends_all(killed: int) -> None:
    code = f"if rank == {killed}: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)"
    with pytest.raises(Error, match=f"^process {killed} of 2 was killed by SIGKILL, and the others with it$") as caught:
        run(code)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_all_once(number: signal.Signals, tmp_path: Path) -> None:
    """Also one that has no handler yet; the first one takes its time to save."""
    code = f"""
if rank == 1: os.kill(os.getppid(), {int(number)})
time.sleep(0.3)
{HANDLERS}
time.sleep(0.4 * (1 - rank))
open(sys.argv[1] + f'/{{rank}}', 'w').write(' '.join(got))
sys.exit(130)
"""
    assert run_ranks(Layout(2), ["-c", RANK + code, str(tmp_path)]) == 130
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == [number.name] * 2


def test_a_signal_before_anything_could_be_saved() -> None:
    with pytest.raises(Interrupted, match=r"^interrupted$"):
        run("settle_in()\nif rank == 1: os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(60)")


def test_the_third_signal_kills() -> None:
    code = f"{HANDLERS}\nfor _ in range(3):\n  time.sleep(0.2)\n  if rank == 1: os.kill(os.getppid(), signal.SIGTERM)\n"
    with pytest.raises(Error, match="was killed by SIGKILL"):
        run(f"{code}while True: time.sleep(1)")


def test_they_die_with_their_launcher(tmp_path: Path) -> None:
    code = "settle_in()\nopen(sys.argv[1] + f'/{os.getpid()}', 'w').close()\ntime.sleep(60)"
    launcher = "import sys\nfrom train.launch import Layout, run_ranks\nrun_ranks(Layout(2), ['-c', *sys.argv[1:]])"
    process = subprocess.Popen([sys.executable, "-P", "-c", launcher, RANK + code, str(tmp_path)])
    deadline = time.monotonic() + 20
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert run("pass") == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert not os.environ.get("PADDLE_MASTER")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, None, None), "--nproc is at least 1, not 0"),
        ((1, 0, None, None), "--nnodes is at least 1, not 0"),
        ((2, 1, None, "a:1"), "--master goes with --nnodes, the number of machines"),
        ((2, 1, 0, None), "--rank goes with --nnodes, the number of machines"),
        ((2, 2, 0, None), "--nnodes 2 needs --master HOST:PORT"),
        ((2, 2, None, "a:1"), "--nnodes 2 needs --master HOST:PORT"),
        ((2, 2, 2, "a:1"), "--rank is in [0, 2), the number of --nnodes, not 2"),
        ((2, 2, 0, "a"), "--master is HOST:PORT, such as 10.0.0.1:29500, not 'a'"),
        ((2, 2, 0, "a:70000"), "--master is HOST:PORT, such as 10.0.0.1:29500, not 'a:70000'"),
    ],
)
def test_wrong_use(arguments: tuple[int, int, int | None, str | None], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        layout_of(*arguments)
    assert str(caught.value).startswith(message)


def test_right_use() -> None:
    assert layout_of(4, 1, None, None) == Layout(4)
    assert layout_of(4, 2, 1, "node0:29500") == Layout(4, 2, 1, "node0:29500")
    assert Layout(4, 2, 1, "node0:29500").count == 8
