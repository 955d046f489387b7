"""Lines of the audit log for administrative requests: what they change, and how they were answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.auth.request_audit import ADMINISTRATIVE
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.access_control import ALICE, ROOT, GuardedRouter, signed

OPEN = {"authentication_enabled": False, "authorization_enabled": False}


async def lines_of(broker: GuardedRouter) -> list[dict[str, Any]]:
    await broker.access.audit.close()
    return [json.loads(text) for text in broker.audited().splitlines()]


async def test_a_line_names_the_target_and_the_answer_and_no_secret(tmp_path: Path):
    broker = GuardedRouter(tmp_path)
    body = b'{"username":"ann","password":"ann-secret","userType":"Normal"}'
    for _ in range(2):
        await broker.ask(signed(RequestCode.AUTH_CREATE_USER, {"username": "ann"}, body, ROOT))
    await broker.ask(signed(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=4\n", ROOT))
    await broker.ask(signed(RequestCode.AUTH_DELETE_USER, {"username": "ann"}, b"", ALICE))
    lines = await lines_of(broker)
    shown = [[line[key] for key in ("decision", "user", "request", "targets", "response")] for line in lines]
    assert shown == [
        ["admitted", ROOT.name, "AUTH_CREATE_USER", ["User:ann"], ResponseCode.SUCCESS],
        ["admitted", ROOT.name, "AUTH_CREATE_USER", ["User:ann"], ResponseCode.NO_PERMISSION],
        ["admitted", ROOT.name, "UPDATE_BROKER_CONFIG", ["brokerPermission"], ResponseCode.SUCCESS],
        ["refused", ALICE.name, "AUTH_DELETE_USER", ["User:ann"], ResponseCode.NO_PERMISSION],
    ]
    assert [line["remark"] for line in lines[:3]] == ["", "The user is existed", ""]
    assert "ann-secret" not in broker.audited()
    assert "=4" not in broker.audited()


async def test_administrative_requests_are_audited_without_authentication_and_nobody_is_named(tmp_path: Path):
    """Whoever asks may claim to be anybody."""
    broker = GuardedRouter(tmp_path, **OPEN, audit_log_path=str(tmp_path / "audit.log"))
    await broker.ask(signed(RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": "orders"}, b"", ROOT))
    await broker.ask(Command(RequestCode.SEND_MESSAGE_V2, fields={"b": "orders"}))
    (line,) = await lines_of(broker)
    assert (line["user"], line["request"], line["response"]) == ("", "UPDATE_AND_CREATE_TOPIC", ResponseCode.SUCCESS)
    assert "Topic:orders" in line["resources"]


async def test_an_answer_that_takes_time_and_a_failure_are_audited(tmp_path: Path):
    broker = GuardedRouter(tmp_path, **OPEN, audit_log_path=str(tmp_path / "audit.log"))

    async def wait(command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.TOPIC_NOT_EXIST, remark="There is none.")

    def refuse(_command: Command, _connection: Connection) -> Command:
        raise RefusedError(ResponseCode.NO_PERMISSION, "Not now.")

    broker.router._handlers |= {RequestCode.DELETE_TOPIC_IN_BROKER: wait, RequestCode.CLEAN_UNUSED_TOPIC: refuse}
    await broker.ask(Command(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": "orders"}))
    await broker.ask(Command(RequestCode.CLEAN_UNUSED_TOPIC))
    assert [(line["response"], line["remark"]) for line in await lines_of(broker)] == [
        (ResponseCode.TOPIC_NOT_EXIST, "There is none."),
        (ResponseCode.NO_PERMISSION, "Not now."),
    ]


@pytest.mark.parametrize(
    ("texts", "is_audited"),
    [
        ({}, False),
        ({"authenticationEnabled": "true"}, True),
        ({"bindAddress": "0.0.0.0"}, True),
        ({"authAuditLogPath": "audit.log"}, True),
    ],
)
def test_the_audit_log_is_on_where_others_can_connect_or_somebody_wants_it(texts: dict[str, str], is_audited: bool):
    assert BrokerSettings().with_texts(texts).is_audited is is_audited


@pytest.mark.parametrize("code", sorted(ADMINISTRATIVE))
async def test_a_body_that_nobody_can_read_is_its_handlers_business(tmp_path: Path, code: int):
    broker = GuardedRouter(tmp_path, **OPEN, audit_log_path=str(tmp_path / "audit.log"))
    for body in (b"", b"{", b"[1]", b"\xff\xfe"):
        assert await broker.ask(Command(code, body=body)) is not None
    assert len(await lines_of(broker)) == 4
