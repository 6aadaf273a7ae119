"""Trees of small files that stand for videos, and annotation files byte for byte."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from manifests.errors import UsageError
from manifests.records import Source
from prep.datasets import Scan


def make_files(root: Path, files: Iterable[str] | Mapping[str, bytes]) -> None:
    """Files under `root`; those without a content given hold their own path, so that no two are the same."""
    contents = files if isinstance(files, Mapping) else {name: name.encode(errors="surrogateescape") for name in files}
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Text files in `folder`, byte for byte."""
    make_files(folder, {name: text.encode(errors="surrogateescape") for name, text in texts.items()})


def refusal(call: Callable[[], object]) -> str:
    """The sentence with which `call` refuses."""
    with pytest.raises(UsageError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


def by_source(result: Scan) -> dict[str, Source]:
    return {source.source: source for source in result.sources}


def summary(result: Scan) -> dict[str, tuple[str | None, str]]:
    """Of each source its class and, in one word, its subsets or what the scan made of it."""
    return {
        source.source: (source.class_name, " ".join(source.subsets) or source.failure or source.status or "-")
        for source in result.sources
    }
