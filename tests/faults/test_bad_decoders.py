"""Decoders that hang, die, eat memory or talk nonsense cost their video; those around it come out in the same bytes."""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from bad_decoder import with_bad_decoder
from clips import Clip, write_clip
from conftest import PREP
from trees import hash_tree

TIMEOUT_S = 2.5
AMPLE_S = 30.0
"""A limit that what does not hang is far from, on a busy machine too."""
MEMORY_MIB = 512
HUNG = ("timeout", f"no new frame for {TIMEOUT_S} s")
OUT_OF_MEMORY = (
    "out_of_memory",
    f"decoding needs more than {MEMORY_MIB} MiB (limits.memory_mib), or than the machine has",
)
NO_REPLY = ("crashed", "the decoding process gave no proper reply")


def died_of(name: str) -> tuple[str, str]:
    return "crashed", f"the decoding process died of {name}"


ENDS = {
    "spin": HUNG,
    "loop": HUNG,
    "stop": HUNG,
    "sleep-end": HUNG,
    "spin-end": HUNG,
    "segfault": died_of("SIGSEGV"),
    "abort": died_of("SIGABRT"),
    "sigkill": died_of("SIGKILL"),
    "realtime": died_of(f"signal {signal.SIGRTMIN + 1}"),
    "exit": ("crashed", "the decoding process ended with code 3"),
    "segfault-end": died_of("SIGSEGV"),
    "bytes": OUT_OF_MEMORY,
    "array": OUT_OF_MEMORY,
    "native": OUT_OF_MEMORY,
    "shared": OUT_OF_MEMORY,
    "garbage": NO_REPLY,
    "number": NO_REPLY,
    "outcome": NO_REPLY,
    "nested": NO_REPLY,
    "flood": NO_REPLY,
    "close": NO_REPLY,
    "error": ("crashed", "unexpected RuntimeError: no idea about <object at 0x...> in "),
    "oserror": ("crashed", "unexpected OSError: Input/output error"),
}


@dataclass(frozen=True)
class Videos:
    """`clip` is what all videos are links to; `expected` are OUTs by store in which the bad ones had no bytes."""

    clip: Path
    expected: dict[str, Path]


def make_folder(folder: Path, bad: list[str], clip: Path | None, good: Path) -> Path:
    """Six good videos, and bad ones between them: links to `clip`, or empty."""
    for name in [f"a/v{index}.avi" for index in range(3)] + [f"c/v{index}.avi" for index in range(3)]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(good, folder / name)
    (folder / "b").mkdir()
    for kind in bad:
        path = folder / "b" / f"bad-{kind}.avi"
        if clip is None:
            path.touch()
        else:
            os.link(clip, path)
    return folder


def command(videos: Path, out: Path, store: str = "arrow", timeout_s: float = AMPLE_S) -> list[str]:
    settings = [f"limits.timeout_s={timeout_s}", f"limits.memory_mib={MEMORY_MIB}", "store.videos_per_shard=2"]
    return [str(PREP), "extract", str(videos), "--out", str(out), "--store", store, "--quiet", "--jobs", "2"] + [
        word for setting in settings for word in ("--set", setting)
    ]


def start(arguments: list[str], environment: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        env=environment,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_allow_core_files,
    )


