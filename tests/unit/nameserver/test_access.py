"""Who may change what a nameserver knows, where authenticationEnabled is on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.auth.users import AccessKeys
from skyrocket.nameserver.access import LOOK_UPS
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import REQUESTS, TO_NAMESERVER, RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import signed_fields
from skyrocket.settings.errors import SettingsError
from tests.support.waiting import wait_until
from tests.unit.nameserver.running import Running, a_nameserver, registration

INNER = AccessKeys("inner", "inner-secret")
ADMIN = AccessKeys("admin", "admin-secret")
CODES = [RequestCode(code) for code, request in REQUESTS.items() if request.direction & TO_NAMESERVER]
CHANGES = sorted(set(CODES) - LOOK_UPS)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with a_nameserver(tmp_path, authentication_enabled=True, inner_credentials=INNER, init_user=ADMIN) as running:
        yield running


def sign(command: Command, keys: AccessKeys) -> Command:
    command.fields = signed_fields(command.fields, command.body, keys.name, keys.password)
    return command


def ask(running: Running, command: Command) -> Command:
    with running.connected() as connected:
        return connected(command)


def put(keys: AccessKeys | None = None) -> Command:
    command = Command(RequestCode.PUT_KV_CONFIG, opaque=3, fields={"namespace": "n", "key": "k", "value": "v"})
    return command if keys is None else sign(command, keys)


def stored_value(running: Running) -> int:
    return running.ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k").code


def test_broker_with_the_credentials_registers_and_everyone_finds_it(running: Running):
    with running.connected() as connected:
        assert connected(sign(registration("orders", "payments"), INNER)).code == ResponseCode.SUCCESS
        assert running.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").code == ResponseCode.SUCCESS


def test_stranger_cannot_register_a_broker(running: Running):
    with running.connected() as connected:
        answer = connected(registration("orders", "payments"))
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "username cannot be null.")
        assert running.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    ("keys", "remark"),
    [
        (AccessKeys("inner", "guessed"), "check signature failed."),
        (AccessKeys("nobody", "inner-secret"), "User:nobody is not found."),
    ],
)
def test_wrong_credentials_are_refused_and_change_nothing(running: Running, keys: AccessKeys, remark: str):
    answer = ask(running, put(keys))
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, remark)
    assert stored_value(running) != ResponseCode.SUCCESS


def test_changed_request_is_refused(running: Running):
    forged = put(ADMIN)
    forged.fields["value"] = "another"
    assert ask(running, forged).code == ResponseCode.NO_PERMISSION
    assert stored_value(running) != ResponseCode.SUCCESS


def test_administrator_changes_what_the_nameserver_knows(running: Running):
    assert ask(running, put(ADMIN)).code == ResponseCode.SUCCESS
    assert stored_value(running) == ResponseCode.SUCCESS


@pytest.mark.parametrize("code", CHANGES, ids=lambda code: code.name)
def test_every_code_that_is_no_look_up_needs_a_signature(running: Running, code: RequestCode):
    assert running.ask(code).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("code", sorted(LOOK_UPS), ids=lambda code: code.name)
def test_look_ups_need_none(running: Running, code: RequestCode):
    assert running.ask(code).code != ResponseCode.NO_PERMISSION


def test_refused_and_administrative_requests_are_in_the_audit_log(running: Running, tmp_path: Path):
    ask(running, put())
    ask(running, sign(registration("orders", "payments"), INNER))
    ask(running, put(ADMIN))
    audit = tmp_path / "auth_audit.log"
    wait_until(lambda: audit.exists() and len(audit.read_text().splitlines()) >= 2, "two lines of the audit log")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["decision"], line["user"], line["request"]) for line in lines] == [
        ("refused", "", "PUT_KV_CONFIG"),
        ("admitted", "admin", "PUT_KV_CONFIG"),
    ]
    assert [(line["targets"], line["response"]) for line in lines] == [(["n/k"], 16), (["n/k"], 0)]
    assert "secret" not in audit.read_text()


def test_changes_are_audited_without_authentication_where_a_file_is_named(tmp_path: Path):
    audit = tmp_path / "audit.log"
    with a_nameserver(tmp_path, audit_log_path=str(audit)) as running:
        assert ask(running, put(ADMIN)).code == ResponseCode.SUCCESS
        assert stored_value(running) == ResponseCode.SUCCESS
        wait_until(audit.exists, "a line of the audit log")
    (line,) = [json.loads(line) for line in audit.read_text().splitlines()]
    assert (line["user"], line["request"], line["targets"], line["response"]) == ("", "PUT_KV_CONFIG", ["n/k"], 0)


def test_authentication_without_credentials_of_brokers_is_refused():
    with pytest.raises(SettingsError, match="without them no broker could register"):
        NameserverSettings().with_texts({"authenticationEnabled": "true"})


def test_settings_do_not_show_the_passwords(running: Running):
    answer = ask(running, sign(Command(RequestCode.GET_NAMESRV_CONFIG, opaque=4), ADMIN))
    assert answer.code == ResponseCode.SUCCESS
    assert b"inner-secret" not in answer.body
    assert b"admin-secret" not in answer.body
