"""The DLedger group of a broker, as its settings describe it.

    dLegerPeers     n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911       id, "-", address of the node's own port
    dLegerSelfId    n1                                                          as a slave, this broker has the id 2

A broker registers as id 0 while its node leads, and otherwise with the number of its node's id plus 1, as Apache's does.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from skyrocket.raft.config import GroupConfig

if TYPE_CHECKING:
    from skyrocket.broker.settings import BrokerSettings

PUSH_BYTES_MAX: Final = 1024 * 1024  # in one push to a node of ours
PUSH_ENTRIES_MAX: Final = 500
PEERS_MAX: Final = 9
_PEER: Final = re.compile(r"(?P<id>[a-zA-Z](?P<number>[0-9]{1,6}))-(?P<host>\[[0-9a-fA-F:%.]+\]|[^:;\s]+):(?P<port>[0-9]{1,5})")
_PORT_MAX: Final = 65_535


class LedgerGroup(NamedTuple):
    """The group and this node's place in it."""

    config: GroupConfig
    addresses: dict[str, str]  # host:port of each node's own port, by its id
    port: int  # of this node
    slave_id: int  # the broker id while another node leads
    batch_push: bool

    def listen_host(self, bind_address: str) -> str:
        """Return where the node's own port listens: a group on one machine needs no port beyond it.

        A name is no loopback address: a machine may know its own name under one.
        """
        host = self.addresses[self.config.self_id].rpartition(":")[0].strip("[]")
        try:
            return host if ip_address(host).is_loopback else bind_address
        except ValueError:
            return bind_address


def read_group(settings: BrokerSettings) -> LedgerGroup:
    """Return the group. Raise ValueError with one sentence when the settings make none."""
    addresses: dict[str, str] = {}
    for text in filter(None, (part.strip() for part in settings.dledger_peers.split(";"))):
        found = _PEER.fullmatch(text)
        if found is None or not 0 < int(found["port"]) <= _PORT_MAX:
            raise ValueError(f"dLegerPeers has '{text}', which is no node such as n0-10.0.0.1:40911. Nodes are separated by ';'.")
        if found["id"] in addresses:
            raise ValueError(f"dLegerPeers names node '{found['id']}' twice. Give each node its own id.")
        address = f"{found['host']}:{found['port']}"
        if address in addresses.values():
            raise ValueError(f"dLegerPeers gives two nodes the address {address}. Give each node its own.")
        addresses[found["id"]] = address
    _check(settings, addresses)
    self_id = settings.dledger_self_id
    port = int(addresses[self_id].rpartition(":")[2])
    preferred = tuple(part.strip() for part in settings.dledger_preferred.split(";") if part.strip())
    unknown = [node for node in preferred if node not in addresses]
    if unknown:
        raise ValueError(f"preferredLeaderId names '{unknown[0]}', which is not in dLegerPeers: {', '.join(addresses)}.")
    config = GroupConfig(
        group=settings.dledger_group or settings.broker_name,
        self_id=self_id,
        peer_ids=tuple(addresses),
        segment_bytes=settings.segment_bytes,
        preferred_leader_ids=preferred,
        push_entries_max=PUSH_ENTRIES_MAX,
        push_bytes_max=PUSH_BYTES_MAX,
        timings=settings.dledger_timings,
    )
    return LedgerGroup(config, addresses, port, int(self_id[1:]) + 1, settings.dledger_batch_push)


def _check(settings: BrokerSettings, addresses: dict[str, str]) -> None:
    if not addresses:
        raise ValueError(
            "enableDLegerCommitLog=true needs dLegerPeers, the nodes of the group: n0-host:port;n1-host:port;n2-host:port."
        )
    if len(addresses) > PEERS_MAX:
        raise ValueError(f"dLegerPeers has {len(addresses)} nodes; a group has at most {PEERS_MAX}. Remove some.")
    if settings.dledger_self_id not in addresses:
        raise ValueError(
            f"dLegerSelfId is '{settings.dledger_self_id}', which is not in dLegerPeers: {', '.join(addresses)}. "
            f"Set it to the id of this node."
        )
    if settings.commit_log_path:
        raise ValueError(
            f"storePathCommitLog is {settings.commit_log_path}, but a node of a group has its log in storePathDLedgerCommitLog."
        )
    if settings.in_sync_replicas > 1:
        raise ValueError(
            f"inSyncReplicas is {settings.in_sync_replicas}, but in a DLedger group a send waits for the majority. Remove it."
        )
