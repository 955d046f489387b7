"""`python -m bench.suite full|quick|render`: measure and write docs/benchmarks.md, compare ratios, or render the record again.

    full [--only LOAD …] [--servers skyrocket Apache Kafka] [--rounds N] [--seconds S] [--out FILE]
    quick [--accept]
    render

With `--only`, `--servers`, `--rounds` or `--seconds` a full run is a trial: it prints its tables and leaves docs/ alone.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bench.suite.document import RECORD, write_document
from bench.suite.full import ROUNDS, SECONDS, Plan, run_all
from bench.suite.generator import LoadError
from bench.suite.loads import BY_NAME, LOADS
from bench.suite.modes import MODES, mode_words
from bench.suite.quick import run_quick
from bench.suite.record import SERVERS, read_record, write_record
from bench.suite.tables import sections

LIFECYCLE, GROWTH = "lifecycle", "growth"  # beside the loads: start, rest and recovery; more queues, connections and messages
MODE_CHOICES = {mode_words(mode): mode for mode in MODES}
CHOICES = [*BY_NAME, *MODE_CHOICES, LIFECYCLE, GROWTH]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.suite", description="Measure brokers under the loads of real clients.")
    commands = parser.add_subparsers(dest="command", required=True)
    full = commands.add_parser("full", help="measure everything and write docs/benchmarks.md")
    full.add_argument("--only", nargs="+", choices=CHOICES, metavar="LOAD", help=f"one or more of: {', '.join(CHOICES)}")
    full.add_argument("--servers", nargs="+", choices=SERVERS, help="which servers to measure")
    full.add_argument("--rounds", type=int, help=f"rounds of each load ({ROUNDS})")
    full.add_argument("--seconds", type=float, help=f"seconds of each round ({SECONDS:g})")
    full.add_argument("--out", type=Path, help="write the record to this file too")
    quick = commands.add_parser("quick", help="compare the ratios of short loads with bench/expected.json")
    quick.add_argument("--accept", action="store_true", help="write bench/expected.json from this run")
    commands.add_parser("render", help="write docs/benchmarks.md from docs/benchmarks.json, without measuring")
    given = parser.parse_args(words)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if given.command == "quick":
            return run_quick(given.accept)
        if given.command == "render":
            write_document(read_record(RECORD))
            return 0
        return _full(given)
    except LoadError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted: every server has been ended, and docs/ is unchanged.", file=sys.stderr)
        return 130


def _interrupt(_number: int, _frame: object) -> None:
    """End as Ctrl-C does: every server is ended, and every temporary folder removed."""
    raise KeyboardInterrupt


def _full(given: argparse.Namespace) -> int:
    is_trial = any((given.only, given.servers, given.rounds, given.seconds))
    loads = [load for load in LOADS if not given.only or load.name in given.only]
    modes = [mode for word, mode in MODE_CHOICES.items() if not given.only or word in given.only]
    plan = Plan(loads, given.servers or SERVERS, given.rounds or ROUNDS, given.seconds or SECONDS, modes)
    record = run_all(plan, *(not given.only or part in given.only for part in (LIFECYCLE, GROWTH)))
    if given.out:
        write_record(given.out, record)
    if not is_trial:
        write_record(RECORD, record)
        write_document(record)
    for text in sections(record).values():
        print(f"\n{text}", end="")
    failed = [result for result in record.results if result.failure]
    for result in failed:
        print(f"failed: {result.load} on {result.server}: {result.failure}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
