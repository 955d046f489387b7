"""Apache's Java client 5.5.0 and 4.9.8 looks for messages, asks and is answered, leaves traces, consumes in order, is stopped and
sent back, against Apache's nameserver and broker and against ours: the same scenes, so that what is expected is what Apache does.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client import Message, sync
from skyrocket.protocol.bodies import TopicRouteData
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.requests import RequestCode
from tests.support.apache.admin import Admin
from tests.support.apache.cluster import NO_TIMERS, ApacheCluster
from tests.support.apache.java_scenes import Cluster
from tests.support.apache.query_scenes import Failed, Found, QueryScenes
from tests.support.processes.skyrocket_process import Skyrocket, registered
from tests.support.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.interop

SETTINGS = {"registerNameServerPeriod": 10_000}  # so often order configuration is looked at
QUICK = ["-Drocketmq.client.rebalance.waitInterval=1000"]
NOT_FOUND, NO_MESSAGE = 22, 208  # of the broker, and of the client where no broker found anything


class Way(NamedTuple):
    server: str
    client_version: str
    options: list[str]


WAYS = {
    "apache": Way("apache", "5.5.0", QUICK),
    "json": Way("skyrocket", "5.5.0", QUICK),
    "binary": Way("skyrocket", "5.5.0", [*QUICK, "-Drocketmq.serialize.type=ROCKETMQ"]),
    "old": Way("skyrocket", "4.9.8", QUICK),
    "apache-old": Way("apache", "4.9.8", QUICK),
}
every_client = pytest.mark.parametrize("client", WAYS, indirect=True, scope="module")


@pytest.fixture(scope="module")
def skyrocket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Skyrocket]:
    with Skyrocket(tmp_path_factory.mktemp("skyrocket"), SETTINGS) as running:
        yield running
        running.stop()
        assert running.complaints() == [], running.log_tail(200)


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    admin = Admin(tmp_path_factory.mktemp("admin"))
    try:
        yield admin
    finally:
        admin.kill()


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryScenes]:
    way = WAYS[request.param]
    home = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if way.server == "apache":
            theirs = stack.enter_context(ApacheCluster(home))
            settings = {"mappedFileSizeCommitLog": 16_777_216, "brokerName": "broker-a", **SETTINGS, **NO_TIMERS}
            theirs.broker(home / "store", settings)
            cluster = Cluster(theirs.nameserver, registered(theirs.nameserver)[0], "Test")
        else:
            ours = request.getfixturevalue("skyrocket")
            cluster = Cluster(ours.nameserver, ours.address, "DefaultCluster")
        scenes = QueryScenes(home / "scenes", request.param, cluster, way.options, way.client_version)
        try:
            yield scenes
        finally:
            scenes.kill()


def numbered(messages: int, of: str = "message") -> list[bytes]:
    return [f"{of} {i}".encode() for i in range(messages)]


def found_by(client: QueryScenes, by: str, topic: str, key: str, messages: int, **given: int) -> list[Found]:
    """Apache's index is a moment behind."""
    found: list[list[Found] | Failed] = []

    def is_there() -> bool:
        found.append(client.query(by, topic, key, **given))
        return isinstance(found[-1], list) and len(found[-1]) == messages

    wait_until(is_there, f"{messages} messages have the key {key}")
    assert isinstance(found[-1], list)
    return found[-1]


# --- queries


@every_client
def test_messages_are_found_by_any_of_their_keys(client: QueryScenes):
    topic, other, by = client.topic("keys"), client.topic("others"), client.producer()
    both = client.send(by, topic, b"both", keys="order-1,customer-7")
    one = client.send(by, topic, b"one", keys="customer-7")
    client.send(by, topic, b"neither", keys="customer-70")
    client.send(by, other, b"elsewhere", keys="customer-7")

    found = found_by(client, by, topic, "customer-7", 2)
    assert sorted(message.body for message in found) == [b"both", b"one"]
    assert {(m.unique_id, m.queue, m.offset) for m in found} == {(m.unique_id, m.queue, m.offset) for m in (*both, *one)}
    assert [message.body for message in found_by(client, by, topic, "order-1", 1)] == [b"both"]
    assert client.query(by, topic, "nobody") == Failed("MQClientException", NO_MESSAGE)
    assert client.query(by, topic, "Customer-7") == Failed("MQClientException", NO_MESSAGE), "keys are not words"


