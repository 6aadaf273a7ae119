"""The training loop, once, in reading order.

Order, augmentation and dropout are functions of (seed, epoch, step, sample), so a run that stops after any step and
resumes goes through the same losses and weights as one that does not stop.
"""

import dataclasses
import json
import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import numpy as np
import paddle
from paddle.utils import unique_name
from tqdm import tqdm

from manifests.atomic import TEMPORARY_PREFIX, atomic_write, disk_errors
from manifests.command import handle_signals
from manifests.errors import DamagedError, Error, Interrupted, UsageError
from manifests.lock import RunLock
from manifests.recipe import recipe_from_table
from train.checkpoint import (
    BEST,
    LAST,
    Checkpoint,
    State,
    load_checkpoint,
    require_same_classes,
    save_checkpoint,
)
from train.dataset import ClipDataset
from train.device import normalise
from train.evaluate import evaluate
from train.loader import Batch, Loader
from train.metrics import Accuracy
from train.mixing import mix
from train.models import build_model
from train.recipe import TrainRecipe, bound_settings
from train.sampler import training_batches
from train.schedules import cosine_with_warmup
from train.weights import load_first_weights

METRICS = "metrics.jsonl"
LOCK = "lock"


@dataclass(frozen=True)
class Fitted:
    """How a run ended. `accuracy` is that of the last evaluation; clips_per_s counts training steps only.

    num_clips: clips of training and evaluation in this run; num_forward: those of them that were decoded from the
    beginning of their video (see ClipDataset.num_forward).
    """

    state: State
    accuracy: Accuracy
    clips_per_s: float
    num_clips: int
    num_forward: int


def fit(
    recipe: TrainRecipe,
    training: ClipDataset,
    validation: ClipDataset,
    run: Path,
    *,
    num_workers: int,
    resume: bool,
    quiet: bool,
) -> Fitted:
    """Train into the folder `run`, or go on there.

    Raises UsageError where `run` holds something else or another recipe, or the first weights do not fit, DamagedError
    where classes or a checkpoint do not match or a frame cannot be read, StoreError where the disk refuses or another
    run is at work there, Interrupted after a signal (with a checkpoint), Error where the loss is not finite or a data
    worker fails.
    """
    with disk_errors(run):
        run.mkdir(parents=True, exist_ok=True)
    # Optimiser state is keyed by generated names: nothing else may draw from them.
    with RunLock(run / LOCK, run), unique_name.guard():
        _require_run(run)
        paddle.seed(recipe.run.seed)
        model = build_model(recipe.model, len(training.classes))
        if recipe.model.init and not (run / LAST).exists():
            loaded = load_first_weights(model, recipe.model, training.classes_sha256)
            if not quiet:
                print(loaded, file=sys.stderr)
        optimizer = _build_optimizer(recipe, model)
        state = _begin_or_resume(recipe, training, validation, run, model, optimizer, resume=resume)
        return _train(recipe, training, validation, run, model, optimizer, state, num_workers=num_workers, quiet=quiet)


def _require_run(run: Path) -> None:
    """Clear what a killed run left in its folder. Raises UsageError where `run` holds something else, StoreError."""
    with disk_errors(run):
        left = [path for path in run.glob(f"{TEMPORARY_PREFIX}*") if path.is_file()]
        # A run that was killed before its first last.ckpt may have the others, and begins anew.
        ours = {LOCK, METRICS, BEST, *(path.name for path in left)}
        others = sorted(path.name for path in run.iterdir() if path.name not in ours)
        if others and not (run / LAST).exists():
            raise UsageError(
                f"{run} holds something else ({others[0]!r}); --out takes a new, empty or earlier run folder"
            )
        for path in left:
            path.unlink()


def _build_optimizer(recipe: TrainRecipe, model: paddle.nn.Layer) -> paddle.optimizer.Optimizer:
    settings = recipe.optimizer
    return paddle.optimizer.Momentum(
        learning_rate=settings.learning_rate,
        momentum=settings.momentum,
        use_nesterov=True,
        parameters=model.parameters(),
        weight_decay=settings.weight_decay,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(settings.clip_norm) if settings.clip_norm else None,
    )


