from __future__ import annotations

import pytest

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import client_options


def test_nameservers_come_as_one_text_or_as_a_list():
    assert client_options("a:1;b:2").nameservers == ("a:1", "b:2")
    assert client_options(["a:1", "b:2"]).nameservers == ("a:1", "b:2")


def test_without_an_argument_the_environment_tells(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NAMESRV_ADDR", "c:3; d:4")
    assert client_options().nameservers == ("c:3", "d:4")
    assert client_options("a:1").nameservers == ("a:1",)


def test_without_anything_it_says_what_can_be_done(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigurationError, match="NAMESRV_ADDR"):
        client_options()
    assert client_options(address_server="http://names/").nameservers == ()


@pytest.mark.parametrize("address", ["localhost", ":9876", "host:port", "host:70000"])
def test_a_wrong_address_is_told_at_once(address: str):
    with pytest.raises(ConfigurationError, match="is not an address"):
        client_options(address)


def test_equal_options_are_equal_and_hashable_so_that_clients_can_share():
    assert client_options("a:1", tls=True) == client_options("a:1", tls=True)
    assert hash(client_options("a:1")) == hash(client_options("a:1"))
    assert client_options("a:1") != client_options("a:1", namespace="n")
