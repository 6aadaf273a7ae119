"""Our models give the logits that PaddleVideo's own code gave, from the same weights and input."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from parity import NAMES, PARITY, Recorded

from manifests.machine import usable_processors
from train.device import set_cpu_threads
from train.models.slowfast import slow_indices

pytestmark = pytest.mark.skipif(not PARITY.is_dir(), reason=f"the recorded logits are not there: {PARITY}")


@pytest.fixture(scope="module", autouse=True)
def _all_processors() -> Iterator[None]:
    set_cpu_threads(usable_processors().count)
    yield
    set_cpu_threads(1)


@pytest.mark.parametrize("name", NAMES)
def test_every_case_of_every_model(name: str) -> None:
    """Within 1e-5 of the largest: the smallest mistake that the data knows of is ten times that."""
    recorded = Recorded(name)
    compared = {}
    for case, ours in recorded.outputs():
        compared[case] = recorded.distance(case, ours)
        assert compared[case] <= 1e-5, compared
    # The same case in float64, as the true value, is no case for ours.
    expected = {key for key in recorded.arrays if key.startswith(("logits", "probs"))} - {"logits_f64"}
    assert set(compared) == expected


def test_frames_of_the_slow_pathway() -> None:
    table = json.loads((PARITY / "test_views.json").read_text())["slow_pathway_index"]
    for alpha, by_length in table.items():
        for length, expected in by_length.items():
            np.testing.assert_array_equal(slow_indices(int(length), int(alpha)), expected)
    assert set(table) >= {"4", "8"}
