"""`prep adopt` and `prep pack`: read what the user gave, have it done, print the result."""

import argparse

from manifests.command import print_result, resume_hint, say
from manifests.errors import Interrupted
from manifests.machine import describe_space, usable_processors
from manifests.wording import count


def adopt(arguments: argparse.Namespace) -> int:
    from prep.adopt import adopt, find_videos
    from prep.reconcile import reconcile, reconciliation_lines
    from prep.result import exit_code_of, result_lines, result_table
    from prep.run_folder import state_of

    processors = usable_processors()
    try:
        state_of(arguments.out)  # refuses what is not ours before a walk that may take long
        found = find_videos(arguments.dir, arguments.list, arguments.format, arguments.classes)
        for line in (*reconciliation_lines(reconcile(found.scan)), *(f"note: {note}" for note in found.scan.notes)):
            say(arguments, line)
        folders = count(len(found.scan.sources), "frame folder")
        say(arguments, f"{folders} in {arguments.dir}, {processors.count} at a time ({processors.reason})")
        say(arguments, describe_space(arguments.out.absolute()))
        done = adopt(arguments.dir, found, arguments.out, num_jobs=processors.count, quiet=arguments.quiet)
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(f"{str(error) or 'interrupted'}; {resume_hint()}") from None
    print_result(arguments, result_table(arguments.out, done), result_lines(arguments.out, done))
    return exit_code_of(done)


def pack(arguments: argparse.Namespace) -> int:
    from prep.pack import pack
    from prep.result import exit_code_of, result_lines, result_table

    processors = usable_processors()
    say(arguments, f"packing {arguments.dir}, {processors.count} videos at a time ({processors.reason})")
    say(arguments, describe_space(arguments.out.absolute()))
    try:
        done = pack(arguments.dir, arguments.out, arguments.subset, num_jobs=processors.count, quiet=arguments.quiet)
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(f"{str(error) or 'interrupted'}; {resume_hint()}") from None
    print_result(arguments, result_table(arguments.out, done), result_lines(arguments.out, done))
    return exit_code_of(done)
