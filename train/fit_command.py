"""train fit: from flags to the loop, and from its end to words."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from manifests.command import print_result, resume_hint, say
from manifests.description import read_description
from manifests.errors import Interrupted
from manifests.machine import usable_processors
from manifests.recipe import load_recipe
from manifests.wording import count
from train.launch import is_rank, layout_of, run_ranks, settle_in
from train.recipe import TrainRecipe, recipe_file, require_whole_parts
from train.setting_up import (
    TRAINING_SUBSETS,
    VALIDATION_SUBSETS,
    accuracy_text,
    decoded,
    first_of,
    open_data,
    open_loader,
    prepare_loading,
    require_loader,
    require_paddle,
    say_device,
    source_list_of,
)
from train.videos import Videos, subset_names


def run(arguments: argparse.Namespace) -> int:
    """Train, or go on; in several processes where --nproc or --nnodes say so."""
    settle_in()
    first_weights = [] if arguments.init is None else [f"model.init={arguments.init}"]
    recipe = load_recipe(TrainRecipe, recipe_file(arguments.recipe), [*arguments.set, *first_weights])
    layout = layout_of(arguments.nproc, arguments.nnodes, arguments.rank, arguments.master)
    if layout.count > 1 and not is_rank():
        require_whole_parts(recipe, layout.count)
        return run_ranks(layout, ["-m", "train", *sys.argv[1:]])
    source_list = source_list_of(arguments)
    subsets = subset_names(source_list) if source_list else list(read_description(arguments.data).subsets)
    train_subset = arguments.train_subset or first_of(TRAINING_SUBSETS, subsets, "--train-subset")
    val_subset = arguments.val_subset or first_of(VALIDATION_SUBSETS, subsets, "--val-subset")
    require_paddle()

    from train.dataset import ClipDataset
    from train.device import has_gpu, set_cpu_threads
    from train.loop import fit
    from train.precision import precision_text
    from train.ranks import join_ranks

    ranks = join_ranks()
    if not ranks.is_first:
        arguments.quiet = True
    num_workers, num_threads = prepare_loading(arguments, recipe, ranks.num_here)

    data = open_data(arguments, source_list, [train_subset, val_subset])
    training = ClipDataset(data, train_subset, recipe, training=True)
    validation = ClipDataset(data, val_subset, recipe, training=False)
    require_loader(arguments, training, validation)
    set_cpu_threads(num_threads)
    readers = count(num_workers, "DALI thread" if arguments.loader == "dali" else "data worker")
    say(
        arguments,
        f"{recipe.model.name}: {len(training):,} clips of {train_subset}, {len(validation):,} of {val_subset}; "
        f"{readers}, {count(num_threads, 'CPU thread')} ({usable_processors().reason})",
    )
    say_device(arguments)
    if precision := precision_text(recipe.amp, has_gpu=has_gpu()):
        say(arguments, precision)
    try:
        with open_loader(arguments, recipe, num_workers, training, validation) as loader:
            fitted = fit(
                recipe,
                training,
                validation,
                arguments.out,
                loader,
                resume=arguments.resume == "auto",
                quiet=arguments.quiet,
                data_recipe=_data_recipe(data),
                ranks=ranks,
            )
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(f"{str(error) or 'interrupted'}; {resume_hint()}") from None
    if not ranks.is_first:
        return 0
    table = {
        "out": str(arguments.out),
        "steps": fitted.state.step,
        "epochs": fitted.state.epoch,
        "best_top1": fitted.state.best_top1,
        "clips_per_s": round(fitted.clips_per_s, 1),
        **dataclasses.asdict(fitted.accuracy),
    }
    rate = f", {fitted.clips_per_s:.0f} clips/s" if fitted.clips_per_s else ", complete already"
    lines = [
        f"{arguments.out}: {fitted.state.step:,} steps in {count(fitted.state.epoch, 'epoch')}{rate}",
        f"{val_subset} after the last epoch: {accuracy_text(fitted.accuracy)}",
    ]
    if isinstance(data, Videos):
        told, line = decoded(data, fitted.num_clips, fitted.num_forward)
        table |= told
        lines.append(line)
    print_result(arguments, table, lines)
    return 0


def _data_recipe(data: Path | Videos) -> dict[str, Any]:
    """How frames were made, whatever their store; or the decoder that makes them."""
    if isinstance(data, Videos):
        return {"on_the_fly": {"decoder": data.decoder}}
    return {key: value for key, value in read_description(data).recipe.items() if key != "store"}
