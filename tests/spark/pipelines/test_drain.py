"""`drain_group` in a real Spark, with our broker and with Apache's: nothing is lost, and the job can prove it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from skyrocket.client import ConsumerLimits
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Consumer
from skyrocket.pipelines import archive_topics, drain_group, prove_drain, replay_messages
from skyrocket.pipelines.archive.reading import archive_files
from skyrocket.pipelines.drain.drain_record import REPLAYED, DrainRecord, require_record, write_record
from skyrocket.pipelines.drain.job import plan_drain
from skyrocket.pipelines.drain.proof import DrainProof
from skyrocket.pipelines.errors import ArgumentError, DrainError, MissingMessagesError
from skyrocket.pipelines.progress import JobProgress
from skyrocket.pipelines.replay.job import ReplaySource, ReplaySummary
from skyrocket.pipelines.replay.selection import Selection
from tests.spark.conftest import Cluster
from tests.support.apache.java_scenes import Cluster as JavaCluster
from tests.support.apache.java_scenes import Scenes
from tests.support.pipelines.archives import await_ends, create, create_again, fill, places, rows
from tests.support.processes.skyrocket_process import registered
from tests.support.waiting import wait_until

QUICK = ConsumerLimits(rebalance_again_ms=100, commit_ms=200, after_failure_ms=200, suspend_ms=100, pull_hold_ms=1_000)


@pytest.fixture(scope="module", params=["ours", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


class Backlog:
    """A topic of two queues with numbered messages, and a group that has consumed the first `consumed` of each queue."""

    def __init__(self, spark: SparkSession, cluster: Cluster, topic: str, folder: Path, count: int = 60, consumed: int = 5):
        self.spark, self.cluster, self.topic, self.group = spark, cluster, topic, f"{topic}-group"
        self.named, self.root = {"nameserver": cluster.nameserver}, folder / "drained"
        create(cluster.nameserver, topic)
        fill(cluster.nameserver, topic, cluster.broker_name, count)
        with Admin(cluster.nameserver) as admin:
            admin.groups.create(self.group)
            admin.offsets.set(self.group, {self.queue(number): consumed for number in (0, 1)})

    def queue(self, number: int) -> Queue:
        return Queue(self.topic, self.cluster.broker_name, number)

    def drain(self, **given: Any) -> DrainRecord:
        given = {"cluster": self.named, "subscribed": "true", **given}
        return drain_group(self.spark, self.group, [self.topic], self.root, **given)

    def prove(self) -> DrainProof:
        return prove_drain(self.spark, self.root, cluster=self.named)

    def replay(self, record: DrainRecord) -> ReplaySummary:
        return replay_messages(
            self.spark,
            ReplaySource("archive", str(self.root)),
            to_group=self.group,
            cluster=self.named,
            selection=Selection(where=record.conditions.replayed),
            progress=self.root / REPLAYED,
        )

    def committed(self) -> list[int | None]:
        with Admin(self.cluster.nameserver) as admin:
            return [row.offset for row in admin.offsets.get(self.group, self.topic)]

    def consume(self, count: int, group: str | None = None) -> Counter[int]:
        """Consume as the group until `count` messages have come, and return the number of each. Fail if another follows."""
        found: Counter[int] = Counter()
        topics: set[str] = set()
        consumer = Consumer(self.cluster.nameserver, group=group or self.group, start="first", consumer_limits=QUICK)

        @consumer.on(self.topic)
        def handle(message: Any) -> None:
            found[number_of(message.body)] += 1
            topics.add(message.topic)

        with consumer:
            wait_until(lambda: found.total() >= count, f"{count} messages; there are {found.total()}")
            wait_until(lambda: self._has_consumed(group or self.group), "the group's offsets")
        assert found.total() == count
        assert topics <= {self.topic}
        return found

    def member_is_moved(self) -> bool:
        """Whether the only member of the group is behind what was drained, by its own account."""
        with Admin(self.cluster.nameserver) as admin:
            (member,) = admin.groups.members(self.group).members
            queues = admin.groups.member_state(self.group, member.client_id).queues
        offsets = [queue.committed_offset for queue in queues if queue.topic == self.topic]
        return len(offsets) == 2 and min(offsets) >= 30

    def _has_consumed(self, group: str) -> bool:
        with Admin(self.cluster.nameserver) as admin:
            return admin.groups.progress(group).lag == 0


def number_of(body: bytes) -> int:
    return int(body.split(b" ")[0])


def numbers_in(root: Path) -> Counter[int]:
    return Counter(number_of(row["body"]) for row in rows(root))


@pytest.fixture
def backlog(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path) -> Backlog:
    return Backlog(spark, cluster, topic, tmp_path)


@pytest.fixture
def our_backlog(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path) -> Backlog:
    return Backlog(spark, ours, topic, tmp_path)


def test_a_drained_backlog_comes_back_to_its_group_alone_and_the_proof_holds(backlog: Backlog):
    record = backlog.drain()
    assert (record.state, record.waiting, record.total("archived"), record.total("selected")) == ("moved", 50, 50, 50)
    assert places(rows(backlog.root)) == [(backlog.topic, queue, offset) for queue in (0, 1) for offset in range(5, 30)]
    assert backlog.committed() == [30, 30]
    assert backlog.prove().is_sound
    fill(backlog.cluster.nameserver, backlog.topic, backlog.cluster.broker_name, 10, first=60)
    assert backlog.consume(10) == Counter(range(60, 70)), "only what came after the drain"

    assert backlog.replay(record).sent == 50
    proof = backlog.prove()
    assert [(check.what, check.expected, check.found) for check in proof.checks] == [
        ("offsets in the files", 50, 50),
        ("queues that the group has passed", 2, 2),
        ("messages replayed", 50, 50),
    ]
    assert proof.is_sound
    assert backlog.consume(50) == numbers_in(backlog.root)
    assert backlog.consume(70, group=f"{backlog.group}-other") == Counter(range(70)), "another group sees no replay"


def test_others_than_the_selected_go_to_the_group_at_once(backlog: Backlog):
    record = backlog.drain(tags=["paid"])
    waiting = rows(backlog.root)
    paid = Counter(number_of(row["body"]) for row in waiting if row["tags"] == "paid")
    others = Counter(number_of(row["body"]) for row in waiting if row["tags"] != "paid")
    assert (record.total("selected"), record.total("resent")) == (paid.total(), others.total())
    assert backlog.prove().is_sound
    assert backlog.consume(others.total()) == others
    assert backlog.replay(record).sent == paid.total()
    assert backlog.prove().is_sound
    assert backlog.consume(paid.total()) == paid


@pytest.mark.interop
def test_a_java_consumer_gets_resent_and_replayed_messages_under_their_own_topic(our_backlog: Backlog, tmp_path: Path):
    record = our_backlog.drain(tags=["paid"])
    nameserver = our_backlog.cluster.nameserver
    soon = ["-Drocketmq.client.rebalance.waitInterval=500", "-Drocketmq.client.rebalance.minInterval=50"]
    java = Scenes(tmp_path, "drain", JavaCluster(nameserver, registered(nameserver)[0], "Test"), soon)
    try:
        consumer = java.push(our_backlog.group, our_backlog.topic)
        others = java.heard(consumer, record.total("resent"))
        our_backlog.replay(record)
        heard = java.heard(consumer, record.waiting)
    finally:
        java.kill()
    assert all("paid" not in message.properties.get("TAGS", "") for message in others)
    assert Counter(number_of(message.body) for message in heard) == numbers_in(our_backlog.root)
    assert {message.topic for message in heard} == {our_backlog.topic}


def test_what_the_group_does_not_subscribe_to_is_neither_resent_nor_replayed(our_backlog: Backlog):
    record = our_backlog.drain(where="properties['number'] % 2 = 0", subscribed="tags = 'paid'")
    paid = [row for row in rows(our_backlog.root) if row["tags"] == "paid"]
    # Only three messages of four have the property; a condition that is null does not hold.
    even = [row for row in paid if int(dict(row["properties"]).get("number", 1)) % 2 == 0]
    assert 0 < len(even) < len(paid)
    assert (record.total("selected"), record.total("resent")) == (len(even), len(paid) - len(even))
    assert (our_backlog.replay(record).sent, our_backlog.prove().is_sound) == (len(even), True)


def test_the_subscription_of_a_connected_member_counts(our_backlog: Backlog):
    with pytest.raises(ArgumentError, match="Say which messages it gets with --subscribed"):
        our_backlog.drain(subscribed=None)
    consumer = Consumer(our_backlog.cluster.nameserver, group=our_backlog.group, consumer_limits=QUICK)

    @consumer.on(our_backlog.topic, "paid || absent")
    def refuse(_message: Any) -> None:
        raise ValueError("the group makes no progress")

    with consumer, Admin(our_backlog.cluster.nameserver) as admin:
        wait_until(lambda: our_backlog.topic in admin.groups.members(our_backlog.group).subscriptions, "the member")
        planned = plan_drain(our_backlog.group, [our_backlog.topic], our_backlog.root, cluster=our_backlog.named)
    assert planned.subscribed == f"(topic = '{our_backlog.topic}' AND tags IN ('absent', 'paid'))"


def test_a_group_that_broadcasts_is_refused(our_backlog: Backlog, tmp_path: Path):
    consumer = Consumer(
        our_backlog.cluster.nameserver, group=our_backlog.group, broadcasting=True, offsets_folder=tmp_path, consumer_limits=QUICK
    )
    consumer.on(our_backlog.topic)(lambda _message: None)
    with consumer, Admin(our_backlog.cluster.nameserver) as admin:
        wait_until(lambda: admin.groups.members(our_backlog.group).is_broadcasting, "the member")
        with pytest.raises(ArgumentError, match="broadcasts: each member keeps its own offsets"):
            our_backlog.drain()


def test_members_that_are_stuck_meanwhile_go_on_behind_what_was_drained(backlog: Backlog):
    """A message is consumed, or archived, or both; what is sent after the plan is consumed, and the backlog is passed over."""
    seen: Counter[int] = Counter()
    free = threading.Event()
    consumer = Consumer(backlog.cluster.nameserver, group=backlog.group, concurrency=2, consumer_limits=QUICK)

    @consumer.on(backlog.topic)
    def handle(message: Any) -> None:
        seen[number_of(message.body)] += 1
        free.wait()

    grown: list[int] = []

    def start(progress: Any) -> None:
        """Start the member, and send more, while the archive is being written."""
        if progress.what == "archiving" and not grown:
            grown.append(1)
            consumer.start()
            fill(backlog.cluster.nameserver, backlog.topic, backlog.cluster.broker_name, 20, first=60)
            wait_until(lambda: seen.total() > 0, "a message")

    try:
        record = backlog.drain(on_progress=start)
        wait_until(backlog.member_is_moved, "the member learns of it")
        free.set()
        wait_until(lambda: set(range(60, 80)) <= set(seen), "what came after the plan")
    finally:
        free.set()
        consumer.close()
    assert record.state == "moved"
    assert 0 < len(set(seen) & set(range(10, 60))) < 50, "members had some of the backlog, and were moved past the rest"
    assert set(numbers_in(backlog.root)) == set(range(10, 60))
    assert all(offset is not None and offset >= 30 for offset in backlog.committed())


def test_a_second_run_changes_nothing_and_other_arguments_are_refused(our_backlog: Backlog):
    first = our_backlog.drain()
    fill(our_backlog.cluster.nameserver, our_backlog.topic, our_backlog.cluster.broker_name, 10, first=60)
    assert our_backlog.drain() == first
    assert our_backlog.committed() == [30, 30]
    with pytest.raises(ArgumentError, match="has the drain of group"):
        our_backlog.drain(tags=["paid"])


def test_an_archive_with_a_hole_does_not_move_the_group_and_no_proof_holds(our_backlog: Backlog):
    record = our_backlog.drain()
    removed = next(path for path in archive_files(our_backlog.root) if "-0-" in Path(path).name)
    Path(removed).unlink()
    record.state = "archived"  # as if the run had been killed before the move, and the file was lost afterwards
    write_record(our_backlog.root, record)
    with Admin(our_backlog.cluster.nameserver) as admin:
        admin.offsets.set(our_backlog.group, {our_backlog.queue(number): 5 for number in (0, 1)})
    with pytest.raises(DrainError, match=r"is not whole, so group .* was not moved\. .*offsets 5 to 29 are missing"):
        our_backlog.drain()
    assert our_backlog.committed() == [5, 5]
    record.state = "moved"
    write_record(our_backlog.root, record)
    with Admin(our_backlog.cluster.nameserver) as admin:
        admin.offsets.set(our_backlog.group, {our_backlog.queue(number): 30 for number in (0, 1)})
    proof = our_backlog.prove()
    assert (proof.is_sound, len(proof.problems)) == (False, 1)
    assert "offsets 5 to 29 are missing" in proof.problems[0]


def test_a_proof_finds_a_group_that_was_set_back_and_messages_that_were_not_sent(our_backlog: Backlog):
    record = our_backlog.drain(tags=["paid"])
    with Admin(our_backlog.cluster.nameserver) as admin:
        admin.offsets.set(our_backlog.group, {our_backlog.queue(1): 7})
    assert our_backlog.prove().problems == [
        f"Group '{our_backlog.group}' is at 7 of {our_backlog.queue(1)}, and was to be at 30 or later."
    ]
    record.selected, record.queues[1].stop = "false", 29  # as if more had been promised to the group, and less archived
    write_record(our_backlog.root, record)
    problems = our_backlog.prove().problems
    assert any("offset 29 is outside of the expected range" in problem for problem in problems)
    assert sum("was not sent yet, or the topic has deleted it" in problem for problem in problems) > 0


def test_a_group_that_was_set_back_before_the_move_is_not_moved(our_backlog: Backlog):
    record = our_backlog.drain()
    record.state = "archived"
    write_record(our_backlog.root, record)
    with Admin(our_backlog.cluster.nameserver) as admin:
        admin.offsets.set(our_backlog.group, {our_backlog.queue(0): 2})
    with pytest.raises(DrainError, match="would pass over messages that are not archived"):
        our_backlog.drain()
    assert our_backlog.committed() == [2, 30]


def test_wrong_arguments_are_one_sentence_and_change_nothing(our_backlog: Backlog, tmp_path: Path):
    with pytest.raises(ArgumentError, match="does not fit the columns of messages"):
        our_backlog.drain(where="colour = 'red'")
    with pytest.raises(ArgumentError, match="has no offset in topic"):
        drain_group(
            our_backlog.spark,
            other_group(our_backlog),
            [our_backlog.topic],
            tmp_path / "x",
            cluster=our_backlog.named,
            subscribed="true",
        )
    archive_topics(our_backlog.spark, [our_backlog.topic], tmp_path / "other", cluster=our_backlog.named)
    our_backlog.root = tmp_path / "other"
    with pytest.raises(ArgumentError, match="is the archive of another job"):
        our_backlog.drain()
    assert our_backlog.committed() == [5, 5]


def other_group(backlog: Backlog) -> str:
    with Admin(backlog.cluster.nameserver) as admin:
        admin.groups.create(f"{backlog.group}-idle")
    return f"{backlog.group}-idle"


def test_a_group_without_a_backlog_has_nothing_to_drain(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    backlog = Backlog(spark, ours, topic, tmp_path, count=10, consumed=5)
    record = backlog.drain()
    assert (record.state, record.waiting, rows(backlog.root)) == ("moved", 0, [])
    assert backlog.prove().is_sound


def test_what_arrives_while_a_drain_runs_waits_for_the_group(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    backlog = Backlog(spark, ours, topic, tmp_path)
    steps: set[str] = set()

    def grow(progress: JobProgress) -> None:
        if progress.what not in steps:
            fill(ours.nameserver, topic, ours.broker_name, 10, first=60 + 10 * len(steps))
            steps.add(progress.what)

    record = backlog.drain(on_progress=grow)
    assert {"archiving", "counting", "moving the group"} <= steps
    assert (record.total("archived"), len(rows(backlog.root))) == (50, 50)
    assert backlog.committed() == [30, 30]
    assert backlog.prove().is_sound
    assert backlog.consume(10 * len(steps)) == Counter(range(60, 60 + 10 * len(steps)))


def test_the_record_is_json_that_people_can_read(our_backlog: Backlog):
    our_backlog.drain()
    found = json.loads((our_backlog.root / "_skyrocket" / "drain.json").read_bytes())
    assert (found["group"], found["topics"], found["state"]) == (our_backlog.group, [our_backlog.topic], "moved")
    assert require_record(our_backlog.root).total("archived") == 50


def test_a_drain_of_a_topic_that_was_created_again_is_not_continued(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
):
    """It has grown past the planned offsets, so only the messages' ids tell."""
    backlog = Backlog(spark, cluster, topic, tmp_path, count=20)
    planned = plan_drain(backlog.group, [topic], backlog.root, cluster=backlog.named, subscribed="true")
    write_record(backlog.root, planned)
    create_again(cluster.nameserver, topic)
    fill(cluster.nameserver, topic, cluster.broker_name, 40)
    await_ends(cluster.nameserver, topic, 40)
    before = backlog.committed()
    with pytest.raises(
        MissingMessagesError, match=r"^The drain has queue 0 .* or this is another cluster\. The group was not moved"
    ):
        backlog.drain()
    assert backlog.committed() == before
