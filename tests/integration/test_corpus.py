"""Every file ends right, through the real command: real clips where they are, and clips made here of each kind.

Made clips carry a number in every picture, so that what is stored can be told without another decoder.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import av
import numpy as np
import pytest
import simplejpeg
from clips import (
    Clip,
    drop_first_packets,
    flip_bytes,
    hide_first_frames,
    numbered_frame,
    pack_bframes,
    packet_spans,
    read_number,
    truncate,
    write_clip,
)
from corpus import (
    Expected,
    Extracted,
    Line,
    compare,
    copy_names,
    expected_files,
    expected_names,
    extract,
    how_many_right,
    named,
    table,
)

from manifests import open_dataset
from manifests.names import unescape_name
from manifests.stores import STORES

H264 = Clip(name="", codec="libx264", options={"x264-params": "keyint=10:scenecut=0:bframes=0"})
MPEG4 = Clip(name="", codec="mpeg4", num_frames=12, options={"qmin": "3", "qmax": "3"})


def assert_all_right(lines: list[Line]) -> None:
    wrong = [line for line in lines if line.wrong is not None]
    assert not wrong, "\n".join(table(wrong))


# --- The real clips ---


def test_every_real_clip_ends_right(shared_videos: Path, tmp_path: Path) -> None:
    extracted = extract(shared_videos, tmp_path / "out")
    expected = expected_files(shared_videos)
    lines = compare(expected, extracted)
    assert_all_right(lines)
    assert how_many_right(lines, "files") == "47 of 47 files right"
    assert extracted.rows.keys() == {one.source for one in expected}
    assert extracted.exit_code == 3


@pytest.mark.parametrize("store", STORES)
def test_every_real_name_ends_right(shared_videos: Path, tmp_path: Path, store: str) -> None:
    (tmp_path / "videos").mkdir()
    copy_names(shared_videos, tmp_path / "videos" / "names")
    extracted = extract(tmp_path / "videos", tmp_path / "out", "--store", store)
    lines = compare(expected_names(shared_videos, "names"), extracted)
    assert_all_right(lines)
    assert (len(lines), len(extracted.rows), extracted.exit_code) == (20, 19, 0)


# --- Clips made here ---


@dataclass(frozen=True)
class Made:
    """A made file, and which numbers its stored frames must carry."""

    expected: Expected
    numbers: range = range(0)


def good(source: str, numbers: range, *, width: int = 96, height: int = 72, kind: str | None = None) -> Made:
    verdict = "ok" if kind is None else "ok_header_wrong"
    expected = Expected(source=source, verdict=verdict, kind=kind, num_frames=len(numbers), width=width, height=height)
    return Made(expected, numbers)


def bad(source: str, verdict: str, kind: str) -> Made:
    return Made(Expected(source=source, verdict=verdict, kind=kind))


def make_good_videos(folder: Path) -> list[Made]:
    write_clip(folder / "plain.mp4", H264)
    write_clip(folder / "one.mp4", replace(H264, num_frames=1))
    write_clip(folder / "odd.mkv", replace(H264, codec="ffv1", options={}, width=61, height=45))
    write_clip(folder / "uneven.mkv", replace(H264, pts_ms=tuple(40 * i + 13 * (i % 2) for i in range(40))))
    write_clip(folder / "fragments.mp4", replace(H264, container_options={"movflags": "frag_keyframe+empty_moov"}))
    on_its_side = [np.rot90(numbered_frame(i, 72, 96), -1).copy() for i in range(5)]
    write_clip(folder / "turned.mp4", replace(H264, turn_deg=90), on_its_side)
    packed = replace(MPEG4, options={"bf": "1", **MPEG4.options})
    pack_bframes(write_clip(folder.parent / "single.avi", packed), folder / "packed.avi")
    hide_first_frames(write_clip(folder.parent / "whole.mp4", H264), folder / "preroll.mp4", 15)
    return [
        good("plain.mp4", range(40)),
        good("one.mp4", range(1)),
        good("odd.mkv", range(40), width=61, height=45),
        good("uneven.mkv", range(40)),
        good("fragments.mp4", range(40)),
        good("turned.mp4", range(5), width=72, height=96),
        good("packed.avi", range(12), kind="header_overcount"),
        good("preroll.mp4", range(15, 40), kind="header_overcount"),
    ]


def make_bad_videos(folder: Path) -> list[Made]:
    start_first = replace(H264, container_options={"movflags": "faststart"})
    cut = write_clip(folder / "cut.mp4", start_first)
    truncate(cut, packet_spans(cut)[30][0])
    cut = write_clip(folder / "cut.avi", MPEG4)
    truncate(cut, packet_spans(cut)[8][0])
    headless = write_clip(folder / "headless.mp4", H264)
    truncate(headless, headless.stat().st_size // 2)
    damaged = write_clip(folder / "damaged.mp4", H264)
    flip_bytes(damaged, packet_spans(damaged)[13][0], 4)
    hopeless = write_clip(folder / "hopeless.mp4", H264)
    for position, size in packet_spans(hopeless):
        flip_bytes(hopeless, position, size)
    whole = write_clip(folder.parent / "closed.mkv", replace(H264, options={"x264-params": "keyint=20:bframes=0"}))
    drop_first_packets(whole, folder / "no-key.mkv", 5)
    parts = [
        write_clip(folder.parent / f"{width}.ts", replace(H264, num_frames=10, width=width, height=height))
        for width, height in [(96, 72), (64, 48)]
    ]
    (folder / "sizes.ts").write_bytes(b"".join(part.read_bytes() for part in parts))
    (folder / "page.mp4").write_text("<!DOCTYPE html><html><body>404 Not Found</body></html>\n" * 3)
    (folder / "noise.avi").write_bytes(np.random.default_rng(3).bytes(5000))
    (folder / "nothing.mp4").touch()
    write_silence(folder / "sound.mp4")
    head, _, tail = (folder / "plain.mp4").read_bytes().rpartition(b"avc1")  # the codec in the sample entry
    (folder / "codec.mp4").write_bytes(head + b"zzzz" + tail)
    return [
        bad("cut.mp4", "degraded", "truncated"),
        bad("cut.avi", "degraded", "truncated"),
        bad("headless.mp4", "fail", "unreadable_container"),
        bad("damaged.mp4", "degraded", "corrupt_packets"),
        bad("hopeless.mp4", "fail", "no_decodable_frames"),
        bad("no-key.mkv", "degraded", "missing_keyframe"),
        bad("sizes.ts", "degraded", "resolution_change"),
        bad("page.mp4", "fail", "unreadable_container"),
        bad("noise.avi", "fail", "unreadable_container"),
        bad("nothing.mp4", "fail", "empty_file"),
        bad("sound.mp4", "fail", "no_video_stream"),
        bad("codec.mp4", "fail", "unsupported_codec"),
    ]


def write_silence(path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        silence.sample_rate = 16000
        container.mux(stream.encode(silence))
        container.mux(stream.encode(None))


def stored_numbers(out: Path) -> dict[str, list[int]]:
    """What the stored frames of each ok video carry, by source."""
    with open_dataset(out) as dataset:
        return {
            unescape_name(dataset.video(row)["source"]): [
                read_number(simplejpeg.decode_jpeg(jpeg, colorspace="RGB"))
                for jpeg in dataset.read_frames(row, range(dataset.num_frames[row]))
            ]
            for row in dataset.rows()
        }


def assert_outcomes(made: list[Made], extracted: Extracted, out: Path) -> None:
    assert_all_right(compare([one.expected for one in made], extracted))
    assert extracted.rows.keys() == {one.expected.source for one in made if one.expected.verdict != "left out"}
    assert stored_numbers(out) == {one.expected.source: list(one.numbers) for one in made if one.numbers}


@pytest.mark.parametrize("store", STORES)
def test_every_made_clip_ends_right(tmp_path: Path, store: str) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    made = [*make_good_videos(folder), *make_bad_videos(folder)]
    extracted = extract(folder, tmp_path / "out", "--store", store)
    assert_outcomes(made, extracted, tmp_path / "out")
    assert extracted.exit_code == 3


NAMES = [
    b"new\nline.avi",
    b"tab\there.avi",
    b"carriage\rreturn.avi",
    b"back\\slash.avi",
    b"trailing space .avi",
    b"  two  spaces.avi",
    b"clip%03d.avi",
    b"escape%FF.avi",
    b"colon:name.avi",
    b"concat:part.avi",
    b"bad-utf8-\xff\xfe.avi",
    b"\xe9" * 84 + b".avi",  # each byte is three characters once it is escaped
    "e\u0301.avi".encode(),
    "é.avi".encode(),
    "видео_视频.avi".encode(),
    "🎥\u202etxt.avi".encode(),
    b"-i.avi",
    b"--out.avi",
    b"star*[1]?.avi",
    b"$HOME`x`;&|<>.avi",
    b'it\'s "quoted" & 100%.avi',
    b"UPPER.AVI",
    b".hidden.avi",
    b"a" * 240 + b".avi",
    b"a.b.avi",
    b"a.avi",
    b"a.mp4",
    b"a",
    b"img_00001.jpg.avi",
    b".tmp-1234.avi",
]


@pytest.mark.parametrize("store", STORES)
def test_every_name_ends_right(tmp_path: Path, store: str) -> None:
    """Two clips in turn, so that a mix-up of names would show in the frames; what has no suffix is a folder here."""
    folder = tmp_path / "videos" / "names"
    folder.mkdir(parents=True)
    made = []
    clips = [(write_clip(tmp_path / "even.avi", MPEG4), range(12)),
             (write_clip(tmp_path / "odd.avi", replace(MPEG4, num_frames=7)), range(7))]  # fmt: skip
    for index, raw in enumerate(NAMES):
        path, numbers = clips[index % 2]
        name = raw.decode("utf-8", "surrogateescape")
        if b"." not in raw:
            (folder / name).mkdir()
            name = f"{name}/inside.avi"
        (folder / name).write_bytes(path.read_bytes())
        expected = named(f"names/{name}", good("", numbers).expected)
        made.append(Made(expected, numbers if expected.verdict == "ok" else range(0)))
    extracted = extract(tmp_path / "videos", tmp_path / "out", "--store", store)
    assert_outcomes(made, extracted, tmp_path / "out")
    assert extracted.exit_code == 0


# --- The judge itself ---


def row(**fields: object) -> dict[str, object]:
    plain = {"status": "ok", "failure": None, "detail": None, "num_decode_errors": 0}
    return {**plain, "num_frames": 40, "width": 96, "height": 72, **fields}


@pytest.mark.parametrize(
    ("made", "found", "wrong"),
    [
        (good("x", range(40)), row(), None),
        (good("x", range(40)), row(detail="the decoder said: something"), None),
        (good("x", range(40)), row(num_frames=41), "it is ("),
        (good("x", range(40)), row(width=72, height=96), "it is ("),
        (good("x", range(40)), row(num_decode_errors=1), "it is ("),
        (good("x", range(40)), row(status="failed", failure="decode", detail="x"), "it is ("),
        (bad("x", "degraded", "truncated"), row(), "it passes for a clean success"),
        (bad("x", "degraded", "truncated"), row(detail="x"), "it passes for a clean success"),
        (bad("x", "degraded", "truncated"), row(detail="kept", num_decode_errors=2), None),
        (bad("x", "degraded", "truncated"), row(status="failed", failure="truncated", detail="x"), None),
        (bad("x", "degraded", "truncated"), row(status="failed", failure="decode"), "it is failed (decode)"),
        (bad("x", "fail", "truncated"), row(detail="kept", num_decode_errors=2), "it is ok (None)"),
        (bad("x", "fail", "truncated"), row(status="failed", failure="truncated"), "nothing says why"),
        (bad("x", "fail", "empty_file"), row(status="failed", failure="empty"), None),
        (bad("x", "fail", "empty_file"), None, "it has no row"),
        (Made(named(".x", good("x", range(40)).expected)), row(), "it has a row"),
        (Made(named(".x", good("x", range(40)).expected)), None, "it was left out without a word"),
    ],
)  # fmt: skip
def test_the_judge_can_say_no(made: Made, found: dict[str, object] | None, wrong: str | None) -> None:
    rows = {} if found is None else {made.expected.source: found}
    (line,) = compare([made.expected], Extracted(exit_code=0, stderr="", rows=rows))
    if wrong is None:
        assert line.wrong is None
    else:
        assert (line.wrong or "").startswith(wrong)
    text = "\n".join(table([line]))
    assert ("  NO" in text) == (wrong is not None)
    assert (wrong or "") in text
