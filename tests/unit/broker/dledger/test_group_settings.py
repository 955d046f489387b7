"""Which group the settings describe, and which settings describe none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skyrocket.broker.dledger.group_settings import read_group
from skyrocket.broker.settings import BrokerSettings
from skyrocket.raft.config import DLEDGER_TIMINGS, FAST_TIMINGS
from skyrocket.settings.errors import SettingsError

GROUP = {
    "enableDLegerCommitLog": "true",
    "dLegerGroup": "g",
    "dLegerPeers": "n0-10.0.0.1:40911;n1-10.0.0.2:40912;n2-[::1]:40913",
    "dLegerSelfId": "n1",
}


def test_the_settings_of_a_node_are_apaches():
    group = read_group(BrokerSettings().with_texts({**GROUP, "preferredLeaderId": "n0;n2"}))
    assert group.addresses == {"n0": "10.0.0.1:40911", "n1": "10.0.0.2:40912", "n2": "[::1]:40913"}
    assert (group.config.group, group.config.self_id, group.port, group.slave_id) == ("g", "n1", 40912, 2)
    assert group.config.preferred_leader_ids == ("n0", "n2")
    assert group.config.timings == DLEDGER_TIMINGS
    assert not group.batch_push


def test_a_host_may_have_hyphens_and_fast_timings_may_be_chosen():
    texts = {**GROUP, "dLegerPeers": "n1-my-host-1:1", "dLegerGroup": "", "dLedgerTimings": "FAST", "brokerName": "b"}
    group = read_group(BrokerSettings().with_texts(texts))
    assert group.addresses == {"n1": "my-host-1:1"}
    assert group.config.group == "b"
    assert group.config.timings == FAST_TIMINGS


def test_a_node_counts_what_is_on_disk():
    assert BrokerSettings().with_texts(GROUP).store_config().sync_flush


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dLegerPeers": ""}, "enableDLegerCommitLog=true needs dLegerPeers"),
        ({"dLegerPeers": "n1:40911"}, "dLegerPeers has 'n1:40911', which is no node such as n0-10.0.0.1:40911."),
        ({"dLegerPeers": "n1-h:0"}, "dLegerPeers has 'n1-h:0', which is no node"),
        ({"dLegerPeers": "n1-h:70000"}, "dLegerPeers has 'n1-h:70000', which is no node"),
        ({"dLegerPeers": "one-h:1"}, "dLegerPeers has 'one-h:1', which is no node"),
        ({"dLegerPeers": "n1-h:1;n1-h:2"}, "dLegerPeers names node 'n1' twice. Give each node its own id."),
        ({"dLegerPeers": "n1-h:1;n2-h:1"}, "dLegerPeers gives two nodes the address h:1. Give each node its own."),
        ({"dLegerPeers": ";".join(f"n{n}-h:{n + 1}" for n in range(10))}, "dLegerPeers has 10 nodes; a group has at most 9."),
        ({"dLegerSelfId": "n7"}, "dLegerSelfId is 'n7', which is not in dLegerPeers: n0, n1, n2. Set it to the id of this node."),
        ({"preferredLeaderId": "n8"}, "preferredLeaderId names 'n8', which is not in dLegerPeers: n0, n1, n2."),
        ({"storePathCommitLog": "/x"}, "storePathCommitLog is /x, but a node of a group has its log in storePathDLedger"),
        ({"inSyncReplicas": "2"}, "inSyncReplicas is 2, but in a DLedger group a send waits for the majority. Remove it."),
    ],
)
def test_settings_that_make_no_group_are_refused_with_one_sentence(change: dict[str, str], sentence: str):
    with pytest.raises(SettingsError) as refused:
        BrokerSettings().with_texts({**GROUP, **change})
    assert sentence in str(refused.value)


def test_settings_of_a_group_have_no_effect_without_it():
    values: dict[str, Any] = {"dledger_peers": "nonsense"}
    replace(BrokerSettings(), **values).check()


@pytest.mark.parametrize(
    ("node", "host"), [("n1", "0.0.0.0"), ("n2", "::1"), ("n3", "127.0.0.1"), ("n4", "0.0.0.0")], ids=["far", "v6", "v4", "name"]
)
def test_a_node_whose_address_is_loopback_listens_there_alone(node: str, host: str):
    """A name may mean loopback on this machine and another address on others."""
    peers = "n1-10.0.0.2:1;n2-[::1]:2;n3-127.0.0.1:3;n4-localhost:4"
    group = read_group(BrokerSettings().with_texts({**GROUP, "dLegerPeers": peers, "dLegerSelfId": node}))
    assert group.listen_host("0.0.0.0") == host
