"""The whole run of `make bench`, in phases that each start servers with an empty store and remove it afterwards.

lifecycle    start, rest, recovery: one server after the other
usual        every load, with the brokers' usual settings; Kafka takes part
sync flush   the loads for servers that answer when a message is on the disk
modes        two loads for each promise that a broker can give, on one node, two and three (`modes`)
growth       the rows of `python -m bench growth`: our broker with more queues, connections and messages
"""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from bench.suite import profile
from bench.suite.generator import ROOT, LoadError, generator
from bench.suite.lifecycle import PLANNED_S, measure_lifecycle
from bench.suite.loads import BY_NAME, JAVA, Load
from bench.suite.modes import MODE_ROUNDS, Mode, measure_modes, planned_modes_s
from bench.suite.page_cache import PageCache
from bench.suite.parts import GROWTH, GROWTH_S_MAX, has_part, measure_part
from bench.suite.processes import paused, resident_mb
from bench.suite.progress import Progress
from bench.suite.record import APACHE, KAFKA, OURS, Lifecycle, Machine, RunRecord
from bench.suite.servers import STARTS, SYNC_FLUSH, Server, missing
from bench.suite.turns import can_run, measure_in_turns, others, planned_s, run_round
from skyrocket.compiled import kind

ROUNDS, SECONDS = 3, 2.0
JAVA_ROUNDS, JAVA_SECONDS = 1, 8.0
FREE_GB_MIN = 16.0
START_S, GROWTH_S = 10.0, 150.0  # as planned
STEADY_ROUND_S, STEADY_ROUNDS, STEADY_GROWTH = 2.0, 2, 1.05
LAST_ALIKE = "delivery"  # after this load, not all servers have had the same work: memory is noted
# How a server is warmed up, and for how many seconds at most: until a JVM has compiled its hot methods.
WARM_UP = {"send-4x64": 30.0, "sync-64": 3.0, "batch-4x8": 2.0, "binary-4x64": 2.0, "old-code-4x64": 1.0, "pull-tail": 2.0}
WARM_UP_FLUSH = {"send-4x64": 16.0, "sync-flush-64": 3.0}


class Plan:
    """Which loads to run on which servers, for how long."""

    def __init__(
        self,
        loads: Sequence[Load],
        names: Sequence[str],
        rounds: int = ROUNDS,
        seconds: float = SECONDS,
        modes: Sequence[Mode] = (),
    ) -> None:
        self.loads, self.rounds, self.seconds, self.modes = loads, rounds, seconds, modes
        self.left_out = [reason for name in names if (reason := missing(name))]
        self.names = [name for name in names if not missing(name)]

    def usual(self) -> list[Load]:
        return [load for load in self.loads if not load.sync_flush and (load.source != JAVA or APACHE in self.names)]

    def flushed(self) -> list[Load]:
        return [load for load in self.loads if load.sync_flush]

    def rounds_of(self, load: Load) -> tuple[int, float]:
        return (JAVA_ROUNDS, JAVA_SECONDS) if load.source == JAVA else (self.rounds, self.seconds)

    def planned_s(self, loads: Sequence[Load], warm_up: Mapping[str, float]) -> float:
        total = 0.0
        for name in self.names:
            total += START_S + planned_warm_up_s(warm_up) if loads else 0.0
            for load in loads:
                rounds, seconds = self.rounds_of(load)
                total += rounds * planned_s(load, seconds) if name != KAFKA or load.for_kafka else 0.0
        return total


