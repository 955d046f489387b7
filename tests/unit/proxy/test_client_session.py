"""Clients of a proxy in front of scripted servers: what each server sees, and what each client gets."""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.net.connection import Connection
from skyrocket.net.errors import RequestTimeoutError
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import ClusterInfo, GetConsumerListByGroupResponseBody, TopicRouteData
from skyrocket.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, CommandDecoder, encode_command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import CONNECTION_LOST, NOT_SENT, PROXY_FAILURE, ResponseCode
from tests.unit.proxy.scene import PULL, QUERY, QUICK, SEND, heartbeat, playing, to, until

MIB = 1024 * 1024


@pytest.mark.parametrize("serialization", list(Serialization))
async def test_requests_reach_the_broker_that_they_name_byte_for_byte(serialization: Serialization):
    async with playing() as scene:
        client = await scene.client()
        for name in ("broker-a", "broker-b"):
            request = to(name, SEND, Signature="s", text="grün")
            request.serialization, request.body = serialization, b"body"
            answer = await client.request(request)
            assert (answer.fields["by"], answer.body, answer.serialization) == (name, b"body", serialization)
            (asked,) = scene.brokers[name].asked
            assert asked == request


async def test_a_client_sees_the_proxy_in_routes_and_in_cluster_information():
    async with playing(broker_ports=()) as scene:
        client = await scene.client()
        route = await scene.learn(client)
        assert [each.broker_addrs for each in route.broker_datas] == [{0: scene.proxy.address}] * 2
        answer = await client.request(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        brokers = decode(answer.body, ClusterInfo).broker_addr_table or {}
        assert {name: each.broker_addrs for name, each in brokers.items()} == {
            "broker-a": {0: scene.proxy.address},
            "broker-b": {0: scene.proxy.address},
        }


async def test_routes_in_both_dialects_and_serializations_are_rewritten():
    async with playing() as scene:
        client = await scene.client()
        for serialization in Serialization:
            for strict in ("true", "false"):
                fields = {"topic": "t", "acceptStandardJsonOnly": strict}
                request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=fields, version=317, serialization=serialization)
                answer = await client.request(request)
                assert (b'{"0":' in answer.body, b"{0:" in answer.body) == (strict == "true", strict == "false")
                assert answer.serialization == serialization
                route = decode(answer.body, TopicRouteData)
                assert {each.broker_name for each in route.broker_datas} == {"broker-a", "broker-b"}
                assert scene.brokers["broker-a"].address.encode() not in answer.body


async def test_an_answer_of_a_nameserver_that_nobody_can_read_is_an_error():
    async with playing() as scene:
        scene.names.script[int(RequestCode.GET_ROUTEINFO_BY_TOPIC)] = lambda command, _: command.response(0, body=b"[broken")
        answer = await (await scene.client()).request(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "t"}))
        assert (answer.code, "cannot be read" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        scene.names.script[int(RequestCode.GET_ROUTEINFO_BY_TOPIC)] = lambda command, _: command.response(17, remark="no")
        answer = await (await scene.client()).request(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "t"}))
        assert (answer.code, answer.remark) == (17, "no")


async def test_what_names_no_broker_goes_to_the_only_one_and_is_refused_when_there_are_two():
    async with playing("broker-a") as one:
        assert (await (await one.client()).request(Command(QUERY))).fields["by"] == "broker-a"
    async with playing() as two:
        answer = await (await two.client()).request(Command(QUERY))
        assert answer.code == ResponseCode.VERSION_NOT_SUPPORTED
        assert "brokerPorts" in (answer.remark or "")


