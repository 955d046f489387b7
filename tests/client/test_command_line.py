"""The command line against our servers and Apache's, one test through all commands. tests/unit/cli tests the details."""

from __future__ import annotations

import json
import time
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from skyrocket.cli.main import app
from tests.client.servers import BROKER, Servers
from tests.support.waiting import WAIT_S_MAX, wait_until


def test_commands_work_on_a_message_from_send_to_delete(servers: Servers):
    topic, group = servers.topic("cli"), servers.topic("cli-group")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--namesrv", servers.nameserver])

    def run(*arguments: str) -> str:
        done = invoke(*arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    def run_json(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json"))

    assert run_json("topic", "create", topic, "--queues", "2")[0]["writeQueues"] == 2
    receipt = run_json("send", topic, "--body", "hello", "--tag", "paid", "--key", "o-7")
    deadline = time.monotonic() + WAIT_S_MAX
    while not (found := run_json("query", "key", topic, "o-7")):  # Apache's broker builds its index a moment later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert found[0]["msgId"] == receipt["msgId"]
    for kind in ("msgId", "offsetId"):
        assert run_json("query", "id", topic, receipt[kind])[0]["body"] == "hello"
    assert "hello" in run("consume", topic)
    assert "hello" in run("consume", topic, "--group", group, "--from", "first", "--count", "1")
    assert run_json("group", "show", group)["progress"]["lag"] == 0
    assert run("group", "list").startswith("GROUP")
    assert run_json("offset", "reset", group, topic, "--to", "first")[0]["offset"] == 0
    assert run_json("group", "show", group)["progress"]["lag"] == 1
    assert run_json("cluster", "show")[0]["brokerName"] == BROKER
    wait_until(
        lambda: invoke("cluster", "info", BROKER).exit_code == 0, "no figures"
    )  # Apache's has no figures in its first second
    assert run_json("cluster", "info", BROKER)["brokerVersionDesc"] == "V5_5_0"
    run("group", "delete", group, "--topics")
    run("topic", "delete", topic)
