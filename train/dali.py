"""Batches of clips by NVIDIA DALI, with the draws, order and geometry of `train.loader`.

    the JPEG bytes of the drawn frames -> decoders.image -> slice -> resize -> flip -> uint8 batch

in threads of this process on a CPU, and on a GPU with nvJPEG ("mixed"); normalisation is that of all batches
(train.device.normalise). Pixels differ by the roundings of another JPEG decoder, and where a picture shrinks by more
than MAX_LINEAR_SHRINK, by DALI's triangular filter instead of the mean over the area.

From videos, decoders.video(frames=...) decodes the drawn frames on a GPU. This has run on a CPU only, with VP9, the
one codec of our videos that DALI decodes there: on a GPU, DLPack included, it is unproven.

Arrays: clips_NTHWC, frames_MHWC uint8 RGB, M = N * T; labels_N, indices_N int64. Boxes are (x, y), (width, height).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle

from manifests.closing import Closing
from manifests.errors import Error, UsageError
from train.dataset import BadSample, ClipDataset, Drawn
from train.loader import Batch
from train.sampler import Item
from train.transforms.decode import MAX_LINEAR_SHRINK

_PREFETCH = 2


def require_dali(dataset: ClipDataset) -> None:
    """Raises UsageError where DALI is not installed, or cannot make the clips of `dataset`."""
    try:
        import nvidia.dali  # noqa: F401
    except (ImportError, OSError) as error:
        raise UsageError(
            f"DALI cannot be imported ({error}): pip install 'decode-once[dali]', or use --loader paddle"
        ) from error
    if dataset.has_augmentation:
        raise UsageError("--loader dali knows no augment.*: leave them at 0, or use --loader paddle")
    if not dataset.is_on_the_fly:
        return
    if gpu() is None:
        raise UsageError("--loader dali decodes videos on a GPU only: prepare them, or use --loader paddle")
    num_forward, num_turned = dataset.num_forward(np.arange(len(dataset))), dataset.num_turned()
    if num_forward or num_turned:
        raise UsageError(
            f"--loader dali reads frames of videos by index, which cannot be trusted for {num_forward} videos of "
            f"subset {dataset.subset!r}, and does not turn them, which {num_turned} need: prepare them, or use "
            "--loader paddle"
        )


def gpu() -> int | None:
    """The number of the GPU that Paddle computes on; None on a CPU."""
    place = paddle.framework._current_expected_place()
    return int(place.get_device_id()) if place.is_gpu_place() else None


class DaliLoader(Closing):
    """As `train.loader.Loader`: DamagedError for a frame that cannot be read. `num_workers` are DALI's threads, one at
    least. Nothing watches over them: loader.timeout_s counts for worker processes only."""

    name = "dali"

    def __init__(self, *, num_workers: int) -> None:
        self._num_threads = max(1, num_workers)

    def batches(self, dataset: ClipDataset, batches: Sequence[list[Item]]) -> Iterator[Batch]:
        if batches:
            yield from run_pipeline(dataset, batches, num_threads=self._num_threads, device_id=gpu())

    def close(self) -> None:
        """Each pipeline ends with its batches."""


@dataclass
class _Feed:
    """Draws the clips of batch after batch for DALI, some batches ahead of what it gives. `waiting`: what was drawn, or
    the error at which it ends, by batch."""

    dataset: ClipDataset
    batches: Sequence[list[Item]]
    position: int = 0
    waiting: deque[list[Drawn] | Error] = field(default_factory=deque)

    def __call__(self) -> tuple[Any, ...]:
        if self.position == len(self.batches) or (self.waiting and isinstance(self.waiting[-1], Error)):
            raise StopIteration
        drawn = [self.dataset.draw(item) for item in self.batches[self.position]]
        self.position += 1
        good = [clip for clip in drawn if isinstance(clip, Drawn)]
        bad = next((clip for clip in drawn if isinstance(clip, BadSample)), None)
        if bad is not None:
            self.waiting.append(bad.as_error())
            raise StopIteration
        self.waiting.append(good)
        return _video_inputs(good) if self.dataset.is_on_the_fly else _jpeg_inputs(good)


def run_pipeline(
    dataset: ClipDataset, batches: Sequence[list[Item]], *, num_threads: int, device_id: int | None
) -> Iterator[Batch]:
    """The batches, decoded by the CPU (device_id None) or by a GPU."""
    feed = _Feed(dataset, batches)
    build, each = (
        (_video_pipeline, 1) if dataset.is_on_the_fly else (_jpeg_pipeline, max(b[0].num_frames for b in batches))
    )
    pipeline = build(
        feed,
        batch_size=each * max(len(batch) for batch in batches),
        num_threads=num_threads,
        device_id=device_id,
    )
    for items in batches:
        frames = None
        try:
            (frames,) = pipeline.run()
        except StopIteration:
            pass
        except RuntimeError as error:
            raise _explain(dataset, items, error) from error
        drawn = feed.waiting.popleft()
        if isinstance(drawn, Error):
            raise drawn
        num_frames, crop_px = items[0].num_frames, drawn[0].plan.width
        yield Batch(
            _as_tensor(frames, (len(items), num_frames, drawn[0].plan.height, crop_px, 3)),
            np.array([clip.label for clip in drawn], np.int64),
            np.array([clip.index for clip in drawn], np.int64),
        )


def _explain(dataset: ClipDataset, items: list[Item], error: RuntimeError) -> Error:
    """DALI does not say which frame it cannot decode: the other decoder finds it."""
    for item in items:
        sample = dataset[item]
        if isinstance(sample, BadSample):
            return sample.as_error()
    ids = ", ".join(dataset.video_id(item.index) for item in items)
    said = str(error).strip().partition("\n")[0]
    return Error(f"DALI cannot make a batch of videos {ids}: {said}; use --loader paddle")


# --- What goes in ---


def _jpeg_inputs(clips: Sequence[Drawn]) -> tuple[Any, ...]:
    """One sample of DALI's for each frame."""
    jpegs = [np.frombuffer(jpeg, np.uint8) for clip in clips for jpeg in clip.jpegs]
    return jpegs, *(np.repeat(values, len(clips[0].jpegs), axis=0) for values in _plan_inputs(clips))


