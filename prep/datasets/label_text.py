"""Label text as different tools write it: with blanks or underscores, with or without quotes and brackets."""

import re
from collections.abc import Iterable

_DROPPED = re.compile(r"""["'`()\[\]{}’‘“”]""")
_BLANK = re.compile(r"[\s_]+")


def label_key(text: str) -> str:
    """The form by which labels are compared, never stored: case, quotes and brackets aside, an underscore being a
    blank: "Shooting_goal (soccer)" -> "shooting goal soccer"."""
    return _BLANK.sub(" ", _DROPPED.sub("", text)).strip().casefold()


def by_label_key(names: Iterable[str]) -> dict[str, str]:
    """The names by their key; names that share a key with another are left out, since it would not tell them apart."""
    found: dict[str, str | None] = {}
    for name in dict.fromkeys(names):
        key = label_key(name)
        found[key] = None if key in found else name
    return {key: name for key, name in found.items() if name is not None}
