"""Apache's broker with access control sends the passwords in its settings in clear: no page and no command shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client import ClientOptions, Credentials
from skyrocket.client.sync import Admin
from skyrocket.console.security.users import ConsoleRole, ConsoleUser, format_user, hash_password
from tests.support.apache.cluster import ApacheCluster
from tests.support.pages.console import Visitor, running_console
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE

pytestmark = pytest.mark.interop

ROOT = Credentials("rocketmq", "root-password")
SECRETS = ("root-password", "inner-password", "header-token", "new-token")
PROVIDERS = "org.apache.rocketmq.auth"
SETTINGS = {
    "brokerName": "broker-a",
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "inner-password"}),
    "metricsGrpcExporterHeader": "authorization:header-token",
    "authenticationMetadataProvider": f"{PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
}


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("apache")
    with ApacheCluster(home) as apache:
        apache.broker(home / "store", {**SMALL_STORE, **SETTINGS, "listenPort": free_port(-2, 1)})
        yield apache.nameserver


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    roles = {"vic": ConsoleRole.VIEWER, "ann": ConsoleRole.OPERATOR}
    lines = [format_user(ConsoleUser(name, role, hash_password("console-password", b"s" * 16))) for name, role in roles.items()]
    path = tmp_path_factory.mktemp("users") / "users.txt"
    path.write_text("\n".join(lines))
    return path


def shown_secrets(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def test_the_console_shows_no_password_of_a_broker(nameserver: str, users: Path, caplog: pytest.LogCaptureFixture):
    client = ClientOptions(nameserver, credentials=ROOT)
    with Admin(nameserver, credentials=ROOT) as admin:
        broker = f"/brokers/{admin.cluster.brokers()[0].address}"
    with running_console(nameserver, client=client, users=users) as console:
        visitor = Visitor(console.url)
        for name in ("vic", "ann"):
            visitor.http.post("/login", data={"name": name, "password": "console-password"})
            page = visitor.read(f"{broker}?q=auth")
            assert "authenticationEnabled true" in page
            assert "initAuthenticationUser (hidden)" in page
            for path in (broker, "/cluster", "/access", f"{broker}?q=password"):
                assert shown_secrets(visitor.get(path)) == [], (name, path)
        with caplog.at_level("INFO", "skyrocket.console.application"):
            changed = visitor.fill(broker, "settings", name="metricsGrpcExporterHeader", value="authorization:new-token")
        visitor.close()
    assert "metricsGrpcExporterHeader of broker-a" in changed
    assert shown_secrets(changed) == []
    assert "setting metricsGrpcExporterHeader=(hidden)" in caplog.text
    assert shown_secrets(caplog.text) == []


def test_commands_show_no_password_of_a_broker(nameserver: str):
    keys = {"ROCKETMQ_ACCESS_KEY": ROOT.access_key, "ROCKETMQ_SECRET_KEY": ROOT.secret_key, "NAMESRV_ADDR": nameserver}
    change = ("set", "broker-a", "metricsGrpcExporterHeader=authorization:new-token")
    for arguments in (
        ("show", "broker-a"),
        ("show", "broker-a", "--json"),
        ("get", "broker-a", "initAuthenticationUser", "innerClientAuthenticationCredentials", "metricsGrpcExporterHeader"),
        (*change, "--dry-run"),
        (*change, "--yes"),
    ):
        done = CliRunner().invoke(app, ["config", *arguments], env=keys)
        assert done.exit_code == 0, done.output
        assert "(hidden)" in done.output
        assert shown_secrets(done.output) == [], arguments
