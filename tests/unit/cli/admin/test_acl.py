"""`skyrocket acl …` against a broker with access control."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from skyrocket.cli.main import app
from tests.support.processes.skyrocket_process import Skyrocket

ROOT = {"username": "root", "password": "root-secret"}
PLAIN_ACL = """\
globalWhiteRemoteAddresses:
- 10.0.0.*
accounts:
- accessKey: old
  secretKey: old-secret
  defaultTopicPerm: SUB
  topicPerms:
  - orders=PUB|SUB
- accessKey: old-admin
  secretKey: old-admin-secret
  admin: true
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Skyrocket]:
    settings = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": json.dumps(ROOT)}
    with Skyrocket(tmp_path_factory.mktemp("acl"), settings) as running:
        yield running


class Shell:
    def __init__(self, nameserver: str, user: str = ROOT["username"], password: str = ROOT["password"]) -> None:
        self._environment = {"NAMESRV_ADDR": nameserver, "ROCKETMQ_ACCESS_KEY": user, "ROCKETMQ_SECRET_KEY": password}

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=stdin, env=self._environment)

    def says(self, *arguments: str, stdin: str | None = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))


@pytest.fixture
def shell(broker: Skyrocket) -> Shell:
    return Shell(broker.nameserver)


def test_users_are_created_changed_shown_and_deleted(shell: Shell, broker: Skyrocket):
    shell.says("acl", "create-user", "ann", "--password", "ann-secret")
    shell.says("acl", "create-user", "bob", stdin="typed-secret\ntyped-secret\n")
    assert shell.json("acl", "get-user", "ann") == {"name": "ann", "isSuper": False, "isEnabled": True}
    assert [user["name"] for user in shell.json("acl", "list-users")] == ["ann", "bob", "root"]
    change = ("acl", "update-user", "ann", "--disable", "--super", "--password", "new-secret")
    refused = shell.run(*change)
    told = "User ann gets a new password: clients with the old one are refused; becomes a Super user, who may do everything; "
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"{told}is disabled, and can do nothing. Confirm it with --yes")
    assert "This was a dry run" in shell.says(*change, "--dry-run")
    assert shell.json("acl", "get-user", "ann") == {"name": "ann", "isSuper": False, "isEnabled": True}
    shell.says("acl", "update-user", "ann", "--disable", "--super", "--yes")
    assert shell.json("acl", "get-user", "ann") == {"name": "ann", "isSuper": True, "isEnabled": False}
    shell.says("acl", "update-user", "ann", "--enable", "--normal", "--password", "another", "--yes")
    assert Shell(broker.nameserver, "ann", "another").run("topic", "create", "orders").exit_code == 4
    shell.says("acl", "update-user", "ann", "--enable")  # takes nothing away
    shell.says("acl", "delete-user", "ann", "--yes")
    shell.says("acl", "delete-user", "bob", "--yes")
    again = shell.run("acl", "delete-user", "ann", "--yes")
    assert (again.exit_code, again.stderr) == (1, "There is no user 'ann'.\n")
    assert shell.run("acl", "update-user", "root").exit_code == 2


def test_a_profile_signs_with_the_secret_that_a_command_gives(broker: Skyrocket, tmp_path: Path):
    command = json.dumps([sys.executable, "-c", f"print({ROOT['password']!r})"])
    file = tmp_path / "config.toml"
    file.write_text(
        f'[clusters.guarded]\nnamesrv = "{broker.nameserver}"\naccess-key = "root"\nsecret-key-command = {command}\n'
        f'[clusters.wrong]\nnamesrv = "{broker.nameserver}"\naccess-key = "root"\nsecret-key-env = "WRONG"\n'
    )
    environment = {"SKYROCKET_CONFIG": str(file), "WRONG": "not-it", "ROCKETMQ_ACCESS_KEY": "", "ROCKETMQ_SECRET_KEY": ""}
    users = CliRunner().invoke(app, ["acl", "list-users", "--cluster", "guarded"], env=environment)
    assert (users.exit_code, "root" in users.stdout) == (0, True)
    refused = CliRunner().invoke(app, ["acl", "list-users", "--cluster", "wrong"], env=environment)
    assert refused.exit_code == 4, refused.output


