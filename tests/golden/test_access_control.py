"""What mqadmin 5.5.0 and a probe asked an Apache broker with access control: ours answers the same, but for passwords."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from skyrocket.auth.users import AccessKeys, UserType
from skyrocket.protocol.command import Command
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import is_signed_by
from tests.support.brokers.access_control import GuardedRouter
from tests.support.golden import GOLDEN

N1 = AccessKeys("n1", "n1-secret")
SECRETS = {"rocketmq": "12345678", "n1": "n1-secret", "n2": "n2-secret"}
ABOUT_ACCESS = range(3001, 3011)

# Users that the captures began with, and rules of n1 that the probe set and removed around some cases.
FIRST_USERS = {"mqadmin 5.5.0": ("n0", "n1", "n2", "n3"), "raw": ("n1",)}
ADMINISTRATOR = [("Cluster:Lab", "Update,Get", "Allow")]
AROUND: dict[str, list[tuple[str, str, str]]] = {
    "normal user, deny rule": [("Topic:ZT", "Get", "Deny")],
    "normal user, rule for other action": [("Topic:ZT", "Pub", "Allow")],
    "normal user with Cluster Update creates normal user": ADMINISTRATOR,
    "… creates super user": ADMINISTRATOR,
    "… updates a super user": ADMINISTRATOR,
    "… makes itself super": ADMINISTRATOR,
    "… deletes a super user": ADMINISTRATOR,
    "… lists users with passwords": ADMINISTRATOR,
    "… grants itself everything": ADMINISTRATOR,
}
# Apache's text has a class name and a line number.
OTHER_WORDS = {"create acl, no body", "create acl, no policies"}
# Apache shows `Any:x` as `*`, and has two rules that look alike.
ANY_OF_A_NAME = '"resource":"Any:x"'
# Ours is stricter here: Apache lets every user do these.
STRICTER = {
    "getBrokerConfig, normal user, no rules",
    "updateBrokerConfig, normal user, no rules",
    "createSubscriptionGroup, normal user, no rules",
    "create topic list, normal user, no rules",
}


@cache
def exchanges() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "access_control.jsonl").read_text().splitlines()]


def request(exchange: dict[str, Any]) -> Command:
    fields = dict(exchange["extFields"] or {})
    return Command(exchange["code"], opaque=1, fields=fields, body=exchange["body"].encode(), version=exchange["version"])


def without_passwords(body: str) -> Any:
    found = json.loads(body) if body else None
    for user in found if isinstance(found, list) else [found]:
        if user:
            user.pop("password", None)
    return found


def test_every_signature_of_apaches_client_is_recomputed():
    checked = 0
    for exchange in exchanges():
        command = request(exchange)
        secret = SECRETS.get(command.fields.get("AccessKey", ""))
        remark = exchange["response"]["remark"] or ""
        if secret is None:
            continue
        is_right = is_signed_by(command.fields, command.body, command.version, secret)
        if exchange["source"] == "raw":
            assert is_right == ("check signature failed" not in remark), exchange["case"]
        checked += is_right
    assert checked > 60


@pytest.mark.parametrize("is_compatible", [False, True], ids=["ours", "compatible"])
async def test_answers_are_apaches(tmp_path: Path, is_compatible: bool):
    brokers = {}
    for source, names in FIRST_USERS.items():
        brokers[source] = GuardedRouter(tmp_path / source, authorization_compatible=is_compatible)
        brokers[source].add_user(AccessKeys("inner", "inner-secret"), UserType.SUPER)
        for name in names:
            brokers[source].add_user(AccessKeys(name, f"{name}-secret"))
    different = []
    for exchange in exchanges():
        command, case, expected = request(exchange), exchange.get("case", ""), exchange["response"]
        broker = brokers[exchange["source"]]
        for resource, actions, decision in AROUND.get(case, ()):
            broker.allow(N1, resource, *actions.split(","), decision=decision)
        answer = await broker.ask(command)
        if case in AROUND:
            broker.access.store.change_now(lambda table: table.delete_acl("User:n1", None, None))
        assert answer is not None
        shown = f"{exchange['source']} {command.code} {case!r}: {answer.code} {answer.remark!r} {answer.body!r}, not {expected}"
        if case in STRICTER and not is_compatible:
            assert answer.code == ResponseCode.NO_PERMISSION, shown
        elif command.code in ABOUT_ACCESS or expected["code"] == ResponseCode.NO_PERMISSION:
            is_same_remark = case in OTHER_WORDS or (answer.remark or "") == (expected["remark"] or "")
            body = answer.body.decode().replace(ANY_OF_A_NAME, '"resource":"*"')
            if (
                answer.code != expected["code"]
                or not is_same_remark
                or without_passwords(body) != without_passwords(expected["body"])
            ):
                different.append(shown)
            assert b"password" not in answer.body, shown
        else:
            assert answer.code != ResponseCode.NO_PERMISSION, shown
    assert not different, "\n".join(different)
    for broker in brokers.values():
        await broker.access.audit.close()