def _video_inputs(clips: Sequence[Drawn]) -> tuple[Any, ...]:
    """One sample for each clip."""
    encoded = [np.fromfile(clip.video, np.uint8) for clip in clips if clip.video is not None]
    return encoded, *_plan_inputs(clips), [np.array(clip.numbers, np.int32) for clip in clips]


def _plan_inputs(clips: Sequence[Drawn]) -> tuple[npt.NDArray[Any], ...]:
    """Of each clip: corner and size of the box, size of the output (height, width), whether it is mirrored, and whether
    it shrinks so much that pixels would be skipped (as in train.transforms.decode.resize)."""
    plans = [clip.plan for clip in clips]
    shrinks = [(plan.box.width / plan.width, plan.box.height / plan.height) for plan in plans]
    return (
        np.array([(plan.box.x, plan.box.y) for plan in plans], np.int32),
        np.array([(plan.box.width, plan.box.height) for plan in plans], np.int32),
        np.array([(plan.height, plan.width) for plan in plans], np.float32),
        np.array([plan.flip for plan in plans], np.int32),
        np.array([max(shrink) > MAX_LINEAR_SHRINK and min(shrink) >= 1 for shrink in shrinks], bool),
    )


# --- The pipelines ---


def _jpeg_pipeline(feed: _Feed, **settings: Any) -> Any:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(enable_conditionals=True, prefetch_queue_depth=_PREFETCH, **settings)
    def pipeline() -> Any:
        jpegs, *plan = fn.external_source(source=feed, num_outputs=6, batch=True)
        device = "cpu" if settings["device_id"] is None else "mixed"
        # Readers of a dataset take frames as they are stored, whatever EXIF may say of them.
        pictures = fn.decoders.image(jpegs, device=device, output_type=types.RGB, adjust_orientation=False)
        return _cut(pictures, *plan)

    return pipeline()


def _video_pipeline(feed: _Feed, **settings: Any) -> Any:
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(enable_conditionals=True, prefetch_queue_depth=_PREFETCH, **settings)
    def pipeline() -> Any:
        encoded, *plan, numbers = fn.external_source(source=feed, num_outputs=7, batch=True)
        device = "cpu" if settings["device_id"] is None else "mixed"
        return _cut(fn.decoders.video(encoded, frames=numbers, device=device), *plan)

    return pipeline()


def _cut(pictures: Any, corner: Any, box: Any, size: Any, is_flipped: Any, shrinks: Any) -> Any:
    """Pictures or clips of DALI, cut, scaled and mirrored."""
    from nvidia.dali import fn, types

    cut = fn.slice(pictures, corner, box, axis_names="WH", normalized_anchor=False, normalized_shape=False)
    if shrinks:
        scaled = fn.resize(cut, size=size, interp_type=types.INTERP_LINEAR, antialias=True)
    else:
        scaled = fn.resize(cut, size=size, interp_type=types.INTERP_LINEAR, antialias=False)
    return fn.flip(scaled, horizontal=is_flipped)


def _as_tensor(frames: Any, shape: tuple[int, ...]) -> paddle.Tensor:
    """DALI's batch as a tensor of our own: DALI uses the memory again."""
    dense = frames.as_tensor()
    if gpu() is None:
        return paddle.to_tensor(np.array(dense).reshape(shape), place=paddle.CPUPlace())
    stream = paddle.device.cuda.current_stream().cuda_stream
    clips_NTHWC = paddle.utils.dlpack.from_dlpack(dense.__dlpack__(stream=stream)).reshape(shape).clone()
    paddle.device.synchronize()
    return clips_NTHWC
