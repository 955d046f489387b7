"""A record as Markdown: the bars, the loads, the lifecycles, the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.suite import figures
from bench.suite.bars import BARS, CPU, MILLISECOND_US, P50, RATE, REFUSED, Judgement, judge
from bench.suite.loads import BY_NAME, LOADS, PROGRAMS, PULLS, SENDS, TRANSACTIONS, Load
from bench.suite.modes import MODE_LOADS, MODES
from bench.suite.profile import KINDS
from bench.suite.record import APACHE, OURS, SERVERS, Lifecycle, Result, RunRecord

NONE = "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def bars_table(record: RunRecord) -> str:
    """Each bar beside what was measured, and whether it is met."""
    judged = [judge(record, bar) for bar in BARS]
    rows = [
        [
            each.bar.title,
            _figure_name(each),
            _limit(each),
            _value(each, each.ours),
            _value(each, each.other),
            _ratio(each),
            _verdict(each),
        ]
        for each in judged
    ]
    known = [each.is_met for each in judged if each.is_met is not None]
    return (
        table(["load", "figure", "bar", "ours", "beside it", "ratio", ""], rows)
        + f"\n{sum(known)} of {len(known)} bars are met.\n"
    )


def _figure_name(each: Judgement) -> str:
    name = {RATE: "rate", CPU: "CPU a message", P50: "p50", REFUSED: "refused"}[each.bar.figure]
    return f"{name}, beside {each.bar.beside}" if each.bar.beside not in ("", APACHE) else name


def _limit(each: Judgement) -> str:
    bar = each.bar
    if bar.figure == REFUSED:
        return "none"
    if not bar.server:
        return f"at most {figures.latency(bar.limit)}" if bar.limit != MILLISECOND_US else "at most 1 ms"
    return f"at least {figures.ratio(bar.limit)}" if bar.is_floor else f"at most {bar.limit:.3g}"


def _value(each: Judgement, value: float | None) -> str:
    if value is None:
        return NONE
    show = {RATE: lambda v: f"{figures.count(v)}/s", CPU: figures.micros, P50: figures.latency, REFUSED: figures.share}
    return show[each.bar.figure](value)


def _ratio(each: Judgement) -> str:
    return NONE if each.ratio is None or not each.bar.server else figures.ratio(each.ratio)


def _verdict(each: Judgement) -> str:
    if each.is_met is None:
        return "not measured"
    if each.is_met:
        return "met"
    if each.ratio is None or not each.bar.server or not each.bar.limit:
        return "**missed**"
    reached = each.ratio / each.bar.limit
    return f"**missed**: {reached:.0%} of the bar" if each.bar.is_floor else f"**missed**: {reached:.1f} times the bar"


def loads_table(record: RunRecord, groups: Sequence[str]) -> str:
    """One row for each load and server."""
    head = ["load", "server", "messages a second", "CPU a message", "p50", "p99", "p99.9", "refused"]
    rows = []
    for load in LOADS:
        if load.group in groups:
            for number, result in enumerate(_results(record, load)):
                rows.append([load.title if number == 0 else "", *_load_row(result)])
    return table(head, rows)


def _results(record: RunRecord, load: Load) -> list[Result]:
    found = [each for each in record.results if each.load == load.name]
    return sorted(found, key=lambda each: SERVERS.index(each.server))


def _load_row(result: Result) -> list[str]:
    if result.failure and not result.rounds:
        return [result.server, f"failed: {_one_line(result.failure)}", *[NONE] * 5]
    calm = result.calmest
    percentiles = [NONE if each is None else figures.latency(each) for each in (calm.p50_us, calm.p99_us, calm.p999_us)]
    refused = figures.share(result.refused) if result.refused else "0"
    return [result.server, figures.count(result.rate), figures.micros(result.cpu_us), *percentiles, refused]


def programs_table(record: RunRecord) -> str:
    """Apache's benchmark programs: they share the cores with the broker, so their part of the CPU time stands beside the rate."""
    head = ["program", "server", "messages a second", "CPU of the broker", "CPU of the Java process", "its share", "failures"]
    rows = []
    for load in LOADS:
        if load.group == PROGRAMS:
            for number, result in enumerate(_results(record, load)):
                rows.append([load.title if number == 0 else "", *_program_row(result)])
    return table(head, rows)


