"""What the columns of a list are, by the words of its header.

Upper case, blanks, dashes and brackets do not matter: "Video Path" is video_path, "start (s)" is start_s, and
"startTime" is start_time. Of several columns that may be the path, a path or file is taken before a name, and that
before an id.
"""

import re
from collections.abc import Sequence

from manifests.wording import quote, quote_some

_PATHS = (
    (
        *("path", "video", "videos", "video_path"),
        *("file", "files", "file_name", "filename", "filepath", "file_path"),
    ),
    (
        *("name", "names", "clip", "clips", "clip_name", "clipname", "video_name", "videoname", "vid_name"),
        *("video_file", "video_filename", "videopath", "clip_path", "clip_file"),
    ),
    ("video_id", "videoid", "vid", "clip_id", "clipid", "id"),
)
_ROLES = {
    "label": ("label", "labels", "label_id", "class_id", "class_index", "target"),
    "class_name": ("class", "class_name", "classname", "category", "action", "label_name"),
    "num_frames": ("num_frames", "n_frames", "nframes", "frames", "total_frames", "frame_count"),
    "subset": ("subset", "split"),
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names}
_TIER_OF = {name: tier for tier, names in enumerate(_PATHS) for name in names}
_LABEL_WORDS = frozenset({*_ROLES["label"], *_ROLES["class_name"]} - {"action"})
"""What no class is called."""

_BOUNDS = {"start": "start", "begin": "start", "end": "end", "stop": "end"}
_BESIDE_TIMES = frozenset(
    {
        *("t", "time", "timestamp", "clip", "segment", "seg", "event", "window", "shot", "scene", "action"),
        *("s", "sec", "secs", "second", "seconds"),
    }
)
_IN_ONE = re.compile(
    r"(?<![a-z])(t|time)?(start|begin|end|stop)(time|seconds?|secs?|s|ms|frame|frames|idx|index)?(?![a-z])"
)
_OTHER_BOUNDS = frozenset({"onset", "offset", "t0", "t1", "until", "till"})
_FROM_TO = frozenset({"from", "to"})
_DATES = frozenset({"date", "day", "month", "year"})
_OF_TIMES = frozenset({"time", "times", "t", "timestamp", "ms", "length", "len", "duration", "dur"})
_WORD = re.compile(r"(?:[^\W\d]|[\s\-()\[\]])+")

KNOWN = (
    "path (or video, file, name, clip, video_id), label (or class_id), class (or category, action), split, num_frames, "
    "start, end, duration"
)
"""For a sentence."""


def roles_of(words: Sequence[str]) -> tuple[str, ...]:
    """The role of each column: path, label, class_name, num_frames, subset, start, end, duration (only with a start and
    without an end), or "" for one that is not used.

    Raises ValueError, with words for a sentence, where two columns are one thing, and where some tell times or frames
    in a way that is not understood.
    """
    names = [_normal(word) for word in words]
    roles = [_role(name) for name in names]
    rank = min((_TIER_OF[name] for name, role in zip(names, roles, strict=True) if role == "path"), default=-1)
    roles = ["" if role == "path" and _TIER_OF[name] > rank else role for name, role in zip(names, roles, strict=True)]
    if "start" not in roles or "end" in roles:
        roles = ["" if role == "duration" else role for role in roles]
    used = [role for role in roles if role]
    if len(set(used)) < len(used):
        raise ValueError(f"two columns for one thing: {quote(', '.join(words))}")
    starts, ends = "start" in roles, "end" in roles or "duration" in roles
    if not (starts and ends):
        unused = [(word, name) for word, name, role in zip(words, names, roles, strict=True) if not role]
        odd = [word for word, name in unused if _is_bound(name) or (starts and _OF_TIMES.intersection(_parts(name)))]
        if set(names) >= _FROM_TO:
            odd += [word for word, name in unused if name in _FROM_TO]
        if odd:
            raise ValueError(
                f"{quote_some(odd)} may tell times or frames, and windows are told in seconds, by "
                "start and end, or by start and duration: name the columns so where they hold seconds, or remove them"
            )
    return tuple(roles)


def are_columns(words: Sequence[str]) -> bool:
    """Whether all `words` are known for columns, and none comes twice."""
    names = [_normal(word) for word in words]
    return all(map(_is_known, names)) and len(set(names)) == len(names)


def kind_of_header(words: Sequence[str], *, is_table: bool) -> str:
    """Whether the `words` of a first line, of a table or between blanks, are a header, as `Reading.header` has it."""
    names = [_normal(word) for word in words]
    ranks = [_TIER_OF[name] for name in names if name in _TIER_OF]
    if not ranks:
        return "no"
    if is_table and 0 in ranks and len(names) > 1:
        return "sure"
    if are_columns(words):
        return "likely"
    if any(_is_known(name) and name not in _TIER_OF for name in names):
        return "likely" if is_table else "maybe"
    return "no"


def seem_columns(words: Sequence[str]) -> bool:
    """Whether `words`, two or more, are rather a header than a video and its class."""
    if len(words) < 2 or not all(_WORD.fullmatch(word) for word in words):
        return False
    return are_columns(words) or not _LABEL_WORDS.isdisjoint((_normal(words[0]), _normal(words[-1])))


def _normal(word: str) -> str:
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word)
    return re.sub(r"[\W_]+", "_", parts.lower()).strip("_")


def _parts(name: str) -> list[str]:
    """ "start_sec" -> start, sec; "tstart" -> t, start."""
    return [part for part in _IN_ONE.sub(r"\1_\2_\3", name).split("_") if part]


def _role(name: str) -> str:
    if name in _TIER_OF:
        return "path"
    if name in _ROLE_OF:
        return _ROLE_OF[name]
    parts = _parts(name)
    others = [part for part in parts if part not in _BESIDE_TIMES]
    if len(others) != 1:
        return ""
    return "duration" if others[0] in ("duration", "dur") else _BOUNDS.get(others[0], "")


def _is_bound(name: str) -> bool:
    """Whether a column without a role seems to tell where something starts or ends."""
    parts = set(_parts(name))
    if _role(name) or parts & _DATES:
        return False
    return bool(parts & (_BOUNDS.keys() | _OTHER_BOUNDS) or (parts & {"first", "last"} and parts & {"frame", "frames"}))


def _is_known(name: str) -> bool:
    return bool(_role(name)) or _is_bound(name) or name in _FROM_TO or not _OF_TIMES.isdisjoint(_parts(name))
