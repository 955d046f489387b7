from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skyrocket.protocol.bodies import (
    ClusterInfo,
    DataVersion,
    GetBrokerMemberGroupResponseBody,
    QueueData,
    TopicList,
    TopicRouteData,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers import (
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    QueryDataVersionRequestHeader,
    UnRegisterBrokerRequestHeader,
)
from skyrocket.protocol.requests import REQUESTS, TO_NAMESERVER, RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.versions import V4_9_3, V4_9_4
from tests.unit.nameserver.running import Running, a_nameserver, registration

WHO = {"broker_name": "broker-a", "broker_addr": "127.0.0.1:10911", "cluster_name": "Test"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with a_nameserver(tmp_path) as running:
        yield running


def route_code(running: Running, topic: str = "orders") -> int:
    return running.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic).code


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 5
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not in 5 s"
        time.sleep(0.01)


def test_every_nameserver_code_and_no_other_has_a_handler(running: Running):
    meant = {code for code, request in REQUESTS.items() if request.direction & TO_NAMESERVER}
    assert running.nameserver.router.codes == meant


def test_an_unknown_code_is_answered_as_unsupported(running: Running):
    for code in (RequestCode.SEND_MESSAGE, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, 999):
        assert running.ask(code).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("code", sorted(code for code, request in REQUESTS.items() if request.direction & TO_NAMESERVER))
def test_an_invalid_request_gets_a_response_and_the_connection_stays_open(running: Running, code: int):
    """Without fields, with a body that is none, and with fields of wrong types."""
    with running.connected() as ask:
        for body in (b"", b"\x00", b'{"a":' * 100, b"[]", b"\xff" * 1000):
            for fields in ({}, {"brokerId": "x", "topic": "", "compressed": "maybe"}):
                answer = ask(Command(code, opaque=3, fields=fields, body=body))
                assert answer.code == ResponseCode.SUCCESS or (answer.remark or "").endswith("."), answer
        assert ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=4)).code == ResponseCode.SUCCESS


# --- registration


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registered_broker_is_in_cluster_info_and_its_topics_have_routes(running: Running, compressed: bool):
    with running.connected() as ask:
        answer = ask(registration("orders", "TBW102", compressed=compressed))
        assert (answer.code, answer.fields, answer.body) == (ResponseCode.SUCCESS, {}, b"")
        assert running.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body == (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a",'
            b'"cluster":"Test","enableActingMaster":false}},"clusterAddrTable":{"Test":["broker-a"]}}'
        )
        assert route_code(running) == ResponseCode.SUCCESS


def test_a_body_with_a_wrong_crc_is_refused(running: Running):
    with running.connected() as ask:
        request = registration("orders", "TBW102")
        request.body = request.body.replace(b"orders", b"0rders")
        answer = ask(request)
        assert (answer.code, "CRC" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        request.fields["bodyCrc32"] = "0"  # from versions that do not compute it
        assert ask(request).code == ResponseCode.SUCCESS


def test_a_single_topic_of_an_unknown_broker_and_bad_names_are_refused(running: Running):
    with running.connected() as ask:
        for request in (
            registration("orders"),
            registration("orders", "x", name="../x"),
            registration("a", "b", broker_addr="x"),
        ):
            answer = ask(request)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert (answer.remark or "").endswith(".")
    assert decode(running.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body, ClusterInfo).broker_addr_table == {}


def test_a_broker_without_topics_registers_with_no_body(running: Running):
    with running.connected() as ask:
        request = registration()
        request.body, request.fields["bodyCrc32"] = b"", "0"
        assert ask(request).code == ResponseCode.SUCCESS
        assert b"broker-a" in running.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body


def test_a_slave_gets_the_address_of_its_master(running: Running):
    with running.connected() as ask:
        ask(registration("orders", "TBW102"))
        answer = ask(registration("orders", "x", broker_id=1, broker_addr="127.0.0.1:20911", enable_acting_master=False))
        assert answer.fields == {"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:10912"}
        group = GetBrokerMemberGroupRequestHeader(cluster_name="Test", broker_name="broker-a")
        body = decode(running.ask(RequestCode.GET_BROKER_MEMBER_GROUP, group).body, GetBrokerMemberGroupResponseBody)
        assert body.broker_member_group is not None
        assert body.broker_member_group.broker_addrs == {0: "127.0.0.1:10911", 1: "127.0.0.1:20911"}


def test_data_versions_say_whether_a_broker_must_register_again(running: Running):
    who = QueryDataVersionRequestHeader(**WHO, broker_id=0)

    def changed(counter: int) -> tuple[str, bytes]:
        answer = running.ask(RequestCode.QUERY_DATA_VERSION, who, encode(DataVersion(counter=counter)))
        return answer.fields["changed"], answer.body

    assert changed(1) == ("true", b"")
    with running.connected() as ask:
        ask(registration("orders", "TBW102", counter=1))
        ours = b'{"counter":1,"stateVersion":0,"timestamp":0}'
        assert changed(1) == ("false", ours)
        assert changed(2) == ("true", ours)


def test_a_broker_that_unregisters_or_disconnects_is_gone_at_once(running: Running):
    with running.connected() as ask:
        ask(registration("orders", "TBW102"))
        assert running.ask(RequestCode.UNREGISTER_BROKER, UnRegisterBrokerRequestHeader(**WHO, broker_id=0)).code == 0
        assert route_code(running) == ResponseCode.TOPIC_NOT_EXIST
        ask(registration("orders", "TBW102"))
        assert route_code(running) == ResponseCode.SUCCESS
    wait_until(lambda: route_code(running) == ResponseCode.TOPIC_NOT_EXIST, "the route goes with the connection")


def test_a_silent_broker_is_removed_and_its_connection_closed(tmp_path: Path):
    now = [0]
    with a_nameserver(tmp_path, now_ms=lambda: now[0], scan_interval_ms=10) as running, running.connected() as ask:
        ask(registration("orders", "TBW102", heartbeat_timeout_millis=20_000))
        now[0] = 20_000
        time.sleep(0.05)
        assert route_code(running) == ResponseCode.SUCCESS
        assert running.ask(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatRequestHeader(**WHO)).code == ResponseCode.SUCCESS
        now[0] = 40_000
        time.sleep(0.05)
        assert route_code(running) == ResponseCode.SUCCESS, "it was heard 20 s ago"
        now[0] = 40_001
        wait_until(lambda: route_code(running) == ResponseCode.TOPIC_NOT_EXIST, "a silent broker goes")
        with pytest.raises(AssertionError, match="closed the connection"):
            ask(registration("orders", "TBW102"))


# --- routes and topics


def test_routes_are_strict_json_for_new_clients_and_fastjson_for_old_ones(running: Running):
    with running.connected() as ask:
        ask(registration("orders", "TBW102"))

        def body(**given: str) -> bytes:
            version = int(given.pop("version", V4_9_4))
            return ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "orders", **given}, version=version)).body

        assert b'{"0":"127.0.0.1:10911"}' in body()
        assert b'{0:"127.0.0.1:10911"}' in body(version=str(V4_9_3))
        assert b'{"0":"127.0.0.1:10911"}' in body(version=str(V4_9_3), acceptStandardJsonOnly="true")
        assert b'"filterServerTable":{}' in body()


