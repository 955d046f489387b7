"""Reports of jobs, made up: of each job's own presentation an empty one, a normal one, and one that exceeds every bound.

Tests open them in a browser, and `tools.report_pictures` takes their pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from skyrocket.client.queues import Queue
from skyrocket.doctor.backlog.look import ClusterLook, GroupLook, MemberLook, QueueLook
from skyrocket.doctor.backlog.measure import measure
from skyrocket.doctor.backlog.rules import find_advice
from skyrocket.pipelines.archive.batch_record import AddedFile, BatchRecord, LostMessages
from skyrocket.pipelines.archive.presentation import archive_page
from skyrocket.pipelines.archive.summary import ArchiveSummary
from skyrocket.pipelines.audit.findings import AuditReport, NumberRun, StreamAudit, StreamKey, audit_stream
from skyrocket.pipelines.audit.presentation import audit_page
from skyrocket.pipelines.backlog.latency import summarize
from skyrocket.pipelines.backlog.presentation import BacklogHistory, BacklogReport, backlog_page
from skyrocket.pipelines.deadletters.letters import DeadLetter
from skyrocket.pipelines.deadletters.presentation import letters_page
from skyrocket.pipelines.deadletters.triage import Triage
from skyrocket.pipelines.drain.drain_record import DrainedQueue, DrainRecord
from skyrocket.pipelines.drain.presentation import drain_page, proof_page
from skyrocket.pipelines.drain.proof import Check, DrainProof
from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.pipelines.replay.job import QueueCounts, ReplaySummary
from skyrocket.pipelines.replay.presentation import replay_page
from skyrocket.pipelines.verify.presentation import verify_page
from skyrocket.pipelines.verify.result import VerifyResult
from skyrocket.report import ReportPage

NOW_MS: Final = 1_800_000_000_000
CLUSTER: Final = "10.0.0.1:9876"
LONG: Final = "a-topic-with-a-rather-long-name-" * 3


def _history(looks: int) -> ProgressHistory:
    history = ProgressHistory()
    for number in range(looks):
        history.add(NOW_MS - 2_000 * (looks - 1 - number), 40_000 * number + number % 7 * 3_000)
    return history


# --- archive


def _archive(topics: list[str], hours: int, lost: int, looks: int) -> ReportPage:
    summary = ArchiveSummary("/mnt/archive", "parquet", "8d1f…")
    files = [
        AddedFile(
            staged="staged",
            path="path",
            topic=topic,
            hour=f"2027-01-{14 + hour // 24:02}-{hour % 24:02}",
            rows=rows,
            size_bytes=rows * 310,
            first_ms=NOW_MS,
            last_ms=NOW_MS,
        )
        for number, topic in enumerate(topics)
        for hour in range(hours)
        for rows in [round(20_000 * (2 + math.sin(hour / 4 + number)))]
    ]
    ranges = [LostMessages(topic="orders", broker="broker-a", queue_id=n, start=10 * n, stop=10 * n + 15) for n in range(lost)]
    if files:
        summary.add(BatchRecord(archive_id="8d1f", batch=17, kind="append", offsets={}, added=files, lost=ranges))
    return archive_page(summary, _history(looks), CLUSTER, NOW_MS)


# --- replay


def _replay(queues: int, looks: int, topic: str = "orders") -> ReportPage:
    counts = {
        Queue(topic, f"broker-{number // 8}", number % 8): QueueCounts(
            90_000 + 7_000 * (number % 5), 90_000, Queue(f"{topic}-again", f"broker-{number // 8}", number % 8)
        )
        for number in range(queues)
    }
    return replay_page(ReplaySummary("archive /mnt/archive", "5b2c", counts), _history(looks), CLUSTER, NOW_MS, rate=20_000)


# --- audit


def _stream(producer: str, number: int, faults: int) -> StreamAudit:
    gap = 20
    runs = [NumberRun(1 + gap * n, gap * (n + 1) - n % 3, gap * n, is_consumed=n < faults // 2) for n in range(faults + 1)]
    again = NumberRun(1 + gap, 3 + gap, gap * (faults + 2)) if faults else NumberRun(21, 40, 20)
    return audit_stream(StreamKey(producer, Queue("orders", "broker-a", number)), [*runs, again], has_group=True)


def _audit(producers: int, queues: int, faults: int) -> ReportPage:
    streams = [
        _stream(f"{0x9F1C2B7E55AA01D3 + producer:x}", number, faults * ((producer + number) % 2))
        for producer in range(producers)
        for number in range(queues)
    ]
    unstamped = {Queue("orders", "broker-a", number): 3 for number in range(min(queues, 2))}
    report = AuditReport(streams, unstamped, sum(stream.stored for stream in streams))
    return audit_page(report, ["orders"], CLUSTER, NOW_MS)


# --- backlog


def _look(at_ms: int, groups: int, queues: int, step: int) -> ClusterLook:
    looks = []
    for group in range(groups):
        name = ("coupons", "sms", "push")[group] if group < 3 else f"group-with-a-rather-long-name-{group}"
        rows = [
            QueueLook(
                Queue("orders", "broker-a", n),
                0,
                50_000 + 90 * step,
                49_000 - 700 * n + (20 + 30 * group) * step,
                at_ms - 141_000,
            )
            for n in range(queues)
        ]
        members = [
            MemberLook(f"10.0.0.{n + 1}@4711", f"10.0.0.{n + 1}:50123", queues=frozenset(row.queue for row in rows[n::3]))
            for n in range(3)
        ]
        looks.append(GroupLook(name, rows, members, False))
    return ClusterLook(at_ms, looks, {"broker-a": 72 * 3_600_000})


def _backlog(groups: int, queues: int, steps: int) -> ReportPage:
    history, report = BacklogHistory(), BacklogReport(NOW_MS, ())
    for step in range(steps):
        before, now = (_look(NOW_MS + 2_000 * at, groups, queues, at) for at in (step - 1, step))
        measured = measure(before, now)
        stored = summarize("send to store", "orders", [1 + n * n % 90 for n in range(200)])
        handled = summarize("end to end", "coupons", [20 + n * n % 900 for n in range(200)])
        report = BacklogReport(
            now.at_ms, measured, find_advice(measured, now.reserved_ms), [one for one in (stored, handled) if one is not None]
        )
        history.add(report)
    return backlog_page(report, history, CLUSTER)


# --- dead letters


def _letters(count: int, reasons: list[str], body: bytes, origin: str = "orders") -> ReportPage:
    triage = Triage(NOW_MS)
    for number in range(count):
        triage.add(
            DeadLetter(
                topic=f"%DLQ%{('coupons', 'sms')[number % 2]}",
                broker_name="broker-a",
                queue_id=0,
                queue_offset=number,
                log_offset=512 * number,
                origin_topic=origin,
                died_ms=NOW_MS - number * number * 40_000,
                born_ms=NOW_MS - number * number * 40_000 - 9_000,
                message_id=f"7F000001000018B4AAC2{number:012X}",
                tag="paid",
                keys=(f"o-{number}",),
                retries=16,
                properties={"exception": reasons[number % len(reasons)]},
                body=body,
            )
        )
    return letters_page(triage, ["%DLQ%coupons", "%DLQ%sms"][: 2 * min(count, 1)], CLUSTER, NOW_MS)


# --- drain and verify


def _record(queues: int, topics: list[str]) -> DrainRecord:
    drained = [
        DrainedQueue(
            topic=topic,
            broker="broker-a",
            queue_id=n,
            start=100,
            stop=4_100 + 70 * n,
            archived=4_000 + 70 * n,
            selected=3_000,
            passed_by=100 + 3 * n,
        )
        for topic in topics
        for n in range(queues)
    ]
    return DrainRecord(
        id="5b2c",
        group="coupons",
        cluster={"nameserver": CLUSTER},
        topics=topics,
        selected="tags = 'paid'",
        subscribed="true",
        by="ann@ops-1",
        began="2027-01-15T08:00:00+00:00",
        state="moved",
        moved="2027-01-15T08:02:00+00:00",
        queues=drained,
    )


def _proof(queues: int, problems: int) -> ReportPage:
    record = _record(queues, ["orders"] if queues else [])
    found = tuple(f"Offset {100 + n} of queue {n % 8} of orders at broker-a is not in the archive." for n in range(problems))
    checks = [Check("messages in the files", 32_000, 32_000 - problems, found), Check("messages replayed", 24_000, 24_000)]
    return proof_page(DrainProof("/mnt/drained", record, checks if queues else []))


def _verify(targets: int, problems: int) -> ReportPage:
    return verify_page(
        [
            VerifyResult(
                "store",
                f"/data/broker-{number}/store",
                {"messages": 1_200_000 + number, "queue entries": 1_200_000, "index entries": 800_000},
                [
                    f"consumequeue/orders/{n}/00000000000000000000: entry {n * 17} points to another message."
                    for n in range(problems)
                ],
                remarks=["The last 312 bytes of the log are torn: the next start cuts them off."] if number else [],
            )
            for number in range(targets)
        ]
    )


_TOPICS: Final = ["orders", "bills"]
_MANY: Final = [f"{LONG}{number}" for number in range(60)]
_REASONS: Final = ["order 17 not found", "order 18 not found", "timeout after 3.5 s"]

_MANY_REASONS: Final = [f"{chr(97 + n % 26) * (1 + n // 26)} went wrong {'and so on ' * 40}" for n in range(150)]

JOB_PAGES: Final[dict[str, Callable[[], ReportPage]]] = {
    "archive-empty": lambda: _archive([], 0, 0, 0),
    "archive-normal": lambda: _archive(_TOPICS, 24, 1, 60),
    "archive-large": lambda: _archive(_MANY, 400, 1_000, 5_000),
    "replay-empty": lambda: _replay(0, 0),
    "replay-normal": lambda: _replay(8, 60),
    "replay-large": lambda: _replay(2_000, 5_000, LONG),
    "audit-empty": lambda: _audit(0, 0, 0),
    "audit-normal": lambda: _audit(3, 4, 9),
    "audit-large": lambda: _audit(200, 30, 40),
    "backlog-empty": lambda: _backlog(0, 0, 0),
    "backlog-normal": lambda: _backlog(3, 8, 60),
    "backlog-large": lambda: _backlog(80, 60, 3),
    "deadletters-empty": lambda: _letters(0, _REASONS, b""),
    "deadletters-normal": lambda: _letters(60, _REASONS, b'{"order":17,"user":"u-42"}'),
    "deadletters-large": lambda: _letters(2_000, _MANY_REASONS, b"\xff<b>" * 9_000, LONG),
    "drain-empty": lambda: drain_page(_record(0, []), "/mnt/drained"),
    "drain-normal": lambda: drain_page(_record(8, _TOPICS), "/mnt/drained"),
    "drain-large": lambda: drain_page(_record(60, _MANY), "/mnt/drained"),
    "proof-empty": lambda: _proof(0, 0),
    "proof-normal": lambda: _proof(8, 0),
    "proof-large": lambda: _proof(8, 5_000),
    "verify-empty": lambda: _verify(0, 0),
    "verify-normal": lambda: _verify(3, 0),
    "verify-large": lambda: _verify(40, 300),
}
