"""Compare folders."""

import hashlib
from pathlib import Path


def hash_tree(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, by path relative to `folder`."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