def _allow_core_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def members(group: int) -> set[int]:
    """The running processes of a process group."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            state, _, its_group = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.add(int(pid))
    return found


def rows_of(out: Path) -> dict[str, dict[str, Any]]:
    return {row["source"]: row for row in pq.read_table(out / "manifest.parquet").to_pylist()}


def sealed_frames(out: Path) -> dict[str, str]:
    """Everything but the two tables and dataset.json, which tell of the bad video too."""
    tables = ("manifest.parquet", "dataset.json")
    return {path: digest for path, digest in hash_tree(out).items() if path not in tables}


def require_good_rows(out: Path, expected: Path) -> dict[str, Any]:
    """All but the bad video is as in `expected`. Returns the row of the bad one."""
    rows, expected_rows = rows_of(out), rows_of(expected)
    (bad,) = (source for source in rows if "bad-" in source)
    bad_row = rows.pop(bad)
    assert rows == {source: row for source, row in expected_rows.items() if source in rows}
    assert len(rows) == 6
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert sealed_frames(out) == sealed_frames(expected)
    return bad_row


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Videos:
    folder = tmp_path_factory.mktemp("expected")
    clip = write_clip(folder / "clip.avi", Clip(name="clip", codec="mpeg4", num_frames=12))
    source = make_folder(folder / "videos", ["x"], None, clip)
    expected = {store: folder / store for store in ("arrow", "frames")}
    for store, out in expected.items():
        done = subprocess.run(command(source, out, store), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 3, done.stderr
    return Videos(clip, expected)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return with_bad_decoder(tmp_path / "python")


@pytest.mark.parametrize(
    ("kind", "store"),
    [(kind, "arrow") for kind in ENDS] + [(kind, "frames") for kind in ("spin", "segfault", "bytes", "sleep-end")],
)
def test_it_costs_its_video(videos: Videos, environment: dict[str, str], tmp_path: Path, kind: str, store: str) -> None:
    source = make_folder(tmp_path / "videos", [kind], videos.clip, videos.clip)
    out, begun_s = tmp_path / "out", time.monotonic()
    timeout_s = TIMEOUT_S if ENDS[kind] == HUNG else AMPLE_S
    with start(command(source, out, store, timeout_s), environment, tmp_path) as process:
        _, stderr = process.communicate(timeout=60)
        assert members(process.pid) == set()
    assert process.returncode == 3, stderr
    assert "Traceback" not in stderr
    assert time.monotonic() - begun_s < 30  # two tries of TIMEOUT_S each, and a busy machine
    bad_row = require_good_rows(out, videos.expected[store])
    failure, detail = ENDS[kind]
    assert (bad_row["status"], bad_row["failure"]) == ("failed", failure)
    assert bad_row["detail"].startswith(detail)
    assert bad_row["source_sha256"] == rows_of(videos.expected[store])["a/v0.avi"]["source_sha256"]
    assert bad_row["num_frames"] == 0
    assert not (out / ".work").exists()
    assert sorted(os.listdir(tmp_path)) == ["out", "python", "videos"]  # no core file


def test_several_at_once(videos: Videos, environment: dict[str, str], tmp_path: Path) -> None:
    """Also with details that are the same at the next run."""
    kinds = ["segfault", "bytes", "exit", "error", "native", "garbage"]
    source = make_folder(tmp_path / "videos", kinds, videos.clip, videos.clip)
    trees = []
    for name in ("one", "two"):
        with start(command(source, tmp_path / name), environment, tmp_path) as process:
            _, stderr = process.communicate(timeout=60)
        assert process.returncode == 3, stderr
        rows = rows_of(tmp_path / name)
        for kind in kinds:
            row = rows[f"b/bad-{kind}.avi"]
            assert (row["failure"], row["detail"].startswith(ENDS[kind][1])) == (ENDS[kind][0], True), row
        good = [row["content_crc32"] for row in rows.values() if row["status"] == "ok"]
        assert good == [rows_of(videos.expected["arrow"])["a/v0.avi"]["content_crc32"]] * 6
        trees.append(hash_tree(tmp_path / name))
    assert trees[0] == trees[1]


def test_a_crash_of_the_moment_costs_nothing(videos: Videos, environment: dict[str, str], tmp_path: Path) -> None:
    source = make_folder(tmp_path / "videos", ["once"], videos.clip, videos.clip)
    with start(command(source, tmp_path / "out"), environment, tmp_path) as process:
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert (tmp_path / "python" / "tried").exists()
    plain = command(source, tmp_path / "plain")
    assert subprocess.run(plain, capture_output=True, timeout=60, check=False).returncode == 0
    assert hash_tree(tmp_path / "out") == hash_tree(tmp_path / "plain")


def test_a_video_that_is_bad_with_a_bad_decoder_is_not_bad_without(
    videos: Videos, environment: dict[str, str], tmp_path: Path
) -> None:
    """The bad decoder is what fails the videos of these tests, not the videos."""
    source = make_folder(tmp_path / "videos", ["segfault", "spin"], videos.clip, videos.clip)
    done = subprocess.run(command(source, tmp_path / "out"), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0


# --- While one hangs ---


Hanging = tuple[subprocess.Popen[str], Path]
"""A running command and its OUT."""


@pytest.fixture
def hanging(videos: Videos, environment: dict[str, str], tmp_path: Path) -> Iterator[Hanging]:
    """A run in which all videos but one are decoded, and one hangs, with a limit that it does not reach."""
    source = make_folder(tmp_path / "videos", ["spin"], videos.clip, videos.clip)
    out = tmp_path / "out"
    with start(command(source, out, timeout_s=600), environment, tmp_path) as process:
        deadline_s = time.monotonic() + 60
        while not (settled_rows(out) == 6 and spins(process.pid)):
            assert time.monotonic() < deadline_s, "it never hung"
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        yield process, out
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def settled_rows(out: Path) -> int:
    """The lines of the journal."""
    with suppress(FileNotFoundError):
        return (out / ".work" / "journal.jsonl").read_bytes().count(b"\n")
    return 0


def spins(group: int) -> bool:
    """Whether a process of the group, other than its leader, has used the processor for 0.2 s and its memory not."""
    for pid in members(group) - {group}:
        with suppress(OSError):
            before = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
            time.sleep(0.2)
            after = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
            if after > before:
                return True
    return False


def require_none_left(group: int, limit_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while left := members(group):
        assert time.monotonic() < deadline_s, f"left running: {left}"
        time.sleep(0.01)


def require_resumes(source: Path, out: Path, undisturbed: dict[str, str]) -> None:
    """With the real decoder every video is ok, in the bytes of a run that nothing disturbed."""
    extract_well(source, out)
    assert hash_tree(out) == undisturbed


def extract_well(source: Path, out: Path) -> None:
    resumed = command(source, out, timeout_s=600)
    done = subprocess.run(resumed, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def undisturbed(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the videos of `hanging` become where none hangs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    extract_well(make_folder(folder / "videos", ["spin"], videos.clip, videos.clip), folder / "out")
    return hash_tree(folder / "out")


def test_none_outlives_a_main_process_that_is_killed(hanging: Hanging, undisturbed: dict[str, str]) -> None:
    process, out = hanging
    assert members(process.pid) > {process.pid}
    process.kill()
    process.communicate(timeout=60)
    require_none_left(process.pid)
    require_resumes(out.parent / "videos", out, undisturbed)


def test_none_is_left_of_a_group_that_is_killed(hanging: Hanging, undisturbed: dict[str, str]) -> None:
    process, out = hanging
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    require_none_left(process.pid)
    require_resumes(out.parent / "videos", out, undisturbed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_does_not_wait_for_it(hanging: Hanging, undisturbed: dict[str, str], number: signal.Signals) -> None:
    process, out = hanging
    sent_s = time.monotonic()
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - sent_s < 20
    assert (process.returncode, stdout) == (130, "")
    assert "1 of 7 videos to go; the same command resumes: prep extract" in stderr
    assert "Traceback" not in stderr
    require_none_left(process.pid)
    require_resumes(out.parent / "videos", out, undisturbed)


@pytest.mark.parametrize("pause_s", [0.0, 0.003, 0.03])
def test_a_second_ctrl_c_while_it_hangs(hanging: Hanging, undisturbed: dict[str, str], pause_s: float) -> None:
    process, out = hanging
    sent_s = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(pause_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert time.monotonic() - sent_s < 20
    assert process.returncode == 130
    assert "Traceback" not in stderr
    require_none_left(process.pid)
    require_resumes(out.parent / "videos", out, undisturbed)


# --- Twice, at any moment ---


@pytest.fixture(scope="module")
def many(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder of videos, and what becomes of it undisturbed."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "videos" / "a").mkdir(parents=True)
    for index in range(24):
        os.link(videos.clip, folder / "videos" / "a" / f"v{index}.avi")
    extract_well(folder / "videos", folder / "out")
    return folder / "videos", hash_tree(folder / "out")


def has_begun(process: subprocess.Popen[str], out: Path, sign: str) -> bool:
    """Whether the command takes care of signals, and what `sign` stands for is in OUT."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(caught >> (signal.SIGTERM - 1) & 1) and bool(not sign or list(out.glob(sign)))


@pytest.mark.parametrize("pause_s", [0.0, 0.001, 0.02])
@pytest.mark.parametrize("sign", ["", ".work", ".work/spool/*", "shards/*.arrow", "dataset.json"])
def test_two_ctrl_c_at_any_moment(many: tuple[Path, dict[str, str]], tmp_path: Path, sign: str, pause_s: float) -> None:
    """Before the imports are done, at the first trace of the run, of a frame, of a finished shard, at the very end."""
    source, undisturbed = many
    out = tmp_path / "out"
    with start(command(source, out, timeout_s=600), dict(os.environ), tmp_path) as process:
        while not has_begun(process, out, sign) and process.poll() is None:
            pass
        assert process.returncode is None or sign == "dataset.json", process.communicate()
        with suppress(ProcessLookupError):  # it may be over
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(pause_s)
            os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 or (sign == "dataset.json" and process.returncode == 0), stderr
    assert "Traceback" not in stderr
    require_none_left(process.pid)
    require_resumes(source, out, undisturbed)
