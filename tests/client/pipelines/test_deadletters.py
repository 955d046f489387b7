"""The job `deadletters` against our servers and Apache's: triage, export, and a resend that happens once if it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client import Admin, Producer, Received
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.deadletters.job import resend_letters, triage_letters
from skyrocket.pipelines.deadletters.resend import Resender, ResendResult, resent_message
from skyrocket.pipelines.deadletters.resend_record import LetterCluster, ResendRecord
from skyrocket.pipelines.deadletters.selection import LetterSelection
from tests.client.dead_letters import kill_messages
from tests.client.servers import Servers, reader
from tests.support.terminal import answer_at_terminal
from tests.support.waiting import wait_until

ALL = LetterSelection()


def triage(servers: Servers, *groups: str):
    return triage_letters({"nameserver": servers.nameserver}, groups)


def bodies_in(servers: Servers, topic: str) -> list[str]:
    async def read() -> list[str]:
        async with reader(servers) as read:
            return sorted(message.body.decode() for message in await read.all(topic))

    return asyncio.run(read())


def invoke(servers: Servers, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "deadletters", *arguments, "--namesrv", servers.nameserver])


def run(servers: Servers, *arguments: str) -> str:
    done = invoke(servers, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_letters_are_grouped_exported_and_resent_once(servers: Servers, tmp_path: Path):
    topic, group = kill_messages(servers, 6)
    page = tmp_path / "letters.html"
    text = run(servers, group, "--report", str(page))
    assert "no stock #" in text
    ages = text.split("\n\n")[1].splitlines()
    assert ages[0].split() == ["AGE", "LETTERS"]
    assert sum(int(line.split()[-1]) for line in ages[1:]) == 6
    assert topic in text
    assert "<!doctype html>" in page.read_text()
    document = json.loads(run(servers, group, "--json"))
    (cause,) = document["causes"]
    assert (cause["originTopic"], cause["letters"], cause["reason"]) == (topic, 6, "no stock #")

    for name in ("letters.jsonl", "letters.parquet"):
        assert "3 letters were written" in run(servers, group, "--tag", "paid", "--export", str(tmp_path / name))
    exported = [json.loads(line) for line in (tmp_path / "letters.jsonl").read_text().splitlines()]
    assert sorted(one["body"] for one in exported) == ["1", "3", "5"]
    assert sorted(pq.read_table(tmp_path / "letters.parquet")["body"].to_pylist()) == [b"1", b"3", b"5"]

    record = tmp_path / "record.jsonl"
    chosen = (group, "--tag", "paid", "--resend", "--record", str(record))
    assert "3 letters will be resent" in run(servers, *chosen, "--dry-run")
    refused = invoke(servers, *chosen)
    assert (refused.exit_code, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert refused.stderr.endswith("Confirm it with --yes, or look first with --dry-run.\n")
    words = [*chosen, "-n", servers.nameserver]
    code, shown, output = answer_at_terminal("n\n", "pipeline", "deadletters", *words)
    assert (code, output, "3 letters will be resent" in shown, "Nothing has changed." in shown) == (1, "", True, True)
    assert bodies_in(servers, topic) == list("012345")
    assert "3 letters resent; 0 were resent before." in run(servers, *chosen, "--yes")
    assert "0 letters resent; 3 were resent before." in run(servers, *chosen, "--yes")
    wait_until(lambda: len(bodies_in(servers, topic)) >= 9, "they are not in the topic")
    assert bodies_in(servers, topic) == sorted("012345135")

    one_more = run(servers, group, "--key", "o-0", "--resend", "--yes", "--record", str(record))
    assert "1 letter resent; 0 were resent before." in one_more
    events = [json.loads(line) for line in record.read_text().splitlines()]
    assert Counter(event["event"] for event in events) == {"cluster": 1, "begin": 2, "sent": 4}
    assert all("@" in event["by"] for event in events if event["event"] == "begin")


@pytest.mark.parametrize("command", [("pipeline", "deadletters"), ("dlq", "resend")])
def test_letters_that_die_while_the_question_stands_are_not_sent(servers: Servers, tmp_path: Path, command: tuple[str, str]):
    topic, group = kill_messages(servers, 2)
    resend = ("--resend",) if command[0] == "pipeline" else ()
    words = [*command, group, *resend, "--all", "--record", str(tmp_path / "r"), "-n", servers.nameserver]
    code, shown, output = answer_at_terminal("y\n", *words, meanwhile=lambda: kill_messages(servers, 3, topic, group))
    assert (code, "2 letters" in shown) == (0, True), shown
    assert "2 letters resent; 0 were resent before." in output
    again = resend_letters({"nameserver": servers.nameserver}, [group], ALL, tmp_path / "r")
    assert (again.sent, again.known) == (3, 2)


def test_a_resent_message_tells_who_resent_it(servers: Servers, tmp_path: Path):
    topic, group = kill_messages(servers, 1)
    cluster = {"nameserver": servers.nameserver}
    assert resend_letters(cluster, [group], ALL, tmp_path / "r", by="ann@ops").sent == 1

    async def resent() -> list[Received]:
        async with reader(servers) as read:
            return [one for one in await read.at_least(topic, 2) if "SR_RESENT_BY" in one.properties]

    (message,) = asyncio.run(resent())
    (letter,) = triage(servers, group).triage.most_frequent()[0][1].samples
    assert (message.tag, message.keys, message.properties["colour"]) == ("open", ["o-0"], "blå")
    assert message.properties["SR_RESENT_BY"] == "ann@ops"
    assert message.properties["SR_RESENT_LETTER"] == letter.letter_id
    assert message.properties["SR_RESENT_FROM"] == f"%DLQ%{group}"
    assert message.message_id != letter.message_id


def test_a_run_that_died_before_it_recorded_what_it_sent_is_resumed(servers: Servers, tmp_path: Path):
    topic, group = kill_messages(servers, 4)
    cluster, record = {"nameserver": servers.nameserver}, tmp_path / "record.jsonl"
    resend_letters(cluster, [group], ALL, record)
    wait_until(lambda: len(bodies_in(servers, topic)) == 8, "they are not in the topic")
    cluster_line, begin, first, *_ = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(cluster_line + begin + first)  # as if it died after the first of four letters
    result = resend_letters(cluster, [group], ALL, record)
    assert (result.sent, result.found, result.known) == (0, 3, 4)
    assert len(bodies_in(servers, topic)) == 8


def test_a_run_that_died_before_it_sent_is_resumed(servers: Servers, tmp_path: Path):
    topic, group = kill_messages(servers, 3)
    cluster, record = {"nameserver": servers.nameserver}, tmp_path / "record.jsonl"
    samples = triage(servers, group).triage.most_frequent()[0][1].samples
    begin = {"event": "begin", "letters": [one.letter_id for one in samples], "ends": {topic: {}}}
    record.write_text(json.dumps(begin) + "\n")
    result = resend_letters(cluster, [group], ALL, record)
    assert (result.sent, result.found, result.known) == (3, 0, 0)
    wait_until(lambda: len(bodies_in(servers, topic)) == 6, "they are not in the topic")


def test_what_a_killed_run_sent_is_found_although_the_broker_stores_it_late(servers: Servers, tmp_path: Path):
    topic, group = kill_messages(servers, 1)
    cluster, record_path = {"nameserver": servers.nameserver}, tmp_path / "record.jsonl"
    (letter,) = triage(servers, group).triage.most_frequent()[0][1].samples

    async def resume() -> ResendResult:
        options = parse_cluster(cluster).client_options()
        async with Admin(options=options) as admin, Producer(options=options, group="resuming") as producer:
            offsets = await admin.offsets.at(topic, "last")
            ends = {topic: {f"{queue.broker_name}:{queue.queue_id}": offset for queue, offset in offsets.items()}}

            async def store_late(_seconds: float) -> None:
                await producer.send(resent_message(letter, by="ann", at="now"))

            with ResendRecord(record_path, LetterCluster.of(options)) as record:
                record.write([{"event": "begin", "run": "killed", "letters": [letter.letter_id], "ends": ends}])
                resender = Resender(admin, producer, record, "next", "ann", "now", store_late)
                async for result in resender.resend([letter]):
                    found = result
        return found

    result = asyncio.run(resume())
    assert (result.sent, result.found, result.known) == (0, 1, 1)
    assert bodies_in(servers, topic) == ["0", "0"]


def test_a_resend_that_is_killed_again_and_again_sends_each_letter_once(ours: Servers, tmp_path: Path):
    count = 600
    topic, group = kill_messages(ours, count)
    record = tmp_path / "record.jsonl"
    arguments = ["pipeline", "deadletters", group, "--resend", "--all", "--yes", "--record", str(record), "-n", ours.nameserver]
    for lines in (1, 40, 250, 380):  # kill it when its record has so many lines
        process = subprocess.Popen([sys.executable, "-m", "skyrocket", *arguments], stdout=subprocess.DEVNULL)
        wait_until(
            lambda lines=lines, process=process: (
                process.poll() is not None or (record.exists() and record.read_bytes().count(b"\n") >= lines)
            ),
            "the resend does not get on",
            every_s=0.001,
        )
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    resend_letters({"nameserver": ours.nameserver}, [group], ALL, record)
    assert Counter(bodies_in(ours, topic)) == Counter({str(number): 2 for number in range(count)})


def test_a_group_without_dead_letters_has_none(servers: Servers):
    group = servers.topic("healthy")

    async def create() -> None:
        async with Admin(servers.nameserver) as admin:
            await admin.groups.create(group)

    asyncio.run(create())
    assert run(servers, group) == "There are no dead letters.\n"


def test_a_topic_of_dead_letters_that_is_empty_has_none(servers: Servers, tmp_path: Path):
    group = servers.topic("healthy")

    async def create() -> None:
        async with Admin(servers.nameserver) as admin:
            await admin.groups.create(group)
            await admin.topics.create(f"%DLQ%{group}", queues=1)

    asyncio.run(create())
    assert run(servers, group) == "There are no dead letters.\n"
    assert json.loads(run(servers, group, "--json"))["topics"] == [f"%DLQ%{group}"]
    assert "0 letters were written" in run(servers, group, "--export", str(tmp_path / "letters.parquet"))
    resent = run(servers, group, "--resend", "--all", "--yes", "--record", str(tmp_path / "r"))
    assert "0 letters resent; 0 were resent before." in resent


def test_letters_whose_topic_is_gone_are_reported(ours: Servers, tmp_path: Path):
    topic, group = kill_messages(ours, 1)

    async def delete() -> None:
        async with Admin(ours.nameserver) as admin:
            await admin.topics.delete(topic)

    asyncio.run(delete())
    result = resend_letters({"nameserver": ours.nameserver}, [group], ALL, tmp_path / "r")
    assert result.sent == 0
    assert [f"Topic '{topic}' does not exist" in reason for reason in result.failed.values()] == [True]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-group"], "Group 'no-such-group' does not exist."),
        (["--resend"], "--resend needs the group"),
        (["g", "--resend"], "--resend needs a selection"),
        (["g", "--yes"], "--yes is for a resend"),
        (["g", "--since", "yesterday"], "--since is 'yesterday', which is not a time."),
        (["--export", "letters.csv"], "--export is 'letters.csv'; its ending must be"),
        (["g", "--resend", "--all", "--export", "x.jsonl"], "--export and --resend are two jobs."),
    ],
)
def test_wrong_arguments_are_one_sentence(ours: Servers, arguments: list[str], sentence: str):
    done = invoke(ours, *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
