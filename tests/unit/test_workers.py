"""Decoding processes that really die, stall and are killed; and the threads that own them."""

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from clips import Clip, write_clip

from manifests.errors import Error, StoreError
from manifests.records import Outcome
from prep import child as child_module
from prep import memory as memory_module
from prep import workers as workers_module
from prep.child import Child, Job, Reply
from prep.frame_table import read_table
from prep.recipe import ExtractRecipe, Frames, Limits, Store, resolve
from prep.workers import Workers

LONG_ENOUGH_S = 60.0
"""A limit that only a hang reaches, however busy the machine is."""

SLOW = "slow.avi"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decoded at once."""
    return write_clip(tmp_path_factory.mktemp("clips") / "small.avi", Clip(name="small", codec="mpeg4", num_frames=12))


@pytest.fixture(scope="module")
def slow_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of so many frames that there is time to interfere; see `job`."""
    return write_clip(tmp_path_factory.mktemp("clips") / SLOW, Clip(name="slow", codec="mpeg4", num_frames=120))


def job(source: Path, folder: Path, row: int = 0, store: str = "arrow") -> Job:
    """Frames of SLOW are enlarged, which takes some 10 ms each; others keep their size."""
    kept = Frames(short_side_px=1080, enlarge=True) if source.name == SLOW else Frames(short_side_px=0)
    recipe = resolve(ExtractRecipe(frames=kept, store=Store(format=store)))
    frames, table = folder / f"{row}.frames", folder / f"{row}.table"
    return Job(out=frames.parent, source=source, source_bytes=None, frames=frames, table=table, recipe=recipe)


def decoding_processes() -> list[int]:
    """The children of this process, whichever thread made them."""
    pids = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends just now
            pids += [int(pid) for pid in (task / "children").read_text().split()]
    return pids


