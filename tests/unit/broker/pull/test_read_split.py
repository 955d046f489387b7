"""Which broker a consumer should pull from next."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocket.broker.pull.read_split import ReadSplit
from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.bodies import SubscriptionGroupConfig

GROUP = SubscriptionGroupConfig(group_name="g", broker_id=0, which_broker_when_consume_slowly=1)


@pytest.mark.parametrize(
    ("changes", "behind_bytes", "suggested"),
    [
        ({"slave_read": False}, 1_000, 0),
        ({}, 400, 0),
        ({}, 401, 1),
        ({}, None, 0),
        ({"memory_read_percent": 0}, 1, 1),
        ({"role": BrokerRole.SLAVE, "broker_id": 1}, 301, 1),
        ({"role": BrokerRole.SLAVE, "broker_id": 1}, 300, 0),
        ({"role": BrokerRole.SLAVE, "broker_id": 1, "memory_read_percent": 5}, 1, 1),
    ],
)
def test_consumer_that_is_far_behind_is_sent_to_the_slave(changes: dict[str, Any], behind_bytes: int | None, suggested: int):
    settings = BrokerSettings(**({"slave_read": True} | changes))
    assert ReadSplit(lambda: settings, memory_bytes=1_000).suggest(GROUP, behind_bytes) == suggested


def test_group_chooses_its_brokers():
    settings = BrokerSettings(slave_read=True)
    group = SubscriptionGroupConfig(group_name="g", broker_id=2, which_broker_when_consume_slowly=3)
    split = ReadSplit(lambda: settings, memory_bytes=1_000)
    assert (split.suggest(group, 10), split.suggest(group, 900)) == (2, 3)
