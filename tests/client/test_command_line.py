"""The command line against our servers and Apache's: once through all of it. tests/unit/cli has the rest."""

from __future__ import annotations

import json
import time
from typing import Any

from typer.testing import CliRunner

from skyrocket.cli.main import app
from tests.client.servers import BROKER, WAIT_S_MAX, Servers


def test_a_message_from_sending_to_its_group(servers: Servers):
    topic, group = servers.topic("cli"), servers.topic("cli-group")

    def says(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--namesrv", servers.nameserver])
        assert done.exit_code == 0, done.output
        return done.stdout

    def told(*arguments: str) -> Any:
        return json.loads(says(*arguments, "--json"))

    assert told("topic", "create", topic, "--queues", "2")[0]["writeQueues"] == 2
    receipt = told("send", topic, "--body", "hello", "--tag", "paid", "--key", "o-7")
    deadline = time.monotonic() + WAIT_S_MAX
    while not (found := told("query", "key", topic, "o-7")):  # Apache's index comes a moment later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert found[0]["msgId"] == receipt["msgId"]
    for kind in ("msgId", "offsetId"):
        assert told("query", "id", topic, receipt[kind])[0]["body"] == "hello"
    assert "hello" in says("consume", topic)
    assert "hello" in says("consume", topic, "--group", group, "--from", "first", "--count", "1")
    assert told("group", "show", group)["progress"]["lag"] == 0
    assert says("group", "list").startswith("GROUP")
    assert told("offset", "reset", group, topic, "--to", "first")[0]["offset"] == 0
    assert told("group", "show", group)["progress"]["lag"] == 1
    assert told("cluster", "show")[0]["brokerName"] == BROKER
    assert told("cluster", "info", BROKER)["brokerVersionDesc"] == "V5_5_0"
    says("group", "delete", group, "--topics")
    says("topic", "delete", topic)
