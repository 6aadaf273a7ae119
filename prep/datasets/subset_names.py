"""Subsets by the names that list files, folders and columns give them."""

import re
from functools import lru_cache

_KINDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validate", "validation"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"split[_\- ]?(\d+)|list[_\- ]?(\d+)|(?:train|val|test)(\d+)")


def subset_of_word(word: str) -> str | None:
    """ "validate" -> "val"; None for a word that names no kind of subset."""
    return _KINDS.get(word.strip().lower())


@lru_cache(1024)
def subset_of_name(stem: str) -> str | None:
    """The subset that the name of a list or folder tells: its one word train, val or test (or what means the same),
    with the number of the split in two digits: "ucf101_val_split_1_videos" -> "val01", "trainlist01" -> "train01",
    "kinetics-400_train" -> "train". None for a name with no such word, or with different ones."""
    name = stem.lower()
    words = [word.removesuffix("list") for word in _WORD.findall(name)]
    kinds = {_KINDS[word] for word in words if word in _KINDS}
    if len(kinds) != 1:
        return None
    number = _NUMBER.search(name)
    digits = "" if number is None else f"{int(next(filter(None, number.groups()))):02d}"
    return kinds.pop() + digits
