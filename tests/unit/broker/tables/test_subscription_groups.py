from __future__ import annotations

import pytest

from skyrocket.broker.errors import GroupNotFoundError, InvalidArgumentError
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.protocol.bodies import SubscriptionGroupConfig
from skyrocket.protocol.system_names import SYSTEM_GROUPS


def a_table(**settings: bool) -> SubscriptionGroupTable:
    made = BrokerSettings(**settings)
    return SubscriptionGroupTable(lambda: made, lambda: 5_000)


def billing(**more: object) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(group_name="billing", **more)  # type: ignore[arg-type]


def test_new_table_has_the_system_groups():
    assert set(a_table()) == set(SYSTEM_GROUPS)
    assert a_table().version.counter == 0


def test_group_is_created_for_its_first_consumer():
    table, told = a_table(), []
    table.on_change.append(lambda: told.append(table.version.counter))
    assert table.for_consumer("billing") == billing()
    assert table.for_consumer("billing") == billing()
    assert told == [1]


def test_group_is_not_created_when_auto_creation_is_off_or_its_name_is_invalid():
    assert a_table(auto_create_group=False).for_consumer("billing") is None
    assert a_table(auto_create_group=False).for_consumer("CID_RMQ_SYS_billing") is not None
    without = a_table(auto_create_group=False)
    without.delete("TOOLS_CONSUMER")
    assert without.for_consumer("TOOLS_CONSUMER") is not None, "mqadmin consumes with it"
    assert a_table().for_consumer("a/b") is None
    assert a_table().for_consumer("x" * 121) is None, "its retry topic's name would be too long"


def test_put_all_changes_all_groups_or_none():
    table = a_table()
    table.put(billing(retry_max_times=3))
    table.put(billing(retry_max_times=4, attributes={"+priority.factor": "5"}))
    assert table.get("billing") == billing(retry_max_times=4, attributes={"priority.factor": "5"})
    with pytest.raises(InvalidArgumentError):
        table.put_all([SubscriptionGroupConfig(group_name="shipping"), SubscriptionGroupConfig(group_name="a/b")])
    assert "shipping" not in table


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 121, "two words"])
def test_a_bad_name_is_refused(name: str):
    with pytest.raises(InvalidArgumentError):
        a_table().put(SubscriptionGroupConfig(group_name=name))


def test_a_negative_number_of_retry_queues_is_refused():
    with pytest.raises(InvalidArgumentError):
        a_table().put(billing(retry_queue_nums=-4))


def test_a_deleted_group_leaves_nothing():
    table = a_table()
    table.put(billing())
    table.forbid("billing", "orders", forbidden=True)
    assert table.delete("billing")
    assert not table.delete("billing")
    assert not table.is_forbidden("billing", "orders")
    assert table.snapshot().forbidden_table == {}


def test_topics_are_forbidden_and_allowed_separately():
    table = a_table()
    table.put(billing())
    table.forbid("billing", "orders", forbidden=True)
    table.forbid("billing", "returns", forbidden=True)
    assert table.snapshot().forbidden_table == {"billing": {"orders": 4, "returns": 4}}
    table.forbid("billing", "orders", forbidden=False)
    assert not table.is_forbidden("billing", "orders")
    assert table.is_forbidden("billing", "returns"), "Apache would allow this one too"
    table.forbid("billing", "returns", forbidden=False)
    assert table.snapshot().forbidden_table == {}


def test_forbid_fails_for_a_group_that_does_not_exist():
    with pytest.raises(GroupNotFoundError):
        a_table().forbid("nobody", "orders", forbidden=True)


def test_saved_table_is_loaded_again():
    table = a_table()
    table.put(billing(retry_queue_nums=2))
    table.forbid("billing", "orders", forbidden=True)
    saved = table.snapshot()
    again = a_table()
    again.load(saved)
    assert again.snapshot() == saved
    assert again.is_forbidden("billing", "orders")
