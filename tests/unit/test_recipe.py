"""Recipes: what they accept, and the sentence for everything else."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import UsageError
from manifests.recipe import flat, load_recipe, recipe_from_table
from prep.decoders import DECODERS
from prep.recipe import ExtractRecipe, Frames, Limits, Store, resolve

KNOWN = (
    "decoder, frames.short_side_px, frames.enlarge, frames.square_pixels, frames.quality, frames.every, "
    "frames.fps, store.format, store.videos_per_shard, limits.timeout_s, limits.memory_mib, limits.min_frames, "
    "limits.max_missing, limits.keep_damaged"
)


def from_set(*overrides: str) -> ExtractRecipe:
    return load_recipe(ExtractRecipe, None, overrides)


def from_toml(folder: Path, text: str, *overrides: str) -> ExtractRecipe:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(ExtractRecipe, path, overrides)


# --- What is accepted ---


def test_nothing_given_is_all_defaults() -> None:
    assert from_set() == ExtractRecipe()
    assert flat(ExtractRecipe()) == {
        "decoder": "auto",
        "frames.short_side_px": 256,
        "frames.enlarge": False,
        "frames.square_pixels": False,
        "frames.quality": 90,
        "frames.every": 1,
        "frames.fps": 0.0,
        "store.format": "arrow",
        "store.videos_per_shard": 64,
        "limits.timeout_s": 60.0,
        "limits.memory_mib": 2048,
        "limits.min_frames": 1,
        "limits.max_missing": 0.05,
        "limits.keep_damaged": False,
    }


def test_a_file_and_overrides(tmp_path: Path) -> None:
    text = 'decoder = "pyav"\n[frames]\nquality = 95\nshort_side_px = 320\n'
    recipe = from_toml(tmp_path, text, "frames.quality=80", "limits.keep_damaged=true", "store.format=frames")
    assert recipe == ExtractRecipe(
        decoder="pyav",
        frames=Frames(quality=80, short_side_px=320),
        store=Store(format="frames"),
        limits=Limits(keep_damaged=True),
    )


def test_the_last_override_wins() -> None:
    assert from_set("frames.quality=10", "frames.every=3", "frames.quality=20").frames == Frames(quality=20, every=3)


def test_an_override_may_correct_the_file(tmp_path: Path) -> None:
    assert from_toml(tmp_path, "[frames]\nquality = 500\n", "frames.quality=50").frames.quality == 50


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("limits.timeout_s=5", "limits.timeout_s", 5.0),
        ("limits.timeout_s=0.5", "limits.timeout_s", 0.5),
        ("limits.max_missing=1", "limits.max_missing", 1.0),
        ("limits.max_missing=5e-2", "limits.max_missing", 0.05),
        ("frames.quality= 70 ", "frames.quality", 70),
        ("frames.short_side_px=1_080", "frames.short_side_px", 1080),
        ("frames.enlarge=true", "frames.enlarge", True),
        ("store.format=frames", "store.format", "frames"),
    ],
)
def test_values_of_overrides(override: str, key: str, value: Any) -> None:
    found = flat(from_set(override))[key]
    assert found == value
    assert type(found) is type(value)


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert from_toml(tmp_path, "# nothing\n[frames]\n") == ExtractRecipe()


def test_a_rate_and_a_step_exclude_each_other() -> None:
    with pytest.raises(UsageError, match=r"frames\.fps=5 and frames\.every=2 exclude each other; set one of them"):
        from_set("frames.fps=5", "frames.every=2")


def test_auto_stands_for_the_first_decoder() -> None:
    assert resolve(ExtractRecipe()) == ExtractRecipe(decoder=DECODERS[0])
    resolved = resolve(ExtractRecipe(decoder=DECODERS[-1], frames=Frames(quality=1)))
    assert resolved == ExtractRecipe(decoder=DECODERS[-1], frames=Frames(quality=1))


recipes = st.builds(
    ExtractRecipe,
    decoder=st.sampled_from(["auto", *DECODERS]),
    frames=st.builds(
        Frames,
        short_side_px=st.just(0) | st.integers(8, 8192),
        enlarge=st.booleans(),
        square_pixels=st.booleans(),
        quality=st.integers(1, 100),
        every=st.integers(1, 1000),
    )
    | st.builds(Frames, fps=st.just(0.0) | st.floats(0.001, 1000)),
    store=st.builds(Store, format=st.sampled_from(["arrow", "frames"]), videos_per_shard=st.integers(1, 1000)),
    limits=st.builds(
        Limits,
        timeout_s=st.floats(0.001, 86400),
        memory_mib=st.integers(256, 100_000),
        min_frames=st.integers(1, 100),
        max_missing=st.floats(0, 1),
        keep_damaged=st.booleans(),
    ),
)


@given(recipes)
def test_every_recipe_comes_back_from_its_flat_form(recipe: ExtractRecipe) -> None:
    overrides = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in flat(recipe).items()
    ]
    assert from_set(*overrides) == recipe


@given(recipes)
def test_every_recipe_comes_back_from_json(recipe: ExtractRecipe) -> None:
    nested: dict[str, Any] = {}
    for key, value in flat(recipe).items():
        *sections, name = key.split(".")
        table = nested
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = value
    assert recipe_from_table(ExtractRecipe, json.loads(json.dumps(nested))) == recipe


# --- What is refused, with which sentence ---


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        # Unknown keys.
        ("frames.qualty=9", "unknown recipe key 'frames.qualty'; did you mean frames.quality?"),
        ("quality=9", "unknown recipe key 'quality'; did you mean frames.quality?"),
        ("decodr=pyav", "unknown recipe key 'decodr'; did you mean decoder?"),
        ("frame.quality=9", "unknown recipe key 'frame.quality'; did you mean frames.quality?"),
        ("limits.timeout=9", "unknown recipe key 'limits.timeout'; did you mean limits.timeout_s?"),
        ("qqq=9", f"unknown recipe key 'qqq'; known keys: {KNOWN}"),
        ("frames.quality.x=9", "unknown recipe key 'frames.quality.x'; did you mean frames.quality?"),
        ("decoder.x=9", "unknown recipe key 'decoder.x'; did you mean decoder?"),
        (".=9", f"unknown recipe key '.'; known keys: {KNOWN}"),
        ("frames.=9", "unknown recipe key 'frames.'; did you mean frames.fps?"),
        # Not KEY=VALUE.
        ("frames.quality", "--set takes KEY=VALUE, such as frames.quality=90, not 'frames.quality'"),
        ("=9", "--set takes KEY=VALUE, such as frames.quality=90, not '=9'"),
        ("", "--set takes KEY=VALUE, such as frames.quality=90, not ''"),
        # A table is no value.
        ("frames=9", "--set takes one key, such as frames.short_side_px, not 'frames'"),
        ("limits={}", "--set takes one key, such as limits.timeout_s, not 'limits'"),
        # Types.
        ("frames.quality=high", "recipe key frames.quality takes a whole number, not 'high'"),
        ("frames.quality=", "recipe key frames.quality takes a whole number, not ''"),
        ("frames.quality=90.0", "recipe key frames.quality takes a whole number, not 90.0"),
        ("frames.quality=true", "recipe key frames.quality takes a whole number, not True"),
        ('frames.quality="90"', "recipe key frames.quality takes a whole number, not '90'"),
        ("frames.quality=[90]", "recipe key frames.quality takes a whole number, not [90]"),
        ("limits.timeout_s=soon", "recipe key limits.timeout_s takes a number, not 'soon'"),
        ("limits.timeout_s=true", "recipe key limits.timeout_s takes a number, not True"),
        ("frames.enlarge=yes", "recipe key frames.enlarge takes true or false, not 'yes'"),
        ("frames.enlarge=1", "recipe key frames.enlarge takes true or false, not 1"),
        ("frames.enlarge=True", "recipe key frames.enlarge takes true or false, not 'True'"),
        # Ranges.
        ("frames.quality=0", "frames.quality is in [1, 100], not 0"),
        ("frames.quality=101", "frames.quality is in [1, 100], not 101"),
        ("frames.short_side_px=7", "frames.short_side_px is 0 (native size) or in [8, 8192], not 7"),
        ("frames.short_side_px=8193", "frames.short_side_px is 0 (native size) or in [8, 8192], not 8193"),
        ("frames.short_side_px=-1", "frames.short_side_px is 0 (native size) or in [8, 8192], not -1"),
        ("frames.every=0", "frames.every is at least 1, not 0"),
        ("frames.fps=-1", "frames.fps is 0 (every frame) or in [0.001, 1000], not -1"),
        ("frames.fps=0.0001", "frames.fps is 0 (every frame) or in [0.001, 1000], not 0.0001"),
        ("frames.fps=1001", "frames.fps is 0 (every frame) or in [0.001, 1000], not 1001"),
        ("frames.fps=nan", "frames.fps is 0 (every frame) or in [0.001, 1000], not nan"),
        ("store.format=zip", "store.format is one of arrow, frames, not 'zip'"),
        ("store.videos_per_shard=0", "store.videos_per_shard is at least 1, not 0"),
        ("limits.timeout_s=0", "limits.timeout_s is above 0 and at most 86400, not 0.0"),
        ("limits.timeout_s=nan", "limits.timeout_s is above 0 and at most 86400, not nan"),
        ("limits.timeout_s=inf", "limits.timeout_s is above 0 and at most 86400, not inf"),
        ("limits.memory_mib=255", "limits.memory_mib is in [256, 1048576], not 255"),
        ("limits.memory_mib=1048577", "limits.memory_mib is in [256, 1048576], not 1048577"),
        ("limits.min_frames=0", "limits.min_frames is at least 1, not 0"),
        ("limits.max_missing=1.01", "limits.max_missing is in [0, 1], not 1.01"),
        ("limits.max_missing=-0.01", "limits.max_missing is in [0, 1], not -0.01"),
        ("limits.max_missing=nan", "limits.max_missing is in [0, 1], not nan"),
        ("decoder=vlc", f"decoder is one of auto, {', '.join(DECODERS)}, not 'vlc'"),
        ("decoder=", f"decoder is one of auto, {', '.join(DECODERS)}, not ''"),
    ],
)
def test_refused_overrides(override: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_set(override)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("value", ["0.001", "86400", "86400.0"])
def test_the_ends_of_a_range_are_in_it(value: str) -> None:
    assert from_set(f"limits.timeout_s={value}").limits.timeout_s == float(value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[frames]\nqualty = 9\n", "unknown recipe key 'frames.qualty'; did you mean frames.quality?"),
        ("[frame]\nquality = 9\n", "unknown recipe key 'frame'; did you mean frames.fps?"),
        ("quality = 9\n", "unknown recipe key 'quality'; did you mean frames.quality?"),
        ("x = 9\n", f"unknown recipe key 'x'; known keys: {KNOWN}"),
        ("frames = 9\n", "recipe key 'frames' is a table, not 9"),
        ("[[frames]]\nquality = 9\n", "recipe key 'frames' is a table, not [{'quality': 9}]"),
        ("[decoder]\nx = 9\n", "recipe key decoder takes a text, not {'x': 9}"),
        ("[frames.quality]\nx = 9\n", "recipe key frames.quality takes a whole number, not {'x': 9}"),
        ("decoder = 9\n", "recipe key decoder takes a text, not 9"),
        ("[frames]\nquality = 2024-01-01\n", "recipe key frames.quality takes a whole number, not datetime.date("),
        ("[limits]\nmin_frames = -3\n", "limits.min_frames is at least 1, not -3"),
    ],
)
def test_refused_files(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_toml(tmp_path, text)
    assert sentence in str(caught.value)


def test_a_whole_number_will_do_for_a_number_in_a_file(tmp_path: Path) -> None:
    timeout_s = from_toml(tmp_path, "[limits]\ntimeout_s = 30\n").limits.timeout_s
    assert (timeout_s, type(timeout_s)) == (30.0, float)


def test_an_override_below_what_the_file_made_a_value(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^recipe key 'frames' is a table, not a value$"):
        from_toml(tmp_path, "frames = 9\n", "frames.quality=9")


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    with pytest.raises(UsageError, match=r"^cannot read the recipe .*/recipe\.toml: No such file or directory$"):
        load_recipe(ExtractRecipe, path, [])
    with pytest.raises(UsageError, match=r"cannot read the recipe .*: Is a directory"):
        load_recipe(ExtractRecipe, tmp_path, [])
    path.write_text("[frames\nquality = 9\n")
    with pytest.raises(UsageError, match=r"^the recipe .*/recipe\.toml is not valid TOML: .*line 1"):
        load_recipe(ExtractRecipe, path, [])
    path.write_text("[frames]\nquality = 9\nquality = 9\n")
    with pytest.raises(UsageError, match=r"is not valid TOML: .*line 3"):
        load_recipe(ExtractRecipe, path, [])
    path.write_bytes(b'decoder = "\xe9"\n')
    with pytest.raises(UsageError, match=r"is not valid TOML: .*utf-8"):
        load_recipe(ExtractRecipe, path, [])
