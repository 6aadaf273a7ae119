"""What is measured on one video, in a process of its own (prep.bench.process).

    decode, scale, encode              frames as prep.decoders gives them, checked as it checks them
    bare decode, scale, encode         the library alone
    discard                            the whole extraction of a video, whose frames go nowhere
    encode only                        the pictures of `encode`, from memory
    opencv loop                        what the common scripts do: read, resize, imwrite
    sampled 8, sampled 32              see prep.bench.sampled

Arrays: picture_HWC uint8 BGR.
"""

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from manifests.records import Outcome
from prep.bench import sampled
from prep.decoders import open_decoder
from prep.decoders.checked import path_by_descriptor
from prep.decoders.interface import Frame, Planes
from prep.decoders.pyav import PyavDecoder, PyavFrame
from prep.extract_video import extract_video
from prep.geometry import Size, scaled_size, turn_upright
from prep.jpeg import encode_jpeg
from prep.recipe import ExtractRecipe

_PICTURES_IN_MEMORY = 32


@dataclass(frozen=True, kw_only=True)
class Task:
    """One step on one video. `decoder` is one of DECODERS, or empty where the step has none; new folders are made in
    `folder`, and stay: ext4 is slow to make files for a minute after others were deleted."""

    step: str
    decoder: str
    path: Path
    recipe: ExtractRecipe
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one step on one video took and gave. `num_wrong` counts frames that are not those that were asked for, None
    where that was not looked at; `failure` says why there is nothing."""

    num_frames: int = 0
    num_bytes: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    num_wrong: int | None = None
    failure: str | None = None


class Clock:
    """Adds up what runs inside `with` blocks: seconds of this process's processors, and seconds."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0

    def __enter__(self) -> None:
        self._start = time.process_time(), time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self.cpu_s += time.process_time() - self._start[0]
        self.wall_s += time.perf_counter() - self._start[1]


def run_step(task: Task) -> Sample:
    """Run the step of a task. Raises VideoError, ImportError, OSError."""
    step = task.step.removeprefix("bare ")
    if step.startswith("sampled "):
        return _sampled(task, int(step.removeprefix("sampled ")))
    return _STEPS[step](task)


def _decode(task: Task) -> Sample:
    clock, num_frames = Clock(), 0
    with clock, _frames(task) as frames:
        for _ in frames:
            num_frames += 1
    return Sample(num_frames=num_frames, cpu_s=clock.cpu_s, wall_s=clock.wall_s)


def _scale(task: Task) -> Sample:
    clock, num_frames, aspect = Clock(), 0, _sample_aspect(task.path)
    with clock, _frames(task) as frames:
        for _ in _pictures(frames, aspect, task.recipe):
            num_frames += 1
    return Sample(num_frames=num_frames, cpu_s=clock.cpu_s, wall_s=clock.wall_s)


def _encode(task: Task) -> Sample:
    clock, num_frames, num_bytes, aspect = Clock(), 0, 0, _sample_aspect(task.path)
    with clock, _frames(task) as frames:
        for planes in _pictures(frames, aspect, task.recipe):
            num_bytes += len(encode_jpeg(planes, task.recipe.frames.quality))
            num_frames += 1
    return Sample(num_frames=num_frames, num_bytes=num_bytes, cpu_s=clock.cpu_s, wall_s=clock.wall_s)


def _encode_only(task: Task) -> Sample:
    clock, num_frames, num_bytes = Clock(), 0, 0
    with PyavDecoder(task.path) as decoder:
        pictures = _pictures(decoder.frames(), decoder.header.sample_aspect, task.recipe)
        while some := [
            (np.ascontiguousarray(y_HW), np.ascontiguousarray(u_hw), np.ascontiguousarray(v_hw))
            for y_HW, u_hw, v_hw in islice(pictures, _PICTURES_IN_MEMORY)
        ]:
            with clock:
                for planes in some:
                    num_bytes += len(encode_jpeg(planes, task.recipe.frames.quality))
            num_frames += len(some)
    return Sample(num_frames=num_frames, num_bytes=num_bytes, cpu_s=clock.cpu_s, wall_s=clock.wall_s)


