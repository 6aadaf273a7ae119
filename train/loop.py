"""The training loop, once, in reading order.

Order, augmentation and dropout are functions of (seed, epoch, step, sample), so a run that stops after any step and
resumes goes through the same losses and weights as one that does not stop. A step is an optimiser step: its batch is
computed in parts, by the ranks and one after the other, and part p has the clips p, p + parts, ... of the batch. Its
shape is the schedule's (train.schedules); a plain run is the case of one shape.
"""

import dataclasses
import math
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle.utils import unique_name
from tqdm import tqdm

from manifests.atomic import TEMPORARY_PREFIX, disk_errors
from manifests.errors import Error, Interrupted, UsageError
from manifests.lock import RunLock
from manifests.machine import format_bytes
from manifests.recipe import recipe_from_table
from train.averaging import MovingAverage, running_statistics, set_precise_statistics
from train.checkpoint import BEST, LAST, Checkpoint, State, load_checkpoint, require_same_classes, save_checkpoint
from train.dataset import ClipDataset
from train.device import has_gpu, normalise
from train.evaluate import evaluate
from train.loader import Batch, Batches
from train.metrics import Accuracy
from train.metrics_file import METRICS, Spent, cut_metrics, open_metrics
from train.mixing import mix
from train.models import build_model
from train.models.norms import set_groups
from train.optimising import build_optimizer, rate_at
from train.precision import Precision, open_precision
from train.ranks import Ranks
from train.recipe import TrainRecipe, bound_settings, require_a_batch, require_whole_parts
from train.sampler import Item, training_batches
from train.schedules import Shape
from train.stopping import Stop, stop_on_signals
from train.trained import restore
from train.weights import load_first_weights

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
    loader: Batches,
    *,
    resume: bool,
    quiet: bool,
    data_recipe: dict[str, Any] | None = None,
    ranks: Ranks = Ranks(),  # noqa: B008 - frozen
) -> Fitted:
    """Train into the folder `run`, or go on there. `data_recipe`: that of the extraction, for `train predict`.

    Raises UsageError where `run` holds something else or another recipe, or the first weights do not fit, DamagedError
    where classes or a checkpoint do not match or a frame cannot be read, StoreError where the disk refuses or another
    run is at work there, Interrupted after a signal (with a checkpoint), Error where the loss is not finite or a data
    worker fails.
    """
    with disk_errors(run):
        run.mkdir(parents=True, exist_ok=True)
    # Optimiser state is keyed by generated names: nothing else may draw from them.
    with RunLock(run / LOCK, run) if ranks.is_first else nullcontext(), unique_name.guard():
        if ranks.is_first:
            _require_run(run)
        paddle.seed(recipe.run.seed)
        model = build_model(recipe.model, len(training.classes), recipe.window_px)
        if recipe.model.init and not (run / LAST).exists():
            loaded = load_first_weights(model, recipe.model, training.classes_sha256)
            if not quiet:
                print(loaded, file=sys.stderr)
        optimizer = build_optimizer(model, recipe.optimizer)
        precision, model, optimizer = open_precision(recipe.amp, model, optimizer, has_gpu=has_gpu())
        average = MovingAverage(model, recipe.average.ema_decay) if recipe.average.ema_decay else None
        learner = _Learner(model, optimizer, precision, average, ranks)
        state = _begin_or_resume(
            recipe, training, validation, run, learner, data_recipe or {}, resume=resume, loader=loader.name
        )
        if not ranks.are_alike(_beginning(recipe, state, model)):
            raise UsageError(
                "the processes begin with different recipes, videos, weights or checkpoints: give all the same "
                f"arguments, and a RUN that all see, not {run} on each machine"
            )
        return _train(recipe, training, validation, run, loader, learner, state, quiet=quiet)


def _beginning(recipe: TrainRecipe, state: State, model: paddle.nn.Layer) -> Iterator[bytes]:
    """What processes that train together have in common."""
    told = (bound_settings(recipe), state.step, state.epoch, state.classes, state.training_sha256)
    yield repr((*told, state.validation_sha256, state.loader)).encode()
    for weights in model.state_dict().values():
        yield weights.numpy().tobytes()