def wait_for(condition: Callable[[], object], limit_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "it never happened"
        time.sleep(0.002)


def has_begun(made: Job) -> bool:
    """Whether frames of a job are on disk already."""
    frames = made.frames
    return frames.exists() and frames.stat().st_size > 0


@contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """Do something in another thread while the body waits for a reply."""
    thread = threading.Thread(target=action)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.fixture
def child() -> Iterator[Child]:
    with closing(Child()) as made:
        yield made


StandIn = Callable[[str], None]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Have a shell script started in place of the decoding process."""

    def stand_in_with(script: str) -> None:
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return stand_in_with


# --- One process ---


@pytest.mark.parametrize("store", ["arrow", "frames"])
def test_a_video_and_then_another(child: Child, clip: Path, tmp_path: Path, store: str) -> None:
    (pid,) = decoding_processes()
    for row in range(3):
        made = job(clip, tmp_path, row, store)
        reply = child.extract(made, LONG_ENOUGH_S)
        outcome = reply.outcome
        assert (outcome.status, outcome.failure, outcome.num_frames) == ("ok", None, 12)
        table_N, crc32 = read_table(made.table)
        assert crc32 == reply.table_crc32
        frames = made.frames
        files = sorted(frames.iterdir()) if store == "frames" else [frames]
        stored = b"".join(path.read_bytes() for path in files)
        assert zlib.crc32(stored) == outcome.content_crc32
        assert len(stored) == outcome.num_bytes == table_N["num_bytes"].sum()
        assert decoding_processes() == [pid]
        assert child.num_videos == row + 1


def test_a_bad_video_leaves_nothing_and_the_process_goes_on(child: Child, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.avi").write_bytes(b"no video")
    for store in ("arrow", "frames"):
        reply = child.extract(job(tmp_path / "bad.avi", tmp_path, store=store), LONG_ENOUGH_S)
        assert (reply.outcome.status, reply.outcome.failure, reply.table_crc32) == ("failed", "unreadable", 0)
        assert os.listdir(tmp_path) == ["bad.avi"]
    assert child.extract(job(clip, tmp_path), LONG_ENOUGH_S).outcome.status == "ok"


def test_a_path_that_is_not_utf8(child: Child, clip: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "x.avi").symlink_to(clip)
    assert child.extract(job(folder / "x.avi", folder), LONG_ENOUGH_S).outcome.status == "ok"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_dies_names_the_cause(
    child: Child, slow_clip: Path, tmp_path: Path, number: signal.Signals
) -> None:
    made = job(slow_clip, tmp_path)
    (pid,) = decoding_processes()

    def kill() -> None:
        wait_for(lambda: has_begun(made))
        os.kill(pid, number)

    with meanwhile(kill):
        reply = child.extract(made, LONG_ENOUGH_S)
    detail = f"the decoding process died of {number.name}"
    assert reply == Reply(Outcome(status="failed", failure="crashed", detail=detail), 0)
    assert not child.is_alive
    assert decoding_processes() == []


def test_a_process_that_stalls_is_killed(child: Child, clip: Path, slow_clip: Path, tmp_path: Path) -> None:
    """Stopped, so that no handler of its own could help."""
    child.extract(job(clip, tmp_path, 0), LONG_ENOUGH_S)
    made = job(slow_clip, tmp_path, 1)
    (pid,) = decoding_processes()

    def stop() -> None:
        wait_for(lambda: has_begun(made))
        os.kill(pid, signal.SIGSTOP)

    started_s = time.monotonic()
    with meanwhile(stop):
        reply = child.extract(made, 1.5)
    assert reply == Reply(Outcome(status="failed", failure="timeout", detail="no new frame for 1.5 s"), 0)
    assert 1.5 < time.monotonic() - started_s < 15
    assert not child.is_alive
    assert decoding_processes() == []


def test_a_source_that_gives_nothing_is_given_up(child: Child, clip: Path, tmp_path: Path) -> None:
    child.extract(job(clip, tmp_path, 0), LONG_ENOUGH_S)
    os.mkfifo(tmp_path / "pipe.avi")
    reply = child.extract(job(tmp_path / "pipe.avi", tmp_path, 1), 0.3)
    assert (reply.outcome.failure, reply.outcome.detail) == ("timeout", "no new frame for 0.3 s")


def test_a_slow_video_is_not_given_up_while_frames_come(
    child: Child, clip: Path, slow_clip: Path, tmp_path: Path
) -> None:
    """Held up time and again, longer than the limit in all but never at once."""
    child.extract(job(clip, tmp_path, 0), LONG_ENOUGH_S)
    made = job(slow_clip, tmp_path, 1)
    (pid,) = decoding_processes()

    def hold_up_once() -> None:
        os.kill(pid, signal.SIGSTOP)
        num_bytes = made.frames.stat().st_size
        time.sleep(0.35)
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: made.frames.stat().st_size > num_bytes)

    def hold_up() -> None:
        wait_for(lambda: has_begun(made))
        for _ in range(7):
            hold_up_once()

    started_s = time.monotonic()
    with meanwhile(hold_up):
        reply = child.extract(made, 2)
    assert (reply.outcome.status, reply.outcome.num_frames) == ("ok", 120)
    assert time.monotonic() - started_s > 2.4


def test_a_video_that_needs_too_much_memory(clip: Path, tmp_path: Path) -> None:
    """It costs itself; and the next one begins in a new process."""
    modest = job(clip, tmp_path, 1)
    greedy = job(clip, tmp_path, 0)
    recipe = replace(greedy.recipe, frames=Frames(short_side_px=8192, enlarge=True), limits=Limits(memory_mib=256))
    with Workers(1, LONG_ENOUGH_S) as workers:
        replies = dict(workers.extract([(0, replace(greedy, recipe=recipe)), (1, modest)]))
    detail = "decoding needs more than 256 MiB (limits.memory_mib), or than the machine has"
    assert replies[0] == Reply(Outcome(status="failed", failure="out_of_memory", detail=detail), 0)
    assert replies[1].outcome.status == "ok"


def test_a_disk_that_refuses_is_no_fault_of_the_video(child: Child, clip: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        child.extract(job(clip, tmp_path / "missing"), LONG_ENOUGH_S)
    words = "No such file or directory; mend that and run again to resume"
    assert str(caught.value) == f"cannot write {tmp_path / 'missing'}: {words}"
    assert child.extract(job(clip, tmp_path), LONG_ENOUGH_S).outcome.status == "ok"


def test_a_bug_costs_no_more_than_its_video(child: Child, clip: Path, tmp_path: Path) -> None:
    made = job(clip, tmp_path)
    unresolved = replace(made, recipe=replace(made.recipe, decoder="auto"))
    outcome = child.extract(unresolved, LONG_ENOUGH_S).outcome
    assert (outcome.status, outcome.failure) == ("failed", "crashed")
    assert outcome.detail == "unexpected ModuleNotFoundError: No module named 'prep.decoders.auto'"
    assert child.extract(made, LONG_ENOUGH_S).outcome.status == "ok"


READY = """echo '{"ready": true}'; read job;"""
NO_REPLY = ("crashed", "the decoding process gave no proper reply")
TOO_MUCH = ("out_of_memory", "decoding needs more than 2048 MiB (limits.memory_mib), or than the machine has")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo nonsense", NO_REPLY),
        ("echo 17", NO_REPLY),
        ("echo '[1, 2]'", NO_REPLY),
        ("""echo '{"outcome": 17, "table_crc32": 0}'""", NO_REPLY),
        ("""echo '{"outcome": {"colour": "red"}, "table_crc32": 0}'""", NO_REPLY),
        ("""echo '{"outcome": {"status": "ok"}}'""", NO_REPLY),
        ("""echo '{"outcome": {"status": "ok"}, "table_crc32": "many"}'""", NO_REPLY),
        ("head -c 3000000 /dev/zero; exec sleep 100", NO_REPLY),
        ("exec sleep 100 >&-", NO_REPLY),
        ("exit 7", ("crashed", "the decoding process ended with code 7")),
        ("kill -ABRT $$", ("crashed", "the decoding process died of SIGABRT")),
        ("kill -35 $$", ("crashed", "the decoding process died of signal 35")),
        ("echo 'what():  std::bad_alloc' >&2; kill -ABRT $$", TOO_MUCH),
        ("echo 'MemoryError' >&2; exit 1", TOO_MUCH),
        ("head -c 99999 /dev/zero >&2; echo 'Cannot allocate memory' >&2; exit 1", TOO_MUCH),
        ("echo 'Segmentation fault' >&2; exit 1", ("crashed", "the decoding process ended with code 1")),
        ("exec sleep 100", ("timeout", "no new frame for 3 s")),
    ],
)
def test_what_a_process_does_instead_of_replying(
    stand_in: StandIn,
    clip: Path,
    tmp_path: Path,
    script: str,
    expected: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_module, "_DEATH_TIMEOUT_S", 0.3)
    stand_in(f"{READY} {script}")
    with closing(Child()) as made:
        made.wait_until_ready()
        reply = made.extract(job(clip, tmp_path), 3)
        assert not made.is_alive
    failure, detail = expected
    assert reply == Reply(Outcome(status="failed", failure=failure, detail=detail), 0)
    assert decoding_processes() == []


def test_words_about_an_earlier_video_do_not_count(stand_in: StandIn, clip: Path, tmp_path: Path) -> None:
    ok = """echo '{"outcome": {"status": "failed", "failure": "decode"}, "table_crc32": 0}'"""
    stand_in(f"{READY} echo 'Cannot allocate memory' >&2; {ok}; read job; echo 'oh' >&2; kill -SEGV $$")
    with closing(Child()) as made:
        failures = [made.extract(job(clip, tmp_path), LONG_ENOUGH_S).outcome.failure for _ in range(2)]
    assert failures == ["decode", "crashed"]


@pytest.mark.parametrize(
    ("script", "kernel_kills", "failure"),
    [
        ("kill -KILL $$", 1, "out_of_memory"),
        ("kill -KILL $$", 0, "crashed"),
        ("kill -SEGV $$", 1, "crashed"),  # another process was killed meanwhile
    ],
)
def test_a_kill_by_the_kernel(
    stand_in: StandIn,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    kernel_kills: int,
    failure: str,
) -> None:
    """Which looks like any other, but is counted."""
    counters = tmp_path / "vmstat"
    counters.write_text("oom_kill 41\n")
    monkeypatch.setattr(memory_module, "_COUNTERS", counters)
    stand_in(f"{READY} echo 'oom_kill {41 + kernel_kills}' > {counters}; {script}")
    with closing(Child()) as made:
        assert made.extract(job(clip, tmp_path), LONG_ENOUGH_S).outcome.failure == failure


def test_what_it_says_is_shown_to_who_looks_for_a_fault(
    stand_in: StandIn, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(f"{READY} echo 'thus and thus' >&2; exit 1")
    for debug in ("", "1"):
        monkeypatch.setenv("DECODE_ONCE_DEBUG", debug)
        with closing(Child()) as made:
            made.extract(job(clip, tmp_path), LONG_ENOUGH_S)
        assert capsys.readouterr().err == ("thus and thus\n" if debug else "")


def test_it_leaves_no_image_of_its_memory(child: Child, clip: Path, tmp_path: Path) -> None:
    child.extract(job(clip, tmp_path), LONG_ENOUGH_S)
    (pid,) = decoding_processes()
    (line,) = (line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "core file size" in line)
    assert line.split()[4:6] == ["0", "0"]


def test_no_room_for_a_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> object:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(Error) as caught:
        Child()
    words = "No space left on device; set TMPDIR to a folder with room"
    assert str(caught.value) == f"cannot make a temporary file: {words}"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'in detail:' >&2; echo 'libfoo.so: cannot open' >&2; exit 3", "libfoo.so: cannot open"),
        ("exit 0", "the decoding process ended with code 0"),
        ("kill -SEGV $$", "the decoding process died of SIGSEGV"),
    ],
)
def test_a_process_that_cannot_start(stand_in: StandIn, script: str, message: str) -> None:
    """That is no fault of the video."""
    stand_in(script)
    with closing(Child()) as made, pytest.raises(Error) as caught:
        made.wait_until_ready()
    assert str(caught.value) == f"cannot start a decoding process: {message}"


def test_a_process_that_never_gets_ready(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "_START_TIMEOUT_S", 0.2)
    stand_in("exec sleep 100")
    with closing(Child()) as made, pytest.raises(Error, match="cannot start a decoding process: "):
        made.wait_until_ready()
    assert decoding_processes() == []


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(Error) as caught:
        Child()
    assert str(caught.value) == "cannot start a decoding process: No such file or directory; try fewer --jobs"
    assert len(os.listdir("/proc/self/fd")) == before


def test_closing_ends_it_at_any_moment(clip: Path, tmp_path: Path) -> None:
    at_once = Child()
    at_once.close()
    used = Child()
    used.extract(job(clip, tmp_path), LONG_ENOUGH_S)
    for _ in range(2):
        used.kill()
    used.close()
    assert decoding_processes() == []


def test_no_file_stays_open(clip: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with closing(Child()) as made:
        made.extract(job(clip, tmp_path), LONG_ENOUGH_S)
    assert len(os.listdir("/proc/self/fd")) == before


# --- When the parent ends ---


@contextmanager
def worker_process(parent_pid: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-m", "prep.worker", str(parent_pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_it_ends_with_its_stdin() -> None:
    with worker_process(os.getpid()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        process.stdin.close()
        assert process.wait(timeout=20) == 0


def test_it_does_not_begin_under_another_parent() -> None:
    with worker_process(os.getppid()) as process:
        assert process.wait(timeout=20) == 1


def test_signals_for_the_whole_group_are_left_to_the_parent(clip: Path, tmp_path: Path) -> None:
    with worker_process(os.getpid()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        process.stdin.write(json.dumps(job(clip, tmp_path).message()) + "\n")
        process.stdin.flush()
        messages = (json.loads(line) for line in iter(process.stdout.readline, ""))
        reply = next(message for message in messages if "outcome" in message)
        assert reply["outcome"]["status"] == "ok"


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """In the middle of a video."""
    os.mkfifo(tmp_path / "pipe.avi")
    parent_code = (
        "import os, pathlib, sys\n"
        "from prep.child import Child, Job\n"
        "from prep.recipe import ExtractRecipe\n"
        "child = Child()\n"
        "print(*pathlib.Path('/proc/self/task', str(os.getpid()), 'children').read_text().split(), flush=True)\n"
        "source, frames, table = map(pathlib.Path, sys.argv[1:])\n"
        "child.extract(Job(frames.parent, source, None, frames, table, ExtractRecipe(decoder='pyav')), 100)\n"
    )
    paths = [str(tmp_path / name) for name in ("pipe.avi", "frames", "table")]
    command = [sys.executable, "-c", parent_code, *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        (pid,) = map(int, parent.stdout.readline().split())
        with open(tmp_path / "pipe.avi", "wb"):  # opens when the other end is, so the process is at work now
            assert is_running(pid)
            parent.kill()
            parent.wait()
            wait_for(lambda: not is_running(pid), 10)


def test_it_dies_with_the_thread_that_made_it(clip: Path, tmp_path: Path) -> None:
    made: list[Child] = []

    def use() -> None:
        made.append(Child())
        made[0].extract(job(clip, tmp_path), LONG_ENOUGH_S)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    wait_for(lambda: not made[0].is_alive, 10)
    made[0].close()


# --- Several processes ---


def extract_all(num_workers: int, jobs: list[tuple[int, Job]], alone: bool = False) -> dict[int, Reply]:
    with Workers(num_workers, LONG_ENOUGH_S) as workers:
        return dict(workers.extract(jobs, alone=alone))


@pytest.mark.parametrize("num_workers", [1, 3])
def test_every_video_gets_its_reply(clip: Path, tmp_path: Path, num_workers: int) -> None:
    (tmp_path / "bad.avi").write_bytes(b"no video")
    sources = [clip, tmp_path / "bad.avi", clip, tmp_path / "missing.avi", clip, clip, clip]
    replies = extract_all(num_workers, [(row, job(source, tmp_path, row)) for row, source in enumerate(sources)])
    assert {row: reply.outcome.failure for row, reply in sorted(replies.items())} == {
        row: "unreadable" if source != clip else None for row, source in enumerate(sources)
    }
    assert decoding_processes() == []


def test_no_more_processes_than_workers(clip: Path, tmp_path: Path) -> None:
    seen: set[int] = set()
    with Workers(2, LONG_ENOUGH_S) as workers:
        for _ in workers.extract((row, job(clip, tmp_path, row)) for row in range(8)):
            seen.update(decoding_processes())
    assert 1 <= len(seen) <= 2
    assert decoding_processes() == []


def test_alone_means_one_at_a_time(clip: Path, tmp_path: Path) -> None:
    with Workers(3, LONG_ENOUGH_S) as workers:
        replies = workers.extract(((row, job(clip, tmp_path, row)) for row in range(4)), alone=True)
        pids = [(row, *decoding_processes()) for row, _ in replies]
    assert [row for row, *_ in pids] == [0, 1, 2, 3]
    assert len({pid for _, pid in pids}) == 4  # what one leaves in a process cannot decide about the next


def test_processes_are_replaced_now_and_then(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "_VIDEOS_PER_CHILD", 2)
    with Workers(1, LONG_ENOUGH_S) as workers:
        pids = [decoding_processes() for _ in workers.extract((row, job(clip, tmp_path, row)) for row in range(5))]
    assert [len(found) for found in pids] == [1] * 5
    assert len({pid for (pid,) in pids}) == 3


def test_a_process_that_does_not_start_is_started_again(stand_in: StandIn, clip: Path, tmp_path: Path) -> None:
    python = sys.executable
    stand_in(f'echo >> {tmp_path}/tries; [ $(wc -l < {tmp_path}/tries) -lt 3 ] && exit 1; exec {python} "$@"')
    assert extract_all(1, [(0, job(clip, tmp_path))])[0].outcome.status == "ok"
    assert (tmp_path / "tries").read_text() == "\n" * 3


def test_processes_that_never_start_end_the_run(stand_in: StandIn, clip: Path, tmp_path: Path) -> None:
    stand_in("echo 'libfoo.so: cannot open' >&2; exit 1")
    with pytest.raises(Error, match=r"^cannot start a decoding process: libfoo\.so: cannot open$"):
        extract_all(2, [(row, job(clip, tmp_path, row)) for row in range(20)])
    assert decoding_processes() == []


def test_a_crash_costs_its_video_only(clip: Path, slow_clip: Path, tmp_path: Path) -> None:
    jobs = [(row, job(slow_clip if row == 1 else clip, tmp_path, row)) for row in range(6)]

    def kill() -> None:
        wait_for(lambda: has_begun(jobs[1][1]))
        frames = jobs[1][1].frames
        for pid in decoding_processes():
            if any(os.path.realpath(f"/proc/{pid}/fd/{name}") == str(frames) for name in os.listdir(f"/proc/{pid}/fd")):
                os.kill(pid, signal.SIGKILL)

    with meanwhile(kill):
        replies = extract_all(2, jobs)
    failures = {row: reply.outcome.failure for row, reply in sorted(replies.items())}
    assert failures == {0: None, 1: "crashed", 2: None, 3: None, 4: None, 5: None}


def test_stopping_ends_the_iteration_at_once(clip: Path, slow_clip: Path, tmp_path: Path) -> None:
    jobs = [(row, job(clip if row == 0 else slow_clip, tmp_path, row)) for row in range(200)]
    stopped_s: list[float] = []
    with Workers(2, LONG_ENOUGH_S) as workers:

        def stop() -> None:
            wait_for(lambda: has_begun(jobs[1][1]) and has_begun(jobs[2][1]))
            stopped_s.append(time.monotonic())
            workers.stop()

        with meanwhile(stop):
            replies = dict(workers.extract(jobs))
        assert time.monotonic() - stopped_s[0] < 20
        assert workers.is_stopped
        assert decoding_processes() == []
        assert {reply.outcome.status for reply in replies.values()} <= {"ok"}  # none was said to have crashed
        assert len(replies) < 10
        assert list(workers.extract(jobs)) == []


def test_stopping_before_anything_began(clip: Path, tmp_path: Path) -> None:
    with Workers(2, LONG_ENOUGH_S) as workers:
        workers.stop()
        assert list(workers.extract([(0, job(clip, tmp_path))])) == []
    assert os.listdir(tmp_path) == []


def test_jobs_are_taken_as_they_are_needed(clip: Path, tmp_path: Path) -> None:
    """So a list of a million videos costs no memory, and a stop need not go through it."""
    taken = 0

    def endless() -> Iterator[tuple[int, Job]]:
        nonlocal taken
        for taken in itertools.count(1):
            yield taken, job(clip, tmp_path, taken)

    with Workers(2, LONG_ENOUGH_S) as workers:
        replies = workers.extract(endless())
        for _ in range(5):
            next(replies)
        assert taken < 20
        workers.stop()
        list(replies)
    assert decoding_processes() == []


def test_a_disk_that_refuses_ends_the_run(clip: Path, tmp_path: Path) -> None:
    jobs = [(row, job(clip, tmp_path / ("missing" if row == 2 else ""), row)) for row in range(50)]
    with Workers(2, LONG_ENOUGH_S) as workers, pytest.raises(StoreError, match=r"cannot write .*: No such file"):
        list(workers.extract(jobs))
    assert decoding_processes() == []


def test_who_stops_asking_leaves_no_process(slow_clip: Path, clip: Path, tmp_path: Path) -> None:
    with Workers(2, LONG_ENOUGH_S) as workers:
        replies = workers.extract((row, job(clip if row == 0 else slow_clip, tmp_path, row)) for row in range(50))
        next(replies)
        replies.close()  # type: ignore[attr-defined]
        assert decoding_processes() == []


def test_an_error_of_who_asks_leaves_no_process(slow_clip: Path, tmp_path: Path) -> None:
    def ask() -> None:
        with Workers(2, LONG_ENOUGH_S) as workers:
            for _ in workers.extract((row, job(slow_clip, tmp_path, row)) for row in range(50)):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask()
    assert decoding_processes() == []