@every_client
def test_of_many_the_newest_are_found_and_only_those_of_the_time_asked_for(client: QueryScenes):
    topic, by = client.topic("times", queues=1), client.producer()
    before_ms = time.time_ns() // 1_000_000
    client.send(by, topic, *numbered(10, "early"), keys="same")
    time.sleep(2.1)  # Apache's index knows seconds
    between_ms = time.time_ns() // 1_000_000 - 1_000
    client.send(by, topic, *numbered(10, "late"), keys="same")

    found = found_by(client, by, topic, "same", 20)
    assert [message.offset for message in found] == sorted(message.offset for message in found), "oldest first"
    assert {m.body for m in found_by(client, by, topic, "same", 4, most=4)} == set(numbered(10, "late")[-4:])
    assert {m.body for m in found_by(client, by, topic, "same", 10, begin_ms=between_ms)} == set(numbered(10, "late"))
    early = found_by(client, by, topic, "same", 10, begin_ms=before_ms - 1_000, end_ms=between_ms)
    assert {m.body for m in early} == set(numbered(10, "early"))
    assert client.query(by, topic, "same", begin_ms=0, end_ms=before_ms - 60_000) == Failed("MQClientException", NO_MESSAGE)


@every_client
def test_a_message_is_found_by_its_unique_id_and_by_its_place(client: QueryScenes):
    topic, by = client.topic("ids"), client.producer()
    sent = client.send(by, topic, *numbered(3))
    for body, message in zip(numbered(3), sent, strict=True):
        wait_until(lambda sought=message: isinstance(client.view(by, topic, sought.unique_id), list), "it is in the index")
        for message_id in (message.unique_id, message.offset_id):
            found = client.view(by, topic, message_id)
            assert isinstance(found, list), (message_id, found)
            position = decode_offset_id(message.offset_id).physical_offset
            assert found == [Found(message.unique_id, position, message.queue, message.offset, body)]
    nowhere = sent[0].offset_id[:-16] + "0000000000FFFFFF"
    assert isinstance(client.view(by, topic, nowhere), Failed)
    assert isinstance(client.view(by, topic, sent[0].unique_id[:-4] + "FFFF"), Failed)


@every_client
def test_a_message_of_another_topic_is_not_found_by_its_id(client: QueryScenes):
    topic, other, by = client.topic("ids"), client.topic("others"), client.producer()
    (sent,) = client.send(by, topic, b"here")
    wait_until(lambda: isinstance(client.view(by, topic, sent.unique_id), list), "it is in the index")
    assert isinstance(client.view(by, other, sent.unique_id), Failed)


# --- requests and replies


@every_client
@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_request_is_answered(client: QueryScenes, how: str):
    topic, by = client.topic("requests", queues=1), client.producer()
    replier = client.replier(topic, client.producer())
    for body in (b"one", b"two"):
        assert client.request(by, topic, body, how) == body + body
    assert client.replied(replier, 2) == [["SEND_OK"], ["SEND_OK"]]


@every_client
def test_a_long_reply_travels_compressed(client: QueryScenes):
    topic, by = client.topic("requests", queues=1), client.producer()
    client.replier(topic, client.producer(compressOver=1024))
    body = b"again and again " * 1000
    assert client.request(by, topic, body) == body + body


@every_client
@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_request_that_nobody_answers_fails_in_time(client: QueryScenes, how: str):
    topic, by = client.topic("requests", queues=1), client.producer()
    client.replier(topic, client.producer())
    assert client.request(by, topic, b"first") == b"firstfirst"
    failed = client.request(by, topic, b"silence", how, timeout_ms=1_000)
    assert isinstance(failed, Failed)
    assert failed.kind == "RequestTimeoutException"


@every_client
def test_the_reply_to_one_who_left_fails_and_is_kept(client: QueryScenes):
    topic, by = client.topic("requests", queues=1), client.producer()
    replier = client.replier(topic, client.producer())
    assert client.request(by, topic, b"first") == b"firstfirst"
    late = f"late {client.label}".encode()
    assert isinstance(client.request(by, topic, late, timeout_ms=500), Failed)
    client.ask("stop", by)
    assert client.replied(replier, 2) == [["SEND_OK"], ["FAILED", "MQClientException", "1"]]
    reply_topic = f"{client.cluster.name}_REPLY_TOPIC"
    reader = client.consume(client.named("reader"), reply_topic)
    wait_until(lambda: late + late in [message.body for message in client.heard(reader, 0)], "the reply is kept")


# --- traces


@every_client
def test_traces_are_kept_and_shown(client: QueryScenes, admin: Admin):
    topic, by = client.topic("traced"), client.producer(traced="yes")
    consumer = client.consume(client.named("group"), topic, traced="yes")
    (sent,) = client.send(by, topic, b"followed", keys="key-of-it")
    assert len(client.heard(consumer, 1)) == 1

    def shown() -> str:
        return admin.admin("queryMsgTraceById", "-i", sent.unique_id, "-n", client.cluster.nameserver)

    wait_until(lambda: by in shown(), "mqadmin shows who sent it")
    assert "Pub" in trace_kinds(client, by, sent.unique_id)
    wait_until(lambda: {"SubBefore", "SubAfter"} <= trace_kinds(client, by, sent.unique_id), "the consumer's is too")


