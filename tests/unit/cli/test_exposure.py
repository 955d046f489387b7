"""Which ports of a server strangers could use, by its settings."""

from __future__ import annotations

import logging

import pytest

from skyrocket.broker.settings import BrokerSettings
from skyrocket.cli.exposure import check_exposure, find_exposures
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.settings.errors import SettingsError

INNER = '{"accessKey":"inner","secretKey":"s3cret"}'
EVERYWHERE = {"bindAddress": "0.0.0.0"}
ACCESS = {**EVERYWHERE, "authenticationEnabled": "true", "innerClientAuthenticationCredentials": INNER}
ONE_WAY = {"tls.server.certPath": "cert.pem", "tls.server.keyPath": "key.pem"}
MUTUAL = {**ONE_WAY, "tls.server.need.client.auth": "require", "tls.server.trustCertPath": "ca.pem"}
GROUP = {"enableDLegerCommitLog": "true", "dLegerPeers": "n0-10.0.0.1:40911;n1-10.0.0.2:40911", "dLegerSelfId": "n0"}
LOCAL_GROUP = {**GROUP, "dLegerPeers": "n0-127.0.0.1:40911;n1-127.0.0.1:40921"}
PAGE = {"metricsExporterType": "PROM", "metricsPromExporterHost": "0.0.0.0"}

OPEN, HA, NODE, METRICS = "listens on 0.0.0.0 without access control", "The HA port", "The port of the DLedger", "The metrics of"


def exposed(texts: dict[str, str]) -> list[str]:
    """Return which ports are exposed."""
    dangers = [each.danger for each in find_exposures(BrokerSettings().with_texts(texts))]
    return [name for danger in dangers for name in (OPEN, HA, NODE, METRICS) if name in danger]


@pytest.mark.parametrize(
    ("texts", "ports"),
    [
        ({}, []),
        (EVERYWHERE, [OPEN, HA]),
        (ACCESS, [HA]),
        ({**ACCESS, "haSecretPath": "ha.secret"}, []),
        ({**ACCESS, "brokerRole": "SLAVE", "brokerId": "1"}, []),
        ({**ACCESS, **ONE_WAY}, [HA]),  # a slave shows no certificate
        ({**EVERYWHERE, **MUTUAL}, []),
        ({**EVERYWHERE, **MUTUAL, "tls.ha.enable": "false"}, [HA]),
        ({**ACCESS, **MUTUAL, "tls.ha.enable": "true", "tls.server.mode": "disabled"}, [HA]),
        ({**ACCESS, **MUTUAL, "tls.ha.enable": "true", "tls.server.mode": "permissive"}, []),
        ({**ACCESS, **GROUP}, [NODE]),
        ({**ACCESS, **GROUP, "haSecretPath": "ha.secret"}, [NODE]),
        ({**ACCESS, **GROUP, **ONE_WAY}, [NODE]),
        ({**ACCESS, **GROUP, **MUTUAL}, []),
        ({**ACCESS, **GROUP, **MUTUAL, "tls.dledger.enable": "false"}, [NODE]),
        ({**ACCESS, **LOCAL_GROUP}, []),
        (PAGE, [METRICS]),
        ({**PAGE, "metricsAllowedAddresses": "10.0.0.7,10.1.0.0/16"}, []),
        ({**PAGE, "metricsExporterType": "DISABLE"}, []),
    ],
)
def test_each_port_that_is_open_to_strangers_is_named(texts: dict[str, str], ports: list[str]):
    assert exposed(texts) == ports


def test_a_nameserver_has_a_page_too():
    (exposure,) = find_exposures(NameserverSettings().with_texts({**ACCESS, **PAGE}))
    assert exposure.danger.startswith("The metrics of the nameserver are on 0.0.0.0: anyone who can connect can read the names")


@pytest.mark.parametrize(
    ("texts", "remedy"),
    [
        (EVERYWHERE, "Set authenticationEnabled, or tls.server.need.client.auth=require"),
        (ACCESS, "Set haSecretPath to a file"),
        ({**ACCESS, **GROUP}, "Set tls.server.need.client.auth=require, with tls.dledger.enable=true"),
        (PAGE, "Set metricsAllowedAddresses to the addresses that may read them"),
    ],
)
def test_the_refusal_says_how_the_port_is_closed(texts: dict[str, str], remedy: str, caplog: pytest.LogCaptureFixture):
    settings = BrokerSettings().with_texts(texts)
    with pytest.raises(SettingsError, match=f"{remedy}.*, or give --insecure"):
        check_exposure(settings, insecure=False)
    with caplog.at_level(logging.WARNING):
        check_exposure(settings, insecure=True)
    assert "It was started with --insecure" in caplog.text


def test_readers_of_metrics_are_addresses_and_networks():
    with pytest.raises(SettingsError, match=r"metricsAllowedAddresses.*addresses and networks"):
        BrokerSettings().with_texts({"metricsAllowedAddresses": "prometheus.example"})
