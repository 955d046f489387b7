"""The page of access control, on a broker that asks who a client is and what it may do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from skyrocket.client import BrokerError, ClientOptions, Credentials, Message
from skyrocket.client.sync import Admin, Producer
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.console import Visitor, running_console

ROOT = {"username": "root-user", "password": "root-secret"}
SETTINGS = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": json.dumps(ROOT)}
CREDENTIALS = Credentials(ROOT["username"], ROOT["password"])


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    with sync.LocalBroker(SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def operator(broker: SyncBroker) -> Iterator[Visitor]:
    with running_console(broker.nameserver, client=ClientOptions(broker.nameserver, credentials=CREDENTIALS)) as console:
        visitor = Visitor(console.url)
        yield visitor
        visitor.close()


def test_users_and_rules_are_written_and_deleted(operator: Visitor, broker: SyncBroker):
    assert "authentication is on, authorization is on." in operator.read("/access")
    assert "User alice is created." in operator.fill("/access", "/access/users", name="alice", password="alice-secret")
    rule = {"user": "alice", "resource": "Topic:orders", "action": "Pub", "decision": "Allow"}
    assert "Allow Pub on Topic:orders for alice" in operator.fill("/access?q=nobody", "/access/rules", **rule)
    without_action = operator.fill("/access", "/access/rules", status=400, user="alice", resource="*", decision="Allow")
    assert "Choose the actions" in without_action
    operator.fill("/new-topic", topic="orders", read_queues=1, write_queues=1)
    alice = Credentials("alice", "alice-secret")
    with Producer(broker.nameserver, credentials=alice) as producer:
        assert producer.send(Message("orders", b"allowed")).is_safe
    assert "User alice is disabled." in operator.fill("/access?q=alice", "/access/users/alice", state="disable")
    with Admin(broker.nameserver, credentials=alice) as admin, pytest.raises(BrokerError):
        admin.topics.status("orders")
    assert "alice-secret" not in operator.get("/access"), "no password is shown"
    unconfirmed = operator.fill("/access?q=alice", "/access/rules/delete", status=400)
    assert "Type Topic:orders to confirm. Nothing was changed." in unconfirmed
    assert "Topic:orders" in operator.read("/access?q=alice"), "one click deletes no rule"
    deleted = operator.fill("/access?q=alice", "/access/rules/delete", confirm="Topic:orders")
    assert "The rule of alice for Topic:orders is deleted." in deleted
    assert "Type alice to confirm" in operator.fill("/access?q=alice", "alice/delete", status=400, confirm="bob")
    assert "User alice is deleted" in operator.fill("/access?q=alice", "alice/delete", confirm="alice")
    assert "There is no such user." in operator.read("/access?q=alice")


def test_without_credentials_a_page_says_what_the_broker_answers(broker: SyncBroker):
    with running_console(broker.nameserver) as console:
        visitor = Visitor(console.url)
        page = visitor.read("/access")
        visitor.close()
    assert "Failed." in page
    assert "--access-key" in page
