"""The recipe of a training run: what it refuses, and what a resumed run may change."""

import math
from pathlib import Path
from typing import Any

import pytest

from manifests.errors import UsageError
from manifests.recipe import flat, load_recipe, recipe_from_table
from train.models import MODELS
from train.optimising import rate_at
from train.recipe import RECIPES, Loader, Run, TrainRecipe, bound_settings, recipe_file
from train.recipe_of_clips import Clip, flip_pairs
from train.recipe_of_learning import Model, Optimizer


def refusal(*overrides: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_recipe(TrainRecipe, None, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.name=resnet", f"model.name is one of {', '.join(MODELS)}, not 'resnet'"),
        ("model.dropout=1", "model.dropout is in [0, 1), not 1.0"),
        ("model.dropout=-0.1", "model.dropout is in [0, 1), not -0.1"),
        ("model.shift_share=0.51", "model.shift_share is in [0, 0.5], not 0.51"),
        ("model.shift_share=nan", "model.shift_share is in [0, 0.5], not nan"),
        ("model.shift_first=both", "model.shift_first is previous or next, not 'both'"),
        ("clip.num_frames=0", "clip.num_frames is at least 1, not 0"),
        ("clip.crop_px=15", "clip.crop_px is in [16, 4096], not 15"),
        ("clip.crop_px=4097", "clip.crop_px is in [16, 4096], not 4097"),
        ("clip.sampler=all", "clip.sampler is one of segments, uniform, dense, strided, slowfast, not 'all'"),
        ("clip.interval=0", "clip.interval is at least 1, not 0"),
        ("clip.target_fps=-1", "clip.target_fps is at least 0, not -1.0"),
        ("clip.crop=ten", "clip.crop is one of multi_scale, random_resized, jitter, centre, not 'ten'"),
        ("clip.jitter_max_px=255", "clip.jitter_max_px is at least clip.jitter_min_px, 256, not 255"),
        ("clip.min_area=0", "clip.min_area is in (0, 1], not 0.0"),
        ("clip.max_enlargement=0.9", "clip.max_enlargement is 0 or in [1, 8], not 0.9"),
        ("clip.normalise=none", "clip.normalise is one of auto, imagenet, kinetics, not 'none'"),
        ("clip.flip_classes=a", "clip.flip_classes is a list such as 'turn left=turn right, ...', not 'a'"),
        ("clip.flip_classes=a=a", "clip.flip_classes is a list such as 'turn left=turn right, ...', not 'a=a'"),
        ("clip.flip_classes=a=b,c=a", "clip.flip_classes names a class twice: 'a=b,c=a'"),
        ("views.num_clips=0", "views.num_clips is at least 1, not 0"),
        ("views.crops=two", "views.crops is one of centre, three, ten, not 'two'"),
        ("augment.contrast=-1", "augment.contrast is at least 0, not -1.0"),
        ("augment.hue=0.6", "augment.hue is in [0, 0.5], not 0.6"),
        ("augment.rand_operations=-1", "augment.rand_operations is at least 0, not -1"),
        ("augment.rand_magnitude=11", "augment.rand_magnitude is in [0, 10], not 11.0"),
        ("mix.mixup_alpha=-0.1", "mix.mixup_alpha is at least 0, not -0.1"),
        ("mix.cutmix_alpha=nan", "mix.cutmix_alpha is at least 0, not nan"),
        ("mix.cutmix_share=2", "mix.cutmix_share is in [0, 1], not 2.0"),
        ("optimizer.batch_size=0", "optimizer.batch_size is at least 1, not 0"),
        ("optimizer.num_epochs=0", "optimizer.num_epochs is at least 1, not 0"),
        ("optimizer.num_warmup_epochs=-1", "optimizer.num_warmup_epochs is at least 0, not -1.0"),
        ("optimizer.learning_rate=-1e-3", "optimizer.learning_rate is at least 0, not -0.001"),
        ("optimizer.learning_rate=nan", "optimizer.learning_rate is at least 0, not nan"),
        ("optimizer.weight_decay=-1", "optimizer.weight_decay is at least 0, not -1.0"),
        ("optimizer.clip_norm=-1", "optimizer.clip_norm is at least 0, not -1.0"),
        ("optimizer.momentum=1", "optimizer.momentum is in [0, 1), not 1.0"),
        ("optimizer.momentum=nan", "optimizer.momentum is in [0, 1), not nan"),
        ("optimizer.label_smoothing=1", "optimizer.label_smoothing is in [0, 1), not 1.0"),
        ("loader.num_workers=-2", "loader.num_workers is at least -1, not -2"),
        ("loader.timeout_s=0", "loader.timeout_s is above 0, not 0.0"),
        ("loader.timeout_s=nan", "loader.timeout_s is above 0, not nan"),
        ("run.seed=-1", "run.seed is in [0, 2147483648), not -1"),
        ("run.checkpoint_every_s=0", "run.checkpoint_every_s is above 0, not 0.0"),
        ("run.log_every_steps=0", "run.log_every_steps is at least 1, not 0"),
        ("run.cpu_threads=-1", "run.cpu_threads is in [0, 1024], not -1"),
    ],
)
def test_values_out_of_range(override: str, message: str) -> None:
    assert refusal(override) == message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("clip.num_frame=4", "unknown recipe key 'clip.num_frame'; did you mean clip.num_frames?"),
        ("optimiser.batch_size=4", "unknown recipe key 'optimiser.batch_size'; did you mean optimizer.batch_size?"),
        ("clip.flips=1", "recipe key clip.flips takes true or false, not 1"),
        ("clip.num_frames=2.5", "recipe key clip.num_frames takes a whole number, not 2.5"),
        ("optimizer.learning_rate=high", "recipe key optimizer.learning_rate takes a number, not 'high'"),
    ],
)
def test_keys_and_types(override: str, message: str) -> None:
    assert refusal(override) == message