def _program_row(result: Result) -> list[str]:
    if not result.rounds:
        return [result.server, f"failed: {_one_line(result.failure)}", *[NONE] * 4]
    best = result.quickest
    java_us = best.client_cpu_s / best.messages * 1e6
    shown = [figures.count(best.rate), figures.micros(best.cpu_us), figures.micros(java_us), figures.share(best.client_share)]
    return [result.server, *shown, str(best.refused)]


def modes_table(record: RunRecord) -> str:
    """What each promise costs: one row for each mode, load and server. The CPU time is that of all nodes."""
    head = ["answered after", "load", "server", "messages a second", "CPU a message, all nodes", "p50", "p99"]
    rows = []
    for mode in MODES:
        for load in (BY_NAME[name] for name in MODE_LOADS):
            found = [each for each in record.results if each.load == mode.result_name(load)]
            for number, result in enumerate(sorted(found, key=lambda each: SERVERS.index(each.server))):
                titles = [mode.title, load.title] if number == 0 else ["", ""]
                rows.append([*titles, *_load_row(result)[:5]])
    return table(head, rows) if rows else "These rows are not in the last run.\n"


def lifecycle_table(record: RunRecord) -> str:
    head = ["server", "ready after", "memory at rest", "CPU at rest", "memory after the loads", "ready after kill -9"]
    ordered = sorted(record.lifecycles, key=lambda each: SERVERS.index(each.server))
    return table(head, [_lifecycle_row(each) for each in ordered])


def _lifecycle_row(life: Lifecycle) -> list[str]:
    loaded = f"{life.loaded_mb:,.0f} MB" if life.loaded_mb else NONE
    if life.failure:
        return [life.server, f"failed: {_one_line(life.failure)}", NONE, NONE, loaded, NONE]
    if not life.start_s:
        return [life.server, NONE, NONE, NONE, loaded, NONE]
    recovery = f"{life.recovery_s:.2f} s, {life.recovered_messages:,} messages"
    return [life.server, f"{life.start_s:.2f} s", f"{life.rest_mb:.0f} MB", f"{life.rest_cpu_share:.1%}", loaded, recovery]


def profiles_table(record: RunRecord) -> str:
    """Where our broker's CPU time went: one row for each load, one column for each kind that any load has."""
    kinds = [kind for kind in KINDS if any(each.kinds.get(kind) for each in record.profiles)]
    rows = []
    for load in LOADS:
        for profile in (each for each in record.profiles if each.load == load.name and each.samples):
            result = record.find(load.name, OURS)
            spent = figures.micros(result.cpu_us) if result is not None else NONE
            shares = [figures.share(profile.kinds.get(kind, 0) / profile.samples) for kind in kinds]
            rows.append([load.title, spent, *shares, str(profile.samples)])
    return table(["load", "CPU a message", *kinds, "samples"], rows) if rows else "These rows are not in the last run.\n"


def growth_table(record: RunRecord) -> str:
    return table(["what grows", "CPU a message", ""], [[row.name, row.value, row.remark] for row in record.growth])


def machine_text(record: RunRecord) -> str:
    """One paragraph: when, where and how long."""
    machine = record.machine
    built = "with compiled twins" if machine.compiled else "in pure Python"
    where = f"{machine.cores} cores of {machine.processor}, {machine.memory_gb:.0f} GB of memory, Linux {machine.kernel}"
    text = f"Measured on {record.started} UTC at commit {record.commit or NONE}: {where}, Python {machine.python} {built}"
    text += f", {machine.java}" if machine.java else ""
    text += f". The run took {figures.duration(record.took_s)}.\n"
    return text + "".join(f"\n{_one_line(reason)}.\n" for reason in record.left_out)


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")[:200]


def sections(record: RunRecord) -> dict[str, str]:
    """The generated parts of docs/benchmarks.md, by the names of their markers."""
    return {
        "machine": machine_text(record),
        "bars": bars_table(record),
        "sends": loads_table(record, [SENDS, TRANSACTIONS]),
        "pulls": loads_table(record, [PULLS]),
        "programs": programs_table(record),
        "lifecycles": lifecycle_table(record),
        "modes": modes_table(record),
        "growth": growth_table(record),
        "profiles": profiles_table(record),
    }
