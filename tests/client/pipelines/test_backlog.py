"""The job `backlog` against our servers and Apache's: empty, growing, stuck and wrongly subscribed groups; and its command."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client import Admin, Consumer, Message, NotFoundError, Producer, Received
from skyrocket.client.queues import Queue
from skyrocket.pipelines.backlog.job import watch_backlog
from skyrocket.pipelines.backlog.presentation import BacklogReport
from tests.client.consumer_support import QUICK
from tests.client.doctor.scenes import member
from tests.client.servers import BROKER, Servers
from tests.support.waiting import WAIT_S_MAX, wait_until


async def send(servers: Servers, topic: str, counts: tuple[int, ...]) -> None:
    """Send so many messages to each queue, and wait until the queues have them: Apache's broker dispatches a moment later."""
    async with Producer(servers.nameserver) as producer, Admin(servers.nameserver) as admin:
        before = (await admin.topics.status(topic)).messages
        for number, count in enumerate(counts):
            for _ in range(count):
                await producer.send(Message(topic, b"m"), queue=Queue(topic, BROKER, number))
        async with asyncio.timeout(WAIT_S_MAX):
            while (await admin.topics.status(topic)).messages < before + sum(counts):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def prepare(servers: Servers, queues: int) -> tuple[str, str]:
    """Create a topic and a group that has consumed nothing of it. Returns their names."""
    topic, group = servers.topic("backlog"), servers.topic("behind")
    async with Admin(servers.nameserver) as admin:
        await admin.topics.create(topic, queues=queues)
        await admin.groups.create(group)
        await admin.offsets.set(group, {Queue(topic, BROKER, number): 0 for number in range(queues)})
    return topic, group


async def report_on(servers: Servers, *groups: str, every_s: float = 0.0) -> BacklogReport:
    async with Admin(servers.nameserver) as admin:
        (report,) = [one async for one in watch_backlog(admin, groups, every_s=every_s)]
        return report


