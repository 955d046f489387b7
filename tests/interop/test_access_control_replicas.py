"""Users and rules reach slaves and DLedger followers, also from Apache's master."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.auth.users import AccessKeys
from skyrocket.client import Credentials
from skyrocket.client.sync import Admin
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import GetMaxOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import signed_fields
from tests.support.apache.cluster import ApacheCluster, send_request
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import wait_until

ROOT, ALICE = AccessKeys("root", "root-secret"), AccessKeys("alice", "alice-secret")
PROVIDERS = "org.apache.rocketmq.auth"
AUTH = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT.name, "password": ROOT.password}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "inner-secret"}),
    "brokerClusterName": "Test",
    "brokerName": "pair",
    "brokerIP2": "127.0.0.1",
}
APACHES = {
    "authenticationMetadataProvider": f"{PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
}
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}


def code_at(address: str, keys: AccessKeys) -> int:
    """How a broker answers a question about the topic orders that needs a rule of the user."""
    host, port = address.split(":")
    fields = GetMaxOffsetRequestHeader(topic="orders", queue_id=0).to_fields()
    command = Command(RequestCode.GET_MAX_OFFSET, fields=signed_fields(fields, b"", keys.name, keys.password))
    answer = send_request((host, int(port)), command)
    return -1 if answer is None else answer.code


def make_alice(nameserver: str, address: str) -> None:
    with Admin(nameserver, credentials=Credentials(ROOT.name, ROOT.password)) as admin:
        admin.topics.create("orders", queues=2)
        admin.access.create_user(ALICE.name, ALICE.password, broker=address)
        admin.access.create_rules(ALICE.name, ["Topic:orders"], ["Get"], broker=address)


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The nameserver and the address of a master with access control."""
    if request.param == "ours":
        with (
            SkyrocketNameserver(tmp_path / "names") as names,
            SkyrocketBroker(tmp_path / "master", names.nameserver, AUTH) as broker,
        ):
            yield names.nameserver, broker.address
    else:
        with ApacheCluster(tmp_path / "apache") as cluster:
            port = free_port(-2, 1)
            cluster.broker(tmp_path / "store", {**SMALL_STORE, **AUTH, **APACHES, "listenPort": port})
            yield cluster.nameserver, f"127.0.0.1:{port}"


def test_a_slave_knows_the_users_and_rules_of_its_master(master: tuple[str, str], tmp_path: Path):
    nameserver, address = master
    make_alice(nameserver, address)
    with SkyrocketBroker(tmp_path / "slave", nameserver, {**AUTH, **SLAVE}) as slave:
        wait_until(lambda: code_at(slave.address, ALICE) == ResponseCode.SUCCESS, "the slave knows alice")
        assert code_at(slave.address, AccessKeys(ALICE.name, "wrong")) == ResponseCode.NO_PERMISSION
        assert "alice-secret" not in (slave.store / "config" / "access.json").read_text()
        with Admin(nameserver, credentials=Credentials(ROOT.name, ROOT.password)) as admin:
            admin.access.delete_user(ALICE.name, broker=address)
        wait_until(lambda: code_at(slave.address, ALICE) == ResponseCode.NO_PERMISSION, "the slave has forgotten alice")


def test_a_change_at_a_slave_alone_is_undone_and_the_log_says_so(tmp_path: Path):
    """mqadmin -c, and our commands, change slaves too, in any order: a slave cannot refuse what its master may be told next."""
    with (
        SkyrocketNameserver(tmp_path / "names") as names,
        SkyrocketBroker(tmp_path / "master", names.nameserver, AUTH) as master,
        SkyrocketBroker(tmp_path / "slave", names.nameserver, {**AUTH, **SLAVE}) as slave,
    ):
        make_alice(names.nameserver, master.address)
        wait_until(lambda: code_at(slave.address, ALICE) == ResponseCode.SUCCESS, "the slave copies users")
        with Admin(names.nameserver, credentials=Credentials(ROOT.name, ROOT.password)) as admin:
            admin.access.delete_user(ALICE.name, broker=slave.address)
            admin.access.create_user("bob", "bob-secret")
        undone = "Users or rules that were changed here are now as the master has them: 'alice'"
        wait_until(lambda: undone in slave.log_tail(), "the slave says what it has undone")
        assert code_at(slave.address, ALICE) == ResponseCode.SUCCESS


def test_followers_of_a_dledger_group_know_the_users_and_rules_of_their_leader(tmp_path: Path):
    ports = [free_port() for _ in range(3)]
    peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports))
    with SkyrocketNameserver(tmp_path / "names") as names:
        nodes: list[SkyrocketBroker] = []
        try:
            for number in range(3):
                group = {
                    "enableDLegerCommitLog": "true",
                    "dLegerGroup": "pair",
                    "dLegerPeers": peers,
                    "dLegerSelfId": f"n{number}",
                    "dLedgerTimings": "FAST",
                }
                nodes.append(SkyrocketBroker(tmp_path / f"n{number}", names.nameserver, {**AUTH, **group}))
            with Admin(names.nameserver, credentials=Credentials(ROOT.name, ROOT.password)) as admin:

                def leads() -> str:
                    return next((one.address for one in admin.cluster.brokers() if one.is_master), "")

                wait_until(lambda: bool(leads()), "a node leads")
                leader = leads()
            make_alice(names.nameserver, leader)
            for node in nodes:
                wait_until(lambda node=node: code_at(node.address, ALICE) == ResponseCode.SUCCESS, f"{node.address} knows alice")
        finally:
            for node in nodes:
                node.kill()
