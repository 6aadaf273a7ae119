"""Where the program starts."""

import sys

from manifests.command import start


def main() -> int:
    """Run `prep` and return its exit code."""
    return start("prep", "prep.cli")


if __name__ == "__main__":
    sys.exit(main())
