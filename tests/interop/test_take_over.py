"""One directory, two brokers by turns: Apache's stops or dies, ours starts on its files with its name and ports; and the reverse.

Consumers go on from their offsets: nothing is lost, and nothing comes twice but what was not committed. Topics, groups and
offsets are what they were, and what one broker keeps that the other does not know is not touched.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skyrocket.protocol.bodies import (
    ConsumerOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigAndMappingSerializeWrapper,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.admin import Admin, Message
from tests.support.apache.cluster import ApacheCluster, JavaProcess, send_request
from tests.support.brokers.running_broker import pull_header, records, send_header
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

TOPIC, GROUP, PRODUCERS = "Orders", "Consumers", "Producers"
OUR_FILES = re.compile(  # what we write: everything else in an Apache's directory is not ours to touch
    r"(abort|checkpoint|lock|checksums.*|damaged.*|commitlog/.*|consumequeue/.*|index/.*|timerwheel.*|timerlog/.*"
    r"|config/((topics|subscriptionGroup|consumerOffset|delayOffset)\.json|timercheck|timermetrics)(\.bak)?)"
)


class House:
    """A store directory, and whichever broker lives in it."""

    def __init__(self, home: Path, cluster: ApacheCluster, admin: Admin) -> None:
        self.home = home
        self.store = home / "store"
        self.cluster = cluster
        self.admin = admin
        self.port = free_port(-2, 1)
        self.broker: JavaProcess | SkyrocketBroker | None = None
        self._tenants = 0
        self.settings = {
            **SMALL_STORE,
            "brokerClusterName": "Test",
            "brokerName": "house",
            "listenPort": self.port,
            "flushConsumerOffsetInterval": 1000,
        }

    def apache(self) -> None:
        self.broker = self.cluster.broker(self.store, self.settings)

    def ours(self) -> None:
        self._tenants += 1
        self.broker = SkyrocketBroker(self.home / f"ours{self._tenants}", self.nameserver, self.settings, self.store)

    def stop(self) -> None:
        assert self.broker is not None
        self.broker.stop()

    def kill(self) -> None:
        assert self.broker is not None
        self.broker.kill()

    @property
    def nameserver(self) -> str:
        return self.cluster.nameserver

    def mqadmin(self, *arguments: str) -> str:
        return self.admin.admin(*arguments, "-n", self.nameserver)

    def ask(self, code: RequestCode) -> bytes:
        answer = send_request(("127.0.0.1", self.port), Command(code, opaque=1))
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.body

    def tables(self) -> tuple[object, object]:
        """Every topic and every group, as the broker tells another one."""
        topics = decode(self.ask(RequestCode.GET_ALL_TOPIC_CONFIG), TopicConfigAndMappingSerializeWrapper)
        groups = decode(self.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), SubscriptionGroupWrapper)
        return topics.topic_config_table, (groups.subscription_group_table, groups.forbidden_table)

    def shown(self) -> list[str]:
        """What an administrator sees of messages and progress. Rates start anew with a broker."""
        commands = (
            ("topicStatus", "-t", TOPIC),
            ("topicRoute", "-t", TOPIC),
            ("consumerProgress", "-g", GROUP, "-t", TOPIC),
            ("consumerProgress", "-g", "Waiting", "-t", TOPIC),
            ("getConsumerConfig", "-g", "Waiting"),
        )
        return [re.sub(r"TPS: \S+", "TPS: RATE", self.mqadmin(*command)) for command in commands]

    def persisted(self, group: str = GROUP) -> dict[int, int]:
        """A group's offsets in the file: what a broker that starts now goes on from."""
        path = self.store / "config" / "consumerOffset.json"
        if not path.exists():
            return {}
        saved = decode(path.read_bytes(), ConsumerOffsetSerializeWrapper)
        return dict(saved.offset_table.get(f"{TOPIC}@{group}", {}))

    def not_ours(self) -> dict[str, str]:
        found = {}
        for path in sorted(each for each in self.store.rglob("*") if each.suffix != ".tmp"):  # Apache's writes those at any time
            name = str(path.relative_to(self.store))
            if path.is_file() and not OUR_FILES.fullmatch(name):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with ApacheCluster(tmp_path / "apache") as cluster:
        admin = Admin(tmp_path / "admin")
        made = House(tmp_path, cluster, admin)
        try:
            yield made
        finally:
            admin.kill()
            if isinstance(made.broker, SkyrocketBroker):
                made.broker.__exit__(None, None, None)