async def test_what_only_servers_send_and_what_changes_nameservers_is_refused():
    async with playing() as scene:
        client = await scene.client()
        for code, expected in (
            (RequestCode.REGISTER_BROKER, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            (RequestCode.PUT_KV_CONFIG, ResponseCode.NO_PERMISSION),
            (RequestCode.UPDATE_NAMESRV_CONFIG, ResponseCode.NO_PERMISSION),
        ):
            assert (await client.request(Command(code))).code == expected
        assert set(scene.names.codes) == {RequestCode.GET_BROKER_CLUSTER_INFO}
    async with playing(namesrv_admin=True) as scene:
        assert (await (await scene.client()).request(Command(RequestCode.PUT_KV_CONFIG))).fields["by"] == "names"


async def test_what_the_proxy_refuses_is_in_its_audit_log(tmp_path: Path):
    audit = tmp_path / "audit.log"
    async with playing(audit_log_path=str(audit)) as scene:
        client = await scene.client()
        for code in (RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_TOPIC_IN_NAMESRV, 31_000):
            await client.request(Command(code, fields={"AccessKey": "anybody"}))
        await client.request(to("broker-a"))
    lines = [json.loads(text) for text in audit.read_text().splitlines()]
    assert [(line["decision"], line["user"], line["request"], line["response"]) for line in lines] == [
        ("refused", "", "PUT_KV_CONFIG", ResponseCode.NO_PERMISSION),
        ("refused", "", "DELETE_TOPIC_IN_NAMESRV", ResponseCode.NO_PERMISSION),
    ]


async def test_names_that_somebody_makes_up_leave_nothing_behind():
    async with playing() as scene:
        client = await scene.client()
        answers = await asyncio.gather(*(client.request(to(f"made-up-{i}")) for i in range(50)))
        assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert "No nameserver knows broker made-up-" in (answers[0].remark or "")
        (session,) = scene.proxy._sessions.values()
        assert not session._links
        assert not session._brokers
    async with playing(limits=replace(QUICK, links_max=2)) as scene:
        client = await scene.client()
        answers = await asyncio.gather(*(client.request(to(f"made-up-{i}")) for i in range(3)))
        assert [answer.code for answer in answers].count(ResponseCode.SYSTEM_BUSY) == 1
        (session,) = scene.proxy._sessions.values()
        assert not session._links
        assert not session._brokers


async def test_names_that_somebody_makes_up_beyond_the_bound_of_links_get_no_heartbeat():
    limits = replace(QUICK, links_max=3)  # a nameserver, and two brokers
    async with playing(limits=limits) as scene:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.proxy.port)
        requests = [Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "t"}), to("broker-a"), to("broker-b")]
        requests += [to(f"made-up-{i}") for i in range(5_000)]
        for opaque, request in enumerate(requests):
            request.opaque = opaque
        writer.write(b"".join(map(encode_command, requests)))
        decoder, got = CommandDecoder(), []
        while len(got) < len(requests):
            got += decoder.feed(await reader.read(MIB))
        assert [each.code for each in got].count(ResponseCode.SYSTEM_BUSY) == 5_000
        (session,) = scene.proxy._sessions.values()
        assert session._brokers == {"broker-a", "broker-b"}
        writer.write(encode_command(heartbeat()))
        (answer,) = decoder.feed(await reader.read(MIB))
        assert answer.code == 0
        expected = [[QUERY, RequestCode.HEART_BEAT]] * 2
        await until(lambda: [broker.codes for broker in scene.brokers.values()] == expected, "both have one heartbeat")
        writer.close()
        await writer.wait_closed()


# --- heartbeats and members


async def test_a_heartbeat_goes_to_every_broker_that_the_client_uses_and_comes_before_what_follows():
    async with playing("broker-a", "broker-b", "broker-c") as scene:
        del scene.table["broker-c"]
        client = await scene.client()
        await scene.learn(client)
        beat = client.request(heartbeat())
        query = client.request(to("broker-b"))
        assert ((await beat).code, (await query).code) == (0, 0)
        assert scene.brokers["broker-a"].codes == [RequestCode.HEART_BEAT]
        assert scene.brokers["broker-b"].codes == [RequestCode.HEART_BEAT, QUERY]
        assert scene.brokers["broker-c"].codes == []


async def test_a_client_without_a_route_is_known_to_every_broker():
    """It has connected again, and asks for its routes later. No broker may take it for one that has left."""
    async with playing() as scene:
        client = await scene.client()
        await client.request(to("broker-a"))
        await client.request(heartbeat())
        assert RequestCode.HEART_BEAT in scene.brokers["broker-b"].codes


async def test_a_broker_that_is_away_keeps_no_heartbeat_waiting_for_long():
    async with playing() as scene:
        client = await scene.client()
        await scene.learn(client)
        scene.brokers["broker-b"].script[int(RequestCode.HEART_BEAT)] = lambda _, __: None
        assert (await client.request(heartbeat())).code == 0
        await scene.brokers["broker-a"].stop()
        answer = await client.request(heartbeat("two"))
        assert (answer.code, "None of 2 brokers answers" in (answer.remark or "")) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)


