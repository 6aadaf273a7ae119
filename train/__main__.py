"""Where the program starts."""

import sys

from manifests.program import run_program


def main() -> int:
    return run_program("train")


if __name__ == "__main__":
    sys.exit(main())
