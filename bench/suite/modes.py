"""What each promise costs: the same loads on a broker that flushes later, one that flushes first, a pair, and a DLedger group.

| mode        | a send is answered when                                                                          |
|-------------|--------------------------------------------------------------------------------------------------|
| async       | the broker has it in memory                                                                      |
| sync-flush  | it is on the broker's disk                                                                       |
| sync-master | the slave has it in memory, too                                                                  |
| dledger     | a majority of three nodes has it; ours: on disk. Apache's nodes answer before they have flushed  |

The servers are measured one after the other, and not in turns: a group whose processes are stopped would elect another leader.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from bench.suite.generator import LoadError
from bench.suite.loads import BY_NAME, Load
from bench.suite.progress import Progress
from bench.suite.record import APACHE, OURS, Result, RunRecord
from bench.suite.replicated import group, pair
from bench.suite.servers import STARTS, SYNC_FLUSH, Server
from bench.suite.turns import planned_s, run_round, summary

Start = Callable[[Path, Mapping[str, object]], AbstractContextManager[Server]]

MODE_LOADS = ("sync-64", "send-4x64")
MODE_ROUNDS = 2
MODE_SERVERS = (OURS, APACHE)
WARM_UP_S = {OURS: 1.0, APACHE: 8.0}  # of the second load, which does not count
START_S = {OURS: 3.0, APACHE: 16.0}  # as planned


class Mode(NamedTuple):
    name: str
    title: str
    nodes: int
    starts: Mapping[str, Start]
    settings: Mapping[str, object] = {}

    def result_name(self, load: Load) -> str:
        """Return the name under which a record has the results of a load."""
        return f"{self.name}-{load.name}"


MODES = [
    Mode("async", "ASYNC_FLUSH", 1, STARTS),
    Mode("sync-flush", "SYNC_FLUSH", 1, STARTS, SYNC_FLUSH),
    Mode("sync-master", "SYNC_MASTER and its slave", 2, {name: pair(name) for name in MODE_SERVERS}),
    Mode("dledger", "DLedger group of three", 3, {name: group(name) for name in MODE_SERVERS}),
]


def mode_words(mode: Mode) -> str:
    """Return how `--only` names a mode."""
    return f"mode-{mode.name}"


def planned_modes_s(modes: Sequence[Mode], names: Sequence[str], rounds: int, seconds: float) -> float:
    return sum(
        START_S[name] + WARM_UP_S[name] + sum(rounds * planned_s(BY_NAME[load], seconds) for load in MODE_LOADS)
        for _ in modes
        for name in names
        if name in MODE_SERVERS
    )


def measure_modes(
    modes: Sequence[Mode], names: Sequence[str], rounds: int, seconds: float, home: Path, record: RunRecord, progress: Progress
) -> None:
    """Add the results of each mode on each server to the record. One that does not start is noted there."""
    for mode in modes:
        for name in [each for each in MODE_SERVERS if each in names]:
            folder = home / mode.name / name
            folder.mkdir(parents=True)
            try:
                with mode.starts[name](folder, mode.settings) as server:
                    progress(f"{mode.title} · {name} is ready", START_S[name])
                    run_round(BY_NAME[MODE_LOADS[-1]], server, WARM_UP_S[name], folder)
                    progress(f"{mode.title} · {name} is warm", WARM_UP_S[name])
                    record.results += [_measure(mode, BY_NAME[load], server, rounds, seconds, progress) for load in MODE_LOADS]
            except (LoadError, OSError, AssertionError, subprocess.SubprocessError) as failure:
                record.left_out.append(f"{mode.title} on {name} was not measured: {(str(failure) or repr(failure))[-300:]}")
                progress(record.left_out[-1])
            shutil.rmtree(folder, ignore_errors=True)


def _measure(mode: Mode, load: Load, server: Server, rounds: int, seconds: float, progress: Progress) -> Result:
    result = Result(mode.result_name(load), server.name, [])
    for number in range(1, rounds + 1):
        try:
            result.rounds.append(run_round(load, server, seconds, Path()))
            told = summary(result.rounds[-1])
        except (LoadError, OSError, AssertionError) as failure:
            result.failure = told = (str(failure) or repr(failure))[:500]
        progress(f"{mode.title}, {load.title} · {server.name} · round {number} of {rounds}: {told}", planned_s(load, seconds))
    return result