def _begin_or_resume(
    recipe: TrainRecipe,
    training: ClipDataset,
    validation: ClipDataset,
    run: Path,
    model: paddle.nn.Layer,
    optimizer: paddle.optimizer.Optimizer,
    *,
    resume: bool,
) -> State:
    last = run / LAST
    if not last.exists():
        if not resume and (run / BEST).exists():
            raise UsageError(f"{run} holds a run already; choose another --out or --resume auto")
        with disk_errors(run):
            for name in (METRICS, BEST):
                (run / name).unlink(missing_ok=True)
        return State(
            recipe=dataclasses.asdict(recipe),
            classes=training.classes,
            classes_sha256=training.classes_sha256,
            training_sha256=training.content_sha256(),
            validation_sha256=validation.content_sha256(),
        )
    if not resume:
        raise UsageError(f"{run} holds a run already; choose another --out or --resume auto")
    checkpoint = load_checkpoint(last)
    state = checkpoint.state
    before = bound_settings(recipe_from_table(TrainRecipe, state.recipe))
    now = bound_settings(recipe)
    differing = [f"{key} {before[key]!r}, not {now[key]!r}" for key in now if before[key] != now[key]]
    if differing:
        raise UsageError(f"{run} was begun with {'; '.join(differing)}: use the same recipe or another --out")
    require_same_classes(state, training.classes_sha256, last, training.folder)
    for dataset, sha256 in ((training, state.training_sha256), (validation, state.validation_sha256)):
        if dataset.content_sha256() != sha256:
            raise UsageError(
                f"{run} was begun with other videos than subset {dataset.subset!r} of {dataset.folder} has: "
                "give it the same data and subsets, or another --out"
            )
    restore(model, checkpoint.model, last)
    optimizer.set_state_dict(checkpoint.optimizer)
    _cut_metrics(run / METRICS, state)
    return state


def restore(model: paddle.nn.Layer, weights: dict[str, Any], path: Path) -> None:
    """Raises DamagedError where weights are missing or do not fit; Paddle alone only warns."""
    missing, unexpected = model.set_state_dict(weights)
    if missing or unexpected:
        raise DamagedError(f"{path} does not fit the model: {[*missing, *unexpected][0]} is missing or left over")


def _train(
    recipe: TrainRecipe,
    training: ClipDataset,
    validation: ClipDataset,
    run: Path,
    model: paddle.nn.Layer,
    optimizer: paddle.optimizer.Optimizer,
    state: State,
    *,
    num_workers: int,
    quiet: bool,
) -> Fitted:
    settings = recipe.optimizer
    steps_per_epoch = len(training) // settings.batch_size
    if steps_per_epoch == 0:
        raise UsageError(
            f"subset {training.subset!r} has {len(training)} videos, fewer than "
            f"optimizer.batch_size={settings.batch_size}"
        )
    num_steps = steps_per_epoch * settings.num_epochs
    accuracy: Accuracy | None = None
    num_clips, training_s = 0, 0.0
    num_forward = num_forward_logged = num_evaluated = 0
    num_views = validation.num_views * len(validation)
    num_views_forward = validation.num_views * validation.num_forward(np.arange(len(validation)))

    def save(name: str) -> None:
        if not all(bool(paddle.isfinite(weights).all()) for weights in model.parameters()):
            raise Error(
                f"weights are no longer finite after step {state.step}, and not saved; "
                "begin with a lower optimizer.learning_rate in another --out"
            )
        save_checkpoint(run / name, Checkpoint(state, model.state_dict(), optimizer.state_dict()))

    with (
        _stop_on_signals() as stop,
        _open_metrics(run / METRICS) as metrics,
        Loader([training, validation], num_workers=num_workers, timeout_s=recipe.loader.timeout_s) as loader,
        tqdm(total=num_steps, initial=state.step, unit="step", disable=True if quiet else None) as bar,
    ):
        saved_s = time.monotonic()
        while state.epoch < settings.num_epochs:
            batches = training_batches(
                len(training),
                batch_size=settings.batch_size,
                num_frames=recipe.clip.num_frames,
                crop_px=recipe.clip.crop_px,
                seed=recipe.run.seed,
                epoch=state.epoch,
                first_step=state.step_in_epoch,
            )
            model.train()
            asked_s = time.monotonic()
            for batch in stop.while_waiting(loader.batches(training, batches)):
                got_s = time.monotonic()

                # Forward and backward; whatever draws at random draws from (seed, step).
                paddle.seed(_step_seed(recipe.run.seed, state.step))
                rate = cosine_with_warmup(
                    state.step,
                    num_steps=num_steps,
                    num_warmup_steps=round(settings.num_warmup_epochs * steps_per_epoch),
                    peak=settings.learning_rate,
                )
                optimizer.set_lr(rate)
                mixed = mix(
                    normalise(batch.clips_NTHWC, recipe.normalisation),
                    batch.labels_N,
                    np.random.default_rng([recipe.run.seed, state.step, 0, 1]),  # of samples: [seed, epoch, n]
                    mixup_alpha=recipe.mix.mixup_alpha,
                    cutmix_alpha=recipe.mix.cutmix_alpha,
                    cutmix_share=recipe.mix.cutmix_share,
                )
                loss = mixed.loss(model(mixed.clips), label_smoothing=settings.label_smoothing)
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
                state = replace(state, step=state.step + 1, step_in_epoch=state.step_in_epoch + 1)

                # Account.
                value = float(loss)
                if not math.isfinite(value):
                    ids = ", ".join(training.video_id(int(index)) for index in batch.indices_N)
                    raise Error(
                        f"the loss is {value} at step {state.step}, over videos {ids}; begin with a lower "
                        "optimizer.learning_rate in another --out"
                    )
                done_s = time.monotonic()
                num_clips += len(batch.labels_N)
                num_forward += training.num_forward(batch.indices_N)
                training_s += done_s - asked_s
                if state.step % recipe.run.log_every_steps == 0 or state.step == num_steps:
                    metrics.write(
                        kind="train",
                        step=state.step,
                        epoch=state.epoch,
                        loss=value,
                        learning_rate=rate,
                        clips_per_s=round(len(batch.labels_N) / (done_s - asked_s), 1),
                        data_wait_share=round((got_s - asked_s) / (done_s - asked_s), 3),
                        **({"clips_forward": num_forward - num_forward_logged} if training.is_on_the_fly else {}),
                    )
                    num_forward_logged = num_forward
                    bar.set_postfix_str(f"loss {value:.3f}, {num_clips / training_s:.0f} clips/s", refresh=False)
                bar.update()

                # Stop or save between steps only.
                if stop.is_asked:
                    break
                if done_s - saved_s > recipe.run.checkpoint_every_s:
                    save(LAST)
                    saved_s = time.monotonic()
                asked_s = time.monotonic()

            # The epoch is complete: evaluate, keep the best. A run that stops in the evaluation begins it anew.
            if not stop.is_asked:
                with stop.at_once():
                    accuracy = evaluate(model, validation, recipe, loader, quiet=True)
            if stop.is_asked:
                save(LAST)
                raise Interrupted(f"interrupted after step {state.step} of {num_steps}, which is saved")
            assert accuracy is not None
            state = replace(state, epoch=state.epoch + 1, step_in_epoch=0)
            num_evaluated += 1
            forward = {"clips_forward": num_views_forward} if validation.is_on_the_fly else {}
            metrics.write(kind="eval", step=state.step, epoch=state.epoch, **dataclasses.asdict(accuracy), **forward)
            is_best = state.best_top1 is None or accuracy.top1 > state.best_top1
            state = replace(state, best_top1=accuracy.top1 if is_best else state.best_top1)
            if is_best:
                save(BEST)
            save(LAST)
            saved_s = time.monotonic()
    if accuracy is None:  # the run was complete already
        with Loader([validation], num_workers=num_workers, timeout_s=recipe.loader.timeout_s) as loader:
            accuracy = evaluate(model, validation, recipe, loader, quiet=True)
        num_evaluated += 1
    return Fitted(
        state,
        accuracy,
        num_clips / training_s if training_s else 0.0,
        num_clips + num_evaluated * num_views,
        num_forward + num_evaluated * num_views_forward,
    )


