"""Packing and unpacking of hosts."""

from __future__ import annotations

import pytest

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import host_text, pack_host, unpack_host


def test_ipv4():
    host = pack_host("127.0.0.1", 10_911)
    assert host == bytes.fromhex("7f000001 00002a9f")
    assert unpack_host(host) == ("127.0.0.1", 10_911)
    assert host_text(host) == "127.0.0.1:10911"


def test_ipv6():
    host = pack_host("fd00::1", 65_535)
    assert host == bytes.fromhex("fd00 0000 0000 0000 0000 0000 0000 0001 0000ffff")
    assert unpack_host(host) == ("fd00::1", 65_535)
    assert host_text(host) == "[fd00::1]:65535"


def test_the_zone_of_an_ipv6_address_is_dropped():
    assert pack_host("fe80::1%eth0", 1) == pack_host("fe80::1", 1)


def test_an_ipv4_mapped_address_is_packed_as_ipv4():
    assert pack_host("::ffff:127.0.0.1", 10_911) == pack_host("127.0.0.1", 10_911)


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0", "127.0.0.1.5", "fd00::g", "127.0.0.1:80"])
def test_a_host_name_is_refused(address: str):
    with pytest.raises(RecordError, match="not an IP address"):
        pack_host(address, 1)


@pytest.mark.parametrize("port", [-1, 65_536, 1 << 31])
def test_an_invalid_port_is_refused(port: int):
    with pytest.raises(RecordError, match=f"port is {port}"):
        pack_host("127.0.0.1", port)


@pytest.mark.parametrize("port", ["ffffffff", "00010000"])
def test_an_invalid_packed_port_is_refused(port: str):
    with pytest.raises(RecordError, match="port is"):
        unpack_host(bytes.fromhex("7f000001" + port))


@pytest.mark.parametrize("length", [0, 4, 7, 9, 16, 19, 21])
def test_bytes_of_another_length_are_not_a_host(length: int):
    with pytest.raises(RecordError, match=f"host has {length} bytes"):
        unpack_host(bytes(length))