@pytest.mark.parametrize(
    "name", ["tsm_k400", "tsm_multigrid", "pptsm_k400", "slowfast_k400", "slowfast_multigrid_k400"]
)
def test_recipes_whose_sources_decay_no_norms(name: str) -> None:
    """PaddleVideo's resnet_tsm.py, resnet_tweaks_tsm.py, resnet_slowfast.py; PySlowFast's BN.WEIGHT_DECAY of 0."""
    settings = load_recipe(TrainRecipe, recipe_file(name), []).optimizer
    assert (settings.weight_decay, settings.decay_norms) == (1e-4, False)


def test_keys_that_would_do_nothing() -> None:
    uniform = refusal("clip.sampler=uniform", "views.num_clips=10")
    assert uniform == "clip.sampler=uniform has one clip of a video, so views.num_clips is 1 (--views 1x3), not 10"
    assert refusal("clip.flips=false", "clip.flip_classes=a=b").startswith(
        "clip.flip_classes goes with clip.flips=true"
    )
    for key in ("mix.mixup_alpha=1", "mix.cutmix_alpha=1"):
        assert refusal(key, "optimizer.batch_size=4", "optimizer.num_parts=4").startswith("mix.* mixes the clips")


def test_a_slowfast_takes_whole_steps_of_its_slow_pathway() -> None:
    message = refusal("model.name=slowfast_4x16", "clip.num_frames=12")
    assert message == "slowfast_4x16 takes clip.num_frames in multiples of 8, not 12"
    assert load_recipe(TrainRecipe, None, ["model.name=slowfast_8x8", "clip.num_frames=12"]).clip.num_frames == 12


@pytest.mark.parametrize("name", MODELS)
def test_pixels_are_normalised_as_the_model_was_trained(name: str) -> None:
    own = load_recipe(TrainRecipe, None, [f"model.name={name}"])
    assert own.normalisation == ("kinetics" if name.startswith("slowfast") else "imagenet")
    for other in ("kinetics", "imagenet"):
        recipe = load_recipe(TrainRecipe, None, [f"model.name={name}", f"clip.normalise={other}"])
        assert recipe.normalisation == other


def test_keys_that_must_agree() -> None:
    assert (
        refusal("clip.crop=jitter", "clip.crop_px=300") == "clip.jitter_min_px is at least clip.crop_px, 300, not 256"
    )
    for key in ("clip.flips=false", "clip.flip_classes=a=b"):
        assert (
            refusal("views.crops=ten", key)
            == "views.crops=ten mirrors clips: it needs clip.flips and no clip.flip_classes"
        )
    assert load_recipe(TrainRecipe, None, ["views.crops=ten", "views.num_clips=3"]).views.count == 30


