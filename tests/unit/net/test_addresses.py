"""Under which name an address is counted, and when it is forgotten."""

from __future__ import annotations

import pytest

from skyrocket.net.addresses import AddressTable, client_of
from skyrocket.net.quota import QuotaRates


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("", ""),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::7", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_an_ipv6_network_of_64_bits_counts_as_one_address(host: str, name: str):
    assert client_of(host) == name


class Peer:
    def __init__(self, host: str) -> None:
        self.peer = (host, 1)
        self.held_bytes = 0


def test_an_address_is_forgotten_when_it_has_no_connection_and_no_debt():
    table, peer = AddressTable(1), Peer("10.0.0.7")
    address = table.open(peer)
    assert address is not None
    assert table.open(Peer("10.0.0.7")) is None
    assert table.open(Peer("10.0.0.8")) is not None
    table.forget_quiet(0)
    assert len(table) == 2
    address.quota.charge(QuotaRates(requests_per_second=1), 5, 0, 10_000)
    address.connections.discard(peer)
    table.forget_quiet(10_000)
    assert table.open(peer) is address, "a new connection does not cancel a debt"
    address.connections.discard(peer)
    table.forget_quiet(14_000)
    assert [each.name for each in table] == ["10.0.0.8"]


def test_held_bytes_are_counted_again_only_when_enough_was_added():
    table, peer = AddressTable(1), Peer("10.0.0.7")
    address = table.open(peer)
    assert address is not None
    assert not address.add_held(6_400, 6_400)
    peer.held_bytes = 6_401
    assert address.add_held(100, 6_400), "it really holds more"
    assert not address.add_held(99, 6_400), "not counted again for so little"
    peer.held_bytes = 10
    assert not address.add_held(1, 6_400)
    assert address.held_bytes == 10
