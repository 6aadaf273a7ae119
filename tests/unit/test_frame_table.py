"""The frame table: what is written comes back, and a changed byte shows."""

import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prep.frame_table import FRAME_DTYPE, read_table, write_table

entries = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1), st.floats(width=64))


@given(st.lists(entries, max_size=20))
@settings(deadline=None)
def test_a_table_comes_back_with_the_crc_of_its_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple]
) -> None:
    path = tmp_path_factory.getbasetemp() / "table"
    table_N = np.array(rows, FRAME_DTYPE)
    crc32 = write_table(path, table_N)
    assert crc32 == zlib.crc32(path.read_bytes())
    assert path.stat().st_size == 16 * len(rows)  # nothing between the fields
    found_N, found_crc32 = read_table(path)
    assert found_crc32 == crc32
    assert found_N.dtype == FRAME_DTYPE
    assert found_N.tobytes() == table_N.tobytes()  # NaN does not equal itself


def test_the_bytes_do_not_depend_on_the_machine(tmp_path: Path) -> None:
    write_table(tmp_path / "t", np.array([(258, 0xDEADBEEF, 1.0)], FRAME_DTYPE))
    assert (tmp_path / "t").read_bytes() == bytes.fromhex("02010000 efbeadde 000000000000f03f")


def test_a_table_that_is_cut_is_an_error_or_shorter_and_never_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t"
    crc32 = write_table(path, np.array([(1, 2, math.nan), (3, 4, 5.0)], FRAME_DTYPE))
    whole = path.read_bytes()
    for num_bytes in range(len(whole)):
        path.write_bytes(whole[:num_bytes])
        if num_bytes % 16:
            with pytest.raises(ValueError, match="buffer size"):
                read_table(path)
        else:
            table_N, found = read_table(path)
            assert len(table_N) == num_bytes // 16
            assert found != crc32


def test_a_table_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "t")