def test_an_answer_is_in_the_serialization_of_its_request(running: Running):
    with running.connected() as ask:
        for serialization in Serialization:
            request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "x"}, serialization=serialization)
            answer = ask(request)
            assert (answer.code, answer.serialization) == (ResponseCode.TOPIC_NOT_EXIST, serialization)


def test_routes_are_limited_to_a_zone_on_request(running: Running):
    with running.connected() as ask:
        east = registration("orders", "TBW102")
        east.fields["__ZONE_NAME"] = "east"
        ask(east)
        ask(registration("orders", "TBW102", name="broker-b", broker_addr="127.0.0.1:20911"))
        zone = {"topic": "orders", "__ZONE_NAME": "east"}
        near = ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={**zone, "__ZONE_MODE": "true"}))
        assert [row.broker_name for row in decode(near.body, TopicRouteData).broker_datas] == ["broker-a"]
        every = ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=zone))
        assert len(decode(every.body, TopicRouteData).broker_datas) == 2


def test_a_nameserver_that_waits_for_its_brokers_returns_no_routes(tmp_path: Path):
    now = [0]
    with a_nameserver(tmp_path, now_ms=lambda: now[0], need_wait=True, wait_s=5) as running:
        assert route_code(running) == ResponseCode.SYSTEM_ERROR
        now[0] = 5_000
        assert route_code(running) == ResponseCode.TOPIC_NOT_EXIST


def test_lists_of_topics(running: Running):
    with running.connected() as ask:
        ask(registration("orders", "TBW102"))

        def topics(code: int, **fields: str) -> TopicList:
            return decode(running.ask(code, **fields).body, TopicList)

        assert topics(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).topic_list == ["TBW102", "orders"]
        assert topics(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="Test").topic_list == ["TBW102", "orders"]
        assert topics(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="None").topic_list == []
        system = topics(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        assert (system.topic_list, system.broker_addr) == (["Test", "broker-a"], "127.0.0.1:10911")
        for code in (311, 312, 313):
            assert topics(code).topic_list == []


def test_lists_of_topics_can_be_switched_off(tmp_path: Path):
    with a_nameserver(tmp_path, enable_topic_list=False, enable_all_topic_list=False) as running:
        for code in (206, 311, 312, 313):
            assert running.ask(code).code == ResponseCode.SYSTEM_ERROR
        assert running.ask(224, cluster="x").code == ResponseCode.SYSTEM_ERROR
        assert running.ask(304).code == ResponseCode.SUCCESS


def test_topics_are_deleted_registered_and_closed_for_writing(running: Running):
    with running.connected() as ask:
        ask(registration("orders", "TBW102"))
        assert running.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="orders", clusterName="Other").code == 0
        assert route_code(running) == ResponseCode.SUCCESS
        assert running.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="orders", clusterName="").code == 0
        assert route_code(running) == ResponseCode.TOPIC_NOT_EXIST
        route = encode(TopicRouteData(queue_datas=[QueueData(broker_name="broker-a", perm=6)]))
        assert running.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, topic="orders", body=route).code == 0
        assert route_code(running) == ResponseCode.SUCCESS
        wiped = running.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        assert wiped.fields == {"wipeTopicCount": "2"}
        body = running.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").body
        assert decode(body, TopicRouteData).queue_datas[0].perm == 4
        added = running.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        assert added.fields == {"addTopicCount": "2"}
