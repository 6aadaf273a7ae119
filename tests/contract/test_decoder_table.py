"""Every kind of video with every decoder: all frames right, or a failure; and the README's table says which."""

from pathlib import Path

import pytest
from conftest import ROOT
from decoder_table import KINDS, Kind, result, table

from prep.decoders import DECODERS, require_decoder

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kinds")


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.file_name)
def test_right_or_refused(decoder: str, kind: Kind, folder: Path) -> None:
    found = result(decoder, kind, folder)
    if decoder == "pyav":
        assert (found == "right") == (kind.numbers is not None)


def test_the_table_of_the_readme(folder: Path) -> None:
    versions = [f"{decoder} {require_decoder(decoder)}" for decoder in DECODERS]
    if not all(version in README for version in versions):
        pytest.skip(f"the README tells of other versions than {', '.join(versions)}")
    lines = README.splitlines()
    expected = table(folder)
    start = lines.index(expected[0])
    assert lines[start : start + len(expected) + 1] == [*expected, ""]
