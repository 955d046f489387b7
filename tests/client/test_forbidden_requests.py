"""Forbidden requests over sockets to real servers with access control: each is refused and logged, and changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from skyrocket.auth.users import AccessKeys
from skyrocket.client import Admin, Credentials
from skyrocket.protocol.bodies import KVTable
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.requests import REQUESTS, TO_BROKER, RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import ACCESS_KEY, SIGNATURE
from tests.support.brokers.forbidden_requests import (
    ALICE,
    BODY,
    GROUP,
    NEW_PASSWORD,
    ROOT,
    TOPIC,
    Request,
    Wire,
    forgeries,
    harmful_requests,
    heartbeat,
    minimal_request,
    nameserver_requests,
)
from tests.support.processes.skyrocket_process import Skyrocket, SkyrocketNameserver
from tests.support.waiting import wait_until
from tests.unit.nameserver.running import registration

INNER = AccessKeys("inner", "inner-secret")
USERS = {
    "authenticationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT.name, "password": ROOT.password}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": INNER.name, "secretKey": INNER.password}),
}
NO_CHECKS = {"transactionTimeOut": 3_600_000, "transactionCheckInterval": 3_600_000}  # they would append to the log
SEND = {"a": "P", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1000", "h": "0"}
HALF = "PGROUP\x01P\x02TRAN_MSG\x01true\x02"

# Each of them could do everything, and cannot any more.
DISABLED, DELETED, CHANGED, WITHDRAWN, ELSEWHERE, DENIED = FORMER = [
    AccessKeys(name, f"{name}-secret") for name in ("disabled", "deleted", "changed", "withdrawn", "elsewhere", "denied")
]
WITHOUT_SUCCESS = {  # how an administrator is answered where there is nothing to do
    RequestCode.RECALL_MESSAGE: ResponseCode.ILLEGAL_OPERATION,
    RequestCode.QUERY_MESSAGE: ResponseCode.QUERY_NOT_FOUND,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
}
NEXT_PASSWORD = "the-next-secret"
Named = tuple[str, Command]


class Guarded:
    """The connections to a guarded server: to each of its ports, in each serialization."""

    def __init__(self, ports: Iterable[int], audit_log: Path, stack: ExitStack) -> None:
        self._audit_log = audit_log
        self.wires = [stack.enter_context(Wire(port, serialization)) for port in ports for serialization in Serialization]
        self._sent: Counter[tuple[str, int, str]] = Counter()  # by peer, code and user
        self._signatures: set[str] = set()

    def refuses(self, requests: list[Named]) -> int:
        """Send all of them on every connection, and return how many were refused. Each of them must be."""
        for wire in self.wires:
            for (name, command), answer in zip(requests, wire.ask_all(requests), strict=True):
                about = f"{REQUESTS[command.code].name} {name}, {wire.name}"
                if not command.is_oneway:
                    assert answer is not None
                    assert answer.code == ResponseCode.NO_PERMISSION, f"{about}: {answer}"
                    assert answer.remark, f"{about} is refused without a reason"
                self._sent[wire.peer, command.code, command.fields.get(ACCESS_KEY, "")] += 1
                self._signatures.add(command.fields.get(SIGNATURE, ""))
        return len(requests) * len(self.wires)

    def logs_what_it_refused(self, *secrets: str) -> None:
        """The audit log has one line for each refused request, and nothing that helps anybody."""

        def refused() -> Counter[tuple[str, int, str]]:
            lines = [json.loads(line) for line in self._audit_log.read_text().splitlines()]
            return Counter((line["peer"], line["code"], line["user"]) for line in lines if line["decision"] == "refused")

        wait_until(lambda: refused().total() >= self._sent.total(), "every refused request is in the audit log")
        assert refused() == self._sent
        text = self._audit_log.read_text()
        shown = {secret for secret in {*secrets, *self._signatures} if len(secret) >= 8 and secret in text}
        assert not shown


def broker_state(wire: Wire, home: Path) -> dict[str, object]:
    """Everything that a request could have changed."""
    runtime = decode(wire.ask_as(ROOT, RequestCode.GET_BROKER_RUNTIME_INFO).body, KVTable).table or {}
    read = {
        "topics": RequestCode.GET_ALL_TOPIC_CONFIG,
        "groups": RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        "offsets": RequestCode.GET_ALL_CONSUMER_OFFSET,
        "settings": RequestCode.GET_BROKER_CONFIG,
        "users": RequestCode.AUTH_LIST_USER,
        "rules": RequestCode.AUTH_LIST_ACL,
    }
    answers = {what: wire.ask_as(ROOT, code) for what, code in read.items()}
    assert all(answer.code == ResponseCode.SUCCESS for answer in answers.values()), answers
    consumers = wire.ask_as(ROOT, RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=GROUP)
    return {
        **{what: answer.body for what, answer in answers.items()},
        "clients": (consumers.code, consumers.body),
        "end of the log": runtime["commitLogMaxOffset"],
        "users on disk": next(home.rglob("access.json")).read_bytes(),
    }


def changes(before: dict[str, object], after: dict[str, object]) -> set[str]:
    return {what for what in before if before[what] != after[what]}


async def prepare(admin: Admin, wires: list[Wire]) -> tuple[Command, list[Named]]:
    """Return the answer to a half message, and requests that were served while their users could still send them."""
    for topic in (TOPIC, "orders"):
        await admin.topics.create(topic, queues=1)
    await admin.groups.create(GROUP)
    await admin.access.create_user(ALICE.name, ALICE.password)
    await admin.access.create_rules(ALICE.name, ["Topic:orders", "Group:coupons"], ["Pub", "Sub", "Get"])
    for keys in FORMER:
        await admin.access.create_user(keys.name, keys.password)
        await admin.access.create_rules(keys.name, ["*"], ["All"])
    send = Request(RequestCode.SEND_MESSAGE_V2, {**SEND, "b": TOPIC}, BODY)
    captured = [(f"replayed, of the user {keys.name}", send.signed_by(keys)) for keys in FORMER]
    for wire in wires:
        served = wire.ask_all(captured)
        assert all(answer is not None and answer.code == ResponseCode.SUCCESS for answer in served), served
    offset = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 1}
    assert wires[0].ask_as(ROOT, RequestCode.UPDATE_CONSUMER_OFFSET, **offset).code == ResponseCode.SUCCESS
    member = wires[0].ask_as(ROOT, RequestCode.HEART_BEAT, heartbeat("auditor"))
    assert member.code == ResponseCode.SUCCESS, member
    half = wires[0].ask_as(ROOT, RequestCode.SEND_MESSAGE_V2, BODY, **{**SEND, "b": TOPIC, "f": "4", "i": HALF})
    assert half.code == ResponseCode.SUCCESS, half
    await admin.access.update_user(DISABLED.name, is_enabled=False)
    await admin.access.delete_user(DELETED.name)
    await admin.access.update_user(CHANGED.name, password=NEXT_PASSWORD)
    await admin.access.delete_rules(WITHDRAWN.name)
    await admin.access.update_rules(ELSEWHERE.name, ["*"], ["All"], sources=["192.168.0.0/16"])
    await admin.access.update_rules(DENIED.name, ["*"], ["All"], deny=True)
    return half, captured


async def test_a_broker_refuses_and_logs_wrong_forged_replayed_and_forbidden_requests_of_every_kind(tmp_path: Path):
    audit_log = tmp_path / "audit.log"
    settings = {**USERS, **NO_CHECKS, "authorizationEnabled": "true", "recallMessageEnable": "true"}
    settings["authAuditLogPath"] = audit_log
    with Skyrocket(tmp_path, settings) as server, ExitStack() as stack:
        port = int(server.address.split(":")[1])
        broker = Guarded([port, port - 2], audit_log, stack)
        wire = broker.wires[0]
        async with Admin(server.nameserver, credentials=Credentials(ROOT.name, ROOT.password)) as admin:
            half, captured = await prepare(admin, broker.wires)
        kinds = harmful_requests(half)
        before = broker_state(wire, server.data)

        refused = broker.refuses(captured)
        for request in kinds:
            refused += broker.refuses(list(forgeries(request)))
            refused += broker.refuses([(f"of the user {keys.name}", request.signed_by(keys)) for keys in (ALICE, *FORMER)])
        for code in sorted(code for code, spec in REQUESTS.items() if spec.direction & TO_BROKER):
            refused += broker.refuses([("with nothing but names", Command(code, fields=minimal_request(code).fields))])
        assert refused >= 50 * len(kinds)

        changed = changes(before, broker_state(wire, server.data))
        assert not changed, f"refused requests have changed {changed}"
        passwords = [keys.password for keys in (ROOT, INNER, ALICE, *FORMER)]
        broker.logs_what_it_refused(*passwords, NEW_PASSWORD, NEXT_PASSWORD, BODY.decode(), "fileReservedTime")
        assert not server.complaints()
        for each in broker.wires:  # all are open, and a read event with a forbidden request in it serves the others
            sends = [Request(RequestCode.SEND_MESSAGE_V2, {**SEND, "b": topic}, BODY) for topic in ("orders", TOPIC, "orders")]
            answers = each.ask_all([("among others", send.signed_by(ALICE)) for send in sends])
            codes = [answer and answer.code for answer in answers]
            assert codes == [ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS], each.name

        before = broker_state(wire, server.data)
        for request in kinds:  # so it was their senders that these requests were refused for
            answer = wire.ask(request.signed_by(ROOT))
            expected = WITHOUT_SUCCESS.get(request.code, ResponseCode.SUCCESS)
            assert answer.code == expected, (request, answer)
        assert changes(before, broker_state(wire, server.data)) == before.keys()


def nameserver_state(wire: Wire) -> dict[str, object]:
    answers = {
        "brokers": wire.ask_as(ROOT, RequestCode.GET_BROKER_CLUSTER_INFO),
        "topics": wire.ask_as(ROOT, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        "routes": wire.ask_as(ROOT, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC),
        "keys": wire.ask_as(ROOT, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="n"),
        "settings": wire.ask_as(ROOT, RequestCode.GET_NAMESRV_CONFIG),
    }
    return {what: (answer.code, answer.body) for what, answer in answers.items()}


def test_a_nameserver_refuses_and_logs_wrong_and_forged_requests(tmp_path: Path):
    audit_log = tmp_path / "audit.log"
    settings = {**USERS, "authAuditLogPath": audit_log}
    with SkyrocketNameserver(tmp_path, settings) as server, ExitStack() as stack:
        nameserver = Guarded([int(server.nameserver.split(":")[1])], audit_log, stack)
        wire = nameserver.wires[0]
        known = registration(TOPIC, "orders")
        kinds = nameserver_requests(known)
        own = Request(RequestCode.REGISTER_BROKER, known.fields, known.body).signed_by(INNER)
        assert wire.ask(own).code == ResponseCode.SUCCESS
        put = wire.ask_as(ROOT, RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
        assert put.code == ResponseCode.SUCCESS
        before = nameserver_state(wire)
        assert {code for code, _ in before.values()} == {ResponseCode.SUCCESS}

        for request in kinds:
            nameserver.refuses(list(forgeries(request)))
            nameserver.refuses([("of a user whom only brokers know", request.signed_by(ALICE))])

        changed = changes(before, nameserver_state(wire))
        assert not changed, f"refused requests have changed {changed}"
        nameserver.logs_what_it_refused(*(keys.password for keys in (ROOT, INNER, ALICE)))
        assert not server.complaints()
        for request in kinds:
            answer = wire.ask(request.signed_by(ROOT))
            assert answer.code == ResponseCode.SUCCESS, (request, answer)
        assert changes(before, nameserver_state(wire)) == before.keys()