async def test_the_same_heartbeat_for_each_broker_reaches_each_broker_once():
    async with playing() as scene:
        client = await scene.client()
        await scene.learn(client)
        await client.request(heartbeat())
        before = [broker.codes for broker in scene.brokers.values()]
        assert (await client.request(heartbeat())).code == 0
        assert [broker.codes for broker in scene.brokers.values()] == before


async def test_the_members_of_a_group_are_those_of_every_broker():
    async with playing() as scene:
        for name, broker in scene.brokers.items():
            body = encode(GetConsumerListByGroupResponseBody(consumer_id_list=["both", name]))
            broker.script[int(RequestCode.GET_CONSUMER_LIST_BY_GROUP)] = lambda command, _, body=body: command.response(
                0, body=body
            )
        client = await scene.client()
        await scene.learn(client)
        answer = await client.request(Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields={"consumerGroup": "g"}))
        found = decode(answer.body, GetConsumerListByGroupResponseBody).consumer_id_list
        assert found == ["both", "broker-a", "broker-b"]


async def test_a_broker_that_was_started_again_hears_the_heartbeat_first():
    async with playing("broker-a") as scene:
        client, broker = await scene.client(), scene.brokers["broker-a"]
        await scene.learn(client)
        await client.request(heartbeat())
        await broker.stop()
        broker.asked.clear()
        await broker.start(broker.port)
        assert (await client.request(to("broker-a"))).code == 0
        assert [(command.code, command.is_oneway) for command in broker.asked] == [
            (RequestCode.HEART_BEAT, True),
            (QUERY, False),
        ]
        await client.request(Command(RequestCode.UNREGISTER_CLIENT))
        await broker.stop()
        broker.asked.clear()
        await broker.start(broker.port)
        await client.request(to("broker-a"))
        assert broker.codes == [QUERY], "it has left its groups"


# --- servers that come and go


async def test_what_was_sent_to_a_broker_that_dies_has_an_unknown_outcome_and_the_rest_was_not_sent():
    async with playing() as scene:
        broker, client = scene.brokers["broker-a"], await scene.client()
        broker.script[int(SEND)] = lambda _, __: None
        waiting = client.request(to("broker-a", SEND), 60_000)
        await until(lambda: SEND in broker.codes, "the broker has the request")
        broker.connections[0].abort("the test says so")
        lost = await waiting
        assert (lost.code, lost.fields[PROXY_FAILURE]) == (ResponseCode.SERVICE_NOT_AVAILABLE, CONNECTION_LOST)
        await broker.stop()
        refused = await client.request(to("broker-a", SEND))
        assert (refused.code, refused.fields[PROXY_FAILURE]) == (ResponseCode.SERVICE_NOT_AVAILABLE, NOT_SENT)
        assert (await client.request(to("broker-b"))).fields["by"] == "broker-b"
        assert scene.proxy.in_flight.size_bytes == 0


async def test_a_silent_broker_is_given_up():
    async with playing(limits=replace(QUICK, silent_ms=50)) as scene:
        client = await scene.client()
        scene.brokers["broker-a"].script[int(SEND)] = lambda _, __: None
        lost = await client.request(to("broker-a", SEND), 60_000)
        assert lost.fields[PROXY_FAILURE] == CONNECTION_LOST


async def test_a_broker_that_sends_no_frames_loses_its_connection():
    async with playing() as scene:
        client = await scene.client()

        def nonsense(command: Command, connection: Connection) -> None:
            connection.send(struct.pack(">iI", 30, 20) + b"not json, not at all" + b"123456")

        scene.brokers["broker-a"].script[int(QUERY)] = nonsense
        lost = await client.request(to("broker-a"), 60_000)
        assert lost.fields[PROXY_FAILURE] == CONNECTION_LOST


# --- requests of servers


def answering(code: int, seen: list[Command]) -> Router:
    router = Router()

    def answer(command: Command, _: Connection) -> Command:
        seen.append(command)
        return command.response(0, body=b"answer to " + command.body)

    router.add(code, answer)
    return router


