"""--max-failures: how many videos may fail before a run stops."""

import pytest

from manifests.errors import UsageError
from prep.budget import Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "num_failed", "num_videos", "goes_on"),
    [
        (None, 10**9, 10**9, True),
        ("0", 0, 10, True),
        ("0", 1, 10, False),
        ("20", 20, 100, True),
        ("20", 21, 100, False),
        ("5%", 5, 100, True),
        ("5%", 6, 100, False),
        ("0.1%", 13, 13320, True),
        ("0.1%", 14, 13320, False),
        ("0%", 1, 100, False),
        ("100%", 7, 7, True),
    ],
)
def test_budgets(text: str | None, num_failed: int, num_videos: int, goes_on: bool) -> None:
    assert parse_budget(text).allows({"decode": num_failed}, num_videos) is goes_on


def test_what_annotations_and_recipe_leave_out_is_no_failure() -> None:
    failures = {"missing": 50, "too_short": 50, "crashed": 1, "empty": 1}
    assert Budget(number=2).allows(failures, 200)
    assert not Budget(number=1).allows(failures, 200)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "101%", "5 %", "five", "%", "1e3", "٣", "nan%"])
def test_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match="--max-failures takes a number of videos or a percentage"):
        parse_budget(text)


def test_a_budget_is_said_as_it_was_given() -> None:
    assert [str(parse_budget(text)) for text in ("20", "1.5%", "5.0%")] == ["20", "1.5%", "5%"]