def numbers(messages: list[Message]) -> set[int]:
    return {message.number for message in messages}


def consume_all(house: House, sent: list[Message]) -> None:
    """Until the group has everything; then the consumer leaves, and commits."""
    house.admin.consume(house.nameserver, GROUP, TOPIC)
    wait_until(lambda: numbers(house.admin.received(GROUP)) >= numbers(sent), "the group gets everything")
    house.admin.stop_client(GROUP)


def prepare(house: House) -> None:
    for command in (
        ("updateTopic", "-c", "Test", "-t", TOPIC, "-r", "4", "-w", "4"),
        ("updateTopic", "-c", "Test", "-t", "Typed", "-r", "3", "-w", "2", "-p", "4", "-a", "+message.type=FIFO"),
        ("updateSubGroup", "-c", "Test", "-g", "Waiting", "-r", "7", "-m", "false"),
    ):
        printed = house.mqadmin(*command)
        assert "success" in printed, printed
    house.admin.produce(house.nameserver, PRODUCERS)


def test_each_takes_over_from_the_other_when_it_stops(house: House):
    """Apache's, ours, Apache's, ours. Each finds what the one before left, and a consumer that came in between goes on."""
    house.apache()
    prepare(house)
    sent = house.admin.send(PRODUCERS, TOPIC, 0, 60)
    consume_all(house, sent)
    house.mqadmin("resetOffsetByTime", "-g", "Waiting", "-t", TOPIC, "-s", "0")

    for turn, (enter, is_ours) in enumerate(((house.ours, True), (house.apache, False), (house.ours, True)), start=1):
        sent += house.admin.send(PRODUCERS, TOPIC, turn * 100, 40)  # nobody has consumed these yet
        tables, shown = house.tables(), house.shown()
        assert "Consume Diff Total: 40" in shown[2], shown[2]
        house.stop()
        left = house.not_ours()
        enter()
        assert house.tables() == tables, "topics and groups"
        assert house.shown() == shown
        sent += house.admin.send(PRODUCERS, TOPIC, turn * 100 + 40, 20)
        consume_all(house, sent)
        received = house.admin.received(GROUP)
        assert sorted(received) == sorted(sent), "each once"
        if is_ours:
            assert house.not_ours() == left, "what only Apache's knows"
            assert any("consumerOrderInfo" in name for name in left), sorted(left)
    house.stop()
    assert isinstance(house.broker, SkyrocketBroker)
    assert house.broker.complaints() == []


