"""The brokers behind the proxy: their names and addresses, as the nameservers know them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skyrocket.protocol.bodies import BrokerData, ClusterInfo, TopicRouteData


class BrokerDirectory:
    def __init__(self) -> None:
        self._addresses: dict[str, dict[int, str]] = {}

    def replace(self, cluster: ClusterInfo) -> None:
        """Take the brokers of a nameserver's cluster information, and forget all others.

        A nameserver that has just started knows none: then nothing changes.
        """
        if cluster.broker_addr_table:
            self._addresses.clear()
            self._learn(cluster.broker_addr_table.values())

    def learn(self, route: TopicRouteData) -> None:
        """Take the brokers of a topic's route: after a fail-over it is newer than the last cluster information."""
        self._learn(route.broker_datas)

    def _learn(self, brokers: Iterable[BrokerData]) -> None:
        for broker in brokers:
            if broker.broker_addrs:
                self._addresses[broker.broker_name] = dict(broker.broker_addrs)

    @property
    def names(self) -> list[str]:
        return sorted(self._addresses)

    def address(self, name: str, broker_id: int | None = None) -> str | None:
        """Return the address of a broker. Without an id: the master's, or that of the first slave while there is no master."""
        known = self._addresses.get(name)
        if not known:
            return None
        return known[min(known)] if broker_id is None else known.get(broker_id)


class VisibleAddresses:
    """The addresses that clients see instead of the brokers'.

    A broker with a port of its own has that port. Of the others, the master (or the first slave while there is none) has the
    proxy's main address, where requests find their broker by its name. Further slaves are not shown.
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

    def _show(self, broker: BrokerData) -> None:
        real = broker.broker_addrs or {}
        first = min(real, default=0)
        shown = {number: self._ports.get((broker.broker_name, number), self._main if number == first else "") for number in real}
        broker.broker_addrs = {number: address for number, address in shown.items() if address}
