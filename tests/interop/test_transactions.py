"""Transactions of Apache's Java client 5.5.0 and 4.9.8, against ours and against Apache's own broker, by the same scenes.

Rounds of questions come every second and a half, about messages older than a second, and three times at the most. The scenes of
one client run in one broker, one after another; what they wait for, they wait for by name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CreateTopicRequestHeader
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT
from tests.support.apache.cluster import NO_TIMERS, OPS_IN_BATCHES, ApacheCluster, send_request
from tests.support.apache.transaction_scenes import COMMIT, ROLLBACK, UNKNOWN, Transacted, TransactionScenes, stored
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, Skyrocket, SkyrocketBroker, registered
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

SETTINGS = {
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 1500,
    "transactionCheckMax": 3,
    "flushConsumerOffsetInterval": 500,
}
HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
QUIET_MS = 5_000  # three rounds, in which nothing more comes
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"


class Way(NamedTuple):
    server: str
    client_version: str
    options: list[str]


WAYS = {
    "apache": Way("apache", "5.5.0", []),
    "json": Way("skyrocket", "5.5.0", []),
    "binary": Way("skyrocket", "5.5.0", [BINARY]),
    "old": Way("skyrocket", "4.9.8", []),
    "apache-old": Way("apache", "4.9.8", []),
}
every_client = pytest.mark.parametrize("stage", list(WAYS), indirect=True, scope="module")


class Stage:
    """A broker, and a Java client of it."""

    def __init__(self, home: Path, label: str, way: Way, nameserver: str, broker: str) -> None:
        self.home = home
        self.label = label
        self.way = way
        self.nameserver = nameserver
        self.broker = broker
        self._clients = 0
        self.java = self.another_client()
        self.group = f"{label}-group"
        self.producer = self.java.producer(self.group)

    def another_client(self) -> TransactionScenes:
        self._clients += 1
        home = self.home / f"client{self._clients}"
        return TransactionScenes(home, self.nameserver, self.way.options, self.way.client_version)

    def topic(self, what: str) -> str:
        """A new topic of one queue, of which the nameserver knows."""
        topic = f"{self.label}-{what}"
        create_topic(self.broker, self.nameserver, topic)
        return topic

    def transact(self, outcome: str, topic: str, body: str, **more: object) -> Transacted:
        return self.java.transact(self.producer, outcome, topic, body, **more)  # type: ignore[arg-type]

    def bodies(self, topic: str) -> list[str]:
        return [record.body.decode() for record in stored(self.broker, topic)]

    def halves(self, body: str) -> list[Record]:
        return [record for record in stored(self.broker, HALF) if record.body == body.encode()]


def create_topic(broker: str, nameserver: str, topic: str) -> None:
    header = CreateTopicRequestHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    send_request(_address(broker), Command(RequestCode.UPDATE_AND_CREATE_TOPIC, opaque=1, fields=header.to_fields()))

    def is_routed() -> bool:
        request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=1, fields={"topic": topic})
        answer = send_request(_address(nameserver), request)
        return answer is not None and answer.code == 0

    wait_until(is_routed, f"topic {topic} is registered")


def _address(text: str) -> tuple[str, int]:
    host, port = text.split(":")
    return host, int(port)


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    way = WAYS[request.param]
    home = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if way.server == "apache":
            theirs = stack.enter_context(ApacheCluster(home))
            settings = {**SETTINGS, **NO_TIMERS, "mappedFileSizeCommitLog": 16_777_216, "brokerName": "broker-a"}
            theirs.broker(home / "store", settings)
            nameserver, broker = theirs.nameserver, registered(theirs.nameserver)[0]
        else:
            ours = stack.enter_context(Skyrocket(home, {**SETTINGS, **OPS_IN_BATCHES}))
            nameserver, broker = ours.nameserver, ours.address
        stage = Stage(home, request.param, way, nameserver, broker)
        try:
            yield stage
        finally:
            stage.java.kill()
        if way.server == "skyrocket":
            ours.stop()
            assert ours.complaints() == [], ours.log_tail(200)


# --- how transactions end


@every_client
def test_a_committed_message_is_consumed_as_it_was_sent(stage: Stage):
    topic = stage.topic("commit")
    consumer = stage.java.push(f"{topic}-consumers", topic)
    sent = stage.transact(COMMIT, topic, "hello", tags="red", flag=9, colour="blue")
    assert (sent.status, sent.outcome, sent.transaction_id) == ("SEND_OK", COMMIT, sent.message_id)
    (message,) = stage.java.heard(consumer, 1)
    assert (message.body, message.topic, message.flag, message.message_id) == (b"hello", topic, 9, sent.message_id)
    assert (message.properties["TAGS"], message.properties["colour"]) == ("red", "blue")
    assert message.sys_flag & 0xC == TRANSACTION_COMMIT
    assert len(stage.java.heard(consumer, 2, QUIET_MS)) == 1, "it came twice"


@every_client
def test_the_records_of_a_transaction_are_what_apache_writes(stage: Stage):
    topic = stage.topic("records")
    sent = stage.transact(COMMIT, topic, "recorded", tags="red", flag=9)
    wait_until(lambda: stage.bodies(topic) == ["recorded"], "the message is committed")
    (half,) = stage.halves("recorded")
    (message,) = stored(stage.broker, topic)
    assert half.queue_offset == sent.offset
    assert (half.topic, half.queue_id, half.sys_flag, half.flag, half.prepared_transaction_offset) == (HALF, 0, 0, 9, 0)
    waiting = decode_properties(half.properties)
    assert waiting["REAL_TOPIC"] == topic
    assert waiting["REAL_QID"] == "0"
    assert waiting["PGROUP"] == stage.group
    assert waiting["__transactionId__"] == waiting["UNIQ_KEY"] == sent.message_id
    assert waiting["TRAN_MSG"] == "true"
    assert {name: value for name, value in waiting.items() if name not in ("REAL_TOPIC", "REAL_QID")} == decode_properties(
        message.properties
    )
    assert (message.queue_id, message.queue_offset, message.sys_flag, message.flag) == (0, 0, TRANSACTION_COMMIT, 9)
    assert message.prepared_transaction_offset == half.physical_offset
    same = ("body", "born_timestamp", "born_host", "store_host", "reconsume_times", "body_crc", "magic")
    assert [getattr(message, name) for name in same] == [getattr(half, name) for name in same]


@every_client
def test_ends_are_noted_in_op_messages(stage: Stage):
    topic = stage.topic("ops")
    sent = [stage.transact(outcome, topic, f"op-{outcome}") for outcome in (COMMIT, ROLLBACK)]
    offsets = {str(transacted.offset) for transacted in sent}

    def noted() -> set[str]:
        return {offset for record in stored(stage.broker, OP) for offset in record.body.decode().split(",")}

    wait_until(lambda: offsets <= noted(), "both ends are in the op queue")
    for record in stored(stage.broker, OP):
        assert record.body.endswith(b",")
        assert decode_properties(record.properties) == {"TAGS": "d", "WAIT": "true"}
        assert (record.queue_id, record.sys_flag, record.flag) == (0, 0, 0)
        assert record.born_host == record.store_host


@every_client
def test_a_rolled_back_message_is_never_seen_and_never_asked_about(stage: Stage):
    topic = stage.topic("rollback")
    assert stage.transact(ROLLBACK, topic, "rolled-back").status == "SEND_OK"
    assert stage.java.checks_of("rolled-back", QUIET_MS) == []
    assert stage.bodies(topic) == []


# --- questions


@every_client
@pytest.mark.parametrize(("outcome", "seen"), [(COMMIT, 1), (ROLLBACK, 0)])
def test_an_unknown_outcome_is_asked_for(stage: Stage, outcome: str, seen: int):
    body = f"asked-{outcome}"
    topic = stage.topic(body)
    sent = stage.transact(UNKNOWN, topic, body, tags="red")
    (question,) = stage.java.checks_of(body)
    assert question.topic == topic
    assert question.properties["TAGS"] == "red"
    assert question.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert question.properties["UNIQ_KEY"] == sent.message_id
    stage.java.answer(outcome, body)
    wait_until(lambda: len(stage.halves(body)) >= 2, "it is asked about again")
    time.sleep(QUIET_MS / 1000)
    assert stage.bodies(topic) == [body] * seen
    asked_until_then = len(stage.java.checks_of(body, 0))
    time.sleep(2)
    assert len(stage.java.checks_of(body, 0)) == asked_until_then, "it is asked about after its end"


@every_client
def test_the_copy_that_is_asked_about_is_committed(stage: Stage):
    body = "copied"
    topic = stage.topic(body)
    stage.java.answer(COMMIT, body)
    stage.transact(UNKNOWN, topic, body)
    wait_until(lambda: stage.bodies(topic) == [body], "it is asked about, and committed")
    half, copy = stage.halves(body)
    (message,) = stored(stage.broker, topic)
    assert message.prepared_transaction_offset == copy.physical_offset
    assert decode_properties(copy.properties) == decode_properties(half.properties) | {"TRANSACTION_CHECK_TIMES": "1"}
    assert decode_properties(message.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    same = ("body", "sys_flag", "born_timestamp", "born_host", "store_host", "prepared_transaction_offset")
    assert [getattr(copy, name) for name in same] == [getattr(half, name) for name in same]


@every_client
def test_a_message_that_nobody_knows_about_is_given_up_after_three_questions(stage: Stage):
    body = "unknown-for-ever"
    topic = stage.topic(body)
    sent = stage.transact(UNKNOWN, topic, body, tags="red")
    wait_until(lambda: body in stage.bodies(GIVEN_UP), "it is given up")
    assert len(stage.java.checks_of(body, 0)) == 3
    (record,) = [record for record in stored(stage.broker, GIVEN_UP) if record.body == body.encode()]
    properties = decode_properties(record.properties)
    assert (properties["REAL_TOPIC"], properties["UNIQ_KEY"], properties["TAGS"]) == (topic, sent.message_id, "red")
    assert properties["TRANSACTION_CHECK_TIMES"] == "3"
    assert (record.queue_id, record.sys_flag) == (0, 0)
    time.sleep(QUIET_MS / 1000)
    assert len(stage.java.checks_of(body, 0)) == 3
    assert stage.bodies(topic) == []


@every_client
def test_a_message_that_asks_for_immunity_is_asked_about_later(stage: Stage):
    body = "immune"
    topic = stage.topic(body)
    stage.java.answer(COMMIT, body)
    began = time.monotonic()
    stage.transact(UNKNOWN, topic, body, CHECK_IMMUNITY_TIME_IN_SECONDS="3")
    (question,) = stage.java.checks_of(body)
    assert time.monotonic() - began > 3
    assert question.properties["TRAN_PREPARED_QUEUE_OFFSET"] == str(stage.halves(body)[0].queue_offset)
    wait_until(lambda: stage.bodies(topic) == [body], "it is committed")


@every_client
def test_clients_refuse_a_delayed_transaction_or_take_off_the_delay(stage: Stage):
    topic = stage.topic("delayed")
    if stage.way.client_version == "5.5.0":
        with pytest.raises(AssertionError, match="do not support delayed delivery"):
            stage.transact(COMMIT, topic, "not sent", DELAY="5")
        return
    stage.transact(COMMIT, topic, "not delayed", DELAY="5")
    wait_until(lambda: stage.bodies(topic) == ["not delayed"], "it is committed at once")


@every_client
def test_another_producer_of_the_group_is_asked_when_the_first_was_killed(stage: Stage):
    body, hello = "orphan", "hello"
    topic, other, group = stage.topic(body), stage.topic("other"), f"{stage.label}-orphans"
    first, second = stage.another_client(), stage.another_client()
    try:
        # Both processes have come up before the half message exists: Apache's broker gives it up after three rounds of checks.
        second.answer(COMMIT, body)
        second.transact(second.producer(f"{group}-2"), COMMIT, other, hello)
        first.transact(first.producer(group), UNKNOWN, topic, body)
        first.kill()
        second.transact(second.producer(group), COMMIT, other, hello)  # before, 5.5.0 knows no broker to tell of itself
        wait_until(lambda: stage.bodies(topic) == [body], "the second producer is asked, and commits")
        assert second.checks_of(body)
    finally:
        first.kill()
        second.kill()


# --- one directory, two brokers


class House:
    """A store directory, and whichever broker lives in it."""

    def __init__(self, home: Path, cluster: ApacheCluster) -> None:
        self.home = home
        self.cluster = cluster
        self._tenants = 0
        port = free_port(-2, 1)
        self.address = f"127.0.0.1:{port}"
        self.settings = {
            **SMALL_STORE,
            **SETTINGS,
            "brokerClusterName": "Test",
            "brokerName": "house",
            "listenPort": port,
            "transactionCheckMax": 50,
        }

    def apache(self) -> object:
        ops = {} if self._tenants else OPS_IN_BATCHES  # ours reads what Apache has gathered
        return self.cluster.broker(self.home / "store", {**self.settings, **ops})

    def skyrocket(self) -> object:
        self._tenants += 1
        home = self.home / f"tenant{self._tenants}"
        settings = {**self.settings, **OPS_IN_BATCHES}
        return SkyrocketBroker(home, self.cluster.nameserver, settings, store=self.home / "store")


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize(
    "tenants", [("apache", "skyrocket"), ("skyrocket", "apache")], ids=["ours takes over", "apache takes over"]
)
def test_open_transactions_go_over_to_the_other_broker(tmp_path: Path, tenants: tuple[str, str], ending: str):
    with ApacheCluster(tmp_path) as cluster, ExitStack() as stack:
        house = House(tmp_path, cluster)
        first = getattr(house, tenants[0])()
        stack.callback(first.kill)
        create_topic(house.address, cluster.nameserver, "Orders")
        java = TransactionScenes(tmp_path / "java", cluster.nameserver, [])
        stack.callback(java.kill)
        producer = java.producer("shop")
        for body in ("committed", "rolled back", "open", "open too"):
            outcome = {"committed": COMMIT, "rolled back": ROLLBACK}.get(body, UNKNOWN)
            assert java.transact(producer, outcome, "Orders", body).status == "SEND_OK"
        java.checks_of("open")  # so that there are copies, and progress
        java.transact(producer, UNKNOWN, "Orders", "just sent")
        time.sleep(1.5)  # offsets are saved
        getattr(first, ending)()
        asked_before = len(java.checks())
        java.answer(COMMIT, "committed", "open", "just sent")
        java.answer(ROLLBACK, "rolled back", "open too")
        second = getattr(house, tenants[1])()
        stack.callback(second.kill)

        def bodies() -> list[str]:
            return [record.body.decode() for record in stored(house.address, "Orders")]

        wait_until(lambda: {"committed", "open", "just sent"} <= set(bodies()), "all that is to be committed is")
        java.checks_of("open too")
        time.sleep(QUIET_MS / 1000)
        assert {"committed", "open", "just sent"} == set(bodies())
        if ending == "stop":
            assert sorted(bodies()) == ["committed", "just sent", "open"], "once each, since all was noted"
            assert {message.body for message in java.checks()[asked_before:]} <= {b"open", b"open too", b"just sent"}
