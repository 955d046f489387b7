"""The brokers behind the proxy: their names and addresses, as the nameservers know them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from skyrocket.protocol.bodies import BrokerData, ClusterInfo, TopicRouteData

_MASTER: Final = 0


class BrokerDirectory:
    def __init__(self) -> None:
        self._addresses: dict[str, dict[int, str]] = {}

    def replace(self, cluster: ClusterInfo, keep: Collection[str] = ()) -> None:
        """Take the brokers of a nameserver's cluster information, and forget all others. Those to keep stay as they are.

        A nameserver that has just started knows none: then nothing changes.
        """
        if cluster.broker_addr_table:
            self._addresses = {name: self._addresses[name] for name in keep}
            self.learn(cluster.broker_addr_table.values())

    def learn(self, brokers: Iterable[BrokerData]) -> bool:
        """Take brokers that are not known yet. Return False if another one's master is known at another address.

        Clients ask nameservers of their own, and one of these may have a former address for some time. So an address that is
        known changes only when the proxy's nameserver says so (`replace`).
        """
        agrees = True
        for broker in brokers:
            address, known = _address_of(broker), self.address(broker.broker_name)
            if known is None and broker.broker_addrs:
                self._addresses[broker.broker_name] = dict(broker.broker_addrs)
            elif address is not None and address != known:
                agrees = False
        return agrees

    def changes(self, cluster: ClusterInfo) -> dict[str, str]:
        """Return the new addresses of known brokers, by name."""
        found = {name: _address_of(broker) for name, broker in (cluster.broker_addr_table or {}).items()}
        return {name: address for name, address in found.items() if address and self.address(name) not in (None, address)}

    @property
    def names(self) -> list[str]:
        return sorted(self._addresses)

    def ids(self, name: str) -> Collection[int]:
        """Return the ids of the brokers with a name: 0 is the master."""
        return self._addresses.get(name, ())

    def address(self, name: str, broker_id: int | None = None) -> str | None:
        """Return the address of a broker. Without an id: the master's, or that of the first slave while there is no master."""
        known = self._addresses.get(name)
        if not known:
            return None
        return known[min(known)] if broker_id is None else known.get(broker_id)


def correct(cluster: ClusterInfo, other: ClusterInfo, unreachable: Mapping[str, str]) -> None:
    """Put the brokers of another nameserver's cluster information in the place of those at addresses that cannot be reached."""
    brokers, others = cluster.broker_addr_table or {}, other.broker_addr_table or {}
    for name, address in unreachable.items():
        if name in brokers and _address_of(brokers[name]) == address and name in others:
            brokers[name] = others[name]


def _address_of(broker: BrokerData) -> str | None:
    """Return the address of the master, or of the first slave while there is no master."""
    addresses = broker.broker_addrs
    return addresses[min(addresses)] if addresses else None


class VisibleAddresses:
    """The addresses that clients see instead of the brokers'.

    A broker with a port of its own has that port. Of the others, the master has the proxy's main address, where requests find
    their broker by its name. While there is no master, the first slave has the master's address, unless it has a port. Further
    slaves are not shown. So no broker has two addresses: a client would register at it twice.
    """

    def __init__(self, main: str, ports: Mapping[tuple[str, int], str]) -> None:
        self._main = main
        self._ports = ports

    def show_route(self, route: TopicRouteData) -> None:
        """Replace the addresses in a topic's route. Filter servers (RocketMQ 4) have no place behind the proxy."""
        route.filter_server_table.clear()
        for broker in route.broker_datas:
            self._show(broker)

    def show_cluster(self, cluster: ClusterInfo) -> None:
        """Replace the addresses in cluster information."""
        for broker in (cluster.broker_addr_table or {}).values():
            self._show(broker)

    def is_main(self, shown: BrokerData) -> bool:
        """Whether a broker of a route, as clients see it, has the proxy's main address."""
        return self._main in (shown.broker_addrs or {}).values()

    def has_main(self, name: str, ids: Collection[int]) -> bool:
        """Whether one of the brokers with a name, which have these ids, has the proxy's main address."""
        return self._main in self._shown(name, ids).values()

    def served_id(self, port: tuple[str, int], ids: Collection[int]) -> int:
        """Return the id of the broker that a broker's port serves at present, of the brokers that have its name."""
        name, number = port
        first = min(ids, default=number)
        return first if number == _MASTER and (name, first) not in self._ports else number

    def _show(self, broker: BrokerData) -> None:
        broker.broker_addrs = self._shown(broker.broker_name, broker.broker_addrs or {})

    def _shown(self, name: str, ids: Collection[int]) -> dict[int, str]:
        of_master = self._ports.get((name, _MASTER), self._main)
        first = min(ids, default=_MASTER)
        shown = {number: self._ports.get((name, number), of_master if number == first else "") for number in ids}
        return {number: address for number, address in shown.items() if address}
