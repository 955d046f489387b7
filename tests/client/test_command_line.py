"""The command line against our servers and Apache's, one test through all commands. tests/unit/cli tests the details."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client.sync import Consumer
from skyrocket.pipelines.deadletters.job import resend_letters
from skyrocket.pipelines.deadletters.selection import LetterSelection
from tests.client.consumer_support import QUICK
from tests.client.dead_letters import kill_messages
from tests.client.servers import BROKER, Servers
from tests.support.waiting import WAIT_S_MAX, wait_until


class Shell:
    """The command line at one cluster."""

    def __init__(self, servers: Servers) -> None:
        self._nameserver = servers.nameserver

    def invoke(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--namesrv", self._nameserver])

    def run(self, *arguments: str) -> str:
        done = self.invoke(*arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    def run_json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def run_lines(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self.run(*arguments, "--json").splitlines()]


@pytest.fixture
def shell(servers: Servers) -> Shell:
    return Shell(servers)


def test_commands_work_on_a_message_from_send_to_delete(servers: Servers, shell: Shell):
    topic, group = servers.topic("cli"), servers.topic("cli-group")
    invoke, run, run_json = shell.invoke, shell.run, shell.run_json
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
    assert run_json("offset", "reset", group, topic, "--to", "first", "--yes")[0]["offset"] == 0
    assert run_json("group", "show", group)["progress"]["lag"] == 1
    assert run_json("cluster", "show")[0]["brokerName"] == BROKER
    wait_until(
        lambda: invoke("cluster", "info", BROKER).exit_code == 0, "no figures"
    )  # Apache's has no figures in its first second
    assert run_json("cluster", "info", BROKER)["brokerVersionDesc"] == "V5_5_0"
    run("group", "delete", group, "--topics", "--yes")
    run("topic", "delete", topic, "--yes")


def test_tail_follows_a_topic_and_leaves_no_group_and_no_offset(servers: Servers, shell: Shell):
    topic = servers.topic("tailed")
    shell.run("topic", "create", topic, "--queues", "2")
    groups = {row["group"] for row in shell.run_json("group", "list", "--all")}
    for number in range(6):
        shell.run("send", topic, "--body", f"m{number}", "--tag", "odd" if number % 2 else "even")
    assert {one["body"] for one in shell.run_lines("tail", topic, "--from", "first", "--count", "6")} == {
        f"m{n}" for n in range(6)
    }
    odd = shell.run_lines("tail", topic, "--from", "first", "--filter", "odd", "--count", "3")
    assert {one["tags"] for one in odd} == {"odd"}
    (first,) = shell.run_lines("tail", topic, "--from", "first", "--queue", "1", "--count", "1")
    assert (first["queueId"], first["queueOffset"]) == (1, 0)
    assert {row["group"] for row in shell.run_json("group", "list", "--all")} == groups
    assert shell.run_json("topic", "show", topic)["groups"] == []
    missing = shell.invoke("tail", topic, "--queue", "7")
    assert (missing.exit_code, missing.stderr) == (
        1,
        f"There is no queue 7 of {topic} at {BROKER}. List the queues with: skyrocket topic show {topic}\n",
    )


def test_messages_are_found_by_the_time_of_their_arrival(servers: Servers, shell: Shell):
    topic = servers.topic("timed")
    shell.run("topic", "create", topic, "--queues", "2")
    for number in range(5):
        shell.run("send", topic, "--body", f"m{number}")
        time.sleep(0.003)  # so that no two have the same time
    stored = {one["body"]: one["storeTimestamp"] for one in shell.run_lines("consume", topic)}
    found = shell.run_json("query", "time", topic, "--from", str(stored["m1"]), "--to", str(stored["m3"]))
    assert [one["body"] for one in found] == ["m1", "m2"]
    assert [one["body"] for one in shell.run_json("query", "time", topic, "--from", str(stored["m3"]))] == ["m3", "m4"]
    text = shell.run("query", "time", topic, "--from", "2020-01-01T00:00:00", "--count", "2")
    assert text.splitlines()[-1] == f"There are more than 2. Continue with --from {stored['m2']}, or ask for more with --count."
    assert "stored no such message" in shell.run("query", "time", topic, "--from", str(stored["m4"] + 60_000))


def test_members_tell_the_queues_that_they_hold_and_what_they_do(servers: Servers, shell: Shell):
    topic, group = servers.topic("held"), servers.topic("holders")
    shell.run("topic", "create", topic, "--queues", "2")
    shell.run("send", topic, "--body", "x", "--count", "4")
    with Consumer(servers.nameserver, group=group, topics={topic: "*"}, start="first", consumer_limits=QUICK) as consumer:
        assert len(list(itertools.islice(consumer, 4))) == 4
        consumer.commit()
        client_id = consumer.client_id
        wait_until(lambda: f"{topic}  " in shell.run("group", "show", group), "the group has offsets")
        shown = shell.run_json("group", "show", group)
        held = [(row["topic"], row["queueId"], row["clientId"]) for row in shown["heldQueues"] if row["topic"] == topic]
        assert held == [(topic, 0, client_id), (topic, 1, client_id)]
        assert shown["silentMembers"] == []
        rows = [line for line in shell.run("group", "show", group).splitlines() if line.startswith(f"{topic} ")]
        assert len(rows) == 2
        assert all(line.endswith(client_id) for line in rows)
        state = shell.run_json("group", "member", group, client_id)
        assert [row["queueId"] for row in state["queues"] if row["topic"] == topic] == [0, 1]
        assert state["stack"] == ""
        text = shell.run("group", "member", group, client_id, "--stack")
        assert f"{client_id} of group {group}. It shares the queues with the group." in text
        assert "thread" in text
        missing = shell.invoke("group", "member", group, "somebody-else")
        assert (missing.exit_code, missing.stderr) == (1, f"No broker reaches consumer 'somebody-else' of group '{group}'.\n")
    assert shell.run_json("group", "show", group)["heldQueues"] == []


def test_a_group_skips_messages_and_the_plan_is_what_happens(servers: Servers, shell: Shell):
    topic, group = servers.topic("skipped"), servers.topic("skippers")
    shell.run("topic", "create", topic, "--queues", "1")
    shell.run("group", "create", group)
    for number in range(5):
        shell.run("send", topic, "--body", f"m{number}")
    shell.run("offset", "reset", group, topic, "--to", "first", "--yes")
    plan = shell.run_json("offset", "skip", group, topic, "--count", "2", "--dry-run")
    assert plan["queues"] == [{"brokerName": BROKER, "queueId": 0, "now": 0, "then": 2}]
    assert shell.run_json("offset", "show", group, topic)[0]["offset"] == 0
    assert "skips 2 messages" in shell.run("offset", "skip", group, topic, "--count", "2", "--yes")
    assert shell.run_json("offset", "show", group, topic)[0]["offset"] == 2
    (left,) = shell.run_lines("consume", topic, "--group", group, "--count", "1")
    assert left["body"] == "m2"
    assert shell.run_json("offset", "skip", group, topic, "--yes")[0]["offset"] == 5
    assert shell.run_json("group", "show", group)["progress"]["lag"] == 0
    refused = shell.invoke("offset", "skip", group, topic)
    assert refused.exit_code == 2
    assert "Confirm it with --yes, or look first with --dry-run." in refused.stderr


def test_a_broker_is_drained_and_comes_back(servers: Servers, shell: Shell):
    topic = servers.topic("drained")
    shell.run("topic", "create", topic, "--queues", "2")
    shell.run("send", topic, "--body", "before")
    wait_until(lambda: "before" in shell.run("consume", topic), "the message is dispatched")
    try:
        drained = shell.run_json("cluster", "drain", BROKER, "--yes")
        assert drained["drained"] == BROKER
        assert drained["topics"] >= 1
        assert [row["permission"] for row in shell.run_json("topic", "route", topic)["brokers"]] == ["r"]
        refused = shell.invoke("send", topic, "--body", "drained")
        assert refused.exit_code != 0
        assert "before" in shell.run("consume", topic), "consumers go on"
    finally:
        shell.run("cluster", "undrain", BROKER, "--yes")
    assert [row["permission"] for row in shell.run_json("topic", "route", topic)["brokers"]] == ["rw"]
    shell.run("send", topic, "--body", "after")
    unknown = shell.invoke("cluster", "drain", "broker-z", "--yes")
    assert (unknown.exit_code, unknown.stderr) == (1, "No nameserver has a broker called 'broker-z'.\n")


def test_settings_are_shown_and_changed(shell: Shell):
    before = shell.run("config", "get", BROKER, "fileReservedTime").strip()
    plan = shell.run_json("config", "set", BROKER, "fileReservedTime=71", "--dry-run")
    assert plan["changes"] == [{"server": BROKER, "setting": "fileReservedTime", "now": before, "then": "71"}]
    assert shell.run("config", "get", BROKER, "fileReservedTime").strip() == before
    assert shell.run_json("config", "set", BROKER, "fileReservedTime=71", "--yes") == {"fileReservedTime": "71"}
    shell.run("config", "set", BROKER, f"fileReservedTime={before}", "--yes")
    assert shell.run_json("config", "show", BROKER)["fileReservedTime"] == before
    assert shell.run_json("config", "show", "namesrv")


def test_dead_letters_are_listed_shown_exported_and_resent_once(servers: Servers, shell: Shell, tmp_path: Path):
    topic, group = kill_messages(servers, 4)
    (row,) = [one for one in shell.run_json("dlq", "list") if one["group"] == group]
    assert row["letters"] == 4
    letters = shell.run_json("dlq", "show", group)
    assert {(one["originTopic"], one["body"]) for one in letters} == {(topic, str(number)) for number in range(4)}
    assert "cause=no stock" in shell.run("dlq", "show", group, "--tag", "paid")
    assert shell.run("dlq", "show", group, "--count", "1").splitlines()[-1].startswith("There are more than 1.")
    file, record = tmp_path / "letters.jsonl", tmp_path / "record.jsonl"
    shell.run("dlq", "export", group, str(file), "--key", "o-2")
    assert [json.loads(line)["body"] for line in file.read_text().splitlines()] == ["2"]
    chosen = ("dlq", "resend", group, "--tag", "paid", "--record", str(record))
    assert shell.run_json(*chosen, "--dry-run")["byTopic"] == {topic: 2}
    refused = shell.invoke(*chosen)
    assert (refused.exit_code, record.exists()) == (2, False)
    assert shell.run_json(*chosen, "--yes")["sent"] == 2
    assert shell.run_json(*chosen, "--yes") == {
        "dryRun": False,
        "record": str(record),
        "sent": 0,
        "alreadySent": 2,
        "foundLater": 0,
        "failed": {},
        "unknown": {},
    }
    by_the_job = resend_letters({"nameserver": servers.nameserver}, [group], LetterSelection(tags=frozenset({"paid"})), record)
    assert (by_the_job.sent, by_the_job.known) == (0, 2), "the job and the command share the record"
    again = [one["body"] for one in shell.run_lines("consume", topic)]
    assert sorted(again) == ["0", "1", "1", "2", "3", "3"]
    everything = shell.invoke("dlq", "resend", group, "--yes")
    assert (everything.exit_code, "For all letters add --all." in everything.stderr) == (2, True)


def test_a_quick_load_measures_the_cluster_and_leaves_nothing(shell: Shell):
    topics, groups = set(shell.run_json("topic", "list", "--all")), {row["group"] for row in shell.run_json("group", "list")}
    found = shell.run_json("bench", "--seconds", "0.3", "--size", "100", "--in-flight", "8")
    assert found["send"]["messages"] == found["receive"]["messages"] > 0
    assert found["send"]["errors"] == 0
    assert 0 < found["send"]["p50Ms"] <= found["send"]["p99Ms"] <= found["send"]["maxMs"]
    assert found["receive"]["p50Ms"] > 0
    assert set(shell.run_json("topic", "list", "--all")) == topics
    assert {row["group"] for row in shell.run_json("group", "list")} == groups
