"""The settings that every server has: limits for clients, and TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from skyrocket.broker.settings import BrokerSettings
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.errors import NetError
from skyrocket.net.limits import NetLimits
from skyrocket.net.quota import QuotaRates
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.server import ServerSettings
from tests.support.processes.certificates import Authority, Certificate

CERTIFICATE = {"tls.server.certPath": "cert.pem", "tls.server.keyPath": "key.pem"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("settings", [BrokerSettings(), NameserverSettings()])
@pytest.mark.parametrize(
    ("texts", "is_only"),
    [
        ({}, False),
        (CERTIFICATE, True),
        ({**CERTIFICATE, "tls.server.mode": "permissive"}, False),
        ({**CERTIFICATE, "tls.server.mode": "enforcing"}, True),
        ({**CERTIFICATE, "tls.server.mode": "disabled"}, False),
    ],
)
def test_tls_only_is_the_default_as_soon_as_a_certificate_is_set(settings: ServerSettings, texts: dict[str, str], is_only: bool):
    assert settings.with_texts(texts).tls_only is is_only


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"tls.server.mode": "enforcing"}, "needs a certificate: set tls.server.certPath"),
        ({"tls.server.mode": "on"}, "tls.server.mode must be disabled or permissive or enforcing, not 'on'"),
        ({**CERTIFICATE, "tls.server.need.client.auth": "require"}, "needs tls.server.trustCertPath"),
        ({**CERTIFICATE, "tls.server.need.client.auth": "optional"}, "needs tls.server.trustCertPath"),
        (
            {
                **CERTIFICATE,
                "tls.server.need.client.auth": "require",
                "tls.server.trustCertPath": "ca.pem",
                "tls.server.authClient": "false",
            },
            "would accept any certificate",
        ),
        ({"connectionsPerAddressMax": "0"}, "connectionsPerAddressMax must be a whole number from 1"),
    ],
)
def test_settings_that_would_not_do_what_they_say_are_refused(texts: dict[str, str], sentence: str):
    with pytest.raises(SettingsError, match=sentence):
        BrokerSettings().with_texts(texts)


def test_limits_come_from_settings_and_their_defaults_are_those_of_the_net():
    assert NameserverSettings().net_limits() == NetLimits() == BrokerSettings().net_limits()
    texts = {
        "connectionsMax": "7",
        "connectionsPerAddressMax": "3",
        "requestsPerSecondPerAddress": "100",
        "bytesPerSecondPerAddress": "1000",
        "unreadBytesMax": "2000000",
        "unreadBytesPerAddressMax": "1500000",
        "serverChannelMaxIdleTimeSeconds": "5",
    }
    limits = BrokerSettings().with_texts(texts).net_limits()
    assert (limits.connections_max, limits.connections_per_address_max, limits.quota) == (7, 3, QuotaRates(100, 1000))
    assert (limits.in_flight_max_bytes, limits.held_max_bytes, limits.held_per_address_max_bytes) == (
        2_000_000,
        4_000_000,
        1_500_000,
    )
    assert limits.idle_ms == 5_000


def test_only_quotas_and_what_is_logged_change_at_run_time():
    rows = ServerSettings.rows()
    changeable = {key for key, row in rows.items() if row.changeable}
    assert changeable == {"requestsPerSecondPerAddress", "bytesPerSecondPerAddress", "logLevel", "slowRequestMs"}
    shown = BrokerSettings().to_texts()
    assert not [key for key in shown if key.startswith("tls.")], "no answer tells where certificates are"


def server_tls(texts: dict[str, object]) -> ssl.SSLContext | None:
    return BrokerSettings().with_texts({key: str(value) for key, value in texts.items()}).server_tls()


def test_certificates_are_loaded_and_what_cannot_be_used_is_named(authority: Authority, tmp_path: Path):
    pair, locked = authority.certificate("broker"), authority.certificate("locked", "secret")
    assert BrokerSettings().server_tls() is None
    assert server_tls({**pair.server_settings, "tls.server.mode": "disabled"}) is None
    assert server_tls(pair.server_settings) is not None
    assert server_tls({**locked.server_settings, "tls.server.keyPassword": "secret"}) is not None
    with pytest.raises(NetError, match="cannot be used with the key"):
        server_tls(locked.server_settings)
    required = {**pair.server_settings, "tls.server.need.client.auth": "require"}
    context = server_tls({**required, "tls.server.trustCertPath": authority.path})
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(NetError, match=r"The certificates to trust in .*none\.pem cannot be used"):
        server_tls({**required, "tls.server.trustCertPath": tmp_path / "none.pem"})


def test_a_broker_that_speaks_only_tls_does_so_with_nameservers(authority: Authority):
    pair = authority.certificate("broker")
    texts = {key: str(value) for key, value in pair.server_settings.items()}
    assert BrokerSettings().client_tls() is None
    assert BrokerSettings().with_texts({**texts, "tls.server.mode": "permissive"}).client_tls() is None
    assert BrokerSettings().with_texts({**texts, "tls.enable": "false"}).client_tls() is None
    strict = BrokerSettings().with_texts(texts).client_tls()
    assert strict is not None
    assert strict.check_hostname
    assert strict.verify_mode is ssl.CERT_REQUIRED
    lax = BrokerSettings().with_texts({"tls.enable": "true", "tls.client.authServer": "false"}).client_tls()
    assert lax is not None
    assert lax.verify_mode is ssl.CERT_NONE


def test_a_certificate_of_ones_own_is_all_that_a_server_needs(tmp_path: Path):
    assert server_tls(Certificate.make(tmp_path).server_settings) is not None
