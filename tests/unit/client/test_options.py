from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skyrocket.client import Admin, ClientLimits, Consumer, Producer, PullConsumer, sync
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.options import ClientOptions


def test_nameservers_are_one_string_or_a_list():
    assert ClientOptions("a:1;b:2").nameservers == ("a:1", "b:2")
    assert ClientOptions(["a:1", "b:2"]).nameservers == ("a:1", "b:2")


def test_nameservers_default_to_the_environment_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NAMESRV_ADDR", "c:3; d:4")
    assert ClientOptions().nameservers == ("c:3", "d:4")
    assert ClientOptions("a:1").nameservers == ("a:1",)


def test_missing_nameserver_error_names_the_ways_to_give_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigurationError, match="NAMESRV_ADDR"):
        ClientOptions()
    assert ClientOptions(address_server="http://names/").nameservers == ()


@pytest.mark.parametrize("address", ["localhost", ":9876", "host:port", "host:70000"])
def test_malformed_address_is_refused(address: str):
    with pytest.raises(ConfigurationError, match="is not a nameserver address"):
        ClientOptions(address)


def test_options_compare_by_value_and_are_hashable_so_that_clients_share_sessions():
    assert ClientOptions("a:1", tls=True) == ClientOptions("a:1", tls=True)
    assert hash(ClientOptions("a:1")) == hash(ClientOptions("a:1"))
    assert ClientOptions("a:1") != ClientOptions("a:1", namespace="n")
    assert replace(ClientOptions("a:1", tls=True), namespace="n") == ClientOptions("a:1", tls=True, namespace="n")


CLIENTS = [
    pytest.param(Producer, {}, id="producer"),
    pytest.param(Consumer, {"group": "g", "topics": "t"}, id="consumer"),
    pytest.param(PullConsumer, {"group": "g"}, id="pull consumer"),
    pytest.param(Admin, {}, id="admin"),
]
SHARED = ClientOptions("a:1;b:2", namespace="shop", tls=True, limits=ClientLimits(request_ms=7))


@pytest.mark.parametrize(("kind", "given"), CLIENTS)
def test_every_client_accepts_client_options(kind: Any, given: dict[str, Any]):
    assert kind(options=SHARED, **given)._options is SHARED


@pytest.mark.parametrize(("kind", "given"), CLIENTS)
def test_keywords_are_shortcuts_for_client_options(kind: Any, given: dict[str, Any]):
    client = kind("a:1;b:2", namespace="shop", tls=True, limits=ClientLimits(request_ms=7), **given)
    assert client._options == SHARED


@pytest.mark.parametrize(("kind", "given"), CLIENTS)
def test_address_and_keywords_win_over_client_options(kind: Any, given: dict[str, Any]):
    client = kind("c:3", options=SHARED, instance="mine", tls=False, **given)
    assert client._options == ClientOptions("c:3", namespace="shop", instance="mine", limits=SHARED.limits)


@pytest.mark.parametrize(("kind", "given"), CLIENTS)
def test_unknown_keyword_is_a_type_error(kind: Any, given: dict[str, Any]):
    with pytest.raises(TypeError, match="colour"):
        kind("a:1", colour="red", **given)


def test_group_gets_the_namespace_of_client_options():
    assert Producer(options=SHARED, group="g")._member.group == "shop%g"


def test_broadcasting_consumer_has_a_fixed_instance_unless_one_is_given():
    assert Consumer("a:1", group="g", broadcasting=True)._options.instance == "DEFAULT"
    assert Consumer("a:1", group="g", broadcasting=True, instance="mine")._options.instance == "mine"


def test_sync_clients_accept_client_options():
    with pytest.raises(ConfigurationError, match="is not a nameserver address"):
        sync.Producer("nowhere", options=SHARED)
    sync.Producer(options=SHARED)
    sync.Admin(options=SHARED)


@pytest.mark.parametrize("addresses", ["a:1,b:2", "a:1, b:2", "a:1 b:2"])
def test_other_separators_than_semicolons_are_refused_with_the_corrected_list(addresses: str):
    with pytest.raises(ConfigurationError, match="Separate several with ';': a:1;b:2"):
        Producer(addresses)


@pytest.mark.parametrize("address", ["http://names:9876", "a:b:1", "user@host:1", "[::1:9876", "a::9876"])
def test_text_that_is_no_host_is_refused(address: str):
    with pytest.raises(ConfigurationError, match="is not a nameserver address"):
        ClientOptions(address)


@pytest.mark.parametrize("address", ["[::1]:9876", "::1:9876", "[fe80::1%eth0]:9876", "names_1.shop-x:9876", "10.0.0.1:9876"])
def test_names_and_addresses_of_hosts_are_accepted(address: str):
    assert ClientOptions(address).nameservers == (address,)