@pytest.mark.parametrize("serialization", list(Serialization))
async def test_requests_of_two_brokers_under_one_number_each_get_their_own_answer(serialization: Serialization):
    async with playing() as scene:
        seen: list[Command] = []
        client = await scene.client(router=answering(RequestCode.GET_CONSUMER_RUNNING_INFO, seen))
        for name, broker in scene.brokers.items():
            await client.request(to(name))
            request = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, body=name.encode(), serialization=serialization)
            broker.connections[0].request(request)
        for name, broker in scene.brokers.items():
            await until(lambda broker=broker: bool(broker.answers), "the client answers")
            assert broker.answers[0].body == b"answer to " + name.encode()
        assert len({command.opaque for command in seen}) == 2


async def test_a_question_about_a_transaction_names_the_broker_that_asks():
    """A broker of RocketMQ 4 leaves its name out. The client's answer says where the transaction is by that name."""
    async with playing() as scene:
        seen: list[Command] = []
        client = await scene.client(router=answering(RequestCode.CHECK_TRANSACTION_STATE, seen))
        for name, broker in scene.brokers.items():
            await client.request(to(name))
            broker.connections[0].oneway(Command(RequestCode.CHECK_TRANSACTION_STATE, body=b"half"))
            named = Command(RequestCode.CHECK_TRANSACTION_STATE, fields={"bname": "its-own"})
            broker.connections[0].oneway(named)
        await until(lambda: len(seen) == 4, "the client is asked")
        assert [command.fields["bname"] for command in seen] == ["broker-a", "its-own", "broker-b", "its-own"]


async def test_a_client_that_does_not_answer_a_broker_is_no_secret():
    async with playing(limits=replace(QUICK, client_answer_ms=50, answers_max=1)) as scene:
        broker = scene.brokers["broker-a"]
        client = await scene.client(router=(router := Router()))
        router.add(RequestCode.GET_CONSUMER_RUNNING_INFO, lambda _, __: None)
        await client.request(to("broker-a"))
        first = broker.connections[0].request(Command(RequestCode.GET_CONSUMER_RUNNING_INFO))
        second = broker.connections[0].request(Command(RequestCode.GET_CONSUMER_RUNNING_INFO))
        assert (await second).code == ResponseCode.SYSTEM_BUSY
        assert (await first).code == ResponseCode.SYSTEM_ERROR


async def test_an_answer_of_a_client_goes_to_the_connection_that_asked_or_nowhere():
    async with playing("broker-a") as scene:
        broker, released = scene.brokers["broker-a"], asyncio.Event()

        async def slow(command: Command, _: Connection) -> Command:
            await released.wait()
            return command.response(0)

        router = Router()
        router.add(RequestCode.GET_CONSUMER_RUNNING_INFO, slow)
        client = await scene.client(router=router)
        await client.request(to("broker-a"))
        asked = broker.connections[0].request(Command(RequestCode.GET_CONSUMER_RUNNING_INFO))
        await until(lambda: router.waiting == 1, "the client is asked")
        broker.connections[0].abort("the test says so")
        with pytest.raises(Exception, match="ended"):
            await asked
        await client.request(to("broker-a"))
        released.set()
        await client.request(to("broker-a"))
        assert broker.answers == []


# --- clients that do not behave


async def test_a_client_that_does_not_read_makes_the_broker_wait():
    async with playing() as scene:
        broker = scene.brokers["broker-a"]
        broker.script[int(PULL)] = lambda command, _: command.response(0, body=bytes(4 * MIB))
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.proxy.port)  # asyncio reads 128 KiB ahead, no more
        for opaque in range(1, 13):
            request = to("broker-a", PULL)
            request.opaque = opaque
            writer.write(encode_command(request))
        await until(lambda: bool(scene.proxy._sessions), "the client is known")
        (connection,) = scene.proxy._sessions
        (session,) = scene.proxy._sessions.values()
        await until(lambda: bool(session._held), "the proxy reads no more from the broker")
        most = 0
        for _ in range(20):
            await asyncio.sleep(0.01)
            most = max(most, connection.unwritten_bytes)
        assert connection.is_open
        assert 0 < most < 12 * MIB, "of 48 MiB that the client has asked for"
        decoder, got = CommandDecoder(), []
        while len(got) < 12:
            got += decoder.feed(await reader.read(MIB))
        assert [(each.opaque, len(each.body)) for each in got] == [(opaque, 4 * MIB) for opaque in range(1, 13)]
        await until(lambda: not session._held, "the proxy reads from the broker again")
        writer.close()
        await writer.wait_closed()


