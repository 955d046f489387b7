"""Who is part of a session, and who answers what a broker asks."""

from __future__ import annotations

import pytest

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import client_options
from skyrocket.client.session.members import GROUP_OF, Member, Members
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


def consumer(group: str, **given) -> Member:
    return Member(group=group, consumer_data=lambda: ConsumerData(group_name=group), **given)


class Wire:
    """What a handler sees of a connection."""

    peer_text = "10.0.0.1:10911"
    is_full = False

    def __init__(self) -> None:
        self.sent: list[Command] = []

    def send(self, data: object) -> None:
        raise AssertionError("commands are enough here")

    def send_command(self, command: Command) -> None:
        self.sent.append(command)


def changed(group: str) -> Command:
    return Command(CHANGED, flag=2, fields=NotifyConsumerIdsChangedRequestHeader(consumer_group=group).to_fields())


def test_a_heartbeat_tells_every_group_once():
    members = Members("client", Router())
    members.add(Member(group="p"))
    members.add(Member(group="p"))
    members.add(consumer("c"))
    data = members.heartbeat()
    assert data.client_id == "client"
    assert [producer.group_name for producer in data.producer_data_set] == ["p"]
    assert [consumer.group_name for consumer in data.consumer_data_set] == ["c"]


def test_a_group_is_gone_with_its_last_member_of_a_kind():
    members, one, two = Members("client", Router()), Member(group="g"), Member(group="g")
    reading = consumer("g")
    for member in (one, two, reading):
        members.add(member)
    assert not members.remove(one)
    assert members.remove(two)
    assert members.remove(reading)


def test_a_consumer_group_has_one_member_in_a_session():
    members = Members("client", Router())
    members.add(consumer("g"))
    with pytest.raises(ConfigurationError):
        members.add(consumer("g"))


def test_a_question_reaches_the_group_that_it_names():
    router = Router()
    members, heard = Members("client", router), []
    for group in ("a", "b"):
        members.add(consumer(group, handlers={CHANGED: lambda command, connection, group=group: heard.append(group)}))
    router.handle(Wire(), [changed("b"), changed("a"), changed("nobody")])
    assert heard == ["b", "a"]


def test_a_question_for_nobody_is_answered_so():
    router, wire, answers = Router(), Wire(), []
    Members("client", router)
    wire.send = answers.append  # type: ignore[method-assign]
    command = changed("nobody")
    command.flag = 0
    router.handle(wire, [command])
    assert b"no member" in answers[0]
    assert b'"code":%d' % ResponseCode.SYSTEM_ERROR in answers[0]


def test_a_half_message_names_its_group_itself():
    record = Record(topic="t", body=b"b", properties=encode_properties({"PGROUP": "payers"}))
    command = Command(RequestCode.CHECK_TRANSACTION_STATE, body=encode_record(record))
    assert GROUP_OF[command.code](command) == "payers"


async def test_a_second_consumer_of_a_group_gets_a_session_of_its_own():
    options = client_options("127.0.0.1:1")
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