def test_rules_are_created_shown_and_deleted_and_count(shell: Shell, broker: Skyrocket):
    shell.says("acl", "create-user", "carl", "--password", "carl-secret")
    carl = Shell(broker.nameserver, "carl", "carl-secret")
    assert "no matched policies" in carl.run("topic", "create", "carls").stderr
    rules = ("-r", "Topic:carl*", "-r", "Group:carl*", "-a", "Create,Pub,Sub,Get")
    printed = shell.says("acl", "create", "carl", *rules, "--from", "127.0.0.0/8")
    assert "Topic:carl*" in printed
    carl.says("topic", "create", "carls")
    carl.says("send", "carls", "--body", "hello")
    shell.says("acl", "update", "carl", "-r", "Topic:carls", "-a", "Pub", "--deny")
    assert "the decision is deny" in carl.run("send", "carls", "--body", "hello").stderr
    assert len(shell.json("acl", "get", "carl")) == 3
    for command in ("create", "update"):
        replacing = ("acl", command, "carl", "-r", "Topic:carls", "-r", "Topic:new", "-a", "Pub")
        refused = shell.run(*replacing)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr.startswith("1 rule of carl will be replaced: Topic:carls. Confirm it with --yes")
        assert "This was a dry run" in shell.says(*replacing, "--dry-run")
    assert len(shell.json("acl", "get", "carl")) == 3
    assert [rule["decision"] for rule in shell.json("acl", "list", "-r", "carls")] == ["Deny"]
    shell.says("acl", "update", "carl", "-r", "Topic:carls", "-a", "Sub", "--deny", "--yes")
    assert [rule["actions"] for rule in shell.json("acl", "list", "-r", "carls")] == [["Sub"]]
    shell.says("acl", "update", "carl", "-r", "Topic:carls", "-a", "Pub", "--deny", "--yes")
    assert [rule["resource"] for rule in shell.json("acl", "list", "-r", "carls")] == ["Topic:carls"]
    shell.says("acl", "delete", "carl", "-r", "Topic:carls", "--yes")
    carl.says("send", "carls", "--body", "hello")
    shell.says("acl", "delete", "carl", "--yes")
    assert shell.says("acl", "get", "carl") == "There are no such rules.\n"


def test_plain_acl_is_converted_and_applied_without_showing_a_secret(shell: Shell, broker: Skyrocket, tmp_path: Path):
    file = tmp_path / "plain_acl.yml"
    file.write_text(PLAIN_ACL)
    shown = shell.says("acl", "convert", str(file))
    assert "Topic:orders" in shown
    assert "Left out: globalWhiteRemoteAddresses" in shown
    assert "secret" not in shown
    assert not shell.json("acl", "list-users", "old")
    applied = shell.json("acl", "convert", str(file), "--apply")
    assert [user["name"] for user in applied["users"]] == ["old", "old-admin"]
    assert shell.json("acl", "get-user", "old-admin")["isSuper"]
    assert [(rule["resource"], rule["isDefault"]) for rule in shell.json("acl", "get", "old")] == [
        ("Topic:orders", False),
        ("Topic:*", True),
    ]
    assert shell.json("acl", "convert", str(file), "--apply") == applied
    Shell(broker.nameserver, "old-admin", "old-admin-secret").says("topic", "create", "orders")
    Shell(broker.nameserver, "old", "old-secret").says("send", "orders", "--body", "x")
    file.write_text("accounts: 7")
    assert shell.run("acl", "convert", str(file)).exit_code == 2


def test_no_secret_is_shown_by_the_broker_or_in_its_files(shell: Shell, broker: Skyrocket):
    settings = shell.json("config", "show", broker.address)
    assert settings["initAuthenticationUser"] == ""
    assert settings["authenticationEnabled"] == "true"
    store = broker.data / "store"
    for path in (store / "auth_audit.log", store / "config" / "access.json", broker.home / "run.log"):
        assert ROOT["password"] not in path.read_text()
