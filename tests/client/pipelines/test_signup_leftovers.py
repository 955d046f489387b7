"""The topics and groups that a killed run of the sign-up demo left, at our servers and Apache's."""

from __future__ import annotations

import asyncio
import time

from skyrocket.client import Admin
from skyrocket.pipelines.signup.demo_names import RUN_S_MAX, DemoNames, find_leftovers, remove_leftovers
from tests.client.servers import Servers
from tests.support.waiting import WAIT_S_MAX

HOUR_S = 3_600


def test_only_runs_that_must_have_ended_are_left_over():
    run = DemoNames.draw(1_000_000_000, 60)
    mine = [run.topic, run.steps_topic, run.group("red-packets")]
    others = ["signup", "signup-orders", "signup-2027", "my-" + run.topic, run.topic + "_x", "signup-0123456789"]
    assert find_leftovers([*mine, *others], 1_000_000_000 + 60 + RUN_S_MAX) == []
    assert find_leftovers([*mine, *others], 1_000_000_000 + 61 + RUN_S_MAX) == mine


async def test_a_run_removes_what_killed_runs_left_and_leaves_those_that_go_on(servers: Servers):
    killed, running = DemoNames.draw(time.time() - HOUR_S, 60), DemoNames.draw(time.time(), 60)
    async with Admin(servers.nameserver) as admin:
        for names in (killed, running):
            for topic in (names.topic, names.steps_topic):
                await admin.topics.create(topic, queues=1)
            await admin.groups.create(names.group("sms"))
        removed = await remove_leftovers(admin, time.time())
        assert sorted(removed) == sorted([killed.topic, killed.steps_topic, killed.group("sms")])

        async def left() -> list[str]:
            names = [*await admin.topics.names(internal=True), *await admin.groups.names()]
            return sorted(name for name in names if killed.run in name or running.run in name)

        expected = sorted([running.topic, running.steps_topic, running.group("sms")])
        async with asyncio.timeout(WAIT_S_MAX):
            while await left() != expected:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