def test_parts_and_steps_that_do_not_fit() -> None:
    message = "average.ema_decay does not go with amp.level=O2, whose weights have 16 bits: use O1"
    assert refusal("amp.level=O2", "average.ema_decay=0.9") == message
    message = "optimizer.batch_size is a multiple of optimizer.num_parts, 3, not 16"
    assert refusal("optimizer.num_parts=3") == message
    message = "optimizer.decay_epochs, such as '20, 40', goes with optimizer.schedule=step"
    assert refusal("optimizer.decay_epochs=20") == message
    for text in ("40, 20", "0", "20, 20", "ten", "nan", "5, inf"):
        message = f"optimizer.decay_epochs is an ascending list such as '20, 40', not {text!r}"
        assert refusal("optimizer.schedule=step", f"optimizer.decay_epochs={text}") == message
    message = "slowfast_4x16 takes views.num_frames in multiples of 8, not 12"
    assert refusal("model.name=slowfast_4x16", "views.num_frames=12") == message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.schedule=line", "optimizer.schedule is one of cosine, step, not 'line'"),
        ("optimizer.head_rate=0", "optimizer.head_rate is above 0, not 0.0"),
        ("optimizer.num_parts=0", "optimizer.num_parts is at least 1, not 0"),
        ("average.ema_decay=1", "average.ema_decay is in [0, 1), not 1.0"),
        ("average.precise_bn_batches=-1", "average.precise_bn_batches is at least 0, not -1"),
        ("average.precise_bn_every_epochs=0", "average.precise_bn_every_epochs is at least 1, not 0"),
        ("amp.level=O3", "amp.level is one of off, O1, O2, not 'O3'"),
        ("amp.dtype=half", "amp.dtype is one of float16, bfloat16, not 'half'"),
        ("views.batch_size=-1", "views.batch_size is at least 0, not -1"),
        ("views.crop_px=8", "views.crop_px is 0 or in [16, 4096], not 8"),
    ],
)
def test_more_values_out_of_range(override: str, message: str) -> None:
    assert refusal(override) == message


def test_pairs_of_classes() -> None:
    assert flip_pairs("") == flip_pairs(" ") == []
    assert flip_pairs("turn left = turn right,a=b") == [("turn left", "turn right"), ("a", "b")]


def test_a_typo_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[optimizer]\nlearning_rates = 0.1\n")
    with pytest.raises(UsageError) as caught:
        load_recipe(TrainRecipe, recipe_file(str(file)), [])
    assert str(caught.value) == "unknown recipe key 'optimizer.learning_rates'; did you mean optimizer.learning_rate?"


@pytest.mark.parametrize(
    ("override", "value"),
    [
        *(("clip.num_frames=1", 1), ("clip.crop_px=16", 16), ("clip.crop_px=4096", 4096), ("model.dropout=0", 0.0)),
        *(("model.shift_share=0", 0.0), ("model.shift_share=0.5", 0.5), ("model.shift_first=next", "next")),
        *(("optimizer.batch_size=1", 1), ("optimizer.num_warmup_epochs=0", 0.0), ("optimizer.clip_norm=0", 0.0)),
        *(("loader.num_workers=-1", -1), ("run.cpu_threads=0", 0), ("run.checkpoint_every_s=inf", math.inf)),
        *((f"model.name={name}", name) for name in MODELS),
    ],
)
def test_the_ends_of_the_ranges(override: str, value: Any) -> None:
    assert flat(load_recipe(TrainRecipe, None, [override]))[override.partition("=")[0]] == value


# --- Recipes that come with the program ---