@pytest.mark.parametrize("first", ["apache", "ours"])
def test_each_takes_over_from_the_other_when_it_is_killed(house: House, first: str):
    """In the middle of sending and consuming. Clients that live wait, and go on with the one that comes; a consumer that died
    with the broker goes on from what is in the file of offsets."""
    enter, successor = (house.apache, house.ours) if first == "apache" else (house.ours, house.apache)
    enter()
    prepare(house)
    sent = house.admin.send(PRODUCERS, TOPIC, 0, 100)
    house.admin.consume(house.nameserver, GROUP, TOPIC)
    fallen = Admin(house.home / "fallen")
    fallen.consume(house.nameserver, "Fallen", TOPIC)
    wait_until(lambda: all(sum(house.persisted(group).values()) for group in (GROUP, "Fallen")), "offsets are persisted")
    tables = house.tables()

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(house.admin.send, PRODUCERS, TOPIC, 100, 2000)
        time.sleep(0.3)
        house.kill()
        fallen.kill()
        assert not sending.done(), "it was to be killed in the middle"
        committed, of_fallen = house.persisted(), house.persisted("Fallen")
        successor()
        sent += sending.result()

    everything = set(range(2100))
    wait_until(lambda: numbers(house.admin.received(GROUP)) >= everything, "the group gets everything")
    received = house.admin.received(GROUP)
    assert {message.place for message in received} >= {message.place for message in sent}, "nothing is lost"
    assert len({message.place for message in sent}) == len(sent), "no place is given twice"
    repeated = [place for place, count in Counter(message.place for message in received).items() if count > 1]
    assert all(offset >= committed[queue_id] for _, queue_id, offset in repeated), (repeated, committed)
    assert house.tables() == tables

    house.admin.consume(house.nameserver, "Fallen", TOPIC)
    rest = {message.place for message in received if message.offset >= of_fallen.get(message.queue_id, 0)}
    wait_until(lambda: len(house.admin.received("Fallen")) >= len(rest), "the other group gets the rest")
    house.admin.stop_client("Fallen")
    assert sorted(message.place for message in house.admin.received("Fallen")) == sorted(rest), of_fallen

    house.admin.stop_client(GROUP)
    for group in (GROUP, "Fallen"):
        assert "Consume Diff Total: 0" in house.mqadmin("consumerProgress", "-g", group, "-t", TOPIC)


DELAYS = {"messageDelayLevel": "1s 8s 12s"}


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("first", ["apache", "ours"])
def test_delayed_messages_are_delivered_by_the_one_that_takes_over(house: House, first: str, how: str):
    """Some are delivered by the first, the others wait in three levels when it goes."""
    house.settings = {**house.settings, **DELAYS}
    enter, successor = (house.apache, house.ours) if first == "apache" else (house.ours, house.apache)
    enter()
    prepare(house)
    due_ms: dict[str, int] = {}
    for number in range(20):
        level = (1, 2, 3)[number % 3]
        due_ms[f"before-{number}"] = send_delayed(house.port, f"before-{number}", level)
    wait_until(lambda: len(delivered(house.port)) >= 7, "level 1 is delivered by the first")
    time.sleep(1.5)  # its progress is on disk: Apache's keeps it every ten seconds, and at the end
    (house.stop if how == "stopped" else house.kill)()
    successor()
    for number in range(6):
        due_ms[f"after-{number}"] = send_delayed(house.port, f"after-{number}", 1 + number % 2)
    wait_until(lambda: {record.body.decode() for record in delivered(house.port)} >= due_ms.keys(), "everything is delivered")
    found = delivered(house.port)
    for record in found:
        assert record.store_timestamp >= due_ms[record.body.decode()], f"{record.body!r} comes too early"
    if how == "stopped":
        assert sorted(record.body.decode() for record in found) == sorted(due_ms), "each once"
    house.stop()


def send_delayed(port: int, body: str, level: int) -> int:
    """When it may be seen, at the earliest."""
    before_ms = time.time_ns() // 1_000_000
    header = send_header(TOPIC, 0, {"DELAY": str(level)})
    answer = send_request(
        ("127.0.0.1", port), Command(RequestCode.SEND_MESSAGE_V2, opaque=1, fields=header.to_fields(), body=body.encode())
    )
    assert answer is not None, "the broker does not answer"
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return before_ms + 1000 * (1, 8, 12)[level - 1]


def delivered(port: int) -> list[Record]:
    found: list[Record] = []
    while True:
        header = pull_header(TOPIC, len(found), max_msg_nums=32)
        answer = send_request(("127.0.0.1", port), Command(RequestCode.PULL_MESSAGE, opaque=1, fields=header.to_fields()))
        assert answer is not None, "the broker does not answer"
        page = records(answer)
        if not page:
            return found
        found += page
