"""Apache's Java consumers that filter by SQL92, 5.5.0 and 4.9.8: against ours, and the same against Apache's own broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from skyrocket.protocol.bodies import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.message.record import iterate_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.cluster import NO_TIMERS, ApacheCluster, send_request
from tests.support.apache.java_scenes import Cluster, Got, Out, Scenes
from tests.support.brokers.running_broker import pull_header, send_header
from tests.support.processes.skyrocket_process import Skyrocket, registered
from tests.support.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.interop

BINARY = "-Drocketmq.serialize.type=ROCKETMQ"


class Way(NamedTuple):
    """A client, and whom it talks to."""

    server: str
    client_version: str
    options: list[str]


WAYS = {
    "apache": Way("apache", "5.5.0", []),
    "apache-old": Way("apache", "4.9.8", []),
    "json": Way("skyrocket", "5.5.0", []),
    "binary": Way("skyrocket", "5.5.0", [BINARY]),
    "old": Way("skyrocket", "4.9.8", []),
}
every_client = pytest.mark.parametrize("client", WAYS, indirect=True, scope="module")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    home = tmp_path_factory.mktemp("clusters")
    with ExitStack() as stack:
        ours = stack.enter_context(Skyrocket(home / "skyrocket", {"enablePropertyFilter": "true"}))
        theirs = stack.enter_context(ApacheCluster(home / "apache"))
        settings = {"mappedFileSizeCommitLog": 16_777_216, "brokerName": "broker-a", "enablePropertyFilter": "true"}
        theirs.broker(home / "store", {**settings, **NO_TIMERS})
        yield {
            "skyrocket": Cluster(ours.nameserver, ours.address, "DefaultCluster"),
            "apache": Cluster(theirs.nameserver, registered(theirs.nameserver)[0], "Test"),
        }
        ours.stop()
        assert ours.complaints() == [], ours.log_tail(200)


@pytest.fixture(scope="module")
def client(
    request: pytest.FixtureRequest, clusters: dict[str, Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenes]:
    way = WAYS[request.param]
    home = tmp_path_factory.mktemp(request.param)
    scenes = Scenes(home / "scenes", request.param, clusters[way.server], way.options, way.client_version)
    try:
        yield scenes
    finally:
        scenes.kill()


def sales(count: int = 20) -> list[Out]:
    """The number is in `a`, and the regions are eu and us in turn; every fifth has no region, and one has a text for a number."""
    return [
        Out(
            f"sale {number}".encode(),
            tags="sale",
            properties={
                "a": str(number) if number != 13 else "thirteen",
                **({} if number % 5 == 0 else {"region": ["eu", "us"][number % 2]}),
            },
        )
        for number in range(count)
    ]


def numbers(got: list[Got]) -> list[int]:
    return sorted(int(message.body.split()[1]) for message in got)


EXPRESSIONS = {
    "a > 5 AND region = 'eu'": [6, 8, 12, 14, 16, 18],
    "a BETWEEN 3 AND 6 OR a IN ('10', '13')": [3, 4, 5, 6, 10],
    "region IS NULL": [0, 5, 10, 15],
    "region <> 'eu'": [1, 3, 7, 9, 11, 13, 17, 19],
    "NOT (a < 15)": [15, 16, 17, 18, 19],
    "a STARTSWITH 't' or a endswith '9'": [9, 13, 19],
    "TAGS = 'sale' AND a = 7 -- and no more": [7],
    "a >= 18.5": [19],
}


@every_client
def test_push_consumers_get_exactly_what_their_expressions_let_through(client: Scenes):
    topic = client.topic("sales")
    client.send(topic, *sales())
    consumers = {sql: client.push(client.named("group"), topic, sql, sql="yes") for sql in EXPRESSIONS}
    for sql, expected in EXPRESSIONS.items():
        client.heard(consumers[sql], len(expected))
    for sql, expected in EXPRESSIONS.items():
        assert numbers(client.heard(consumers[sql], len(expected) + 1, wait_s=0.1)) == expected, sql
    client.ask("leave", *consumers.values())


@every_client
def test_a_push_consumer_that_waits_is_woken_by_a_message_for_it(client: Scenes):
    topic = client.topic("waits", queues=1)
    consumer = client.push(client.named("group"), topic, "a > 5 AND region = 'eu'", sql="yes", **{"from": "first"})
    client.send(topic, *sales(6))
    assert client.heard(consumer, 1, wait_s=0.5) == []
    client.send(topic, *sales()[6:9])
    assert numbers(client.heard(consumer, 2)) == [6, 8]
    client.ask("leave", consumer)


@every_client
def test_a_lite_pull_consumer_filters_too(client: Scenes):
    topic = client.topic("lite")
    client.send(topic, *sales())
    consumer = client.lite(client.named("group"), topic, "a > 5 AND region = 'eu'", sql="yes")
    assert numbers(client.poll(consumer, 6)) == [6, 8, 12, 14, 16, 18]
    client.ask("leave", consumer)


@every_client
def test_a_wrong_expression_does_not_start(client: Scenes):
    topic = client.topic("wrong")
    for sql in ("a >", "a = 'eu", "a > 'x'", "a BETWEEN 5 AND 3", "5"):
        with pytest.raises(AssertionError, match=r"CODE: 23 "):
            client.push(client.named("group"), topic, sql, sql="yes")
    if not client.label.startswith("apache"):
        with pytest.raises(
            AssertionError, match=r"wrong at character 4: a property, a constant or a bracket is missing before the end"
        ):
            client.push(client.named("group"), topic, "a >", sql="yes")


@every_client
def test_a_broker_whose_filters_were_turned_off_says_so(client: Scenes):
    topic = client.topic("off")
    turn(client.cluster.broker, on=False)
    try:
        with pytest.raises(AssertionError, match=r"CODE: 1 "):
            client.push(client.named("group"), topic, "a > 5", sql="yes")
    finally:
        turn(client.cluster.broker, on=True)
    client.send(topic, *sales())
    consumer = client.push(client.named("group"), topic, "a > 17", sql="yes")
    assert numbers(client.heard(consumer, 2)) == [18, 19]
    client.ask("leave", consumer)


# --- the same requests, byte for byte, to both brokers


@pytest.mark.parametrize("server", ["apache", "skyrocket"])
def test_pulls_are_answered_alike(clusters: dict[str, Cluster], server: str):
    cluster = clusters[server]
    topic, group = "pulled-by-sql", "pulling-by-sql"
    with Wire(cluster.broker) as wire:
        for number in range(4):
            header = send_header(topic, properties={"a": str(number)})
            assert wire.ask(RequestCode.SEND_MESSAGE_V2, header.to_fields(), b"%d" % number).code == ResponseCode.SUCCESS

        def pulled(**given: object) -> tuple[int, list[bytes]]:
            header = pull_header(topic, 0, consumer_group=group, **given)
            answer = wire.ask(RequestCode.PULL_MESSAGE, header.to_fields())
            return answer.code, [record.body for record in iterate_records(answer.body)]

        def own(expression: str, kind: str = "SQL92") -> tuple[int, list[bytes]]:
            return pulled(tags=expression, expression_type=kind)

        def by_heartbeat(expression: str, version: int, kind: str = "SQL92") -> tuple[int, list[bytes]]:
            wanted = SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)
            data = ConsumerData(
                group_name=group,
                consume_type=ConsumeType.CONSUME_PASSIVELY,
                message_model=MessageModel.CLUSTERING,
                consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                subscription_data_set=[wanted],
            )
            beat = encode(HeartbeatData(client_id="wire", consumer_data_set=[data]))
            assert wire.ask(RequestCode.HEART_BEAT, {}, beat).code == ResponseCode.SUCCESS
            return pulled(sys_flag=0, sub_version=version)

        wait_until(lambda: own("a >= 0")[0] == ResponseCode.SUCCESS, "messages can be pulled")
        assert own("a > 1") == (ResponseCode.SUCCESS, [b"2", b"3"])
        assert own("a > 9") == (ResponseCode.PULL_RETRY_IMMEDIATELY, [])
        assert own("") == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, [])
        wrong = own("a >"), own("a > 1", "XPATH")
        if server == "apache":  # it means to refuse, by an assertion that is not compiled in
            assert wrong == ((ResponseCode.SUCCESS, [b"0", b"1", b"2", b"3"]),) * 2
        else:
            assert wrong == ((ResponseCode.SUBSCRIPTION_PARSE_FAILED, []),) * 2

        assert by_heartbeat("a > 1", 1) == (ResponseCode.SUCCESS, [b"2", b"3"])
        assert by_heartbeat("a >", 2) == (ResponseCode.FILTER_DATA_NOT_EXIST, [])
        assert by_heartbeat("a = '1'", 3) == (ResponseCode.SUCCESS, [b"1"])
        assert pulled(sys_flag=0, sub_version=4) == (ResponseCode.SUBSCRIPTION_NOT_LATEST, [])
        assert by_heartbeat("a > 1", 5, "XPATH") == (ResponseCode.FILTER_DATA_NOT_EXIST, [])

        turn(cluster.broker, on=False)
        try:
            assert own("a > 1") == own("a >") == (ResponseCode.SYSTEM_ERROR, [])
            assert own("") == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, [])
            assert by_heartbeat("a > 2", 6) == (ResponseCode.SYSTEM_ERROR, [])
            assert by_heartbeat("a >", 7) == (ResponseCode.FILTER_DATA_NOT_EXIST, [])
        finally:
            turn(cluster.broker, on=True)


class Wire:
    """One connection, on which one request follows another."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S_MAX)
        self._decoder = CommandDecoder()
        self._asked = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
        self._asked += 1
        self._socket.sendall(encode_command(Command(code, opaque=self._asked, fields=fields, body=body)))
        while True:
            for answer in self._decoder.feed(self._socket.recv(65_536)):
                if answer.opaque == self._asked and answer.is_response:  # a broker also tells that groups changed
                    return answer


def turn(broker: str, *, on: bool) -> None:
    host, port = broker.split(":")
    body = f"enablePropertyFilter={'true' if on else 'false'}\n".encode()
    answer = send_request((host, int(port)), Command(RequestCode.UPDATE_BROKER_CONFIG, opaque=1, body=body))
    assert answer is not None, "the broker does not answer"
    assert answer.code == ResponseCode.SUCCESS, answer.remark
