"""The guard before all handlers: what is refused is logged, changes nothing, and reaches no handler."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from skyrocket.auth.errors import AccessError
from skyrocket.auth.users import AccessKeys, User, UserStatus, UserType
from skyrocket.net.connection import Connection
from skyrocket.net.router import Arrival
from skyrocket.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_header
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.protocol.requests import REQUESTS, TO_BROKER, RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import signed_fields
from tests.support.brokers.access_control import ALICE, ROOT, GuardedRouter, KeptAnswers, signed

BOB = AccessKeys("bob", "bob-secret")
SEND = {"a": "P", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
RULE = b'{"policies":[{"entries":[{"resource":"*","actions":["All"],"decision":"Allow"}]}]}'


def refused_requests() -> list[tuple[str, Command]]:
    """At least 50 requests that must be refused, of every kind."""
    found: list[tuple[str, Command]] = []
    for code, fields, body in (
        (310, SEND, b"m"),
        (11, {"topic": "orders", "consumerGroup": "G"}, b""),
        (17, {"topic": "orders"}, b""),
        (25, {}, b"brokerPermission=0\n"),
        (3001, {"username": "eve"}, b'{"password":"p","userType":"Super"}'),
        (3006, {"subject": "User:alice"}, RULE),
    ):
        right = signed_fields(fields, body, ROOT.name, ROOT.password)
        for kind, forged in {
            "without credentials": fields,
            "unknown user": signed_fields(fields, body, "ghost", "x"),
            "empty user": signed_fields(fields, body, "", "x"),
            "wrong secret": signed_fields(fields, body, ROOT.name, "wrong"),
            "without signature": {**fields, "AccessKey": ROOT.name},
            "empty signature": {**right, "Signature": ""},
            "signature with a blank": {**right, "Signature": right["Signature"] + " "},
            "changed field": {**right, "topic": "secrets", "b": "secrets"},
            "added field": {**right, "more": "x"},
            "signature of another user": {**right, "AccessKey": ALICE.name},
        }.items():
            found.append((f"{kind} {code}", Command(code, opaque=1, fields=dict(forged), body=body)))
        found.append((f"replayed with another body {code}", Command(code, opaque=1, fields=dict(right), body=body + b" ")))
        found.append((f"forbidden {code}", signed(code, fields, body, ALICE)))
        found.append((f"disabled {code}", signed(code, fields, body, BOB)))
    return found


async def test_wrong_forged_replayed_and_forbidden_requests_are_refused_logged_and_change_nothing(tmp_path: Path):
    broker = GuardedRouter(tmp_path)
    broker.add_user(ALICE)
    broker.add_user(BOB)
    assert (await asked(broker, signed(3002, {"username": "bob"}, b'{"userStatus":"disable"}', ROOT))).code == 0
    before, file_before = broker.table, (tmp_path / "config" / "access.json").read_bytes()
    requests = refused_requests()
    assert len(requests) >= 50
    for kind, command in requests:
        answer = await asked(broker, command)
        assert answer.code == ResponseCode.NO_PERMISSION, f"{kind}: {answer}"
    assert not broker.served
    assert broker.table == before
    assert (tmp_path / "config" / "access.json").read_bytes() == file_before
    await broker.access.audit.close()
    lines = [json.loads(line) for line in broker.audited().splitlines()]
    assert len([line for line in lines if line["decision"] == "refused"]) == len(requests)
    for secret in (*(keys.password for keys in (ROOT, ALICE, BOB)), "Signature", "brokerPermission=0"):
        assert secret not in broker.audited()


CAPTURED: list[tuple[int, dict[str, str], bytes]] = [
    (RequestCode.SEND_MESSAGE_V2, SEND, b"m"),
    (RequestCode.PULL_MESSAGE, {"topic": "orders", "consumerGroup": "G"}, b""),
    (RequestCode.UPDATE_CONSUMER_OFFSET, {"topic": "orders", "consumerGroup": "G", "queueId": "0", "commitOffset": "1"}, b""),
    (RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": "orders"}, b""),
    (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}, b""),
    (RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=0\n"),
    (RequestCode.END_TRANSACTION, {"topic": "orders"}, b""),
]
TAKEN_AWAY: dict[str, Callable[[GuardedRouter], None]] = {
    "its user has another password": lambda broker: broker.add_user(AccessKeys(ALICE.name, "another")),
    "its user is gone": lambda broker: broker.access.store.change_now(lambda table: table.delete_user(ALICE.name, None)),
    "its user is disabled": lambda broker: broker.access.store.change_now(
        lambda table: table.with_user(User(ALICE.name, ALICE.password, status=UserStatus.DISABLE))
    ),
    "its rule is gone": lambda broker: broker.access.store.change_now(
        lambda table: table.delete_acl(f"User:{ALICE.name}", None, "")
    ),
    "its rule denies now": lambda broker: broker.allow(ALICE, "*", "All", decision="Deny"),
    "it comes from elsewhere": lambda broker: broker.allow(ALICE, "*", "All", sources=("192.168.0.0/16",)),
}


@pytest.mark.parametrize("why", TAKEN_AWAY)
async def test_captured_requests_are_good_only_while_their_user_may_still_do_it(tmp_path: Path, why: str):
    """The protocol has no time in it: a request of today is good tomorrow, but only while its user may still do it."""
    broker = GuardedRouter(tmp_path)
    broker.add_user(ALICE)
    broker.allow(ALICE, "*", "All")
    for captured in CAPTURED:
        assert (await asked(broker, signed(*captured))).code == 0
    broker.served.clear()
    TAKEN_AWAY[why](broker)
    table = broker.table
    for captured in CAPTURED:  # byte for byte the same
        assert (await asked(broker, signed(*captured))).code == ResponseCode.NO_PERMISSION, captured
    assert (broker.served, broker.table) == ([], table)
    await broker.access.audit.close()
    lines = [json.loads(line) for line in broker.audited().splitlines()]
    assert len([line for line in lines if line["decision"] == "refused"]) == len(CAPTURED)


async def asked(broker: GuardedRouter, command: Command) -> Command:
    answer = await broker.ask(command)
    assert answer is not None
    return answer


@pytest.mark.parametrize("code", sorted(code for code, spec in REQUESTS.items() if spec.direction & TO_BROKER))
async def test_no_code_is_served_without_credentials(tmp_path: Path, code: int):
    broker = GuardedRouter(tmp_path)
    assert (await asked(broker, Command(code, fields={"topic": "T"}))).code == ResponseCode.NO_PERMISSION
    assert not broker.served


async def test_oneway_requests_are_refused_without_an_answer(tmp_path: Path):
    broker = GuardedRouter(tmp_path)
    assert await broker.ask(Command(310, fields=dict(SEND), flag=ONEWAY_FLAG)) is None
    assert not broker.served


async def test_rules_allow_and_changes_count_from_the_next_request_on(tmp_path: Path):
    broker = GuardedRouter(tmp_path)
    broker.add_user(ALICE)
    assert (await asked(broker, signed(310, SEND))).code == ResponseCode.NO_PERMISSION
    broker.allow(ALICE, "Topic:ord*", "Pub")
    assert (await asked(broker, signed(310, SEND))).code == 0
    assert (await broker.ask(signed(310, SEND), "10.0.0.1")) is not None
    broker.allow(ALICE, "Topic:ord*", "Pub", sources=("192.168.0.0/16",))
    assert (await asked(broker, signed(310, SEND))).code == ResponseCode.NO_PERMISSION
    broker.access.store.change_now(lambda table: table.delete_user("alice", None))
    answer = await asked(broker, signed(310, SEND))
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "User:alice is not found.")


async def test_no_handler_gets_a_signature_that_it_could_pass_on(tmp_path: Path):
    """The request code is not signed: a consumer that is asked by an administrator could send the fields under another code."""
    broker = GuardedRouter(tmp_path)
    command = signed(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "G", "SecurityToken": "t"}, keys=ROOT)
    assert (await asked(broker, command)).code == 0
    (served,) = broker.served
    assert served.fields == {"consumerGroup": "G", "AccessKey": ROOT.name}


async def test_codes_of_the_white_lists_are_not_checked(tmp_path: Path):
    broker = GuardedRouter(tmp_path, authentication_whitelist=frozenset({28}), authorization_whitelist=frozenset({28, 17}))
    broker.add_user(ALICE)
    assert (await asked(broker, Command(28))).code == 0
    assert (await asked(broker, signed(17, {"topic": "T"}))).code == 0
    assert (await asked(broker, Command(17, fields={"topic": "T"}))).code == ResponseCode.NO_PERMISSION


async def test_authentication_alone_asks_for_a_signature_and_for_no_rule(tmp_path: Path):
    broker = GuardedRouter(tmp_path, authorization_enabled=False)
    broker.add_user(ALICE)
    assert (await asked(broker, signed(310, SEND))).code == 0
    assert (await asked(broker, Command(310, fields=dict(SEND)))).code == ResponseCode.NO_PERMISSION


# --- fast paths


class FastPath:
    """A fast path that takes every frame it gets."""

    def __init__(self, broker: GuardedRouter) -> None:
        self._router = broker.router
        self.seen: list[Command] = []
        self._router.add_turn_path(b'{"code":310,', self.handle, 310)
        self._router.add_turn_path((310).to_bytes(2), self.handle, 310)

    def handle(self, arrivals: Sequence[Arrival], handled: list[int]) -> None:
        for frames, _ in arrivals:
            self.seen += map(decode_command, frames)
            handled.append(len(frames))

    def offer(self, *arrivals: Sequence[Command]) -> list[int]:
        """Offer frames as the server does; return how many of each connection are handled."""
        frames = [[Frame(one.serialization, encode_header(one), one.body) for one in commands] for commands in arrivals]
        path = self._router.fast_path(frames[0][0])
        assert path is not None
        handled: list[int] = []
        path.handler([(each, cast("Connection", KeptAnswers())) for each in frames], handled)
        return handled


@pytest.mark.parametrize("serialization", list(Serialization))
async def test_fast_paths_get_admitted_frames_alone_and_without_credentials(tmp_path: Path, serialization: Serialization):
    broker = GuardedRouter(tmp_path)
    fast = FastPath(broker)
    broker.add_user(ALICE)
    broker.allow(ALICE, "Topic:orders", "Pub")

    def send(fields: dict[str, str], keys: AccessKeys = ALICE, body: bytes = b"m") -> Command:
        command = signed(310, fields, body, keys)
        command.serialization = serialization
        return command

    good, secret = send({**SEND, "i": "KEYS\x01k\x02"}), send({**SEND, "b": "secrets"})
    forged = send(SEND, AccessKeys("alice", "wrong"))
    unsigned = Command(310, fields=dict(SEND), serialization=serialization)
    response = send(SEND)
    response.flag = RESPONSE_FLAG
    changed = send(SEND)
    changed.body = b"other"
    for bad in (secret, forged, unsigned, response, changed):
        assert fast.offer([good, good, bad, good], [bad, good], [good]) == [2, 0, 1]
    assert {one.fields["b"] for one in fast.seen} == {"orders"}
    assert not any({"AccessKey", "Signature"} & one.fields.keys() for one in fast.seen)
    assert fast.seen[0].fields["i"] == "KEYS\x01k\x02"
    assert fast.seen[0].body == b"m"


async def test_a_fast_path_forgets_what_it_admitted_when_rules_change(tmp_path: Path):
    broker = GuardedRouter(tmp_path)
    fast = FastPath(broker)
    broker.add_user(ALICE)
    broker.allow(ALICE, "Topic:orders", "Pub")
    assert fast.offer([signed(310, SEND)]) == [1]
    broker.allow(ALICE, "Topic:orders", "Pub", decision="Deny")
    assert fast.offer([signed(310, SEND)]) == [0]
    broker.allow(ALICE, "Topic:orders", "Pub")
    assert fast.offer([signed(310, SEND)]) == [1]
    await asked(broker, signed(3002, {"username": "alice"}, b'{"userStatus":"disable"}', ROOT))
    assert fast.offer([signed(310, SEND)]) == [0]


async def test_one_header_that_names_two_topics_is_authorized_for_the_one_that_is_stored(tmp_path: Path):
    """Two parsers could take different ones of a repeated field."""
    broker = GuardedRouter(tmp_path)
    fast = FastPath(broker)
    broker.add_user(ALICE)
    broker.allow(ALICE, "Topic:orders", "Pub")
    command = signed(310, SEND)
    header = encode_header(command)
    for twice in (
        header.replace(b'"b":"orders"', b'"b":"secrets","b":"orders"'),
        header.replace(b'"b":"orders"', b'"b":"orders","\\u0062":"secrets"'),
        header.replace(b'"extFields":', b'"extFields":{"b":"secrets"},"extFields":'),
    ):
        path = broker.router.fast_path(Frame(Serialization.JSON, twice, b""))
        assert path is not None
        path.handler([([Frame(Serialization.JSON, twice, b"")], cast("Connection", KeptAnswers()))], [])
    assert {one.fields["b"] for one in fast.seen} <= {"orders"}


# --- start and storage


async def test_first_users_come_from_the_settings_and_stay_as_they_are(tmp_path: Path):
    inner = AccessKeys("inner", "inner-secret")
    broker = GuardedRouter(tmp_path, inner_credentials=inner)
    assert {name: user.type for name, user in broker.table.users.items()} == {"rocketmq": UserType.SUPER, "inner": UserType.SUPER}
    await asked(broker, signed(3002, {"username": "rocketmq"}, b'{"password":"changed"}', ROOT))
    again = GuardedRouter(tmp_path, inner_credentials=inner)
    assert again.table == broker.table
    assert again.table.users["rocketmq"].password == "changed"
    for name in ("access.json", "access.key"):
        assert (tmp_path / "config" / name).stat().st_mode & 0o777 == 0o600
    assert b"changed" not in (tmp_path / "config" / "access.json").read_bytes()


async def test_a_broker_with_a_damaged_file_does_not_start(tmp_path: Path):
    GuardedRouter(tmp_path)
    (tmp_path / "config" / "access.key").write_bytes(bytes(32))
    with pytest.raises(AccessError, match="cannot be used"):
        GuardedRouter(tmp_path)
    (tmp_path / "config" / "access.key").unlink()
    with pytest.raises(AccessError, match="is missing"):
        GuardedRouter(tmp_path)


async def test_a_change_that_cannot_be_saved_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broker = GuardedRouter(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("skyrocket.broker.auth.access_store.replace_file", fail)
    answer = await asked(broker, signed(3001, {"username": "eve"}, b'{"password":"p"}', ROOT))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "No space left" in (answer.remark or "")
    assert "eve" not in broker.table.users


async def test_users_of_plain_acl_are_taken_at_start(tmp_path: Path):
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts:\n- accessKey: alice\n  secretKey: alice-secret\n  topicPerms:\n  - orders=PUB\n")
    broker = GuardedRouter(tmp_path, migrate_plain_acl=True, plain_acl_path=str(path))
    assert (await asked(broker, signed(310, SEND))).code == 0
    assert (await asked(broker, signed(310, {**SEND, "b": "other"}))).code == ResponseCode.NO_PERMISSION


async def test_a_slave_copies_users_and_rules_with_sealed_passwords(tmp_path: Path):
    inner = AccessKeys("inner", "inner-secret")
    master = GuardedRouter(tmp_path / "master", inner_credentials=inner)
    slave = GuardedRouter(tmp_path / "slave", inner_credentials=inner)
    master.add_user(ALICE)
    master.allow(ALICE, "Topic:orders", "Pub")
    seen: list[bytes] = []

    async def ask(code: int, fields: dict[str, str]) -> Command:
        command = Command(code, fields=fields)
        slave.access.sign(command)
        answer = await asked(master, command)
        seen.append(answer.body)
        return answer

    await slave.access.follow(ask)
    assert slave.table == master.table
    assert b"alice-secret" not in b"".join(seen)
    await asked(master, signed(3003, {"username": "alice"}, keys=ROOT))
    await slave.access.follow(ask)
    assert "alice" not in slave.table.users
    normal = signed(3005, {"sealed": "true"}, keys=ALICE)
    master.add_user(ALICE)
    master.allow(ALICE, "Cluster:Lab", "Get")
    assert (await asked(master, normal)).code == ResponseCode.NO_PERMISSION


async def test_the_audit_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyrocket.net.audit_log.LINES_MAX", 20)
    broker = GuardedRouter(tmp_path)
    broker.access.audit._file_bytes_max = 1000
    for number in range(500):
        await broker.ask(Command(RequestCode.SEND_MESSAGE_V2, fields={"AccessKey": f"{number}-" + "x" * 5000}))
    await broker.access.audit.close()
    paths = [tmp_path / name for name in ("auth_audit.log", *(f"auth_audit.log.{number}" for number in range(1, 10)))]
    sizes = [path.stat().st_size for path in paths if path.exists()]
    assert 1 <= len(sizes) <= 6
    assert max(sizes) < 60_000
