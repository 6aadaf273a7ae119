"""Where the program starts."""

import sys

from manifests.command import start


def main() -> int:
    """Run `train` and return its exit code."""
    return start("train", "train.cli")


if __name__ == "__main__":
    sys.exit(main())
