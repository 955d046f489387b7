from __future__ import annotations

import pytest

from skyrocket.broker.errors import TableFullError
from skyrocket.broker.tables import clients as clients_module
from skyrocket.broker.tables.clients import SILENT_MS, ClientTable, GroupMember
from skyrocket.protocol.bodies import ConsumerData, MessageModel, SubscriptionData
from skyrocket.protocol.language import Language

LEFT, RIGHT = "left connection", "right connection"


def member(connection: str, client_id: str = "client") -> GroupMember[str]:
    return GroupMember(connection, client_id, Language.JAVA, 513)


def billing(*topics: str, version: int = 1, model: MessageModel = MessageModel.CLUSTERING) -> ConsumerData:
    wanted = [SubscriptionData(topic=topic, sub_string="*", sub_version=version) for topic in topics or ("orders",)]
    return ConsumerData(group_name="billing", message_model=model, subscription_data_set=wanted)


def test_group_changes_when_a_member_joins_and_not_at_its_next_heartbeat():
    clients: ClientTable[str] = ClientTable()
    assert clients.register_consumer(member(LEFT, "a"), billing(), 0)
    assert not clients.register_consumer(member(LEFT, "a"), billing(), 1)
    assert clients.register_consumer(member(RIGHT, "b"), billing(), 2)
    group = clients.group("billing")
    assert group is not None
    assert group.client_ids == ["a", "b"]
    assert clients.connections_to_notify("billing") == [LEFT, RIGHT]


def test_group_changes_with_its_topics_and_not_with_a_newer_version_alone():
    clients: ClientTable[str] = ClientTable()
    clients.register_consumer(member(LEFT), billing("orders"), 0)
    assert clients.register_consumer(member(LEFT), billing("orders", "returns"), 1)
    assert not clients.register_consumer(member(LEFT), billing("orders", "returns", version=2), 2)
    found = clients.subscription("billing", "orders")
    assert found is not None
    assert found.sub_version == 2
    assert clients.register_consumer(member(LEFT), billing("returns", version=1), 3)
    found = clients.subscription("billing", "returns")
    assert found is not None
    assert found.sub_version == 2, "an older subscription does not replace it"
    assert clients.subscription("billing", "orders") is None


def test_heartbeat_without_subscriptions_keeps_the_known_ones():
    clients: ClientTable[str] = ClientTable()
    clients.register_consumer(member(LEFT), billing("orders"), 0)
    empty = ConsumerData(group_name="billing", message_model=MessageModel.CLUSTERING)
    assert not clients.register_consumer(member(LEFT), empty, 1, with_subscriptions=False)
    assert clients.subscription("billing", "orders") is not None


def test_members_of_a_broadcasting_group_are_not_notified():
    clients: ClientTable[str] = ClientTable()
    assert clients.register_consumer(member(LEFT), billing(model=MessageModel.BROADCASTING), 0)
    assert clients.is_broadcasting("billing")
    assert clients.connections_to_notify("billing") == []


def test_last_member_that_leaves_removes_the_group():
    clients: ClientTable[str] = ClientTable()
    clients.register_consumer(member(LEFT), billing(), 0)
    clients.register_consumer(member(RIGHT), billing(), 0)
    assert clients.unregister_consumer("billing", LEFT)
    assert not clients.unregister_consumer("billing", LEFT)
    assert clients.connections_to_notify("billing") == [RIGHT]
    assert clients.unregister_consumer("billing", RIGHT)
    assert not clients.has_group("billing")
    assert clients.subscribers_of("orders") == []


def test_closed_connection_leaves_all_its_groups():
    clients: ClientTable[str] = ClientTable()
    clients.register_consumer(member(LEFT), billing(), 0)
    clients.register_consumer(member(RIGHT), billing(), 0)
    clients.register_producer("tills", member(LEFT), 0)
    assert clients.remove_connection(LEFT) == ["billing"]
    assert clients.producers("tills") is None
    assert clients.remove_connection(LEFT) == []
    group = clients.group("billing")
    assert group is not None
    assert list(group.members) == [RIGHT]
    assert clients.all_producers == {}


def test_client_that_is_silent_for_two_minutes_is_removed():
    clients: ClientTable[str] = ClientTable()
    clients.register_consumer(member(LEFT), billing(), 0)
    clients.register_consumer(member(RIGHT), billing(), 1_000)
    clients.register_producer("tills", member("third"), 0)
    assert clients.remove_silent(SILENT_MS) == ([], [])
    assert clients.remove_silent(SILENT_MS + 1) == ([LEFT, "third"], ["billing"])
    assert clients.connections_to_notify("billing") == [RIGHT]
    clients.register_consumer(member(RIGHT), billing(), SILENT_MS)
    assert clients.remove_silent(SILENT_MS + 2_000) == ([], [])