def _discard(task: Task) -> Sample:
    clock = Clock()
    with clock:
        outcome, _ = extract_video(task.path, task.recipe, _Nowhere(), lambda: None)
    if outcome.status != "ok":
        return Sample(failure=_words(outcome))
    return Sample(num_frames=outcome.num_frames, num_bytes=outcome.num_bytes, cpu_s=clock.cpu_s, wall_s=clock.wall_s)


def _opencv_loop(task: Task) -> Sample:
    cv2 = importlib.import_module("prep.decoders.opencv").cv2
    # More than one thread only costs processor time here.
    cv2.setNumThreads(1)
    clock, num_frames, frames = Clock(), 0, task.recipe.frames
    options = [cv2.IMWRITE_JPEG_QUALITY, frames.quality]
    aspect, folder = _sample_aspect(task.path), tempfile.mkdtemp(dir=task.folder)
    with clock, path_by_descriptor(task.path) as name:
        capture = cv2.VideoCapture(name, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        while True:
            is_read, picture_HWC = capture.read()
            if not is_read:
                break
            height, width = picture_HWC.shape[:2]
            size = scaled_size(Size(width, height), aspect, frames)
            if size != Size(width, height):
                shrinks = size.width <= width and size.height <= height
                scaling = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
                picture_HWC = cv2.resize(picture_HWC, (size.width, size.height), interpolation=scaling)
            num_frames += 1
            cv2.imwrite(f"{folder}/img_{num_frames:05d}.jpg", picture_HWC, options)
        capture.release()
    num_bytes = sum(file.stat().st_size for file in Path(folder).iterdir())
    if not num_frames:
        return Sample(failure="it reads no frame")
    return Sample(num_frames=num_frames, num_bytes=num_bytes, cpu_s=clock.cpu_s, wall_s=clock.wall_s)


def _sampled(task: Task, num_wanted: int) -> Sample:
    indices = sampled.reference(task.path)  # once a video, before the clock runs
    clock = Clock()
    with clock:
        asked, pictures = sampled.READERS[task.decoder](task.path, num_wanted)
    num_wrong = sampled.num_wrong(indices, asked, pictures)
    return Sample(num_frames=len(asked), cpu_s=clock.cpu_s, wall_s=clock.wall_s, num_wrong=num_wrong)


_STEPS: dict[str, Callable[[Task], Sample]] = {
    "decode": _decode,
    "scale": _scale,
    "encode": _encode,
    "discard": _discard,
    "encode only": _encode_only,
    "opencv loop": _opencv_loop,
}


@contextmanager
def _frames(task: Task) -> Iterator[Iterator[Frame]]:
    """The frames of a video, from the decoder as it is used or (bare) from its library alone."""
    if not task.step.startswith("bare "):
        with open_decoder(task.decoder, task.path) as decoder:
            yield decoder.frames()
    elif task.decoder == "pyav":
        with av.open(str(task.path), metadata_errors="ignore") as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            reformatter = VideoReformatter()
            yield (PyavFrame(native, None, reformatter) for native in container.decode(stream))
    else:
        pictures = importlib.import_module(f"prep.decoders.{task.decoder}").read_pictures(task.path)
        reformatter = VideoReformatter()
        try:
            yield (PyavFrame(native, None, reformatter) for native in pictures)
        finally:
            pictures.close()


def _pictures(frames: Iterator[Frame], aspect: Fraction, recipe: ExtractRecipe) -> Iterator[Planes]:
    """The planes to encode."""
    size: Size | None = None
    for frame in frames:
        size = size or scaled_size(frame.size, aspect, recipe.frames)
        yield turn_upright(frame.planes(size), frame.orientation)


def _sample_aspect(path: Path) -> Fraction:
    with PyavDecoder(path) as decoder:
        return decoder.header.sample_aspect


class _Nowhere:
    def add(self, jpeg: bytes) -> None:
        """Frames go nowhere."""


def _words(outcome: Outcome) -> str:
    return f"{outcome.failure}: {outcome.detail}" if outcome.detail else str(outcome.failure)