async def test_a_client_that_does_not_read_for_minutes_gets_every_response():
    """Nothing is read from the broker meanwhile, not even the rest of a frame. That is no sign that the broker has gone."""
    async with playing() as scene:
        broker = scene.brokers["broker-a"]
        broker.script[int(PULL)] = lambda command, _: command.response(0, body=bytes(4 * MIB))
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.proxy.port)
        for opaque in range(1, 13):
            request = to("broker-a", PULL)
            request.opaque = opaque
            writer.write(encode_command(request))
        await until(lambda: bool(scene.proxy._sessions), "the client is known")
        (session,) = scene.proxy._sessions.values()
        await until(lambda: session._held_look_s == QUICK.client_look_s_max, "the proxy has read nothing for many looks")
        for _ in range(2):  # twice as long as a frame, or a silent broker, gets in all
            scene.pass_time(59_000)
            looks = scene.clock_looks
            await until(lambda looks=looks: scene.clock_looks > looks + 20, "the proxy has looked at its connections and links")
        decoder, got = CommandDecoder(), []
        while len(got) < 12:
            got += decoder.feed(await reader.read(MIB))
        assert [(each.opaque, each.code, len(each.body)) for each in got] == [(opaque, 0, 4 * MIB) for opaque in range(1, 13)]
        await until(lambda: not session._held, "the proxy reads from the broker again")
        looks = scene.clock_looks
        await until(lambda: scene.clock_looks > looks + 20, "the proxy has looked again")
        assert broker.connections[0].is_open
        writer.close()
        await writer.wait_closed()


async def test_a_large_response_comes_whole():
    async with playing() as scene:
        client = await scene.client()
        body = bytes(range(256)) * (16 * 1024)
        assert (await client.request(Command(PULL, fields={"bname": "broker-a"}, body=body))).body == body


async def test_a_broker_that_does_not_read_makes_no_queue_at_the_proxy():
    async with playing(limits=replace(QUICK, unread_max_bytes=MIB)) as scene:
        client, broker = await scene.client(), scene.brokers["broker-a"]
        await client.request(to("broker-a"))
        broker.connections[0].pause(8)
        codes = []
        for _ in range(40):
            request = to("broker-a", SEND)
            request.body = bytes(MIB)
            answer = client.request(request, 200)
            try:
                codes.append((await answer).code)
            except RequestTimeoutError:
                continue
            break
        assert codes == [ResponseCode.SYSTEM_BUSY]
        assert (await client.request(to("broker-b"))).code == 0, "the other broker is not affected"


async def test_a_client_that_says_nonsense_is_closed_and_its_servers_learn_it():
    async with playing() as scene:
        client, broker = await scene.client(), scene.brokers["broker-a"]
        await client.request(to("broker-a"))
        client.send(struct.pack(">iI", 12, 8) + b"not json")
        await until(lambda: not client.is_open, "the proxy closes the connection")
        await until(lambda: not broker.connections[0].is_open, "the broker knows that the client has gone")
        assert scene.proxy.clients == 0


async def test_what_a_client_sends_one_way_before_it_leaves_arrives():
    async with playing() as scene:
        _, writer = await asyncio.open_connection("127.0.0.1", scene.proxy.port)
        request = to("broker-a", SEND)
        request.flag = ONEWAY_FLAG
        writer.write(encode_command(request))
        writer.write_eof()
        await until(lambda: SEND in scene.brokers["broker-a"].codes, "the broker has the message")
        writer.close()
        await writer.wait_closed()


async def test_a_response_that_nobody_asked_for_does_nothing():
    async with playing() as scene:
        client = await scene.client()
        client.send_command(Command(0, opaque=12345, flag=RESPONSE_FLAG))
        assert (await client.request(to("broker-a"))).code == 0


async def test_a_one_way_request_that_goes_nowhere_is_logged(caplog: pytest.LogCaptureFixture):
    """Nobody is told otherwise."""
    async with playing() as scene:
        client = await scene.client()
        client.oneway(Command(QUERY))
        assert (await client.request(to("broker-a"))).code == 0
        await until(lambda: "is dropped. Request 30 names no broker" in caplog.text, "it is logged")