async def report_with(servers: Servers, group: str, rule: str) -> BacklogReport:
    """Return the first report with a finding of this rule."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            report = await report_on(servers, group, every_s=0.3)
            if rule in {one.rule for one in report.findings}:
                return report


async def test_an_empty_topic_has_no_backlog_and_no_advice(servers: Servers):
    topic, group = await prepare(servers, 2)
    report = await report_on(servers, group)
    assert (report.lag, report.findings) == (0, [])
    assert [(one.topic, len(one.queues)) for one in report.topics if not one.is_retry] == [(topic, 2)]


async def test_lag_is_counted_by_queue_and_nobody_reads_it(servers: Servers):
    topic, group = await prepare(servers, 2)
    await send(servers, topic, (3, 1))
    report = await report_on(servers, group)
    (found,) = (one for one in report.topics if one.topic == topic)
    assert [queue.lag for queue in found.queues] == [3, 1]
    assert found.waiting_ms is not None
    assert 0 <= found.waiting_ms < 1000 * WAIT_S_MAX
    assert [one.rule for one in report.findings] == ["no-member"]
    assert ("send to store", topic) in {(one.what, one.where) for one in report.latencies}


async def test_rates_of_a_topic_that_grows(servers: Servers):
    topic, group = await prepare(servers, 1)
    async with Admin(servers.nameserver) as admin:
        reports = []
        async for report in watch_backlog(admin, [group], [topic], every_s=0.2, count=3):
            reports.append(report)
            await send(servers, topic, (5,))
    found = [next(one for one in report.topics if one.topic == topic) for report in reports]
    assert [one.lag for one in found] == [0, 5, 10]
    assert [bool(one.produced_per_s) for one in found] == [False, True, True]
    assert [one.consumed_per_s for one in found] == [0, 0, 0]
    assert found[-1].drain_ms is None


async def test_a_member_whose_handler_hangs_is_found(servers: Servers):
    topic, group = await prepare(servers, 1)
    await send(servers, topic, (4,))
    async with member(servers, group, topic, hangs=True) as stuck:
        report = await report_with(servers, group, "halted-member")
    (finding,) = (one for one in report.findings if one.rule == "halted-member")
    assert stuck in finding.sentence
    assert "4 waiting messages" in finding.evidence
    assert "pulled 4 messages" in finding.evidence


async def test_a_member_without_a_queue_is_named(servers: Servers):
    topic, group = await prepare(servers, 1)
    async with member(servers, group, topic) as first, member(servers, group, topic) as second:
        report = await report_with(servers, group, "idle-member")
    (found,) = report.groups
    assert {one.client_id for one in found.members} == {first, second}
    assert sorted(sum(queue.topic == topic for queue in one.queues) for one in found.members) == [0, 1]


async def test_differing_subscriptions_are_found(servers: Servers):
    topic, group = await prepare(servers, 2)
    async with member(servers, group, topic, "a"), member(servers, group, topic, "b"):
        report = await report_with(servers, group, "differing-subscriptions")
    (finding,) = (one for one in report.findings if one.rule == "differing-subscriptions")
    assert f"{topic} (a)" in finding.evidence
    assert f"{topic} (b)" in finding.evidence


async def test_a_traced_group_has_latency_from_end_to_end(servers: Servers):
    topic, group = await prepare(servers, 1)
    done = asyncio.Event()
    consumer = Consumer(servers.nameserver, group=group, start="first", consumer_limits=QUICK, trace=True)

    @consumer.on(topic)
    async def handle(_message: Received) -> None:
        done.set()

    async with consumer, Producer(servers.nameserver, trace=True) as producer:
        await producer.send(Message(topic, b"m"))
        await asyncio.wait_for(done.wait(), WAIT_S_MAX)
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            kinds = {one.what for one in (await report_on(servers, group)).latencies if one.where == group}
            if kinds == {"send to handler", "end to end"}:
                return
            await asyncio.sleep(0.05)


async def test_reports_about_named_groups_go_on_while_the_broker_is_away(ours: Servers):
    _, group = await prepare(ours, 1)
    async with Admin(ours.nameserver) as admin:
        reports = watch_backlog(admin, [group], every_s=0.1, count=0)
        assert (await anext(reports)).failure == ""
        ours.kill_broker()
        async with asyncio.timeout(WAIT_S_MAX):
            while not (report := await anext(reports)).failure and group not in report.unanswered:
                pass
            ours.start_broker()  # in this thread: the process ends with the one that starts it
            while (report := await anext(reports)).failure or report.unanswered:
                pass
        assert [one.group for one in report.groups] == [group]
        await reports.aclose()
    with pytest.raises(NotFoundError):
        await report_on(ours, "no-such-group")


# --- the command


def invoke(servers: Servers, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "backlog", *arguments, "--namesrv", servers.nameserver])


def test_the_command_prints_a_table_documents_and_a_page(servers: Servers, tmp_path: Path):
    topic, group = asyncio.run(prepare(servers, 2))
    asyncio.run(send(servers, topic, (2, 2)))
    page = tmp_path / "backlog.html"
    text = invoke(servers, group, "--every", "0", "--report", str(page))
    assert text.exit_code == 0, text.output
    assert text.stdout.startswith("GROUP")
    (head,) = (line for line in text.stdout.splitlines() if line.startswith("LATENCY"))
    assert head.split() == ["LATENCY", "TOPIC", "OR", "GROUP", "MESSAGES", "P50", "P90", "P99", "MAX"]
    assert any(line.startswith("send to store") and f" {topic} " in line for line in text.stdout.splitlines())
    assert "PROBLEM: No member of group" in text.stdout
    assert page.read_text().startswith("<!doctype html>")
    lines = invoke(servers, group, "--every", "0.1", "--count", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["lag"] for line in lines] == [4, 4]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_continuous_reports_with_a_page_that_was_there_all_the_time(
    ours: Servers, tmp_path: Path, number: signal.Signals
):
    _, group = asyncio.run(prepare(ours, 1))
    page = tmp_path / "backlog.html"
    arguments = ["pipeline", "backlog", group, "--every", "0.1", "--count", "0", "--json", "--report", str(page)]
    process = subprocess.Popen(
        [sys.executable, "-m", "skyrocket", *arguments, "-n", ours.nameserver], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["lag"] == 0
    wait_until(lambda: page.exists() and "Lag over time" in page.read_text(), "the page is not written with each look")
    page.write_text("read by somebody")
    wait_until(lambda: "Lag over time" in page.read_text(), "the page is not written again")
    process.send_signal(number)
    rest, errors = process.communicate(timeout=WAIT_S_MAX)
    assert (process.returncode, errors) == (0, b"")
    assert json.loads(rest.splitlines()[-1])["lag"] == 0
    assert "Lag over time" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-group"], "Group 'no-such-group' does not exist at any broker."),
        (["--every", "-1"], "--every is -1; it must be 0"),
        (["--every", "0", "--count", "3"], "--every 0 takes one look."),
        (["--count", "-1"], "--count is -1;"),
    ],
)
def test_wrong_arguments_are_one_sentence(ours: Servers, arguments: list[str], sentence: str):
    done = invoke(ours, *arguments)
    assert done.exit_code in (1, 2)
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
