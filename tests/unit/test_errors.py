"""Exit codes are part of the interface: scripts depend on them."""

from manifests import errors
from manifests.errors import EXIT_CODES, Error


def subclasses(kind: type[Error]) -> list[type[Error]]:
    return [found for direct in kind.__subclasses__() for found in (direct, *subclasses(direct))]


def test_the_codes_are_those_that_users_were_told() -> None:
    assert set(EXIT_CODES) == {0, 1, 2, 3, 4, 5, 6, 130}
    assert {
        name: getattr(errors, name).exit_code for name in vars(errors) if name.endswith(("Error", "Interrupted"))
    } == {
        "Error": 1,
        "UsageError": 2,
        "DamagedError": 4,
        "StoreError": 5,
        "TooManyFailedError": 6,
        "Interrupted": 130,
    }


def test_every_error_has_a_code_of_its_own_that_is_explained() -> None:
    codes = [kind.exit_code for kind in (Error, *subclasses(Error))]
    assert len(set(codes)) == len(codes)
    assert set(codes) <= set(EXIT_CODES)
    assert all(EXIT_CODES.values())


def test_the_picture_of_the_tree_is_the_tree() -> None:
    drawn = {line.split()[1]: int(line.split()[2]) for line in (errors.__doc__ or "").splitlines() if "──" in line}
    assert drawn == {kind.__name__: kind.exit_code for kind in subclasses(Error)}