def test_reconnected_client_is_listed_once_and_found_by_its_new_connection():
    clients: ClientTable[str] = ClientTable()
    clients.register_consumer(member(LEFT, "a"), billing(), 0)
    clients.register_consumer(member(RIGHT, "a"), billing(), 1)
    group = clients.group("billing")
    assert group is not None
    assert group.client_ids == ["a"]
    found = clients.member("billing", "a")
    assert found is not None
    assert found.connection == RIGHT
    assert clients.member("billing", "b") is None
    assert clients.member("nobody", "a") is None


def test_producer_is_found_by_its_client_id_while_it_is_in_any_group():
    clients: ClientTable[str] = ClientTable()
    clients.register_producer("askers", member(LEFT, "client"), 0)
    clients.register_producer("others", member(LEFT, "client"), 0)
    assert clients.producer_connection("client") == LEFT
    clients.register_producer("askers", member(RIGHT, "client"), 1)
    assert clients.producer_connection("client") == RIGHT, "the client reconnected; its old connection is still open"
    clients.remove_connection(RIGHT)
    assert clients.unregister_producer("askers", LEFT)
    assert clients.producer_connection("client") == LEFT
    clients.remove_connection(LEFT)
    assert clients.producer_connection("client") is None


def test_connection_that_changes_its_client_id_is_registered_once():
    clients: ClientTable[str] = ClientTable()
    for number in range(100):
        clients.register_producer("askers", member(LEFT, f"client-{number}"), number)
    assert clients.producer_connection("client-99") == LEFT
    assert clients.producer_connection("client-98") is None
    assert len(clients._producer_ids) == 1


def test_group_lacks_a_subscription_only_while_it_is_connected():
    clients: ClientTable[str] = ClientTable()
    assert not clients.lacks_subscription("billing", "returns")
    clients.register_consumer(member(LEFT), billing("orders"), 0)
    assert clients.lacks_subscription("billing", "returns")
    assert not clients.lacks_subscription("billing", "orders")
    assert clients.subscribers_of("orders") == ["billing"]


def test_fingerprint_is_compared_with_the_previous_one():
    clients: ClientTable[str] = ClientTable()
    assert not clients.update_fingerprint("billing", 7), "the group has no consumers"
    clients.register_consumer(member(LEFT), billing(), 0)
    assert [clients.update_fingerprint("billing", print_) for print_ in (7, 7, 8)] == [False, False, True]


def test_client_table_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clients_module, "GROUPS_PER_CONNECTION_MAX", 2)
    clients: ClientTable[str] = ClientTable()
    clients.register_producer("a", member(LEFT), 0)
    clients.register_producer("b", member(LEFT), 0)
    clients.register_producer("b", member(LEFT), 1)
    with pytest.raises(TableFullError):
        clients.register_producer("c", member(LEFT), 0)
    assert clients.producers("c") is None
    monkeypatch.setattr(clients_module, "MEMBERSHIPS_MAX", 2)
    with pytest.raises(TableFullError):
        clients.register_consumer(member(RIGHT), billing(), 0)
    assert not clients.has_group("billing")
    with pytest.raises(TableFullError):
        clients.register_producer("x" * 256, member(RIGHT), 0)
    with pytest.raises(TableFullError):
        clients.register_consumer(member(RIGHT, "x" * 1_025), billing(), 0)


def large(group: str, size_bytes: int) -> ConsumerData:
    return ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic="orders", sub_string="x" * size_bytes)])


def test_subscriptions_of_a_group_and_of_all_groups_are_bounded_in_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clients_module, "SUBSCRIPTION_BYTES_PER_GROUP_MAX", 1_000)
    monkeypatch.setattr(clients_module, "SUBSCRIPTION_BYTES_MAX", 2_000)
    clients: ClientTable[str] = ClientTable()
    with pytest.raises(TableFullError, match=r"The subscriptions of group 'a' have 1\d\d\d bytes; 1000 are allowed"):
        clients.register_consumer(member(LEFT), large("a", 1_000), 0)
    many_tags = SubscriptionData(topic="orders", tags_set=["t"] * 200)
    with pytest.raises(TableFullError):
        clients.register_consumer(member(LEFT), ConsumerData(group_name="a", subscription_data_set=[many_tags]), 0)
    assert not clients.has_group("a")
    for group in "ab":
        clients.register_consumer(member(LEFT), large(group, 900), 0)
    with pytest.raises(TableFullError, match="of all groups"):
        clients.register_consumer(member(LEFT), large("c", 900), 0)
    for _ in range(5):
        clients.register_consumer(member(LEFT), large("a", 950), 0)  # the same group again is not counted twice
    clients.unregister_consumer("a", LEFT)
    clients.register_consumer(member(LEFT), large("c", 900), 0)
    clients.remove_connection(LEFT)
    clients.register_consumer(member(LEFT), large("a", 900), 0)
