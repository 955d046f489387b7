"""Access control: mqadmin and clients with credentials, against Apache's broker and ours, and the permission table against a live
Apache, code by code."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyrocket.auth.request_needs import UNCHECKED_BY_APACHE, needs_of
from skyrocket.auth.users import AccessKeys
from skyrocket.client import Admin as OurAdmin
from skyrocket.client import BrokerError, ClientError, Consumer, Credentials, Message, Producer
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.header import wire_names
from skyrocket.protocol.requests import REQUESTS
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import signed_fields
from tests.support.apache.admin import Admin
from tests.support.apache.cluster import NO_TIMERS, ApacheCluster
from tests.support.apache.packages import run_java
from tests.support.brokers.access_control import GuardedRouter
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, Skyrocket

pytestmark = pytest.mark.interop

JAVA = Path(__file__).resolve().parent / "java" / "AclClient.java"
ROOT = AccessKeys("rocketmq", "12345678")
ALICE = AccessKeys("alice", "alice-secret")
PROVIDERS = "org.apache.rocketmq.auth"
AUTH = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT.name, "password": ROOT.password}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "inner-secret"}),
    "brokerClusterName": "Test",
    "brokerName": "broker1",
}
APACHES = {
    "authenticationMetadataProvider": f"{PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
}


@dataclass
class Side:
    name: str
    nameserver: str
    address: str


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    home = tmp_path_factory.mktemp("acl")
    port = free_port(-2, 1)
    with ApacheCluster(home / "apache") as apache, Skyrocket(home / "ours", AUTH) as ours:
        apache.broker(home / "store", {**SMALL_STORE, **AUTH, **APACHES, **NO_TIMERS, "listenPort": port})
        yield {
            "apache": Side("apache", apache.nameserver, f"127.0.0.1:{port}"),
            "ours": Side("ours", ours.nameserver, ours.address),
        }


@pytest.fixture(params=["apache", "ours"])
def side(request: pytest.FixtureRequest, sides: dict[str, Side]) -> Side:
    return sides[request.param]


# --- mqadmin

COMMANDS = [
    "createUser -u ann -p ann-secret -t Normal",
    "createUser -u ann -p ann-secret -t Normal",
    "createUser -u boss -p boss-secret -t Super",
    "getUser -u ann",
    "getUser -u nobody",
    "updateUser -u ann -s disable",
    "updateUser -u ann -p another",
    "listUser -f ann",
    "createAcl -s User:ann -r Topic:Order*,Group:G1 -a Pub,Sub -d Allow -i 127.0.0.1,192.168.0.0/16",
    "createAcl -s User:nobody -r Topic:T -a Pub -d Allow",
    "createAcl -s User:ann -r Topic:T -a Fly -d Allow",
    "updateAcl -s User:ann -r Topic:OrderSecret -a All -d Deny",
    "getAcl -s User:ann",
    "listAcl -s ann",
    "listAcl -r Secret",
    "deleteAcl -s User:ann -r Topic:OrderSecret",
    "getAcl -s User:ann",
    "deleteAcl -s User:ann",
    "getAcl -s User:ann",
    "deleteUser -u boss",
    "deleteUser -u ann",
    "listUser -f ann",
]


def test_mqadmin_prints_the_same_for_both(sides: dict[str, Side], tmp_path: Path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text(f"accessKey: {ROOT.name}\nsecretKey: '{ROOT.password}'\n")
    admin = Admin(tmp_path)
    try:
        for command in COMMANDS:
            verb, *rest = command.split()
            printed = {name: normal(admin.admin(verb, *rest, "-b", side.address)) for name, side in sides.items()}
            assert printed["ours"] == printed["apache"], command
            assert "Exception" not in printed["ours"] or "CODE: 16" in printed["ours"], command
    finally:
        admin.kill()


@pytest.mark.parametrize(("source", "target"), [("apache", "ours"), ("ours", "apache")])
def test_mqadmin_copies_rules_from_one_to_the_other(sides: dict[str, Side], source: str, target: str, tmp_path: Path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text(f"accessKey: {ROOT.name}\nsecretKey: '{ROOT.password}'\n")
    user = f"copied-from-{source}"
    admin = Admin(tmp_path)
    try:
        for side in sides.values():
            admin.admin("createUser", "-u", user, "-p", "copied-secret", "-t", "Normal", "-b", side.address)
        rule = ("-r", "Topic:copied*", "-a", "Pub,Sub", "-d", "Allow")
        admin.admin("createAcl", "-s", f"User:{user}", *rule, "-b", sides[source].address)
        assert "Topic:copied*" not in admin.admin("getAcl", "-s", f"User:{user}", "-b", sides[target].address)
        admin.admin("copyAcl", "-f", sides[source].address, "-t", sides[target].address, "-s", f"User:{user}")
        assert "Topic:copied*" in admin.admin("getAcl", "-s", f"User:{user}", "-b", sides[target].address)
    finally:
        admin.kill()


def normal(printed: str) -> str:
    """Addresses, passwords and the traces of failures left out."""
    lines = [line for line in printed.splitlines() if not line.startswith(("\tat ", "\t... ", "For more information"))]
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", "\n".join(lines))
    return re.sub(r"(?<= )(ann-secret|boss-secret|another|null)(?= )", "PASSWORD", re.sub(r" +", " ", text))


# --- clients


async def prepare(side: Side) -> None:
    """Alice may use the topics and groups that begin with acl."""
    async with OurAdmin(side.nameserver, credentials=Credentials(ROOT.name, ROOT.password)) as admin:
        await admin.topics.create("acl-orders", queues=2)
        await admin.topics.create("secrets", queues=2)
        if not await admin.access.list_users(ALICE.name):
            await admin.access.create_user(ALICE.name, ALICE.password)
        await admin.access.create_rules(ALICE.name, ["Topic:acl*", "Group:acl*"], ["Pub", "Sub", "Get"])


@pytest.mark.parametrize("version", [None, "4.9.8"], ids=["5.5.0", "4.9.8"])
async def test_java_client_with_credentials(side: Side, version: str | None):
    await prepare(side)
    group = f"acl-java-{'new' if version is None else 'old'}"
    for keys, topic, expected in (
        (ALICE, "acl-orders", "consumed 5"),
        (ALICE, "secrets", "refused "),
        (AccessKeys(ALICE.name, "wrong"), "acl-orders", "refused "),
        (AccessKeys("nobody", "x"), "acl-orders", "refused "),
    ):
        said = run_java(JAVA, side.nameserver, keys.name, keys.password, topic, group, client_version=version).decode()
        assert said.startswith(expected), (keys.name, topic, said)


async def test_our_client_with_credentials(side: Side):
    await prepare(side)
    right = Credentials(ALICE.name, ALICE.password)
    async with Producer(side.nameserver, credentials=right) as producer:
        receipts = [await producer.send(Message("acl-orders", b"%d" % number, keys=["own"])) for number in range(5)]
        assert all(receipt.is_safe for receipt in receipts)
        with pytest.raises(BrokerError) as refused:
            await producer.send(Message("secrets", b"m"), timeout_ms=3_000)
        assert refused.value.code == ResponseCode.NO_PERMISSION
    async with Consumer(side.nameserver, group="acl-own", topics="acl-orders", start="first", credentials=right) as consumer:
        missing = {receipt.message_id for receipt in receipts}
        async for message in consumer:
            missing.discard(message.message_id)
            if not missing:
                break
    for wrong in (None, Credentials(ALICE.name, "wrong"), Credentials("nobody", "x")):
        async with Producer(side.nameserver, credentials=wrong) as producer:
            with pytest.raises(ClientError):
                await producer.send(Message("acl-orders", b"m"), timeout_ms=3_000)


async def test_our_admin_manages_users_and_rules_of_both(side: Side):
    async with OurAdmin(side.nameserver, credentials=Credentials(ROOT.name, ROOT.password)) as admin:
        await admin.access.create_user("carl", "carl-secret")
        await admin.access.create_rules("carl", ["Topic:x"], ["Pub"], deny=True, sources=["10.0.0.0/8"])
        await admin.access.update_rules("carl", ["Group:*"], ["Sub"], is_default=True)
        await admin.access.update_user("carl", is_enabled=False)
        assert (await admin.access.get_user("carl")).is_enabled is False
        rules = [rule for rule in await admin.access.list_rules("carl") if rule.user == "carl"]
        assert [(rule.resource, rule.actions, rule.decision, rule.sources, rule.is_default) for rule in rules] == [
            ("Topic:x", ("Pub",), "Deny", ("10.0.0.0/8",), False),
            ("Group:*", ("Sub",), "Allow", (), True),
        ]
        await admin.access.delete_rules("carl", "Topic:x")
        assert len([rule for rule in await admin.access.list_rules("carl") if rule.user == "carl"]) == 1
        await admin.access.delete_user("carl")
        assert not await admin.access.list_users("carl")


# --- the permission table

NAMES = {"topic": "ZT", "b": "ZT", "consumerGroup": "ZG", "group": "ZG", "groupName": "ZG", "topicList": "ZT;ZT2"}
NAMES |= {"filterGroups": "ZG1,ZG2", "compareGroup": "ZG3", "destGroup": "ZG", "producerGroup": "ZP", "clusterName": "Test"}
NAMES |= {"topicFilterType": "SINGLE_TAG", "brokerClusterName": "Test"}
BODIES = {
    34: {"clientID": "c", "consumerDataSet": [{"groupName": "ZG", "subscriptionDataSet": [{"topic": "ZT"}]}]},
    41: {"consumerGroup": "ZG", "clientId": "c", "mqSet": [{"topic": "ZT", "brokerName": "broker1", "queueId": 0}]},
    42: {"consumerGroup": "ZG", "clientId": "c", "mqSet": [{"topic": "ZT", "brokerName": "broker1", "queueId": 0}]},
}
NOT_SENT = {27, 902, 903, 1008, 5001}  # they would stop or change the process
ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
ZED = AccessKeys("zed", "zed-secret")


class Peer:
    """One connection to a broker that asks one question after the other."""

    def __init__(self, address: str) -> None:
        self._host, port = address.split(":")
        self._port = int(port)
        self._socket = socket.create_connection((self._host, self._port), timeout=3)

    def ask(self, command: Command) -> Command | None:
        """The answer; None when there is none within three seconds, or the broker closes the connection."""
        decoder = CommandDecoder()
        try:
            self._socket.sendall(encode_command(command))
            while piece := self._socket.recv(65536):
                for answer in decoder.feed(piece):
                    if answer.is_response:
                        return answer
        except TimeoutError:
            pass
        self.close()
        self._socket = socket.create_connection((self._host, self._port), timeout=3)
        return None

    def close(self) -> None:
        self._socket.close()


def probe(code: int) -> Command:
    """A request with every field of its header: Apache refuses one that it cannot read with other words."""
    header = REQUESTS[code].header
    fields = dict.fromkeys((name for _, name in wire_names(header)), "0") if header is not None else {}
    fields = {name: NAMES.get(name, value) for name, value in fields.items()} or dict(NAMES)
    body = json.dumps(BODIES[code]).encode() if code in BODIES else b""
    return Command(code, opaque=1, fields=signed_fields(fields, body, ZED.name, ZED.password), body=body)


async def test_every_code_needs_what_a_live_apache_asks_for(sides: dict[str, Side], tmp_path: Path):
    """Rules that deny one action on everything tell, without running anything, which actions a code asks for; and a rule that
    allows the first resource tells which one is asked for next."""
    ours = GuardedRouter(tmp_path, cluster_name="Test", authorization_compatible=True)
    ours.add_user(ZED)
    peer, root = Peer(sides["apache"].address), Credentials(ROOT.name, ROOT.password)
    codes = [code for code in REQUESTS if code not in NOT_SENT and not 50 <= code <= 53 and not 50_000 <= code <= 51_005]
    checked = [code for code in codes if needs_of(probe(code), "Test", is_compatible=True)]
    assert len(checked) > 80

    async def compare(codes: list[int], why: str) -> None:
        for code in codes:
            expected, answer = peer.ask(probe(code)), await ours.ask(probe(code))
            assert expected is not None, f"{code} {why}: Apache does not answer"
            assert answer is not None
            assert (answer.code, answer.remark) == (expected.code, expected.remark), f"{code} {why}"

    async with OurAdmin(sides["apache"].nameserver, credentials=root) as admin:

        async def set_rules(*rules: tuple[str, str, bool]) -> None:
            if any(rule.user == ZED.name for rule in await admin.access.list_rules(ZED.name)):
                await admin.access.delete_rules(ZED.name)
                ours.access.store.change_now(lambda table: table.delete_acl(f"User:{ZED.name}", None, None))
            for resource, action, deny in rules:
                await admin.access.create_rules(ZED.name, [resource], [action], deny=deny)
                ours.allow(ZED, resource, action, decision="Deny" if deny else "Allow")

        await admin.access.create_user(ZED.name, ZED.password)
        await set_rules()
        await compare(checked, "without rules")
        for action in ACTIONS:
            await set_rules(("*", action, True))
            await compare(checked, f"with {action} denied")
        several = [code for code in checked if len(needs_of(probe(code), "Test", is_compatible=True)) > 1]
        for first in ("Topic:ZT", "Group:ZG"):
            await set_rules((first, "All", False))
            begin = [code for code in several if str(needs_of(probe(code), "Test", is_compatible=True)[0]) == first]
            await compare(begin, f"with {first} allowed")
        await set_rules()
        for code in sorted(UNCHECKED_BY_APACHE & set(codes)):
            answer = peer.ask(probe(code))
            assert answer is None or "has no permission" not in (answer.remark or ""), code
    peer.close()
    await ours.access.audit.close()