@dataclass(frozen=True)
class _Learner:
    """What changes as a run goes on, besides its State."""

    model: paddle.nn.Layer
    optimizer: Any
    precision: Precision
    average: MovingAverage | None
    ranks: Ranks
    restored: dict[str, Any] = field(default_factory=dict)
    """The optimiser's state of a checkpoint until the next step: PaddlePaddle 2.6 gives it out from then on only."""

    def restore(self, checkpoint: Checkpoint, path: Path) -> None:
        restore(self.model, checkpoint.model, path)
        self.optimizer.set_state_dict(checkpoint.optimizer)
        self.restored.update(checkpoint.optimizer)
        self.precision.restore(checkpoint.scaler)
        if self.average is not None:
            self.average.restore(checkpoint.average)

    def averaged(self) -> AbstractContextManager[None]:
        """The model has the weights that evaluations use inside."""
        return nullcontext() if self.average is None else self.average.in_place(self.model)

    def checkpoint(self, state: State) -> Checkpoint:
        average = {} if self.average is None else self.average.weights
        scaler = self.precision.state()
        optimizer = {**self.restored, **self.optimizer.state_dict()}
        return Checkpoint(state, self.model.state_dict(), optimizer, average, scaler)


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


def _begin_or_resume(
    recipe: TrainRecipe,
    training: ClipDataset,
    validation: ClipDataset,
    run: Path,
    learner: _Learner,
    data_recipe: dict[str, Any],
    *,
    resume: bool,
    loader: str,
) -> State:
    last = run / LAST
    if not last.exists():
        if not resume and (run / BEST).exists():
            raise UsageError(f"{run} holds a run already; choose another --out or --resume auto")
        learner.ranks.wait()
        if learner.ranks.is_first:
            with disk_errors(run):
                for name in (METRICS, BEST):
                    (run / name).unlink(missing_ok=True)
        return State(
            recipe=dataclasses.asdict(recipe),
            classes=training.classes,
            classes_sha256=training.classes_sha256,
            training_sha256=training.content_sha256(),
            validation_sha256=validation.content_sha256(),
            data_recipe=data_recipe,
            loader=loader,
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
    if state.loader != loader:
        raise UsageError(f"{run} was begun with --loader {state.loader}: use the same or another --out")
    require_same_classes(state, training.classes_sha256, last, training.folder)
    for dataset, sha256 in ((training, state.training_sha256), (validation, state.validation_sha256)):
        if dataset.content_sha256() != sha256:
            raise UsageError(
                f"{run} was begun with other videos than subset {dataset.subset!r} of {dataset.folder} has: "
                f"give it the same data{', decoder' if dataset.is_on_the_fly else ''} and subsets, or another --out"
            )
    learner.restore(checkpoint, last)
    if learner.ranks.is_first:
        cut_metrics(run / METRICS, state)
    return state


def _train(
    recipe: TrainRecipe,
    training: ClipDataset,
    validation: ClipDataset,
    run: Path,
    loader: Batches,
    learner: _Learner,
    state: State,
    *,
    quiet: bool,
) -> Fitted:
    settings, ranks, precision = recipe.optimizer, learner.ranks, learner.precision
    model, optimizer = learner.model, learner.optimizer
    parameters = [parameter for parameter in model.parameters() if not parameter.stop_gradient]
    statistics = running_statistics(model)
    schedule = recipe.schedule
    require_a_batch(recipe, len(training), training.subset)
    require_whole_parts(recipe, ranks.count)
    num_steps = recipe.num_steps(len(training))
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
        if ranks.is_first:
            save_checkpoint(run / name, learner.checkpoint(state))

    with (
        stop_on_signals(is_alone=ranks.count == 1) as stop,
        open_metrics(run / METRICS if ranks.is_first else None) as metrics,
        tqdm(total=num_steps, initial=state.step, unit="step", disable=True if quiet else None) as bar,
    ):
        saved_s = time.monotonic()
        spent = Spent()
        while state.epoch < schedule.num_epochs:
            stage = schedule.stage_of(state.epoch)
            steps_per_epoch = recipe.steps_per_epoch(stage, len(training))
            parts = _parts_of_epoch(recipe, len(training), stage.shapes, state.epoch, state.step_in_epoch, ranks)
            model.train()
            asked_s = time.monotonic()
            for batches in stop.while_waiting(loader.batches(training, parts), settings.num_parts // ranks.count):
                got_s = time.monotonic()

                # Forward and backward, part by part; whatever draws at random draws from (seed, step, part).
                shape = stage.shape_of(state.step_in_epoch)
                batch_size = settings.batch_size * shape.multiple
                set_groups(model, recipe.norm_groups(shape.multiple))
                losses = []
                for number, batch in enumerate(batches):
                    part = number * ranks.count + ranks.rank
                    paddle.seed(_step_seed(recipe.run.seed, state.step, part))
                    mixed = mix(
                        normalise(batch.clips_NTHWC, recipe.normalisation),
                        batch.labels_N,
                        np.random.default_rng([recipe.run.seed, state.step, part, 1]),  # of samples: [seed, epoch, n]
                        mixup_alpha=recipe.mix.mixup_alpha,
                        cutmix_alpha=recipe.mix.cutmix_alpha,
                        cutmix_share=recipe.mix.cutmix_share,
                    )
                    logits_NK = precision.forward(model, mixed.clips)
                    loss = mixed.loss(logits_NK, label_smoothing=settings.label_smoothing)
                    precision.backward(loss / len(batches))
                    losses.append(float(loss))

                # One optimiser step, with what all ranks found.
                value = ranks.mean(sum(losses) / len(losses))
                if not math.isfinite(value):
                    raise _not_finite(f"the loss is {value}", state, training, batches)
                ranks.average([parameter.grad for parameter in parameters if parameter.grad is not None])
                ranks.average(statistics)
                position = state.epoch + state.step_in_epoch / steps_per_epoch
                rate = rate_at(settings, schedule, position, 1 / steps_per_epoch)
                optimizer.set_lr(rate)
                norm = precision.step(optimizer, parameters, settings.clip_norm)
                learner.restored.clear()
                if precision.scaler is None and not math.isfinite(norm):
                    raise _not_finite(f"the norm of the gradients is {norm}", state, training, batches)
                state = replace(state, step=state.step + 1, step_in_epoch=state.step_in_epoch + 1)
                if learner.average is not None:
                    learner.average.update(model, state.step)

                # Account.
                done_s = time.monotonic()
                num_clips += batch_size
                num_forward += sum(training.num_forward(batch.indices_N) for batch in batches)
                training_s += done_s - asked_s
                spent.add(batch_size, done_s - asked_s, got_s - asked_s)
                if state.step % recipe.run.log_every_steps == 0 or state.step == num_steps:
                    wait_share = (got_s - asked_s) / (done_s - asked_s)
                    memory_bytes = _peak_memory()
                    metrics.write(
                        kind="train",
                        step=state.step,
                        epoch=state.epoch,
                        loss=value,
                        learning_rate=rate,
                        gradient_norm=norm,
                        batch_size=batch_size,
                        num_frames=shape.num_frames,
                        crop_px=shape.crop_px,
                        clips_per_s=round(batch_size / (done_s - asked_s), 1),
                        data_wait_share=round(wait_share, 3),
                        memory_bytes=memory_bytes,
                        **({"clips_forward": num_forward - num_forward_logged} if training.is_on_the_fly else {}),
                    )
                    num_forward_logged = num_forward
                    bar.set_postfix_str(
                        f"loss {value:.3f}, rate {rate:.2g}, {num_clips / training_s:.0f} clips/s, "
                        f"{wait_share:.0%} waiting for data, {format_bytes(memory_bytes)}",
                        refresh=False,
                    )
                bar.update()

                # Stop or save between steps only, and all ranks after the same.
                if ranks.any(stop.is_asked):
                    stop.is_asked = True
                    break
                if done_s - saved_s > recipe.run.checkpoint_every_s:
                    save(LAST)
                    saved_s = time.monotonic()
                asked_s = time.monotonic()

            # The epoch is complete: evaluate, keep the best. A run that stops in the evaluation begins it anew.
            is_evaluated = schedule.is_evaluated(state.epoch, recipe.evals_per_stage)
            if is_evaluated and not stop.is_asked:
                accuracy = _evaluate_epoch(recipe, training, validation, learner, loader, stop, state.epoch)
            if ranks.any(stop.is_asked):
                save(LAST)
                raise Interrupted(f"interrupted after step {state.step} of {num_steps}, which is saved")
            state = replace(state, epoch=state.epoch + 1, step_in_epoch=0)
            if not is_evaluated:
                continue
            assert accuracy is not None
            num_evaluated += 1
            if state.epoch == stage.end_epoch:
                metrics.write(kind="stage", step=state.step, epoch=state.epoch, **stage.base._asdict(), **spent.take())
            forward = {"clips_forward": num_views_forward} if validation.is_on_the_fly else {}
            metrics.write(kind="eval", step=state.step, epoch=state.epoch, **dataclasses.asdict(accuracy), **forward)
            is_best = state.best_top1 is None or accuracy.top1 > state.best_top1
            state = replace(state, best_top1=accuracy.top1 if is_best else state.best_top1)
            if is_best:
                save(BEST)
            save(LAST)
            saved_s = time.monotonic()
    if accuracy is None:  # the run was complete already
        with learner.averaged():
            accuracy = _score(recipe, validation, learner, loader)
        num_evaluated += 1
    return Fitted(
        state,
        accuracy,
        num_clips / training_s if training_s else 0.0,
        num_clips + num_evaluated * num_views,
        num_forward + num_evaluated * num_views_forward,
    )


def _parts_of_epoch(
    recipe: TrainRecipe, num_samples: int, shapes: Sequence[Shape], epoch: int, first_step: int, ranks: Ranks
) -> list[list[Item]]:
    """What this rank computes from `first_step` of an epoch on, part by part."""
    settings, num_parts = recipe.optimizer, recipe.optimizer.num_parts
    by_part = [
        training_batches(
            num_samples,
            batch_size=settings.batch_size,
            shapes=shapes,
            seed=recipe.run.seed,
            epoch=epoch,
            first_step=first_step,
            rank=part,
            num_ranks=num_parts,
        )
        for part in range(ranks.rank, num_parts, ranks.count)
    ]
    return [items for step in zip(*by_part, strict=True) for items in step]


def _not_finite(what: str, state: State, training: ClipDataset, batches: list[Batch]) -> Error:
    ids = ", ".join(training.video_id(int(index)) for batch in batches for index in batch.indices_N)
    return Error(
        f"{what} at step {state.step + 1}, over videos {ids}; begin with a lower optimizer.learning_rate in another "
        "--out"
    )


def _evaluate_epoch(
    recipe: TrainRecipe,
    training: ClipDataset,
    validation: ClipDataset,
    learner: _Learner,
    loader: Batches,
    stop: Stop,
    epoch: int,
) -> Accuracy | None:
    """Before it, where the recipe says so, batch norms take precise statistics from the first samples of the epoch, in
    clips and batches of the shape that evaluations have too, the largest.

    None where a signal came: then nothing has changed.
    """
    number, every = recipe.average.precise_bn_batches, recipe.average.precise_bn_every_epochs
    is_due = number and ((epoch + 1) % every == 0 or epoch + 1 == recipe.schedule.num_epochs)

    def clips() -> Iterator[paddle.Tensor]:
        largest = recipe.schedule.stages[-1].base
        set_groups(learner.model, recipe.norm_groups(largest.multiple))
        parts = _parts_of_epoch(recipe, len(training), [largest], epoch, 0, learner.ranks)
        parts = parts[: -(-number // learner.ranks.count)]
        for batches in stop.while_waiting(loader.batches(training, parts), 1):
            yield normalise(batches[0].clips_NTHWC, recipe.normalisation)
        if stop.is_asked and learner.ranks.count == 1:
            raise KeyboardInterrupt

    with learner.averaged():
        if is_due:
            try:
                set_precise_statistics(learner.model, clips(), learner.ranks)
            except KeyboardInterrupt:
                return None
        with stop.at_once():
            return _score(recipe, validation, learner, loader)
    return None


def _score(recipe: TrainRecipe, validation: ClipDataset, learner: _Learner, loader: Batches) -> Accuracy:
    return evaluate(
        learner.model, validation, recipe, loader, quiet=True, ranks=learner.ranks, precision=learner.precision
    )


def _step_seed(seed: int, step: int, part: int) -> int:
    """One number from three, for Paddle's generator."""
    return (seed * 1_000_003 + step * 1_009 + part) % 2**31


def _peak_memory() -> int:
    """Bytes that this process has had at most: of the GPU, or of the machine where there is none."""
    if has_gpu():
        return int(paddle.device.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
