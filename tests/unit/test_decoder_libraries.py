"""A decoder whose library is missing ends the command at its start, with a sentence."""

import os
import sys
from pathlib import Path

import pytest
from conftest import Prep

from manifests.errors import UsageError
from prep.decoders import DECODERS, require_decoder
from prep.versions import pixel_libraries

NO_LIBGL = "libGL.so.1: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize("name", DECODERS)
def test_the_version_of_each_is_known(name: str) -> None:
    version = require_decoder(name)
    assert version[0].isdigit()
    libraries = pixel_libraries(name)
    assert {"av", "numpy", "pyarrow", "simplejpeg", "libavcodec"} <= set(libraries)
    assert set(libraries) & {"opencv", "decord"} == {name} - {"pyav"}
    if name != "pyav":
        assert libraries[name] == version


@pytest.mark.parametrize(
    ("name", "library", "advice"),
    [("opencv", "cv2", "apt-get install libgl1 libglib2.0-0"), ("decord", "decord", "pip install decord")],
)
def test_a_missing_library(name: str, library: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"prep.decoders.{name}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"the decoder {name} cannot be loaded .*{library}.*{advice}"):
        require_decoder(name)


def test_an_opencv_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    import cv2

    monkeypatch.delitem(sys.modules, "prep.decoders.opencv", raising=False)
    monkeypatch.setattr(cv2, "__version__", "4.9.0")
    with pytest.raises(UsageError, match=r"OpenCV 4\.9\.0 converts colour without regard"):
        require_decoder("opencv")


def test_the_command_says_so_before_anything_else(prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    (tmp_path / "cv2.py").write_text(f"raise ImportError({NO_LIBGL!r})\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = prep("extract", synthetic, "--out", tmp_path / "out", "--decoder", "opencv", env=environment)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert f"the decoder opencv cannot be loaded ({NO_LIBGL}); install opencv-python" in line
    assert not (tmp_path / "out").exists()
    # It is not needed where it is not used.
    done = prep("extract", synthetic, "--out", tmp_path / "out", "--quiet", env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", DECODERS[1:])
def test_the_command_with_another_decoder(name: str, prep: Prep, synthetic: Path, tmp_path: Path) -> None:
    """The same bytes for any number of processes, and another decoder is another dataset."""
    for jobs in (1, 2):
        done = prep(
            "extract", synthetic, "--out", tmp_path / f"out{jobs}", "--decoder", name, "--jobs", jobs, "--quiet"
        )
        assert (done.returncode, done.stderr) == (0, "")
    first, second = (
        {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        for out in (tmp_path / "out1", tmp_path / "out2")
    )
    assert first == second
    done = prep("extract", synthetic, "--out", tmp_path / "out1", "--quiet")
    assert done.returncode == 2
    assert "decoder" in done.stderr
