"""Small pieces of the sentences that users read."""

import re
from collections.abc import Sequence

_SURROGATE = re.compile(r"[\udc80-\udcff]")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """1, "file" -> "1 file"; 2000, "file" -> "2,000 files"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def quote(text: str) -> str:
    """A name or line from outside, fit for a one-line message: in quotes, valid UTF-8, no control characters.

    It may be as os gives it or as `escape_name` does: bytes that are not UTF-8 show as %XX.
    """
    return repr(_SURROGATE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text))


def quote_some(texts: Sequence[str]) -> str:
    """The first three of `texts` in quotes, and dots where there are more."""
    return ", ".join(quote(text) for text in texts[:3]) + (", ..." if len(texts) > 3 else "")