def _step_seed(seed: int, step: int) -> int:
    """One number from two, for Paddle's generator."""
    return (seed * 1_000_003 + step) % 2**31


class _Metrics:
    """metrics.jsonl: one object a line."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file

    def write(self, **values: Any) -> None:
        with disk_errors(self._path):
            self._file.write(json.dumps(values) + "\n")
            self._file.flush()


@contextmanager
def _open_metrics(path: Path) -> Iterator[_Metrics]:
    with disk_errors(path):
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed below
    try:
        yield _Metrics(path, file)
    finally:
        with disk_errors(path):
            file.close()


def _cut_metrics(path: Path, state: State) -> None:
    """Drop what was logged after the checkpoint that a run resumes from: it will be logged again."""
    with disk_errors(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    kept = [line for line in lines if _is_logged_by(line, state)]
    with atomic_write(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def _is_logged_by(line: str, state: State) -> bool:
    try:
        values = json.loads(line)
        is_evaluated = values["kind"] != "eval" or values["epoch"] <= state.epoch
        return bool(values["step"] <= state.step and is_evaluated)
    except (ValueError, KeyError, TypeError):
        return False  # torn by a crash


class _Stop:
    """Whether a signal has asked the loop to end."""

    is_asked = False
    is_at_once = False

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is inside ends at a signal, and the program goes on after it."""
        self.is_at_once = True
        try:
            yield
        except KeyboardInterrupt:
            self.is_asked = True
        finally:
            self.is_at_once = False

    def while_waiting(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches, until a signal comes while the next one is waited for."""
        while not self.is_asked:
            batch = None
            with self.at_once():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


@contextmanager
def _stop_on_signals() -> Iterator[_Stop]:
    """The first Ctrl-C, SIGTERM or SIGHUP ends the run between two steps, with a checkpoint; the second one at once."""
    stop = _Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        is_second, stop.is_asked = stop.is_asked, True
        if is_second or stop.is_at_once:
            raise KeyboardInterrupt

    before = handle_signals(ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
