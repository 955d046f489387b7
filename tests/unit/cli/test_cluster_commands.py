"""`skyrocket topic|group|send|consume|query|offset|cluster`: what a person sees, what a program reads, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from skyrocket import __version__
from skyrocket.cli.main import app
from skyrocket.client import Consumer
from skyrocket.client import sync as sync_client
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.waiting import wait_until

FAILED, WRONG_INPUT, UNREACHABLE, REFUSED, INTERRUPTED = 1, 2, 3, 4, 130


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    with sync.LocalBroker() as running:
        Shell(running.nameserver).says("group", "create", "known")
        yield running


@pytest.fixture(autouse=True)
def clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


class Shell:
    def __init__(self, nameserver: str) -> None:
        self.nameserver = nameserver

    def run(self, *arguments: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=stdin, env={"NAMESRV_ADDR": self.nameserver})

    def says(self, *arguments: str, stdin: bytes | None = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *arguments: str, stdin: bytes | None = None) -> Any:
        return json.loads(self.says(*arguments, "--json", stdin=stdin))

    def json_lines(self, *arguments: str, stdin: bytes | None = None) -> list[Any]:
        return [json.loads(line) for line in self.says(*arguments, "--json", stdin=stdin).splitlines()]


@pytest.fixture
def shell(broker: SyncBroker) -> Shell:
    return Shell(broker.nameserver)


# --- topics


def test_create_show_and_delete_a_topic(shell: Shell):
    assert "orders" in shell.says("topic", "create", "orders", "--queues", "3")
    assert "orders" in shell.says("topic", "list").splitlines()
    shell.says("topic", "create", "orders", "--perm", "r", "--attribute", "message.type=FIFO")
    (settings,) = shell.json("topic", "show", "orders")["settings"]
    assert settings == {
        "topic": "orders",
        "brokerName": "broker-a",
        "readQueues": 3,
        "writeQueues": 3,
        "permission": "r",
        "isOrdered": False,
        "attributes": {"message.type": "FIFO"},
    }
    assert shell.json("topic", "route", "orders")["brokers"][0]["addresses"].keys() == {"0"}
    assert "(master)" in shell.says("topic", "route", "orders")
    assert shell.json("topic", "delete", "orders", "--yes") == {"deleted": "orders"}
    assert "orders" not in shell.json("topic", "list")


def test_internal_topics_are_listed_with_all(shell: Shell):
    assert "TBW102" in shell.json("topic", "list", "--all")
    assert "TBW102" not in shell.json("topic", "list")


def test_fresh_broker_lists_no_topics():
    with sync.LocalBroker() as fresh:
        assert Shell(fresh.nameserver).json("topic", "list") == []


def test_tables_are_aligned(shell: Shell):
    shell.says("topic", "create", "aligned", "--queues", "2")
    shell.says("send", "aligned", "--body", "x", "--count", "12")
    head, *rows = shell.says("topic", "show", "aligned").split("\n\n")[1].splitlines()
    assert head.split() == ["BROKER", "QUEUE", "FIRST", "END", "MESSAGES", "LAST", "MESSAGE"]
    assert len(rows) == 2
    end = head.index("END") + len("END")
    assert {row[end - 3 : end] for row in rows} == {"  6"}


# --- messages


def test_send_a_message_and_find_it_by_key_id_and_offset(shell: Shell):
    receipt = shell.json(
        *("send", "parcels", "--body", "grüße", "--tag", "paid", "--key", "o-7", "--key", "u-1", "--property", "source=app")
    )
    assert receipt.keys() == {"status", "msgId", "offsetId", "topic", "brokerName", "queueId", "queueOffset", "recallHandle"}
    assert receipt["status"] == "OK"
    (by_key,) = shell.json("query", "key", "parcels", "o-7")
    assert (by_key["body"], by_key["tags"], by_key["keys"], by_key["msgId"]) == (
        "grüße",
        "paid",
        ["o-7", "u-1"],
        receipt["msgId"],
    )
    assert by_key["properties"]["source"] == "app"
    place = ("parcels", str(receipt["queueId"]), str(receipt["queueOffset"]))
    for found in (
        shell.json("query", "id", "parcels", receipt["msgId"]),
        shell.json("query", "id", "parcels", receipt["offsetId"]),
        shell.json("query", "offset", *place),
        shell.json("topic", "peek", "parcels"),
    ):
        assert found == [by_key]
    text = shell.says("query", "id", "parcels", receipt["msgId"])
    assert "grüße" in text
    assert "source" in text
    assert "tag=paid" in shell.says("query", "key", "parcels", "o-7")
    assert shell.says("query", "key", "parcels", "unheard-of") == "No message of topic 'parcels' has the key 'unheard-of'.\n"


def test_bodies_come_from_files_and_standard_input(shell: Shell, tmp_path: Path):
    (tmp_path / "body").write_bytes(b"\x00\xff binary")
    shell.says("send", "files", "--file", str(tmp_path / "body"))
    shell.says("send", "files", "--file", "-", stdin=b"whole\ninput\n")
    assert len(shell.json_lines("send", "files", "--file", "-", "--lines", stdin=b"one\n\ntwo\n")) == 2
    shown = shell.json_lines("consume", "files")
    assert sorted(one["body"] for one in shown if "body" in one) == ["one", "two", "whole\ninput\n"]
    assert [one["bodyBase64"] for one in shown if "bodyBase64" in one] == ["AP8gYmluYXJ5"]


def test_control_characters_of_a_body_are_escaped(shell: Shell):
    shell.says("topic", "create", "escapes")
    shell.says("send", "escapes", "--file", "-", stdin=b"\x1b[31mred\n")
    assert "\\x1b[31mred\\n" in shell.says("consume", "escapes")


def test_a_delayed_message_is_delivered_after_its_delay(shell: Shell, broker: SyncBroker):
    shell.says("topic", "create", "delays")  # so that the nameserver knows it
    shell.says("send", "delays", "--body", "later", "--delay", "30")
    assert shell.says("consume", "delays") == ""
    broker.advance(31)
    assert "later" in shell.says("consume", "delays")


def test_a_group_consumes_each_message_once_and_reading_without_a_group_consumes_nothing(shell: Shell):
    for number in range(5):
        shell.says("send", "queueing", "--body", f"m{number}", "--tag", "odd" if number % 2 else "even")
    assert len(shell.json_lines("consume", "queueing")) == 5
    assert len(shell.json_lines("consume", "queueing", "--tag", "odd")) == 2
    assert len(shell.json_lines("consume", "queueing", "--count", "3")) == 3
    of_group = ("consume", "queueing", "--group", "readers", "--from", "first")
    first = shell.json_lines(*of_group, "--count", "2")
    rest = shell.json_lines(*of_group, "--count", "3")
    assert sorted(one["body"] for one in first + rest) == ["m0", "m1", "m2", "m3", "m4"]
    assert shell.json_lines(*of_group, "--wait", "0.3") == []
    assert shell.says("consume", "queueing", "--body", "--count", "1") in {f"m{number}\n" for number in range(5)}


# --- groups and offsets


def test_create_reset_clone_and_delete_a_group(shell: Shell):
    shell.says("topic", "create", "moves", "--queues", "1")
    shell.says("send", "moves", "--body", "x", "--count", "4")
    assert shell.json("group", "create", "movers", "--retries", "3")[0]["retriesMax"] == 3
    assert "movers" in shell.says("group", "list")
    assert [row["offset"] for row in shell.json("offset", "show", "movers", "moves")] == [0]
    assert [row["offset"] for row in shell.json("offset", "reset", "movers", "moves", "--to", "last", "--yes")] == [4]
    assert [
        row["offset"] for row in shell.json("offset", "reset", "movers", "moves", "--to", "offset:1", "--queue", "0", "--yes")
    ] == [1]
    shown = shell.json("group", "show", "movers")
    assert shown["progress"]["lag"] == 3
    assert shown["progress"]["queues"][0]["committedOffset"] == 1
    assert shown["members"]["members"] == []
    assert {"group": "movers", "members": 0, "lag": 3, "rate": 0.0} in shell.json("group", "list")
    assert "Lag: 3." in shell.says("group", "show", "movers")
    shell.says("group", "create", "followers")
    assert [row["offset"] for row in shell.json("offset", "clone", "movers", "followers", "moves", "--yes")] == [1]
    assert [
        row["offset"] for row in shell.json("offset", "reset", "movers", "moves", "--to", "2020-01-01T00:00:00", "--yes")
    ] == [0]
    assert [
        row["offset"] for row in shell.json("offset", "reset", "movers", "moves", "--to", "last", "--queue", "0", "--yes")
    ] == [4]
    shell.says("group", "delete", "movers", "--topics", "--yes")
    assert "movers" not in [row["group"] for row in shell.json("group", "list")]


async def test_members_of_a_group_are_shown(shell: Shell):
    await asyncio.to_thread(shell.says, "topic", "create", "watched")
    async with Consumer(shell.nameserver, group="watchers", topics={"watched": "a || b"}) as consumer:
        shown = await asyncio.to_thread(shell.json, "group", "show", "watchers")
        text = await asyncio.to_thread(shell.says, "group", "show", "watchers")
        client_id = consumer.client_id
    assert [member["clientId"] for member in shown["members"]["members"]] == [client_id]
    assert "watched (a || b)" in text


# --- the cluster


def test_show_the_cluster_and_change_its_settings(shell: Shell):
    (state,) = shell.json("cluster", "show")
    assert (state["brokerName"], state["brokerId"], state["version"], state["error"]) == ("broker-a", 0, "5.5.0", "")
    assert state["skyrocketVersion"].startswith(f"{__version__} (")
    assert "master" in shell.says("cluster", "show")
    assert f"5.5.0 (skyrocket {__version__})" in shell.says("cluster", "show")
    assert shell.json("cluster", "info", "broker-a")["brokerVersionDesc"] == "V5_5_0"
    assert shell.json("config", "set", "broker-a", "fileReservedTime=70", "--yes") == {"fileReservedTime": "70"}
    assert "fileReservedTime" in shell.says("config", "show", "broker-a")
    assert shell.says("config", "get", "broker-a", "fileReservedTime") == "70\n"
    settings = shell.json("config", "set", "namesrv", "waitSecondsForService=44", "--yes")
    assert settings[shell.nameserver]["waitSecondsForService"] == "44"
    assert shell.json("config", "show", "namesrv")[shell.nameserver]["waitSecondsForService"] == "44"
    assert "waitSecondsForService" in shell.says("config", "show", "namesrv")
    assert shell.json("cluster", "producers") == []


# --- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["topic", "create", "a/b"], WRONG_INPUT, "'a/b' is not a valid topic name"),
        (["topic", "create", "fine", "--perm", "x"], WRONG_INPUT, "A topic's permission is rw, r, w or -, not 'x'."),
        (["topic", "create", "fine", "--attribute", "odd"], WRONG_INPUT, "An attribute is name=value, not 'odd'."),
        (["topic", "create", "fine", "--attribute", "odd=1"], REFUSED, "odd"),
        (
            ["topic", "create", "fine", "--broker-cluster", "elsewhere"],
            FAILED,
            "No nameserver has a master in cluster 'elsewhere'",
        ),
        (["topic", "show", "unheard-of"], FAILED, "Topic 'unheard-of' does not exist at "),
        (["topic", "delete", "unheard-of"], FAILED, "Topic 'unheard-of' does not exist at "),
        (["topic", "list", "-n", "nowhere"], WRONG_INPUT, "'nowhere' is not a nameserver address. Write host:port"),
        (["topic", "list", "-n", "127.0.0.1:1"], UNREACHABLE, "No nameserver answers. 127.0.0.1:1 cannot be reached"),
        (
            ["topic", "list", "--access-key", "me"],
            WRONG_INPUT,
            "--secret-key is missing. Give --access-key and --secret-key together",
        ),
        (["consume", "t", "--group", "g", "-n", "127.0.0.1:1"], UNREACHABLE, "No nameserver answers."),
        (
            ["consume", "t", "--from", "yesterday"],
            WRONG_INPUT,
            "'yesterday' is not a start position. Use first, last, milliseconds since 1970",
        ),
        (["send", "t"], WRONG_INPUT, "Give the body with either --body TEXT or --file FILE"),
        (["send", "t", "--body", ""], WRONG_INPUT, "The body is empty"),
        (["send", "t", "--body", "x", "--lines"], WRONG_INPUT, "--lines needs --file FILE"),
        (["send", "t", "--file", "no-such-file"], WRONG_INPUT, "no-such-file cannot be read: No such file or directory."),
        (["send", "t", "--body", "x", "--key", "a b"], WRONG_INPUT, "'a b' is not a valid key"),
        (["send", "t", "--body", "x", "-n", "127.0.0.1:1"], UNREACHABLE, "No nameserver answers."),
        (["group", "show", "unheard-of"], FAILED, "Group 'unheard-of' does not exist at any broker."),
        (["group", "delete", "unheard-of"], FAILED, "Group 'unheard-of' does not exist at any broker."),
        (["query", "id", "TBW102", "nonsense"], FAILED, "Topic 'TBW102' has no message with id nonsense."),
        (["query", "offset", "TBW102", "0", "7"], FAILED, "There is no message at offset 7 in queue 0 of TBW102 at broker-a."),
        (
            ["offset", "reset", "g", "TBW102", "--to", "offset:7"],
            WRONG_INPUT,
            "--to offset:7 needs a queue and a number. Write it like this: --queue 0 --to offset:42",
        ),
        (["offset", "reset", "unheard-of", "TBW102", "--to", "last"], FAILED, "unheard-of"),
        (["offset", "show", "unheard-of", "TBW102"], FAILED, "Group 'unheard-of' does not exist at any broker."),
        (["offset", "clone", "unheard-of", "known", "TBW102"], FAILED, "Group 'unheard-of' does not exist at any broker."),
        (["offset", "clone", "known", "unheard-of", "TBW102"], FAILED, "Group 'unheard-of' does not exist at any broker."),
        (["offset", "show", "known", "unheard-of"], FAILED, "Topic 'unheard-of' does not exist at "),
        (
            ["offset", "reset", "known", "TBW102", "--queue", "0", "--to", "last", "--broker", "nobody"],
            FAILED,
            "Broker 'nobody' does not have topic 'TBW102'. The topic is at: broker-a.",
        ),
        (["query", "offset", "TBW102", "0", "7", "--broker", "nobody"], FAILED, "Broker 'nobody' does not have topic 'TBW102'."),
        (["query", "key", "unheard-of", "k"], FAILED, "Topic 'unheard-of' does not exist at "),
        (["query", "id", "unheard-of", "nonsense"], FAILED, "Topic 'unheard-of' does not exist at "),
        (["topic", "route", "unheard-of"], FAILED, "Topic 'unheard-of' does not exist at "),
        (["topic", "peek", "unheard-of"], FAILED, "Topic 'unheard-of' does not exist at "),
        (["consume", "unheard-of"], FAILED, "Topic 'unheard-of' does not exist at "),
        (["cluster", "producers", "unheard-of"], FAILED, "No producer of group 'unheard-of' is connected."),
        (["config", "show", "nobody"], FAILED, "No nameserver has a master called 'nobody'."),
        (["config", "set", "broker-a", "storePathRootDir=/x", "--yes"], REFUSED, "storePathRootDir"),
        (["config", "set", "broker-a", "x"], WRONG_INPUT, "A setting is name=value, not 'x'."),
        (
            ["config", "set", "broker-a", "fileReservedTme=7", "--yes"],
            FAILED,
            "broker-a has no setting 'fileReservedTme'. Did you mean fileReservedTime?",
        ),
        (["config", "get", "broker-a", "nonsense"], FAILED, "broker-a has no setting 'nonsense'."),
    ],
)
def test_an_error_is_one_sentence_on_standard_error(shell: Shell, arguments: list[str], code: int, sentence: str):
    done = shell.run(*arguments)
    assert done.exit_code == code, done.output
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert isinstance(done.exception, SystemExit), "an unexpected exception"


@pytest.mark.parametrize("arguments", [["topic", "create"], ["topic", "creat", "x"], ["nonsense"], ["send", "t", "--count", "0"]])
def test_wrong_usage_prints_the_usage(shell: Shell, arguments: list[str]):
    done = shell.run(*arguments)
    assert done.exit_code == WRONG_INPUT
    assert "Usage" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["topik", "list"], "No such command 'topik'. Did you mean 'topic'?"),
        (["topic", "creat", "x"], "Did you mean 'create'?"),
        (["topic", "create", "x", "--queue", "3"], "--queues"),
        (["pipeline", "archiv"], "No such command 'archiv'. Did you mean 'archive'?"),
        (["topic", "show", "shiped"], ". Did you mean 'shipped'? Create it with: skyrocket topic create shiped\n"),
        (["consume", "shiped"], "Did you mean 'shipped'?"),
        (["group", "show", "knwn"], "Did you mean 'known'?"),
        (["offset", "show", "knwn", "shipped"], "Did you mean 'known'?"),
        (["offset", "show", "known", "shiped"], "Did you mean 'shipped'?"),
        (["dlq", "show", "knwn"], "Did you mean 'known'?"),
    ],
)
def test_a_typing_mistake_gets_a_suggestion(shell: Shell, arguments: list[str], suggestion: str):
    shell.says("topic", "create", "shipped", "--queues", "1")
    done = shell.run(*arguments)
    assert done.exit_code in (FAILED, WRONG_INPUT)
    assert suggestion in done.stderr


def test_a_group_that_is_gone_still_shows_its_offsets(shell: Shell):
    shell.says("topic", "create", "left-behind", "--queues", "1")
    shell.says("send", "left-behind", "--body", "x", "--count", "3")
    shell.says("group", "create", "leavers")
    shell.says("offset", "reset", "leavers", "left-behind", "--to", "last", "--yes")
    shell.says("group", "delete", "leavers", "--keep-offsets", "--yes")
    assert [row["offset"] for row in shell.json("offset", "show", "leavers", "left-behind")] == [3]


def test_a_tag_without_messages_is_not_taken_for_an_empty_topic(shell: Shell):
    shell.says("topic", "create", "tagged")
    shell.says("send", "tagged", "--body", "x", "--tag", "paid")
    assert shell.says("topic", "peek", "tagged", "--tag", "late") == "None of the newest messages of topic tagged has tag late.\n"


def test_a_nameservers_address_given_as_a_brokers_is_named(shell: Shell):
    for command, *more in (["cluster", "info"], ["config", "show"], ["config", "set", "traceOn=true", "--yes"]):
        done = shell.run(command, more[0], shell.nameserver, *more[1:])
        assert done.exit_code == FAILED
        sentence = f"{shell.nameserver} is not a broker, but perhaps a nameserver. Give a broker's name or address.\n"
        assert done.stderr == sentence


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["topic", "list"], UNREACHABLE),
        (["topic", "show", "t"], UNREACHABLE),
        (["send", "t", "--body", "x"], UNREACHABLE),
        (["consume", "t"], UNREACHABLE),
        (["group", "list"], UNREACHABLE),
        (["cluster", "show"], UNREACHABLE),
        (["config", "show", "namesrv"], FAILED),
        (["config", "set", "namesrv", "waitSecondsForService=44", "--yes"], FAILED),
    ],
)
def test_a_brokers_port_given_as_the_nameservers_is_named(shell: Shell, broker: SyncBroker, arguments: list[str], code: int):
    done = shell.run(*arguments, "-n", broker.address)
    assert done.exit_code == code, done.output
    assert f"{broker.address} is not a nameserver, but perhaps a broker." in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_tls_at_a_port_without_tls_is_named(shell: Shell):
    done = shell.run("topic", "list", "--tls")
    assert done.exit_code == UNREACHABLE
    assert done.stderr.startswith(
        f"No nameserver answers. {shell.nameserver} cannot be reached: it closed the connection during the TLS"
    )
    assert "the port may be one without TLS" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_group_that_waits_for_a_topic_in_vain_is_told_that_it_does_not_exist(shell: Shell):
    done = shell.run("consume", "never-comes", "--group", "hopeful", "--wait", "0.2")
    assert done.exit_code == FAILED
    assert "Topic 'never-comes' does not exist at " in done.stderr
    shell.says("topic", "create", "empty")
    assert shell.says("consume", "empty", "--group", "hopeful", "--wait", "0.2") == ""


# --- as a process


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "skyrocket", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_consume_ends_quietly_when_it_is_interrupted(broker: SyncBroker):
    arguments = ["consume", "endless", "--group", "patient", "--from", "first", "-n", broker.nameserver]
    with started(*arguments) as process:
        Shell(broker.nameserver).says("send", "endless", "--body", "here")
        assert process.stdout is not None
        assert b"here" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == INTERRUPTED
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_tail_prints_what_arrives_and_ends_quietly_when_it_is_interrupted(broker: SyncBroker):
    shell = Shell(broker.nameserver)
    shell.says("topic", "create", "followed", "--queues", "2")
    shell.says("send", "followed", "--body", "before")
    with started("tail", "followed", "--from", "first", "-n", broker.nameserver) as process:
        assert process.stdout is not None
        assert b"before" in process.stdout.readline()
        for number in range(3):  # it waits for each of them at the broker
            shell.says("send", "followed", "--body", f"m{number}")
            assert f"m{number}".encode() in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == INTERRUPTED
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_load_that_is_interrupted_leaves_nothing(broker: SyncBroker):
    shell = Shell(broker.nameserver)

    def loads() -> list[str]:
        return [name for name in shell.json("topic", "list", "--all") if "skyrocket-bench" in name]

    with started("bench", "--seconds", "600", "--in-flight", "2", "-n", broker.nameserver) as process:
        wait_until(lambda: bool(loads()), "the load has begun")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == INTERRUPTED
    assert loads() == []
    assert [row["group"] for row in shell.json("group", "list") if "skyrocket-bench" in row["group"]] == []


def test_a_closed_pipe_is_not_an_error(broker: SyncBroker):
    Shell(broker.nameserver).says("send", "pipes", "--body", "x" * 1000, "--count", "300")
    with started("consume", "pipes", "-n", broker.nameserver) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) in (0, 1)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


# --- traces


def test_trace_of_a_message_is_a_table(shell: Shell, broker: SyncBroker):
    with sync_client.Producer(broker.nameserver, group="signup", trace=True) as producer:
        sent = producer.send(sync_client.Message("traced", b"hello", keys=["o-77"]))
    wait_until(lambda: "Pub" in shell.run("query", "trace", "o-77").stdout, "the trace is there")  # its topic is new, too
    head, row = shell.says("query", "trace", sent.message_id).splitlines()
    assert head.split() == ["time", "event", "group", "client", "result", "ms", "id", "details"]
    assert row.split()[2:4] == ["Pub", "signup"]
    assert all(text in row for text in ("success", sent.message_id, "topic traced", "5 bytes"))
    (step,) = shell.json("query", "trace", "o-77")
    assert (step["row"]["type"], step["row"]["group"], step["row"]["bodyBytes"]) == ("Pub", "signup", 5)


def test_message_without_a_trace_says_so(shell: Shell):
    assert shell.says("query", "trace", "nobody") == "Topic 'RMQ_SYS_TRACE_TOPIC' has no trace of 'nobody'.\n"
