"""Verify a store in parts, which can run at the same time in other processes: first the log by segments, then the rest.

    parts = plan_log_parts(path)                                     each a range of the log that begins where a segment does
    log = merge_log_parts([check_log_part(path, part) …], …)         what the log is: its end, its damage, what queues should have
    for part in plan_other_parts(path): check_other_part(path, log, part)

Together they find what `verify` finds. A part's result is plain values, which can be encoded as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from skyrocket.store.log.scan import DamagedRange
from skyrocket.store.offline.offline_store import EVER_MS, OfflineStore
from skyrocket.store.offline.verify import QueueCheck, Verification, VerifyCounts, queued_before_of
from skyrocket.store.offline.verify_index import Finding
from skyrocket.store.queues.consume_queues import QueueKey

FINDINGS_MAX: Final = 1_000  # kept of each part; the others are counted
DAMAGED_MAX: Final = 10_000  # ranges kept of each part
QUEUES_OF_A_PART: Final = 64


class LogPart(NamedTuple):
    """The records that begin in the log from `start` up to before `stop`."""

    start: int
    stop: int
    queued_before: int  # log offset before which every message must be in its queue


class QueueOfLog(msgspec.Struct, frozen=True, array_like=True):
    """What a part of the log has of a queue."""

    topic: str
    queue_id: int
    first: int  # queue offset of the first message, and the highest one
    last: int
    fitting: int  # entries of the queue that match a message


class PartResult(msgspec.Struct, kw_only=True):
    findings: list[Finding] = []
    more: int = 0  # findings beyond FINDINGS_MAX
    messages: int = 0
    queues: int = 0
    index_entries: int = 0


class LogPartResult(PartResult, kw_only=True):
    start: int
    end: int  # where the log ends; `stop` of the part if it does not end there
    is_end: bool
    damaged: list[DamagedRange] = []
    log_queues: list[QueueOfLog] = []


class LogState(msgspec.Struct, kw_only=True):
    """What all parts together say of the log."""

    end: int = 0
    damaged: list[DamagedRange] = []
    fitting: list[QueueOfLog] = []


class OtherPart(msgspec.Struct, kw_only=True):
    """Queues, index files, or everything else."""

    queues: list[tuple[str, int]] = []
    index_files: list[str] = []
    rest: bool = False


def plan_log_parts(path: Path | str) -> list[LogPart]:
    """Return a part for each segment. A gap behind a segment belongs to that segment's part."""
    with OfflineStore(path) as store:
        starts = [*store.log.starts] or [store.log.start]
        queued_before = queued_before_of(store)
    return [LogPart(start, stop, queued_before) for start, stop in zip(starts, [*starts[1:], EVER_MS], strict=True)]


def check_log_part(path: Path | str, part: LogPart, lasts: Mapping[QueueKey, int] | None = None) -> LogPartResult:
    """Verify a part of the log, and its messages against their queues. `lasts` are the queue offsets that parts before it had."""
    counts = VerifyCounts()
    with OfflineStore(path) as store:
        check = Verification(store, counts, part.queued_before)
        for key, last in (lasts or {}).items():
            check.queues[key] = QueueCheck(store.queue(*key), last=last)
        findings, more = _take(_log_findings(check, part))
        return LogPartResult(
            findings=findings,
            more=more,
            messages=counts.messages,
            start=part.start,
            end=check.end,
            is_end=check.end != part.stop,
            damaged=check.damaged[:DAMAGED_MAX],
            log_queues=[
                QueueOfLog(*key, queue.first, queue.last, queue.fitting)
                for key, queue in sorted(check.queues.items())
                if queue.first >= 0
            ],
        )


def _log_findings(check: Verification, part: LogPart) -> Iterator[Finding]:
    yield from check.check_log(part.start, part.stop)
    yield from check.report_missing()


def _take(findings: Iterator[Finding]) -> tuple[list[Finding], int]:
    kept = list(islice(findings, FINDINGS_MAX))
    return kept, sum(1 for _ in findings)


def merge_log_parts(
    results: Sequence[LogPartResult], check_again: Callable[[int, Mapping[QueueKey, int]], LogPartResult]
) -> tuple[LogState, list[LogPartResult]]:
    """Put the parts together, in the order of the log.

    A part cannot know the queue offsets of those before it. Where an offset does not follow, `check_again` is called with the
    part's number and the offsets before it, and its result is taken instead.
    """
    lasts: dict[QueueKey, int] = {}
    fitting: dict[QueueKey, int] = {}
    damaged: list[DamagedRange] = []
    taken: list[LogPartResult] = []
    for number, part in enumerate(results):
        result = part
        if any(one.first <= lasts.get(QueueKey(one.topic, one.queue_id), -1) for one in part.log_queues):
            result = check_again(number, lasts)
        for one in result.log_queues:
            key = QueueKey(one.topic, one.queue_id)
            lasts[key] = max(lasts.get(key, -1), one.last)
            fitting[key] = fitting.get(key, 0) + one.fitting
        damaged += result.damaged
        taken.append(result)
    end = min((result.end for result in taken if result.is_end), default=0)
    queues = [QueueOfLog(*key, 0, lasts[key], count) for key, count in sorted(fitting.items())]
    return LogState(end=end, damaged=damaged, fitting=queues), taken


def plan_other_parts(path: Path | str) -> list[OtherPart]:
    """Return parts for the queues, the index files, and everything else."""
    with OfflineStore(path) as store:
        keys = [(key.topic, key.queue_id) for key in store.queue_keys()]
        names = store.index.names()
    return [
        *(OtherPart(queues=keys[at : at + QUEUES_OF_A_PART]) for at in range(0, len(keys), QUEUES_OF_A_PART)),
        *(OtherPart(index_files=[name]) for name in names),
        OtherPart(rest=True),
    ]


def state_for(log: LogState, part: OtherPart) -> LogState:
    """Return what a part needs of the log's state: a store may have very many queues."""
    keys = set(part.queues)
    return LogState(
        end=log.end,
        damaged=[] if part.queues else log.damaged,
        fitting=[one for one in log.fitting if (one.topic, one.queue_id) in keys],
    )


def check_other_part(path: Path | str, log: LogState, part: OtherPart) -> PartResult:
    """Verify queues, index files, or everything else, against what the log is."""
    counts = VerifyCounts()
    with OfflineStore(path) as store:
        check = Verification(store, counts, 0)
        check.end, check.damaged = log.end, [DamagedRange(*one) for one in log.damaged]
        for one in log.fitting:
            key = QueueKey(one.topic, one.queue_id)
            check.queues[key] = QueueCheck(store.queue(*key), fitting=one.fitting, last=one.last)
        findings, more = _take(_other_findings(check, part))
    return PartResult(findings=findings, more=more, queues=counts.queues, index_entries=counts.index_entries)


def _other_findings(check: Verification, part: OtherPart) -> Iterator[Finding]:
    for topic, queue_id in part.queues:
        yield from check.check_queue(QueueKey(topic, queue_id))
    if part.index_files:
        yield from check.check_index(part.index_files)
    if part.rest:
        yield from check.check_log_files()
        yield from check.check_rest()


def add_results(results: Iterable[PartResult]) -> PartResult:
    """Return the sum of all parts, findings in the order of files and positions."""
    total = PartResult()
    for one in results:
        total.findings += one.findings
        total.more += one.more
        total.messages += one.messages
        total.queues += one.queues
        total.index_entries += one.index_entries
    total.findings.sort()
    return total
