from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.net.errors import NetError
from skyrocket.proxy.settings import BrokerPort, ProxySettings, read_settings
from skyrocket.settings.errors import SettingsError

ROOT = Path(__file__).resolve().parents[3]


def test_every_setting_reads_the_text_that_it_writes():
    settings = ProxySettings(broker_ports=(BrokerPort("a", 0, 1), BrokerPort("a", 1, 2)))
    assert settings.with_texts(settings.to_texts()) == settings


def test_a_file_of_settings_is_read(tmp_path: Path):
    path = tmp_path / "proxy.conf"
    path.write_text("remotingListenPort=1\nnamesrvAddr=a:1;b:2\nbrokerPorts=broker-a=2; broker-a:1=3\n")
    settings = read_settings(path)
    assert (settings.listen_port, settings.nameservers) == (1, ("a:1", "b:2"))
    assert settings.broker_ports == (BrokerPort("broker-a", 0, 2), BrokerPort("broker-a", 1, 3))
    with pytest.raises(SettingsError, match="There is no settings file"):
        read_settings(tmp_path / "none.conf")


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"brokerPorts": "a"}, "brokerPorts must be ports of brokers, such as"),
        ({"brokerPorts": "a=70000"}, "brokerPorts must be"),
        ({"brokerPorts": "a=1;b=1"}, "a port of its own"),
        ({"brokerPorts": "a=8080"}, "a port of its own"),
        ({"brokerPorts": "a=1;a:0=2"}, "names a broker twice"),
        ({"grpcServerPort": "8081"}, "'grpcServerPort' is not a setting of the proxy"),
        ({"tls.server.mode": "enforcing"}, "needs a certificate"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_sentence(texts: dict[str, str], sentence: str):
    with pytest.raises(SettingsError, match=sentence):
        ProxySettings().with_texts(texts)


@pytest.mark.parametrize(
    ("bind", "advertised", "expected"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "proxy.example", "proxy.example"),
        ("0.0.0.0", "proxy.example", "proxy.example"),
        ("::1", "", "[::1]"),
    ],
)
def test_clients_see_the_advertised_host(bind: str, advertised: str, expected: str):
    assert ProxySettings(bind_address=bind, advertised_host=advertised).visible_host == expected


def test_an_address_that_nobody_can_connect_to_is_refused():
    with pytest.raises(SettingsError, match="Set advertisedHost"):
        _ = ProxySettings(advertised_host="0.0.0.0").visible_host


def test_connections_to_the_cluster_are_plain_unless_told_otherwise():
    assert ProxySettings(tls_client_certificate="nowhere").client_tls() is None
    with pytest.raises(NetError, match="cannot be used"):
        ProxySettings(tls_to_servers=True, tls_client_certificate="nowhere").client_tls()


def test_every_setting_is_documented_with_its_default():
    lines = (ROOT / "docs" / "proxy.md").read_text().splitlines()
    shown = {cells[1].strip("` "): cells[3].strip("` ") for line in lines if len(cells := line.split("|")) == 6}
    for key, row in ProxySettings.rows().items():
        assert shown.get(key) == ("" if row.default is None else row.kind.show(row.default)), key


def test_the_example_file_is_valid():
    assert read_settings(ROOT / "conf" / "proxy.conf") == ProxySettings(advertised_host="127.0.0.1")
    example = next(line for line in (ROOT / "conf" / "proxy.conf").read_text().splitlines() if "brokerPorts=" in line)
    key, _, ports = example.strip("# ").partition("=")
    assert len(ProxySettings().with_texts({key: ports}).broker_ports) == 3
