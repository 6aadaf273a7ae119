"""`prep extract`: read what the user gave, have it estimated or done, print the result."""

import argparse
import dataclasses
import os
from collections import Counter
from pathlib import Path

from manifests.command import print_result, resume_hint, say
from manifests.errors import Interrupted, StoreError, UsageError
from manifests.lock import RunLock
from manifests.machine import describe_space, usable_processors
from manifests.recipe import load_recipe
from manifests.sources import SourceList, read_sources
from manifests.wording import count
from prep import datasets
from prep.budget import parse_budget
from prep.carry_out import require_root
from prep.changes import UPDATE, parse_retry
from prep.decoders import require_decoder
from prep.estimate import estimate, estimate_lines, estimate_table, require_room, rows_to_come
from prep.extract import Request, extract, require_same_dataset
from prep.recipe import ExtractRecipe, resolve
from prep.reconcile import reconcile, reconciliation_lines
from prep.result import exit_code_of, result_lines, result_table
from prep.run_folder import RunFolder, state_of
from prep.scan import given_flags, scan_folder


def run(arguments: argparse.Namespace) -> int:
    request = _request(arguments)
    try:
        if arguments.dry_run:
            return _dry_run(arguments, request)
        if not arguments.force and state_of(request.out) != "sealed":
            _require_room(arguments, request)
        done = extract(request)
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(f"{str(error) or 'interrupted'}; {resume_hint()}") from None
    print_result(arguments, result_table(arguments.out, done), result_lines(arguments.out, done))
    return exit_code_of(done)


def _request(arguments: argparse.Namespace) -> Request:
    recipe = _recipe(arguments)
    require_decoder(recipe.decoder)
    num_jobs, reason = _num_jobs(arguments.jobs)
    budget = parse_budget(arguments.max_failures)
    again = UPDATE if arguments.update else None if arguments.retry is None else parse_retry(arguments.retry)
    # Refuses what is not ours before a scan that may take long.
    if state_of(arguments.out) == "sealed" and arguments.dry_run and again is not None:
        raise UsageError(f"--dry-run tells of a new dataset or one that was begun, not of {again}")
    sources = _read_or_scan(arguments)
    if arguments.root is not None:
        sources = dataclasses.replace(sources, root=Path(os.path.abspath(arguments.root)))
    if arguments.limit is not None:
        sources = dataclasses.replace(sources, sources=sources.sources[: arguments.limit])
    say(arguments, f"{count(len(sources.sources), 'video')} from {sources.root}, {num_jobs} at a time ({reason})")
    say(arguments, describe_space(arguments.out.absolute()))
    return Request(
        sources=sources,
        recipe=recipe,
        out=arguments.out,
        num_jobs=num_jobs,
        again=again,
        budget=budget,
        quiet=arguments.quiet,
        force=arguments.force,
    )


def _dry_run(arguments: argparse.Namespace, request: Request) -> int:
    """What an extraction would do and take. Writes nothing into OUT."""
    sources, recipe, out, num_jobs = request.sources, request.recipe, request.out, request.num_jobs
    require_root(sources)
    if state_of(out) == "sealed":
        require_same_dataset(RunFolder(out), request)
    rows = rows_to_come(sources, recipe, out)
    left_out = Counter(source.failure or source.status for source in sources.sources if source.status)
    left_out_text = ", ".join(f"{kind} {number:,}" for kind, number in left_out.items())
    num_done = len(sources.sources) - len(rows) - left_out.total()
    found = estimate(sources, rows, recipe, out, num_jobs=num_jobs)
    table = {
        "out": str(out),
        "num_jobs": num_jobs,
        "store": recipe.store.format,
        "num_done": num_done,
        "left_out": dict(left_out),
        **estimate_table(found),
    }
    plan = f"plan: {count(len(rows), 'video')} to decode, {num_jobs} at a time, store {recipe.store.format}"
    done = f"; {num_done:,} done before" if num_done else ""
    others = f"; left out: {left_out_text}" if left_out else ""
    print_result(arguments, table, [f"{plan}{done}{others}", *estimate_lines(found, out)])
    return 0 if found.fits else StoreError.exit_code


def _require_room(arguments: argparse.Namespace, request: Request) -> None:
    require_root(request.sources)
    run = RunFolder(request.out)
    if run.lock.exists():
        with RunLock(run.lock):  # a run that is at work there is named before anything is compared with it
            pass
    rows = rows_to_come(request.sources, request.recipe, request.out)
    found = require_room(request.sources, rows, request.recipe, request.out, num_jobs=request.num_jobs)
    if found is not None:
        say(arguments, "; ".join(estimate_lines(found, request.out)))


def _recipe(arguments: argparse.Namespace) -> ExtractRecipe:
    shorthands = {"store.format": arguments.store, "decoder": arguments.decoder}
    overrides = [f"{key}={value}" for key, value in shorthands.items() if value is not None]
    return resolve(load_recipe(ExtractRecipe, arguments.recipe, [*overrides, *arguments.set]))


def _num_jobs(wanted: int | None) -> tuple[int, str]:
    """How many videos to decode at a time, and why so many."""
    processors = usable_processors()
    if wanted is None:
        return processors.count, processors.reason
    if wanted < 1:
        raise UsageError(f"--jobs is at least 1, not {wanted}")
    return wanted, f"--jobs; {count(processors.count, 'processor')} usable"


def _read_or_scan(arguments: argparse.Namespace) -> SourceList:
    source: Path = arguments.source
    if source.is_file():
        if flags := given_flags(arguments):
            raise UsageError(f"{' and '.join(flags)} go with a folder; {source} holds what they told prep scan")
        return read_sources(source)
    if source.suffix == ".parquet" and not source.exists():
        raise UsageError(f"no such source list: {source}; write it with 'prep scan'")
    found = scan_folder(arguments, source)
    for line in (*reconciliation_lines(reconcile(found)), *(f"note: {note}" for note in found.notes)):
        say(arguments, line)
    return datasets.source_list(found, source)