@pytest.mark.parametrize("name", RECIPES)
def test_a_name_stands_for_a_file_that_loads(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # wherever the command is started
    recipe = load_recipe(TrainRecipe, recipe_file(name), [])
    models = {"demo_tsm": "tsm_tiny", "demo_tsn": "tsn_tiny", "demo_multigrid": "tsm_tiny"}
    models |= {"slowfast_k400": "slowfast_4x16", "slowfast_multigrid_k400": "slowfast_8x8"}
    assert recipe.model.name == models.get(name, f"{name.partition('_')[0]}_r50")
    assert recipe.clip.flips == (not name.startswith("demo"))  # left and right are classes there


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_tells_where_it_comes_from(name: str) -> None:
    text = recipe_file(name).read_text()
    assert "# Source: " in text
    if not name.startswith("demo"):
        assert {"# Cost:", "# Command:", "# Differs:"} <= {line[: line.find(":") + 1] for line in text.splitlines()}
        assert f"--recipe {name} --out RUN" in text
        assert "Expected: " in text


def test_the_rates_of_the_sources() -> None:
    """By epoch, as their configurations say."""
    expected = {
        "tsn_ucf101": {0: 0.00128, 74: 0.00128},
        "tsm_ucf101": {0: 1e-3, 9: 1e-3, 10: 1e-4, 20: 1e-5, 24: 1e-5},
        "tsm_k400": {0: 0.02, 19: 0.02, 20: 0.002, 40: 0.0002, 49: 0.0002},
        "pptsm_k400": {5: 0.0075, 10: 0.01, 45: 0.005},
        "slowfast_k400": {17: 0.055, 34: 0.1, 115: 0.05},
        "slowfast_multigrid_k400": {17: 0.405, 34: 0.8, 72: 0.8, 73: 0.4, 157: 0.1, 158: 0.08, 342: 1e-3, 343: 1e-4},
    }
    for name, rates in expected.items():
        recipe = load_recipe(TrainRecipe, recipe_file(name), [])
        for epoch, rate in rates.items():
            found = rate_at(recipe.optimizer, recipe.schedule, epoch, 0.001)
            assert found == pytest.approx(rate, rel=0.01), (name, epoch)


def test_every_recipe_file_has_a_name() -> None:
    assert sorted(path.stem for path in recipe_file(RECIPES[0]).parent.glob("*.toml")) == sorted(RECIPES)


def test_both_demos_differ_in_the_model_only() -> None:
    names = ("demo_tsm", "demo_tsn")
    first, second = (flat(load_recipe(TrainRecipe, recipe_file(name), [])) for name in names)
    assert {key for key in first if first[key] != second[key]} == {"model.name"}


def test_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[run]\nseed = 3\n")
    assert recipe_file(str(file)) == file
    assert load_recipe(TrainRecipe, recipe_file(str(file)), ["run.log_every_steps=5"]).run == Run(
        seed=3, log_every_steps=5
    )


@pytest.mark.parametrize("kind", ["nothing", "folder"])
def test_no_such_recipe(kind: str, tmp_path: Path) -> None:
    name = str(tmp_path) if kind == "folder" else "demo_tms"
    with pytest.raises(UsageError) as caught:
        recipe_file(name)
    assert str(caught.value) == f"no recipe {name!r}: give a TOML file or one of {', '.join(RECIPES)}"


# --- What a resumed run keeps ---


def test_bound_are_all_settings_that_change_a_result() -> None:
    bound = bound_settings(TrainRecipe(run=Run(seed=4)))
    assert bound["run.seed"] == 4
    left = set(flat(TrainRecipe())) - set(bound)
    assert left == {
        *("loader.num_workers", "loader.timeout_s"),
        *("run.checkpoint_every_s", "run.log_every_steps", "run.cpu_threads"),
    }


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        (TrainRecipe(loader=Loader(num_workers=0, timeout_s=5.0)), set()),
        (TrainRecipe(run=Run(checkpoint_every_s=1.0, log_every_steps=3, cpu_threads=2)), set()),
        (TrainRecipe(run=Run(seed=1)), {"run.seed"}),
        (TrainRecipe(model=Model(dropout=0.5), clip=Clip(flips=False)), {"model.dropout", "clip.flips"}),
        (TrainRecipe(optimizer=Optimizer(num_epochs=11)), {"optimizer.num_epochs"}),
    ],
)
def test_which_changes_count(changed: TrainRecipe, keys: set[str]) -> None:
    before, after = bound_settings(TrainRecipe()), bound_settings(changed)
    assert {key for key in before if before[key] != after[key]} == keys


def test_a_recipe_survives_nested_tables() -> None:
    recipe = TrainRecipe(clip=Clip(num_frames=3), run=Run(seed=9, checkpoint_every_s=0.5))
    tables: dict[str, Any] = {}
    for key, value in flat(recipe).items():
        section, _, name = key.partition(".")
        tables.setdefault(section, {})[name] = value
    assert recipe_from_table(TrainRecipe, tables) == recipe
