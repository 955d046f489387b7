"""The job `audit` in a real Spark, with our broker and Apache's: clean, faulty, growing, empty topics; and its command."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.client import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.pipelines.audit.findings import AuditReport, StreamKey
from skyrocket.pipelines.audit.job import TopicAudit
from skyrocket.pipelines.audit.sent_file import sent_lines
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import create
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def stamped_topic(cluster: Cluster, topic: str) -> str:
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(topic, queues=2)
    return topic


def queue_of(cluster: Cluster, topic: str, number: int = 0) -> Queue:
    return Queue(topic, cluster.broker_name, number)


def send_numbers(cluster: Cluster, topic: str, producer_id: str, numbers: list[int], queue: int = 0) -> None:
    """Send messages with stamps of our choice."""
    messages = [Message(topic, b"m", properties={"SR_PID": producer_id, "SR_SEQ": str(number)}) for number in numbers]
    with Producer(cluster.nameserver, group="stamping") as producer:
        for first in range(0, len(messages), 500):
            producer.send_batch(messages[first : first + 500], queue=queue_of(cluster, topic, queue))


def wait_for(cluster: Cluster, topic: str, count: int) -> None:
    with Admin(cluster.nameserver) as admin:
        wait_until(lambda: admin.topics.status(topic).messages >= count, "the broker does not dispatch them")


def audit(spark: SparkSession, cluster: Cluster, topic: str, *, partitions: int | None = None, **given: Any) -> AuditReport:
    with Admin(cluster.nameserver) as admin:
        job = TopicAudit(spark, admin, {"nameserver": cluster.nameserver}, [topic], **given)
        return job.once(min_partitions=partitions)


def test_messages_of_a_stamping_producer_are_clean_and_compared_with_what_it_sent(
    spark: SparkSession, cluster: Cluster, stamped_topic: str
):
    with Producer(cluster.nameserver, group="stamping", stamp=True) as producer:
        for number in range(40):
            producer.send(Message(stamped_topic, b"%d" % number), queue=queue_of(cluster, stamped_topic, number % 2))
        counts = producer.stamped
        assert counts is not None
        assert counts.last == {queue_of(cluster, stamped_topic, number): 20 for number in range(2)}
        producer.send(Message(stamped_topic, b"last"), queue=queue_of(cluster, stamped_topic))
    wait_for(cluster, stamped_topic, 41)
    sent = {StreamKey(counts.producer_id, queue): last for queue, last in counts.last.items()}
    report = audit(spark, cluster, stamped_topic, sent=sent)
    assert report.is_clean
    assert [(one.producer, one.sent, one.stored, one.is_sent_known) for one in report.streams] == [
        (counts.producer_id, 21, 21, True),
        (counts.producer_id, 20, 20, True),
    ]
    sent[StreamKey(counts.producer_id, queue_of(cluster, stamped_topic, 1))] = 23
    assert [one.gaps for one in audit(spark, cluster, stamped_topic, sent=sent).streams] == [[], [(21, 23)]]


def test_planted_faults_are_found_whatever_the_partitions(spark: SparkSession, cluster: Cluster, stamped_topic: str):
    numbers = [number for number in range(1, 3_001) if number not in (7, 1_500, 1_501, 1_502)]
    numbers.insert(2_000, 5)  # repeated
    at = numbers.index(2_500)
    numbers[at], numbers[at + 1] = numbers[at + 1], numbers[at]
    send_numbers(cluster, stamped_topic, "p1", numbers)
    send_numbers(cluster, stamped_topic, "p2", list(range(1, 101)), queue=1)
    with Producer(cluster.nameserver, group="plain") as producer:
        producer.send(Message(stamped_topic, b"without a stamp"), queue=queue_of(cluster, stamped_topic, 1))
    wait_for(cluster, stamped_topic, len(numbers) + 101)
    with Admin(cluster.nameserver) as admin:
        admin.groups.create("auditors")
        admin.offsets.set("auditors", {queue_of(cluster, stamped_topic): 1_000, queue_of(cluster, stamped_topic, 1): 0})
    for partitions in (None, 7):
        report = audit(spark, cluster, stamped_topic, partitions=partitions, group="auditors")
        faulty, clean = report.streams
        assert (faulty.gaps, faulty.repeated, faulty.late) == ([(7, 7), (1_500, 1_502)], [(5, 5)], [(2_500, 2_500)])
        assert (faulty.sent, faulty.stored, faulty.consumed) == (3_000, 2_997, 1_000)
        assert clean.is_clean
        assert (clean.stored, clean.consumed) == (100, 0)
        assert report.unstamped == {queue_of(cluster, stamped_topic, 1): 1}


def test_an_empty_topic_has_no_streams(spark: SparkSession, cluster: Cluster, stamped_topic: str):
    report = audit(spark, cluster, stamped_topic)
    assert (report.streams, report.messages, report.is_clean) == ([], 0, True)


def test_a_following_audit_alerts_once_for_each_finding(spark: SparkSession, ours: Cluster, topic: str):
    with Admin(ours.nameserver) as admin:
        admin.topics.create(topic, queues=1)
        following = TopicAudit(spark, admin, {"nameserver": ours.nameserver}, [topic]).follow()
        assert next(following) == []
        send_numbers(ours, topic, "p1", [1, 2, 3])
        assert next(following) == []
        send_numbers(ours, topic, "p1", [5, 6])
        (alert,) = next(following)
        assert alert.gaps == [(4, 4)]
        assert next(following) == [], "it has been told"
        send_numbers(ours, topic, "p1", [4, 6, 7])
        (alert,) = next(following)
        assert (alert.gaps, alert.late, alert.repeated) == ([], [(4, 4)], [(6, 6)])


def test_a_following_audit_goes_on_when_a_broker_restarts_between_looks(spark: SparkSession, tmp_path: Path):
    with Skyrocket(tmp_path / "broker") as process:
        own = Cluster(process.nameserver, process.home / "store", "broker-a", process)
        with Admin(process.nameserver) as admin:
            admin.topics.create("orders", queues=1)
            (queue,) = admin.offsets.at("orders", "first")
            own = own._replace(broker_name=queue.broker_name)
            send_numbers(own, "orders", "p1", [1, 2, 4])
            failures: list[Exception] = []
            now_s = [0.0]
            job = TopicAudit(spark, admin, {"nameserver": process.nameserver}, ["orders"])
            following = job.follow(on_failure=failures.append, retry_s=600, clock=lambda: now_s[-1])
            (alert,) = next(following)
            assert alert.gaps == [(3, 3)]
            process.kill()
            assert [next(following), next(following)] == [[], []]
            assert len(failures) == 1, "the first failure in a row is told"
            process.start()
            send_numbers(own, "orders", "p1", [5, 7])
            found: list[Any] = []
            wait_until(lambda: found.extend(next(following)) or found, "the audit does not see the broker again")
            assert (found[0].gaps, found[0].repeated_count) == ([(3, 3), (6, 6)], 0)
            process.kill()
            assert next(following) == []
            now_s.append(601.0)
            with pytest.raises(ClientError):
                next(following)


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_are_judged_on_spark_as_without_it(spark: SparkSession, ours: Cluster, topic: str, seed: int):
    random_ = random.Random(seed)
    numbers = [number for number in range(1, 500) if random_.random() > 0.02]
    for _ in range(10):
        at, other = sorted(random_.sample(range(len(numbers)), 2))
        numbers[at], numbers[other] = numbers[other], numbers[at]
        numbers.insert(other, numbers[at])
    with Admin(ours.nameserver) as admin:
        admin.topics.create(topic, queues=1)
    send_numbers(ours, topic, "p1", numbers)
    from skyrocket.client.helpers import LossDetector

    detector = LossDetector(begins_at=1)
    for number in numbers:
        detector.record_number("p1", queue_of(ours, topic), number)
    (expected,) = detector.report().streams
    (found,) = audit(spark, ours, topic, partitions=5).streams
    assert (found.gaps, found.repeated_count, found.late_count) == (list(expected.gaps), expected.repeated, expected.late)


# --- the command


@pytest.mark.usefixtures("keeps_spark")
def test_the_command_names_the_missing_numbers(ours: Cluster, topic: str, tmp_path: Path):
    with Admin(ours.nameserver) as admin:
        admin.topics.create(topic, queues=1)
    send_numbers(ours, topic, "p1", [1, 2, 5])
    sent, page = tmp_path / "sent.jsonl", tmp_path / "audit.html"
    sent.write_text("\n".join(sent_lines("p1", {queue_of(ours, topic): 6})))
    base = ["pipeline", "audit", topic, "-n", ours.nameserver, "--sent", str(sent)]
    done = CliRunner().invoke(app, [*base, "--report", str(page)])
    assert done.exit_code == 1, done.output
    assert "missing 3–4, 6" in done.stdout
    assert "3 messages of 1 stream: 3 missing, 0 repeated, 0 late." in done.stdout
    assert "missing 3–4, 6" in page.read_text()
    document = json.loads(CliRunner().invoke(app, [*base, "--json"]).stdout)
    assert document["streams"][0]["missingNumbers"] == [[3, 4], [6, 6]]
    followed = CliRunner().invoke(app, ["pipeline", "audit", topic, "-n", ours.nameserver, "--follow", "--count", "1"])
    assert followed.stdout == f"Producer p1 in {queue_of(ours, topic)}: missing 3–4.\n1 looks, 1 alerts.\n"
    assert followed.exit_code == 1
    send_numbers(ours, topic, "p1", [3, 4])
    state = ["--follow", "--count", "1", "--state", str(tmp_path / "state.json")]
    late = CliRunner().invoke(app, ["pipeline", "audit", topic, "-n", ours.nameserver, *state])
    assert (late.exit_code, "late 3–4" in late.stdout) == (1, True), "disorder is a finding, too"
    again = CliRunner().invoke(app, ["pipeline", "audit", topic, "-n", ours.nameserver, *state])
    assert (again.exit_code, again.stdout) == (0, "1 looks, 0 alerts.\n"), "an earlier run has told it"
    create(ours.nameserver, f"{topic}-clean")
    send_numbers(ours, f"{topic}-clean", "p1", [1, 2])
    clean = CliRunner().invoke(app, ["pipeline", "audit", f"{topic}-clean", "-n", ours.nameserver])
    assert clean.exit_code == 0, clean.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-topic"], "Topic 'no-such-topic' does not exist at"),
        (["TBW102", "--group", "no-such-group"], "Group 'no-such-group' does not exist at any broker."),
        (["t", "--sent", "no-such-file"], "no-such-file cannot be read: No such file or directory."),
        (["t", "--since", "soon"], "--since is 'soon', which is not a time."),
        (["t", "--follow", "--group", "g"], "--follow looks at stored messages only."),
        (["t", "--state", "s.json"], "--state is for a following audit, and --follow is missing."),
    ],
)
def test_wrong_arguments_are_one_sentence(ours: Cluster, arguments: list[str], sentence: str):
    done = CliRunner().invoke(app, ["pipeline", "audit", *arguments, "-n", ours.nameserver])
    assert done.exit_code in (1, 2)
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
