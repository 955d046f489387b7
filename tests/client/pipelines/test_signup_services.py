"""Services of the sign-up demo as processes, with our servers and Apache's: each effect once, also through kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import Admin, Message, Producer
from skyrocket.pipelines.deadletters.job import read_letters
from skyrocket.pipelines.errors import PipelineError
from skyrocket.pipelines.signup.service_process import ServiceOrders
from skyrocket.pipelines.signup.service_runner import ServiceRunner
from skyrocket.pipelines.signup.services import BY_NAME, RETRIES_MAX
from skyrocket.pipelines.signup.sign_ups import DemoSettings, draw_sign_ups, encode_body, parse_body, split_users
from skyrocket.protocol.system_names import dead_letter_topic
from tests.client.servers import Servers, reader
from tests.support.waiting import wait_until

SETTINGS = DemoSettings(seconds=10, rate=20, seed=3, minute_s=2)
SIGN_UPS = draw_sign_ups(SETTINGS, 10, "u")
SOUND, POISON = split_users(SIGN_UPS)
ATTEMPTS_MAX = RETRIES_MAX + 1


class Scene:
    """Topics with the load of SIGN_UPS, and the runner of one service."""

    def __init__(self, servers: Servers, service: str, folder: Path) -> None:
        self.servers = servers
        self.topic, self.steps_topic = servers.topic("signup"), servers.topic("steps")
        self.group = servers.topic(service)
        self.cluster = {"nameserver": servers.nameserver}
        orders = ServiceOrders(
            service=service,
            cluster=self.cluster,
            topic=self.topic,
            steps_topic=self.steps_topic,
            group=self.group,
            ledger=str(folder / "ledger.db"),
            seed=SETTINGS.seed,
        )
        asyncio.run(self._create_topics())
        self.runner = ServiceRunner(orders, folder)

    async def _create_topics(self) -> None:
        async with Admin(self.servers.nameserver) as admin:
            for topic in (self.topic, self.steps_topic):
                await admin.topics.create(topic, queues=2)

    def send(self) -> None:
        """Send the load at once: a service serves it at its own pace."""

        async def send_all() -> None:
            async with Producer(self.servers.nameserver) as producer:
                for one in SIGN_UPS:
                    await producer.send(Message(self.topic, encode_body(one, 1, 2), tag=one.channel, keys=[one.user]))

        asyncio.run(send_all())

    def wait_for_effects(self, count: int) -> None:
        def is_so() -> bool:
            self.runner.check()
            return self.runner.ledger.totals(ATTEMPTS_MAX).effects >= count

        wait_until(is_so, lambda: f"{self.runner.ledger.totals(ATTEMPTS_MAX)} of {count} effects")

    def dead_users(self) -> set[str]:
        topic = dead_letter_topic(self.group)

        async def exists() -> bool:
            async with Admin(self.servers.nameserver) as admin:
                return topic in await admin.topics.names(internal=True)

        return {one.keys[0] for one in read_letters(self.cluster, [topic])} if asyncio.run(exists()) else set()

    def told_users(self) -> set[str]:
        """Return the users of whose step the service has told."""

        async def read() -> set[str]:
            async with reader(self.servers) as reading:
                return {parse_body(one.body).user for one in await reading.all(self.steps_topic)}

        return asyncio.run(read())


@pytest.fixture
def scene(servers: Servers, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(servers, getattr(request, "param", "coupons"), tmp_path)
    yield made
    if made.runner.is_running:
        made.runner.kill()
    made.runner.ledger.close()


def test_the_load_has_duplicates_and_poison():
    assert any(one.is_duplicate for one in SIGN_UPS)
    assert POISON


def test_a_service_that_is_killed_again_and_again_has_each_effect_once(scene: Scene):
    scene.send()
    for served in (10, 60, 120):
        scene.runner.start()
        scene.wait_for_effects(served)
        scene.runner.kill()
        assert not scene.runner.is_running
    scene.runner.start()
    scene.wait_for_effects(len(SOUND))
    wait_until(lambda: scene.dead_users() >= set(POISON), "the poison messages are not among the dead letters")
    wait_until(lambda: scene.told_users() >= set(SOUND), "the service has not told of each step")
    ledger, duplicates = scene.runner.ledger, sum(one.is_duplicate for one in SIGN_UPS)
    wait_until(lambda: ledger.totals(ATTEMPTS_MAX).deliveries["repeated"] >= duplicates, "a duplicate has not come")
    scene.runner.stop()
    assert ledger.effects() == dict.fromkeys(SOUND, 1)
    assert ledger.totals(ATTEMPTS_MAX).given_up == len(POISON)
    assert scene.dead_users() == set(POISON)


@pytest.mark.parametrize("scene", ["push"], indirect=True)
def test_a_service_gets_its_tag_only(scene: Scene):
    scene.send()
    scene.runner.start()
    expected = BY_NAME["push"].expects(SOUND)
    scene.wait_for_effects(len(expected))
    scene.runner.stop()
    assert scene.runner.ledger.effects() == dict.fromkeys(expected, 1)


def test_a_service_ends_in_order_when_the_job_is_gone(ours: Servers, tmp_path: Path):
    scene = Scene(ours, "sms", tmp_path)
    scene.send()
    scene.runner.start()
    scene.wait_for_effects(1)
    process = scene.runner._take_process()  # closes its standard input, as the end of the job does
    assert process.wait(180) == 0
    scene.runner.ledger.close()


def test_a_service_that_dies_by_itself_is_reported_in_a_sentence(ours: Servers, tmp_path: Path):
    scene = Scene(ours, "sms", tmp_path)
    scene.runner.start()
    pid = scene.runner.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    def is_reported() -> bool:
        try:
            scene.runner.check()
        except PipelineError as error:
            return str(error).startswith("The sms service ended with exit code -9: ")
        return False

    wait_until(is_reported, "the end of the process is not noticed")
    scene.runner.stop()  # also of a process that has ended
    assert not scene.runner.is_running
    scene.runner.ledger.close()
