"""Recipes: TOML text and `--set` overrides over frozen dataclasses, with unknown keys refused.

A recipe class is a frozen dataclass whose fields are int, float, str, bool or another such class, each with a
default. It checks its own values in `__post_init__` by raising ValueError with one sentence.
"""

import copy
import dataclasses
import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

from manifests.errors import UsageError


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


Recipe = TypeVar("Recipe", bound=_Dataclass)


def load_recipe(recipe_class: type[Recipe], file: Path | None, overrides: Sequence[str]) -> Recipe:
    """Read `file` (None: all defaults), apply `overrides` ("a.b=value"), and build the recipe.

    Raises UsageError for a file that cannot be read, a key that the recipe does not have (naming the nearest
    one), a value of another type or out of range, and an override that is not KEY=VALUE.
    """
    return recipe_with_overrides(recipe_class, {} if file is None else _read_toml(file), overrides)


def recipe_with_overrides(recipe_class: type[Recipe], table: dict[str, Any], overrides: Sequence[str]) -> Recipe:
    """`recipe_from_table` with `overrides` on top, which leave the table itself alone; raises as `load_recipe`."""
    own = copy.deepcopy(table)
    for override in overrides:
        _apply_override(recipe_class, own, override)
    return recipe_from_table(recipe_class, own)


def recipe_from_table(recipe_class: type[Recipe], table: dict[str, Any]) -> Recipe:
    """Build the recipe from nested dicts such as TOML or JSON give; raises as `load_recipe`."""
    recipe: Recipe = _build(recipe_class, table, prefix="")
    return recipe


def flat(recipe: _Dataclass) -> dict[str, Any]:
    """The recipe as {"frames.quality": 90, ...}, in field order."""
    items: dict[str, Any] = {}
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            items.update({f"{field.name}.{key}": inner for key, inner in flat(value).items()})
        else:
            items[field.name] = value
    return items


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the recipe {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the recipe {file} is not valid TOML: {error}") from error


def _apply_override(recipe_class: type[Recipe], table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not key or not equals:
        raise UsageError(f"--set takes KEY=VALUE, such as frames.quality=90, not {override!r}")
    *sections, last = key.split(".")
    expected: Any = recipe_class
    for name in [*sections, last]:
        hints = get_type_hints(expected) if dataclasses.is_dataclass(expected) else {}
        if name not in hints:
            raise _unknown_key(key, recipe_class)
        expected = hints[name]
    if dataclasses.is_dataclass(expected):
        raise UsageError(f"--set takes one key, such as {_known_keys(expected, key + '.')[0]}, not {key!r}")
    for name in sections:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UsageError(f"recipe key {name!r} is a table, not a value")
    table[last] = text if expected is str else _parse_value(text)


def _parse_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 and "\n" not in text else text


def _build(recipe_class: Any, table: Any, prefix: str) -> Any:
    if not isinstance(table, dict):
        raise UsageError(f"recipe key {prefix.rstrip('.')!r} is a table, not {table!r}")
    hints = get_type_hints(recipe_class)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in hints:
            raise _unknown_key(prefix + key, recipe_class, prefix)
        if dataclasses.is_dataclass(hints[key]):
            values[key] = _build(hints[key], value, f"{prefix}{key}.")
        else:
            values[key] = _checked(prefix + key, value, hints[key])
    try:
        return recipe_class(**values)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _checked(key: str, value: Any, expected: type) -> Any:
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        raise UsageError(f"recipe key {key} takes {names[expected]}, not {value!r}")
    return value


def _unknown_key(key: str, recipe_class: Any, prefix: str = "") -> UsageError:
    known = _known_keys(recipe_class, prefix)
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]}?" if nearest else f"known keys: {', '.join(known)}"
    return UsageError(f"unknown recipe key {key!r}; {hint}")


def _known_keys(recipe_class: Any, prefix: str) -> list[str]:
    keys: list[str] = []
    for name, hint in get_type_hints(recipe_class).items():
        inner = dataclasses.is_dataclass(hint)
        keys += _known_keys(hint, f"{prefix}{name}.") if inner else [prefix + name]
    return keys
