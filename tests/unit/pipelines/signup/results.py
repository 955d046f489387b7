"""Results of a sign-up demo, made up: a clean one, one with a loss, an empty one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from skyrocket.client.queues import Queue
from skyrocket.pipelines.audit.findings import AuditReport, NumberRun, StreamKey, audit_stream
from skyrocket.pipelines.signup.effect_ledger import LedgerTotals
from skyrocket.pipelines.signup.findings import ServiceFindings, find_problems
from skyrocket.pipelines.signup.funnel import StepCount, make_funnel
from skyrocket.pipelines.signup.latencies import make_histogram
from skyrocket.pipelines.signup.presentation import demo_page
from skyrocket.pipelines.signup.result import DemoHistory, DemoResult, LetterRow, ServiceResult
from skyrocket.pipelines.signup.services import SERVICES
from skyrocket.pipelines.signup.sign_ups import DemoSettings
from skyrocket.report import ReportPage

BEGAN_MS = 1_800_000_000_000
USERS = 1_350


def clean_result() -> DemoResult:
    """A demo as it should be."""
    history = DemoHistory()
    for step in range(100):
        at_ms = BEGAN_MS + 500 * step
        history.add_backlog("sms", at_ms, round(3 + 2 * math.sin(step)))
        history.add_backlog("coupons", at_ms, min(max(0, 15 * (step - 24)), max(3, 360 - 40 * (step - 48))))
        if step > 60:
            history.add_backlog("red-packets", at_ms, max(2, 900 - 60 * (step - 60)))
    history.events = [(BEGAN_MS + 12_000, "coupons: killed with kill -9"), (BEGAN_MS + 24_000, "coupons: started again")]
    runs = [NumberRun(1, USERS + 60, 0, is_consumed=True)]
    stream = audit_stream(StreamKey("page", Queue("signup", "broker-a", 0)), runs, sent=USERS + 60, has_group=True)
    counts = [
        StepCount(BEGAN_MS + 10_000 * minute, step, 100 if step == "push" else 270, 12 if step == "registered" else 0)
        for minute in range(5)
        for step in ("registered", *(service.name for service in SERVICES))
    ]
    return DemoResult(
        settings=DemoSettings(),
        cluster="127.0.0.1:9876",
        began_ms=BEGAN_MS,
        in_line=make_histogram("in-line", [150 + number % 300 for number in range(450)]),
        queued=make_histogram("over the queue", [2 + number % 17 for number in range(USERS + 60)]),
        failed_sends=0,
        duplicates=60,
        late=60,
        poison=1,
        history=history,
        services=[service_result(service.name) for service in SERVICES],
        letters=[LetterRow("sms", "u-000007", 2, BEGAN_MS + 9_000, b'{"user":"u-000<007>')],
        funnel=make_funnel(counts),
        audit=AuditReport([stream], messages=USERS + 60),
        consumed={service.name: USERS + 60 for service in SERVICES},
        problems=[],
        drained_s=3.25,
    )


def service_result(name: str) -> ServiceResult:
    """What a service did that served everybody."""
    expected = 500 if name == "push" else USERS
    deliveries = Counter({"served": expected, "repeated": 61, "failed": 40, "refused": 3})
    return ServiceResult(name, expected, LedgerTotals(expected, 1, deliveries), 1, range(60, 60 + expected), ServiceFindings())


def lossy_result() -> DemoResult:
    """A demo that has lost a user's coupon, and done another's twice."""
    clean = clean_result()
    broken = replace(service_result("coupons"), findings=ServiceFindings(missing=["u-000013"], twice=["u-000014"]))
    services = [broken if one.name == "coupons" else one for one in clean.services]
    return replace(clean, services=services, problems=find_problems(clean.audit, {one.name: one.findings for one in services}))


def empty_result() -> DemoResult:
    """A demo in which nothing came to pass."""
    none = make_histogram("none", [])
    idle = [ServiceResult(service.name, 0, LedgerTotals(0, 0, Counter()), 0, (), ServiceFindings()) for service in SERVICES]
    return replace(
        clean_result(),
        in_line=none,
        queued=none,
        history=DemoHistory(),
        services=idle,
        letters=[],
        funnel=[],
        audit=AuditReport(()),
    )


def clean_page() -> ReportPage:
    """The page of a clean result."""
    return demo_page(clean_result())
