"""`make bench-quick`: the ratios of the most important loads in less than three minutes, compared with bench/expected.json.

A ratio that looks a third worse is measured once more, because a single load can meet a slow moment of the machine.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

from bench.suite.comparison import Compared, compare, ratios, read_expected, write_expected
from bench.suite.full import Plan, folder, start_servers, warm_up_servers
from bench.suite.generator import LoadError, generator
from bench.suite.loads import BY_NAME, LOADS, Load
from bench.suite.page_cache import PageCache
from bench.suite.progress import Progress
from bench.suite.record import APACHE, OURS, RunRecord
from bench.suite.servers import Server, missing
from bench.suite.turns import measure_in_turns

ROUNDS, SECONDS, AGAIN_ROUNDS = 2, 1.0, 3
WARM_UP = {"send-4x64": 16.0, "sync-64": 2.0, "batch-4x8": 1.0, "binary-4x64": 1.0, "pull-tail": 1.0}


def run_quick(accept: bool = False) -> int:
    """Print the ratios. Return 1 when one is a third worse than in the table, unless `accept` writes the table anew."""
    generator()
    if reason := missing(APACHE):
        raise LoadError(f"bench-quick compares with Apache's broker, and {reason}")
    loads = [load for load in LOADS if load.in_quick]
    plan = Plan(loads, [OURS, APACHE], ROUNDS, SECONDS)
    progress = Progress(plan.planned_s(loads, WARM_UP))
    record, expected = RunRecord(), {} if accept else read_expected()
    with folder() as home, ExitStack() as stack:
        servers = start_servers(stack, plan.names, {}, home, record, progress)
        if len(servers) < len(plan.names):
            raise LoadError(record.left_out[-1])
        warm_up_servers(servers, WARM_UP, home, progress)
        cache = stack.enter_context(closing(PageCache(home)))
        for load in loads:
            cache.fill()
            record.results += measure_in_turns(load, servers, ROUNDS, SECONDS, home, progress)
        compared = compare(ratios(record), expected)
        doubtful = sorted({each.load for each in compared if each.is_worse})
        for name in doubtful:
            cache.fill()
            _measure_again(BY_NAME[name], servers, home, record, progress)
        compared = compare(ratios(record), expected)
    if accept:
        write_expected(ratios(record))
    return report(compared, record)


def _measure_again(load: Load, servers: list[Server], home: Path, record: RunRecord, progress: Progress) -> None:
    """Add more rounds to those of a load: for each figure the best of all rounds counts."""
    for more in measure_in_turns(load, servers, AGAIN_ROUNDS, SECONDS, home, progress):
        for result in record.results:
            if (result.load, result.server) == (more.load, more.server):
                result.rounds += more.rounds


def report(compared: list[Compared], record: RunRecord) -> int:
    print("\nours / Apache's (rate: larger is better; CPU and p50: smaller is better)")
    for each in compared:
        print(each.line)
    failed = [f"{result.load} on {result.server}: {result.failure}" for result in record.results if result.failure]
    for text in failed:
        print(f"failed: {text}")
    worse = [each for each in compared if each.is_worse]
    if worse:
        print(f"{len(worse)} of {len(compared)} ratios are more than a third worse than bench/expected.json says.")
    return 1 if worse or failed else 0
