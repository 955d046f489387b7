"""`/healthz` and `/readyz` through the life of a server, and an event loop that stands still."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skyrocket.metrics.family import counter, single
from skyrocket.metrics.health import Health, Phase
from skyrocket.metrics.monitoring import Monitoring
from skyrocket.metrics.page import MetricsPage
from tests.support.processes.http_client import Answer, ask, ask_async, scrape

TURNS = counter("turns_total", "Turns.")


@asynccontextmanager
async def monitored(**limits: float) -> AsyncIterator[Monitoring]:
    monitoring = Monitoring(Health("the broker"), **limits)
    monitoring.start("127.0.0.1", 0)
    try:
        yield monitoring
    finally:
        await monitoring.close()


async def test_a_server_is_alive_in_every_phase_and_ready_while_it_serves():
    async with monitored() as monitoring:
        seen = []
        for phase in Phase:
            monitoring.health.phase = phase
            seen += [await ask_async(monitoring.port, "/healthz"), await ask_async(monitoring.port, "/readyz")]
        assert [(one.status, one.text) for one in seen] == [
            (200, "starting\n"),
            (503, "The broker is starting.\n"),
            (200, "serving\n"),
            (200, "ready\n"),
            (200, "stopping\n"),
            (503, "The broker is stopping.\n"),
        ]


async def test_readyz_has_every_reason():
    async with monitored() as monitoring:
        monitoring.health.phase = Phase.SERVING
        monitoring.health.reasons += [lambda: "The disk is 95 % full.", lambda: None, lambda: "No leader is known."]
        answer = await ask_async(monitoring.port, "/readyz")
        assert (answer.status, answer.text) == (503, "The disk is 95 % full.\nNo leader is known.\n")


async def test_pages_before_and_after_the_server_has_its_parts():
    async with monitored() as monitoring:
        assert (await ask_async(monitoring.port, "/metrics")).status == 503
        monitoring.page = MetricsPage({}, lambda: 10, [lambda: [single(TURNS, 5)]])
        assert (await scrape(monitoring.port)).value("turns_total") == 5


async def test_an_event_loop_that_stands_still_is_not_healthy():
    async with monitored(live_s=0.1, page_s=0.1) as monitoring:
        monitoring.health.phase = Phase.SERVING
        monitoring.page = MetricsPage({}, lambda: 10, [])
        answers: list[Answer] = []
        asking = threading.Thread(
            target=lambda: answers.extend(ask(monitoring.port, path) for path in ("/healthz", "/readyz", "/metrics"))
        )
        asking.start()
        while asking.is_alive():  # the loop does nothing else
            time.sleep(0.01)  # noqa: ASYNC251
        assert [answer.status for answer in answers] == [503, 503, 503]
        assert "The event loop has not answered for 0.1 s." in answers[0].text
        assert (await ask_async(monitoring.port, "/healthz")).status == 200


async def test_a_recovery_that_holds_up_the_event_loop_is_alive():
    async with monitored(live_s=0.1) as monitoring:
        answers: list[Answer] = []
        asking = threading.Thread(target=lambda: answers.append(ask(monitoring.port, "/healthz")))
        asking.start()
        while asking.is_alive():
            time.sleep(0.01)  # noqa: ASYNC251
        assert answers[0].text == "starting\n"


async def test_a_page_that_is_asked_for_a_hundred_times_is_built_once():
    built = 0

    def collect():
        nonlocal built
        built += 1
        yield single(TURNS, built)

    page = MetricsPage({}, lambda: 10, [collect])
    pages = await asyncio.gather(*(page.render() for _ in range(100)))
    assert built == 1
    assert len(set(pages)) == 1
