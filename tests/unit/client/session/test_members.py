"""The members of a session: heartbeats, and which member handles a broker's request."""

from __future__ import annotations

import pytest

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import ClientOptions
from skyrocket.client.session.members import GROUP_OF, SessionMember, SessionMembers
from skyrocket.client.session.session import Session
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import ConsumerData
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import NotifyConsumerIdsChangedRequestHeader
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

CHANGED = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def consumer(group: str, **given) -> SessionMember:
    return SessionMember(group=group, consumer_data=lambda: ConsumerData(group_name=group), **given)


class Wire:
    """The part of a connection that a handler uses."""

    peer_text = "10.0.0.1:10911"
    is_full = must_stop = False

    def __init__(self) -> None:
        self.sent: list[Command] = []

    def send(self, data: object) -> None:
        raise AssertionError("these handlers send no raw data")

    def send_command(self, command: Command) -> None:
        self.sent.append(command)


def changed(group: str) -> Command:
    return Command(CHANGED, flag=2, fields=NotifyConsumerIdsChangedRequestHeader(consumer_group=group).to_fields())


def test_heartbeat_lists_each_group_once():
    members = SessionMembers("client", Router())
    members.add(SessionMember(group="p"))
    members.add(SessionMember(group="p"))
    members.add(consumer("c"))
    data = members.heartbeat()
    assert data.client_id == "client"
    assert [producer.group_name for producer in data.producer_data_set] == ["p"]
    assert [consumer.group_name for consumer in data.consumer_data_set] == ["c"]


def test_remove_reports_the_last_member_of_its_kind():
    members, one, two = SessionMembers("client", Router()), SessionMember(group="g"), SessionMember(group="g")
    reading = consumer("g")
    for member in (one, two, reading):
        members.add(member)
    assert not members.remove(one)
    assert members.remove(two)
    assert members.remove(reading)


def test_second_consumer_of_a_group_is_refused():
    members = SessionMembers("client", Router())
    members.add(consumer("g"))
    with pytest.raises(ConfigurationError):
        members.add(consumer("g"))


def test_request_reaches_the_group_that_it_names():
    router = Router()
    members, heard = SessionMembers("client", router), []
    for group in ("a", "b"):
        members.add(consumer(group, handlers={CHANGED: lambda command, connection, group=group: heard.append(group)}))
    router.handle(Wire(), [changed("b"), changed("a"), changed("nobody")])
    assert heard == ["b", "a"]


def test_request_for_an_unknown_group_is_refused():
    router, wire = Router(), Wire()
    SessionMembers("client", router)
    command = changed("nobody")
    command.flag = 0
    router.handle(wire, [command])
    (response,) = wire.sent
    assert "no member" in (response.remark or "")
    assert response.code == ResponseCode.SYSTEM_ERROR


def test_group_of_a_transaction_check_comes_from_the_half_message():
    record = Record(topic="t", body=b"b", properties=encode_properties({"PGROUP": "payers"}))
    command = Command(RequestCode.CHECK_TRANSACTION_STATE, body=encode_record(record))
    assert GROUP_OF[command.code](command) == "payers"


async def test_second_consumer_of_a_group_gets_its_own_session():
    options = ClientOptions("127.0.0.1:1")
    first = await Session.acquire(options, consumer_group="g")
    first.join(consumer("g"))
    other = await Session.acquire(options, consumer_group="other")
    second = await Session.acquire(options, consumer_group="g")
    assert other is first
    assert second is not first
    assert second.client_id != first.client_id
    for session in (first, other, second):
        await session.release()
    fresh = await Session.acquire(options)
    assert fresh.client_id not in (first.client_id, second.client_id)
    await fresh.release()
