"""What can go wrong that is not one video's fault, each with the exit code of the command.

    Error
    ├── UsageError          2   arguments, recipe, an OUT that holds something else
    ├── DamagedError        4   a dataset that is damaged or does not match
    ├── StoreError          5   the disk: full, not writable, locked by another run
    ├── TooManyFailedError  6   more videos failed than --max-failures allows, or all; nothing is sealed
    └── Interrupted       130   Ctrl-C or SIGTERM; the run can be resumed

A bad video is never an exception: it is a row of the manifest with a failure kind.
"""


class Error(Exception):
    """One sentence for the user: what is wrong, with which value, and what to do."""

    exit_code = 1


class UsageError(Error):
    exit_code = 2


class DamagedError(Error):
    exit_code = 4


class StoreError(Error):
    exit_code = 5


class TooManyFailedError(Error):
    exit_code = 6


class Interrupted(Error):
    exit_code = 130


EXIT_CODES: dict[int, str] = {
    0: "all that was attempted is prepared",
    1: "an unexpected error",
    2: "wrong usage: arguments, recipe, or an OUT that holds something else",
    3: "finished and usable, but some videos failed",
    4: "the dataset is damaged or does not match",
    5: "the disk: full, not writable, or locked by another run",
    6: "more videos failed than --max-failures allows, or all of them: not sealed, resumable",
    130: "interrupted by Ctrl-C or SIGTERM; the same command resumes",
}
