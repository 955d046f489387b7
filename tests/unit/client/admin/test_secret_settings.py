"""Which settings are secrets, by their names."""

from __future__ import annotations

import pytest

from skyrocket.broker.settings import BrokerSettings
from skyrocket.client.admin.secret_settings import hide_secret, hide_secrets, is_secret_setting
from skyrocket.nameserver.settings import NameserverSettings


@pytest.mark.parametrize(
    "name",
    [
        "initAuthenticationUser",
        "innerClientAuthenticationCredentials",
        "metricsGrpcExporterHeader",
        "tls.server.keyPassword",
        "keyStorePassword",
        "secretKey",
        "clientsecret",
    ],
)
def test_passwords_and_keys_are_secrets(name: str):
    assert is_secret_setting(name)
    assert hide_secret(name, "s3cret") == "(hidden)"
    assert hide_secret(name, "") == "", "that nothing is set is no secret"


@pytest.mark.parametrize("name", ["haSecretPath", "fileReservedTime", "authenticationEnabled", "accessMessageInMemoryMaxRatio"])
def test_other_settings_are_shown(name: str):
    assert hide_secrets({name: "48"}) == {name: "48"}


@pytest.mark.parametrize("settings", [BrokerSettings, NameserverSettings])
def test_what_our_servers_call_a_secret_is_one(settings: type[BrokerSettings] | type[NameserverSettings]):
    secrets = [key for key, row in settings.rows().items() if row.secret]
    assert secrets
    assert all(map(is_secret_setting, secrets))
