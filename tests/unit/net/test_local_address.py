"""Which of this machine's addresses are all of them, and which one others can connect to."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from skyrocket.net.local_address import is_wildcard, reachable_address


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "::0", "0:0:0:0:0:0:0:0"])
def test_all_addresses_have_several_spellings(host: str):
    assert is_wildcard(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "::1", "localhost", "broker-a.example", "", "0.0.0.0.0", "é" * 300])
def test_one_address_or_a_name_is_not_all_addresses(host: str):
    assert not is_wildcard(host)


@pytest.mark.parametrize("v6", [False, True])
def test_the_address_is_one_of_this_machines_and_not_loopback(v6: bool):
    found = reachable_address(v6=v6)
    if found is None:
        pytest.skip("this machine has no such address")
    parsed = ipaddress.ip_address(found)
    assert [parsed.is_loopback, parsed.is_unspecified, parsed.is_link_local] == [False, False, False]
    with socket.socket(socket.AF_INET6 if v6 else socket.AF_INET) as own:
        own.bind((found, 0))


def test_a_nameserver_on_this_machine_or_without_an_address_does_not_count():
    assert reachable_address(["127.0.0.1", "no-such-host.invalid"]) == reachable_address()