def run_all(plan: Plan, with_lifecycle: bool = True, with_growth: bool = True) -> RunRecord:
    generator()  # without a compiler, nothing can be measured: say so first
    began_s = time.monotonic()
    started = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    record = RunRecord(started=started, machine=machine(), commit=_output("git", "rev-parse", "--short", "HEAD"))
    record.left_out += plan.left_out + ([] if profile.is_there() else [profile.MISSING])
    lives = [name for name in plan.names if name in PLANNED_S and with_lifecycle]
    planned = (
        plan.planned_s(plan.usual(), WARM_UP)
        + plan.planned_s(plan.flushed(), WARM_UP_FLUSH)
        + sum(PLANNED_S[name] for name in lives)
        + planned_modes_s(plan.modes, plan.names, min(plan.rounds, MODE_ROUNDS), plan.seconds)
        + (GROWTH_S if with_growth and has_part(GROWTH) else 0.0)
    )
    progress = Progress(planned)
    with folder() as home:
        for name in lives:
            record.lifecycles.append(measure_lifecycle(name, home / "life", progress))
            shutil.rmtree(home / "life", ignore_errors=True)
        _run_phase(plan, plan.usual(), {}, WARM_UP, home / "usual", record, progress)
        _run_phase(plan, plan.flushed(), SYNC_FLUSH, WARM_UP_FLUSH, home / "flushed", record, progress)
        rounds = min(plan.rounds, MODE_ROUNDS)
        measure_modes(plan.modes, plan.names, rounds, plan.seconds, home / "modes", record, progress)
    if with_growth and has_part(GROWTH):
        record.growth, failure = measure_part(GROWTH, GROWTH_S_MAX)
        record.left_out += [failure] if failure else []
        progress(f"growth: {failure or f'{len(record.growth)} rows'}", GROWTH_S)
    record.took_s = time.monotonic() - began_s
    return record


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for the stores, on a disk with room for them. Set SKYROCKET_BENCH_DIR to choose the disk."""
    where = os.environ.get("SKYROCKET_BENCH_DIR") or tempfile.gettempdir()
    free_gb = shutil.disk_usage(where).free / 1e9
    if free_gb < FREE_GB_MIN:
        raise LoadError(
            f"{where} has {free_gb:.0f} GB free, and stores take up to {FREE_GB_MIN:.0f} GB. "
            "Choose a disk with SKYROCKET_BENCH_DIR=DIR"
        )
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=where))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run_phase(
    plan: Plan,
    loads: Sequence[Load],
    settings: Mapping[str, object],
    warm_up: Mapping[str, float],
    home: Path,
    record: RunRecord,
    progress: Progress,
) -> None:
    if not loads:
        return
    with ExitStack() as stack:
        # In a short trial, filling the cache would take longer than the loads.
        cache = stack.enter_context(closing(PageCache(home, is_used=plan.seconds >= SECONDS)))
        cache.fill()
        servers = start_servers(stack, plan.names, settings, home, record, progress)
        warm_up_servers(servers, warm_up, home, progress)
        for load in loads:
            cache.fill()
            rounds, seconds = plan.rounds_of(load)
            record.results += measure_in_turns(load, servers, rounds, seconds, home, progress)
            if load.name == LAST_ALIKE:
                _note_memory(record, servers)
            _profile(load, servers, home, record)
    shutil.rmtree(home, ignore_errors=True)


def _profile(load: Load, servers: Sequence[Server], home: Path, record: RunRecord) -> None:
    """Run a load on our broker once more, while perf samples it. That round does not count for the figures."""
    server = next((each for each in servers if each.name == OURS), None)
    if server is None or load.source == JAVA or (load.is_calm and load.mode != "send") or not profile.is_there():
        return
    with paused(others(servers, server)):
        try:
            record.profiles.append(profile.profile_load(load, server, home / "profile"))
        except (LoadError, OSError, subprocess.SubprocessError) as failure:
            record.left_out.append(f"the profile of {load.name}: {(str(failure) or repr(failure))[-300:]}")


def start_servers(
    stack: ExitStack, names: Sequence[str], settings: Mapping[str, object], home: Path, record: RunRecord, progress: Progress
) -> list[Server]:
    """Start servers, which end with the stack. One that does not start is noted in the record, and the others go on."""
    servers: list[Server] = []
    for name in names:
        folder_of_server = home / name
        folder_of_server.mkdir(parents=True)
        try:
            servers.append(stack.enter_context(STARTS[name](folder_of_server, settings)))
            progress(f"{name} is ready", START_S)
        except (LoadError, OSError, AssertionError, subprocess.SubprocessError) as failure:
            record.left_out.append(f"{name} did not start: {(str(failure) or repr(failure))[-300:]}")
            progress(record.left_out[-1], START_S)
    return servers


def warm_up_servers(servers: Sequence[Server], warm_up: Mapping[str, float], home: Path, progress: Progress) -> None:
    """Run loads that do not count, one server after the other. Each ends early when its rate no longer grows."""
    for server in servers:
        with paused(others(servers, server)):
            for name, seconds in warm_up.items():
                load = BY_NAME[name]
                try:
                    if can_run(load, server):
                        _warm_until_steady(load, server, seconds, home)
                except (LoadError, OSError, AssertionError) as failure:
                    progress(f"warm-up of {server.name} with {name} failed: {failure}")
        progress(f"{server.name} is warm", planned_warm_up_s(warm_up))


def planned_warm_up_s(warm_up: Mapping[str, float]) -> float:
    return sum(min(seconds, 2 * STEADY_ROUNDS * STEADY_ROUND_S) for seconds in warm_up.values())


def _warm_until_steady(load: Load, server: Server, seconds: float, home: Path) -> None:
    best, without_growth, left_s = 0.0, 0, seconds
    while left_s > 0 and without_growth < STEADY_ROUNDS:
        rate = run_round(load, server, min(left_s, STEADY_ROUND_S), home).rate
        without_growth = 0 if rate > best * STEADY_GROWTH else without_growth + 1
        best = max(best, rate)
        left_s -= STEADY_ROUND_S


def _note_memory(record: RunRecord, servers: Sequence[Server]) -> None:
    known = {life.server: life for life in record.lifecycles}
    for server in servers:
        if server.name not in known:
            known[server.name] = Lifecycle(server.name)
            record.lifecycles.append(known[server.name])
        known[server.name].loaded_mb = resident_mb(server.pid)


def machine() -> Machine:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    java = _output("java", "-version").partition("\n")[0]
    return Machine(
        processor,
        os.cpu_count() or 0,
        round(memory_gb, 1),
        platform.release(),
        platform.python_version(),
        java,
        kind() == "compiled",
    )


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip()
