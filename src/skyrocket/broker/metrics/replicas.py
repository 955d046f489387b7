"""Replication: how far the slaves of a master are behind, what a slave hears of its master, and the state of a DLedger node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.metrics.family import Family, Fold, Measured, gauge, single

IS_MASTER: Final = gauge("skyrocket_is_master", "1: the broker takes messages as a master or leader. 0: it is a slave.")
SLAVES: Final = gauge("skyrocket_slaves", "Connected slaves.")
SLAVES_IN_SYNC: Final = gauge("skyrocket_slaves_in_sync", "Connected slaves that are less than 256 MiB behind.")
SLAVE_LAG: Final = gauge("skyrocket_slave_lag_bytes", "Bytes of the log that a slave does not have.", "slave", fold=Fold.MAX)
MASTER_SILENT: Final = gauge("skyrocket_master_silent_seconds", "Seconds since a slave last heard of its master.")
TERM: Final = gauge("skyrocket_dledger_term", "Term of the DLedger group; each election raises it.")
HAS_LEADER: Final = gauge("skyrocket_dledger_has_leader", "1: the node knows a leader of its group.")
UNCOMMITTED: Final = gauge("skyrocket_dledger_uncommitted_entries", "Entries of the node that no majority has yet.")
NODE_LAG: Final = gauge("skyrocket_dledger_lag_entries", "Entries of the leader that a node lacks.", "node", fold=Fold.MAX)

_BEHIND: Final = "dledgerBehind_"


class ReplicaMetrics:
    def __init__(self, context: BrokerContext, node_figures: Callable[[], dict[str, str]]) -> None:
        """`node_figures` returns the rows of a DLedger node; none for a broker that is in no group."""
        self._settings = context.settings
        self._ha_status = context.ha_status
        self._wall_ms = context.wall_ms
        self._node_figures = node_figures

    def collect(self) -> Iterable[Measured]:
        """Yield every family, also those that say nothing about a broker of this kind: they have no rows then."""
        is_slave, node = self._settings().role.is_slave, self._node_figures()
        shown = self._ha_status.show(is_slave=is_slave)
        slaves = None if is_slave or node else shown.ha_connection_info or []
        client = shown.ha_client_runtime_info if is_slave and not node else None
        heard_ms = 0 if client is None else client.last_read_timestamp
        yield single(IS_MASTER, int(not is_slave))
        yield _optional(SLAVES, None if slaves is None else len(slaves))
        yield _optional(SLAVES_IN_SYNC, None if slaves is None else shown.in_sync_slave_nums)
        yield Measured(SLAVE_LAG, [((slave.addr or "",), slave.diff) for slave in slaves or ()])
        yield _optional(MASTER_SILENT, max(0, self._wall_ms() - heard_ms) / 1000 if heard_ms else None)
        yield _optional(TERM, int(node["dledgerTerm"]) if node else None)
        yield _optional(HAS_LEADER, int(bool(node["dledgerLeader"])) if node else None)
        unconfirmed = int(node["dledgerEndIndex"]) - int(node["dledgerCommittedIndex"]) if node else None
        yield _optional(UNCOMMITTED, unconfirmed)
        behind = [(name.removeprefix(_BEHIND), text) for name, text in node.items() if name.startswith(_BEHIND)]
        yield Measured(NODE_LAG, [((peer,), max(0, int(text))) for peer, text in behind])


def _optional(family: Family, value: float | None) -> Measured:
    return Measured(family, [] if value is None else [((), value)])
