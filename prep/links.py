"""A tree of symbolic links under plain names, for programs that cannot carry the names of the files themselves."""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from manifests.atomic import TEMPORARY_PREFIX, disk_errors
from manifests.errors import UsageError
from manifests.names import folders_above
from manifests.wording import quote

_PLAIN = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*")
_SUFFIX = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,5}$", re.DOTALL)
_MAX_STEM = 100


def plain_path(path: str) -> str:
    """A relative path of ASCII letters, digits and `._+-` that stands for `path` (as os gives it).

    Parts that are plain stay; others have an underscore for what is not, and a hash of the part after a `~`, which no
    plain part has: different paths stay different. The name depends on nothing but `path`; its suffix stays.
    """
    return "/".join(part if _PLAIN.fullmatch(part) else _plain_part(part) for part in path.split("/"))


def _plain_part(part: str) -> str:
    suffix = _SUFFIX.search(part)
    stem, end = (part, "") if suffix is None else (part[: suffix.start()], suffix[0])
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "_", stem).lstrip(".")[:_MAX_STEM]
    return f"{plain}~{hashlib.sha256(os.fsencode(part)).hexdigest()[:16]}{end}"


def make_links(folder: str, targets: Mapping[str, str], origin: str) -> int:
    """Make the link `folder`/`plain_path(path)` to each of `targets`, by path, and return how many were not there.

    Targets are absolute, end in their path, and lie under `origin`. A link that points to another place under `origin`
    for the same path, or to a place that is gone, is replaced; nothing else is, and nothing is made where anything else
    is in the way. Raises UsageError then, StoreError where the disk refuses.
    """
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"--link {quote(folder)} is no folder: choose another name")
    links = {plain_path(path): path for path in targets}
    inner = sorted(folders_above(links))  # the outer ones first
    for name in inner:
        at = f"{folder}/{name}"
        if os.path.lexists(at) and not stat.S_ISDIR(os.lstat(at).st_mode):
            raise UsageError(f"{quote(at)} is in the way of a folder of links: choose another --link")
    wanted = [name for name, path in links.items() if _is_wanted(f"{folder}/{name}", path, targets[path], origin)]
    with disk_errors(Path(folder)):
        for name in ("", *inner):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        for name in wanted:
            at = f"{folder}/{name}"
            temporary = f"{os.path.dirname(at)}/{TEMPORARY_PREFIX}{secrets.token_hex(4)}"
            os.symlink(targets[links[name]], temporary)
            os.replace(temporary, at)
    return len(wanted)


def _is_wanted(link: str, path: str, target: str, origin: str) -> bool:
    """Whether a link is to be made. Raises UsageError where something stands there that must not be replaced."""
    if not os.path.lexists(link):
        return True
    if not os.path.islink(link):
        raise UsageError(f"{quote(link)} is no link that an export made: choose another --link, or move it away")
    present = os.readlink(link)
    if present == target:
        return False
    if present.endswith(f"/{path}") and (present.startswith(f"{origin}/") or not os.path.exists(link)):
        return True
    raise UsageError(f"the link {quote(link)} points to {quote(present)}: choose another --link, one for each dataset")