@every_client
def test_our_command_shows_what_java_traced(client: QueryScenes):
    topic, by, group, key = client.topic("java-traced"), client.producer(traced="yes"), client.named("group"), client.named("key")
    consumer = client.consume(group, topic, traced="yes")
    (sent,) = client.send(by, topic, b"followed", keys=key)
    assert len(client.heard(consumer, 1)) == 1

    def steps(message: str) -> list[tuple[str, str, str]]:
        done = CliRunner().invoke(app, ["query", "trace", message, "--json"], env={"NAMESRV_ADDR": client.cluster.nameserver})
        shown = json.loads(done.stdout) if done.exit_code == 0 else []
        return [(each["row"]["type"], each["row"]["group"], each["row"]["messageId"]) for each in shown]

    expected = [("Pub", by, sent.unique_id), ("SubAfter", group, sent.unique_id), ("SubBefore", group, sent.unique_id)]
    for message in (sent.unique_id, key):
        wait_until(lambda message=message: sorted(steps(message)) == expected, "the command shows all three rows")


@every_client
def test_mqadmin_shows_what_our_client_traced(client: QueryScenes, admin: Admin):
    topic, group = client.topic("our-trace"), client.named("OurGroup")
    with sync.Producer(client.cluster.nameserver, group=group, trace=True) as producer:
        sent = producer.send(Message(topic, b"followed", keys=["o-7"]))
    handled = threading.Event()
    consumer = sync.Consumer(client.cluster.nameserver, group=group, start="first", trace=True)
    consumer.on(topic)(lambda _message: handled.set())
    with consumer:
        assert handled.wait(WAIT_S_MAX)

    def shown() -> list[list[str]]:
        text = admin.admin("queryMsgTraceById", "-i", sent.message_id, "-n", client.cluster.nameserver)
        return [line.split()[:2] + line.split()[-1:] for line in text.splitlines() if line.startswith(("Pub", "Sub"))]

    wait_until(lambda: shown() == [["Pub", group, "success"], ["Sub", group, "success"]], "mqadmin shows both")


def trace_kinds(client: QueryScenes, by: str, unique_id: str) -> set[str]:
    found = client.query(by, "RMQ_SYS_TRACE_TOPIC", unique_id)
    bodies = [message.body.decode() for message in found] if isinstance(found, list) else []
    return {line.split("\x01")[0] for body in bodies for line in body.split("\x02")}


# --- order


@every_client
def test_a_topic_of_the_order_configuration_is_ordered_and_its_route_says_so(client: QueryScenes):
    topic, by = client.topic("ordered", queues=4), client.producer()
    assert not client.is_ordered(topic)
    client.order(topic, "broker-a:2")
    route = decode(client.ask_nameserver(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).body, TopicRouteData)
    assert route.order_topic_conf == "broker-a:2"
    wait_until(lambda: client.is_ordered(topic), "the broker has heard of it")
    wait_until(lambda: client.ask("writable", by, topic) == [["0"], ["1"]], "producers send to these queues only")


@every_client
def test_what_is_in_order_is_heard_in_order(client: QueryScenes):
    topic, by = client.topic("ordered", queues=2, order=True), client.producer()
    assert client.is_ordered(topic)
    for queue in range(2):
        client.send(by, topic, *numbered(30, f"queue {queue}"), queue=queue)
    heard = client.heard(client.consume(client.named("group"), topic, orderly="yes"), 60)
    for queue in range(2):
        assert [message.body for message in heard if message.queue == queue] == numbered(30, f"queue {queue}")


# --- stopped, and sent back


@every_client
def test_a_group_that_is_stopped_hears_nothing_until_it_is_allowed_again(client: QueryScenes):
    topic, by, group = client.topic("paused", queues=1), client.producer(), client.named("group")
    consumer = client.consume(group, topic)
    client.send(by, topic, b"before")
    assert len(client.heard(consumer, 1)) == 1
    client.allow(group, consuming=False)
    client.send(by, topic, b"meanwhile")  # which wakes the pull that waits
    assert [message.body for message in client.heard(consumer, 2, wait_s=1.5)] == [b"before"]
    client.allow(group, consuming=True)
    assert [message.body for message in client.heard(consumer, 2)] == [b"before", b"meanwhile"]


@every_client
def test_a_group_that_is_sent_back_while_it_consumes_hears_everything_again(client: QueryScenes):
    topic, by, group = client.topic("reset", queues=2), client.producer(), client.named("group")
    client.send(by, topic, *numbered(40))
    consumer = client.consume(group, topic, slowMs=20)
    client.heard(consumer, 10)
    client.reset(group, topic, 0)
    client.send(by, topic, *numbered(20, "later"))
    again_from = len(client.heard(consumer, 0))

    def has_all_again() -> bool:
        bodies = [message.body for message in client.heard(consumer, 0)]
        return set(bodies[again_from:]) >= {*numbered(40), *numbered(20, "later")}

    wait_until(has_all_again, "everything comes again")
    client.reset(group, topic, -1)
    time.sleep(1)
    client.send(by, topic, b"new")
    wait_until(lambda: b"new" in [message.body for message in client.heard(consumer, 0)], "it goes on from the end")
