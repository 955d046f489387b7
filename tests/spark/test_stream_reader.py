"""The stream reader with brokers, called as Spark calls it. No Spark runs here; `test_stream.py` uses a real one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from skyrocket.client import sync as client
from skyrocket.client.message import Message
from skyrocket.client.queues import Queue
from skyrocket.spark.errors import DataLossError, OffsetsError, OptionError, UnreachableClusterError
from skyrocket.testing import sync as testing
from tests.support.brokers.forgetting import FORGETFUL, expire
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.spark.driven_stream import DrivenStream

NAMES = (f"orders-{number}" for number in count())
BROKER = "broker-a"
ENOUGH_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[testing.LocalBroker]:
    with testing.LocalBroker({"enablePropertyFilter": "true"}) as local:
        yield local


@pytest.fixture
def topic(broker: testing.LocalBroker) -> str:
    """An empty topic with two queues."""
    name = next(NAMES)
    broker.create_topic(name, queues=2)
    return name


def q(topic: str, queue_id: int, broker_name: str = BROKER) -> Queue:
    return Queue(topic, broker_name, queue_id)


def send(nameserver: str, queue: Queue, messages: int, size: int = 10) -> None:
    with client.Producer(nameserver) as producer:
        for number in range(messages):
            producer.send(Message(queue.topic, b"%d".ljust(size) % number), queue=queue)


def stream(broker: testing.LocalBroker, topic: str, **options: str) -> DrivenStream:
    return DrivenStream({"nameserver": broker.nameserver, "subscribe": topic, "startingOffsets": "earliest", **options})


# --- where a query begins


def test_new_query_starts_at_latest(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 3)
    it = stream(broker, topic, startingOffsets="latest")
    assert it.trigger() == {}, "Spark has a first batch even if it is empty"
    assert it.trigger() is None
    send(broker.nameserver, q(topic, 0), 2)
    assert it.trigger() == {q(topic, 0): (3, 5)}


def test_latest_keeps_its_meaning_after_a_crash_in_the_first_batch(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 3)
    it = stream(broker, topic, startingOffsets="latest")
    it.reader.initialOffset()
    send(broker.nameserver, q(topic, 0), 2)
    assert it.trigger(dies=True) == {q(topic, 0): (3, 5)}
    send(broker.nameserver, q(topic, 0), 4)
    again = it.restart()
    assert again.trigger() == {q(topic, 0): (3, 5)}, "the same batch, although latest is later now"
    assert again.trigger() == {q(topic, 0): (5, 9)}


def test_timestamp_is_resolved_once(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 3)
    it = stream(
        broker, topic, startingTimestamp=str(int(time.time() * 1000) + 3_600_000), startingOffsetsByTimestampStrategy="latest"
    )
    assert it.trigger() == {}
    send(broker.nameserver, q(topic, 0), 1)
    assert it.trigger() == {q(topic, 0): (3, 4)}


def test_missing_topic_fails_the_query(broker: testing.LocalBroker):
    with pytest.raises(OptionError, match=r"^Option 'subscribe' names topic 'nowhere'"):
        stream(broker, "nowhere").trigger()


# --- limits


def test_limit_is_divided_among_queues_in_proportion(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 30)
    send(broker.nameserver, q(topic, 1), 10)
    it = stream(broker, topic, maxOffsetsPerTrigger="20")
    assert it.trigger() == {q(topic, 0): (0, 15), q(topic, 1): (0, 5)}
    assert it.trigger() == {q(topic, 0): (15, 30), q(topic, 1): (5, 10)}
    assert it.trigger() is None


def test_read_all_available_ignores_the_limit(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 30)
    assert stream(broker, topic, maxOffsetsPerTrigger="20").everything() == {q(topic, 0): (0, 30)}


def test_batch_waits_for_min_offsets(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 1)
    it = stream(broker, topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    assert it.trigger() == {q(topic, 0): (0, 1)}, "the first batch does not wait"
    send(broker.nameserver, q(topic, 0), 4)
    assert it.trigger() is None
    send(broker.nameserver, q(topic, 1), 1)
    assert it.trigger() == {q(topic, 0): (1, 5), q(topic, 1): (0, 1)}


def test_batch_waits_no_longer_than_max_trigger_delay(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 1)
    it = stream(broker, topic, minOffsetsPerTrigger="5", maxTriggerDelay="50ms")
    it.trigger()
    send(broker.nameserver, q(topic, 0), 1)
    assert it.trigger() is None
    time.sleep(0.06)
    assert it.trigger() == {q(topic, 0): (1, 2)}


def test_available_now_ends_where_the_queues_ended_at_its_start(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 5)
    it = DrivenStream(stream(broker, topic, maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3").options, is_available_now=True)
    send(broker.nameserver, q(topic, 0), 5)
    assert it.trigger() == {q(topic, 0): (0, 3)}
    assert it.trigger() == {q(topic, 0): (3, 5)}, "fewer than the minimum, but everything"
    assert it.trigger() is None
    assert it.restart().trigger() == {q(topic, 0): (5, 8)}


def test_available_now_from_latest_reads_nothing_even_if_messages_arrive(broker: testing.LocalBroker, topic: str):
    it = DrivenStream(stream(broker, topic, startingOffsets="latest").options, is_available_now=True)
    send(broker.nameserver, q(topic, 0), 2)
    assert it.trigger() == {}
    assert it.trigger() is None
    with client.Admin(broker.nameserver) as admin:
        admin.topics.create(topic, queues=3)
    it = DrivenStream(stream(broker, topic, startingOffsets="latest").options, is_available_now=True)
    with client.Admin(broker.nameserver) as admin:
        admin.topics.create(topic, queues=4)
    assert it.trigger() == {}
    assert it.trigger() is None


def test_options_set_number_and_size_of_tasks(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 10)
    it = stream(broker, topic, minPartitions="3", maxRecordsPerPartition="4")
    end = it.reader.latestOffset(it.reader.initialOffset(), it.reader.getDefaultReadLimit())
    parts = [(part.start, part.stop) for part in it.reader.partitions(it.reader.initialOffset(), end)]
    assert parts == [(0, 3), (3, 6), (6, 10)]
    assert it.restart().reader.partitions({topic: {}}, end) == it.reader.partitions({topic: {}}, end)


# --- queues that come


def test_new_queues_of_a_topic_are_read_from_their_first_message(broker: testing.LocalBroker, topic: str):
    it = stream(broker, topic, startingOffsets="latest")
    it.trigger()
    with client.Admin(broker.nameserver) as admin:
        admin.topics.create(topic, queues=3)
    send(broker.nameserver, q(topic, 2), 4)
    assert read_until(it, 4) == {q(topic, 2): (0, 4)}


def test_new_topic_is_found_by_its_pattern(broker: testing.LocalBroker):
    name = next(NAMES)
    it = DrivenStream({"nameserver": broker.nameserver, "subscribePattern": f"{name}-.*"})
    assert it.trigger() == {}
    broker.create_topic(f"{name}-eu", queues=1)
    send(broker.nameserver, q(f"{name}-eu", 0), 2)
    assert read_until(it, 2) == {q(f"{name}-eu", 0): (0, 2)}


def test_start_of_a_new_queue_survives_a_crash(broker: testing.LocalBroker, topic: str):
    it = stream(broker, topic)
    it.trigger()
    with client.Admin(broker.nameserver) as admin:
        admin.topics.create(topic, queues=3)
    send(broker.nameserver, q(topic, 2), 4)
    batch = None
    while not batch:
        batch = it.trigger(dies=True)
        if not batch:
            it.done = len(it.planned)
    assert batch == it.restart().trigger() == {q(topic, 2): (0, 4)}


def read_until(it: DrivenStream, messages: int) -> dict[Queue, tuple[int, int]]:
    """Join batches until they have this many messages: a changed route takes a moment to arrive."""
    found: dict[Queue, tuple[int, int]] = {}
    deadline = time.monotonic() + ENOUGH_S
    while sum(stop - start for start, stop in found.values()) < messages:
        assert time.monotonic() < deadline, f"only {found} came"
        for queue, (start, stop) in (it.trigger() or {}).items():
            begun, ended = found.get(queue, (start, start))
            assert ended == start, f"{queue} was read up to {ended}, and then from {start}"
            found[queue] = begun, stop
    return found


# --- messages that are gone


@pytest.fixture
def forgetful() -> Iterator[testing.LocalBroker]:
    """A broker that keeps messages for an hour, in small files."""
    with testing.LocalBroker(FORGETFUL) as local:
        local.create_topic("orders", queues=1)
        yield local


def test_expired_messages_fail_the_query_or_are_skipped(forgetful: testing.LocalBroker):
    queue = q("orders", 0)
    send(forgetful.nameserver, queue, 2)
    it = stream(forgetful, "orders")
    assert it.trigger() == {queue: (0, 2)}
    send(forgetful.nameserver, queue, 40, size=4_000)
    expire(forgetful)
    with pytest.raises(DataLossError, match=r"^Offsets 2 to \d+ of queue 0 of orders at broker-a expired .*'failOnDataLoss'"):
        it.trigger()
    [(start, stop)] = (it.restart(failOnDataLoss="false").trigger() or {}).values()
    assert start > 2
    assert stop == 42


# --- brokers that go and come


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, SkyrocketBroker, SkyrocketBroker]]:
    """A nameserver and two brokers, as processes."""
    home = tmp_path_factory.mktemp("two")
    with (
        SkyrocketNameserver(home / "names") as names,
        SkyrocketBroker(home / "a", names.nameserver, {"brokerName": "broker-a"}) as one,
        SkyrocketBroker(home / "b", names.nameserver, {"brokerName": "broker-b"}) as other,
    ):
        yield names.nameserver, one, other


def on_both(nameserver: str) -> str:
    name = next(NAMES)
    with client.Admin(nameserver) as admin:
        admin.topics.create(name, queues=1)
    return name


def test_lost_broker_keeps_its_position_and_is_read_when_it_is_back(two: tuple[str, SkyrocketBroker, SkyrocketBroker]):
    nameserver, _, lost = two
    name = on_both(nameserver)
    here, there = q(name, 0, "broker-a"), q(name, 0, "broker-b")
    it = DrivenStream({"nameserver": nameserver, "subscribe": name, "startingOffsets": "earliest"})
    send(nameserver, here, 2)
    send(nameserver, there, 3)
    assert it.trigger() == {here: (0, 2), there: (0, 3)}
    send(nameserver, there, 4)
    lost.kill()
    send(nameserver, here, 5)
    assert it.trigger() == {here: (2, 7)}, "the query reads the broker that is left"
    assert it.trigger() is None
    lost.start()
    assert read_until(it, 4) == {there: (3, 7)}


def test_available_now_waits_for_a_lost_broker(two: tuple[str, SkyrocketBroker, SkyrocketBroker]):
    nameserver, _, lost = two
    name = on_both(nameserver)
    there = q(name, 0, "broker-b")
    it = DrivenStream({"nameserver": nameserver, "subscribe": name, "startingOffsets": "earliest"})
    it.trigger()
    send(nameserver, there, 4)
    lost.kill()
    with ThreadPoolExecutor(1) as beside:
        batch = beside.submit(lambda: DrivenStream(it.options, it.planned, it.done, is_available_now=True).trigger())
        time.sleep(1.0)
        assert not batch.done()
        lost.start()
        assert batch.result(ENOUGH_S) == {there: (0, 4)}


def run_available(it: DrivenStream) -> None:
    available = DrivenStream(it.options, it.planned, it.done, is_available_now=True)
    while available.trigger() is not None:
        pass


def trigger_for(it: DrivenStream, duration_s: float) -> None:
    deadline = time.monotonic() + duration_s
    while time.monotonic() < deadline:
        it.trigger()
        time.sleep(0.02)


def test_broker_that_stays_lost_fails_the_query_after_the_retry_timeout(two: tuple[str, SkyrocketBroker, SkyrocketBroker]):
    nameserver, _, lost = two
    name = on_both(nameserver)
    it = DrivenStream({"nameserver": nameserver, "subscribe": name, "retryTimeout": "1s", "requestTimeout": "300ms"})
    it.trigger()
    lost.kill()
    try:
        with pytest.raises((UnreachableClusterError, DataLossError), match="broker-b"):
            trigger_for(it, 30.0)
        with pytest.raises((UnreachableClusterError, DataLossError), match="broker-b"):
            run_available(it)  # the run includes the messages of the lost broker
        patient = it.restart(failOnDataLoss="false")
        here = q(name, 0, "broker-a")
        send(nameserver, here, 1)
        assert read_until(patient, 1) == {here: (0, 1)}
        trigger_for(patient, 1.5)  # longer than the retry timeout: the query continues without the broker
    finally:
        lost.start()


def test_reset_broker_fails_the_query_or_is_continued(tmp_path: Path):
    with (
        SkyrocketNameserver(tmp_path / "names") as names,
        SkyrocketBroker(tmp_path / "a", names.nameserver, {"brokerName": BROKER}) as process,
    ):
        queue = q("orders", 0)
        with client.Admin(names.nameserver) as admin:
            admin.topics.create("orders", queues=1)
        send(names.nameserver, queue, 5)
        it = DrivenStream({"nameserver": names.nameserver, "subscribe": "orders", "startingOffsets": "earliest"})
        assert it.trigger() == {queue: (0, 5)}
        process.kill()
        shutil.rmtree(process.store)
        process.start()
        with client.Admin(names.nameserver) as admin:
            admin.topics.create("orders", queues=1)
        send(names.nameserver, queue, 2)
        with pytest.raises(DataLossError, match=r"ends at offset 2, but the checkpoint is at 5: .*'failOnDataLoss'"):
            it.trigger()
        brave = it.restart(failOnDataLoss="false")
        assert brave.trigger() == {}
        send(names.nameserver, queue, 1)
        assert brave.trigger() == {queue: (2, 3)}


# --- checkpoints that do not fit


def test_checkpoint_of_other_topics_is_refused_or_they_are_forgotten(broker: testing.LocalBroker, topic: str):
    other = next(NAMES)
    broker.create_topic(other, queues=1)
    send(broker.nameserver, q(other, 0), 2)
    it = stream(broker, topic)
    it.trigger()
    with pytest.raises(OffsetsError, match=rf"^The checkpoint is at offset 0 of queue 0 of {topic} .*checkpointLocation"):
        it.restart(subscribe=other).trigger()
    assert it.restart(subscribe=other, failOnDataLoss="false").trigger() == {q(other, 0): (0, 2)}


def test_checkpoint_of_another_source_is_refused(broker: testing.LocalBroker, topic: str):
    it = stream(broker, topic)
    it.planned, it.done = ['{"sourceVersion": 1}'], 1
    with pytest.raises(OffsetsError, match="sourceVersion"):
        it.trigger()


# --- groups


def committed_offsets(broker: testing.LocalBroker, group: str, topic: str) -> dict[int, int]:
    with client.Admin(broker.nameserver) as admin:
        return {row.queue.queue_id: row.offset for row in admin.offsets.get(group, topic) if row.offset is not None}


def test_commit_group_follows_finished_batches_only(broker: testing.LocalBroker, topic: str):
    group = f"g-{topic}"
    it = stream(broker, topic, commitGroup=group, maxOffsetsPerTrigger="4")
    send(broker.nameserver, q(topic, 0), 6)
    it.trigger(dies=True)
    assert committed_offsets(broker, group, topic).get(0, 0) == 0, "the batch is planned, not finished"
    it = it.restart()
    it.trigger()
    assert committed_offsets(broker, group, topic).get(0, 0) == 0, (
        "the source learns that the batch is finished at the next trigger"
    )
    assert it.trigger() == {q(topic, 0): (4, 6)}
    assert committed_offsets(broker, group, topic) == {0: 4, 1: 0}
    assert it.trigger() is None
    assert committed_offsets(broker, group, topic) == {0: 6, 1: 0}, "the last batch, too, without another batch after it"


def test_commit_group_skips_lost_queues(broker: testing.LocalBroker, topic: str):
    other = next(NAMES)
    broker.create_topic(other, queues=1)
    send(broker.nameserver, q(other, 0), 2)
    it = stream(broker, f"{topic},{other}", commitGroup=f"g-{topic}", failOnDataLoss="false", retryTimeout="100ms")
    assert it.trigger() == {q(other, 0): (0, 2)}
    with client.Admin(broker.nameserver) as admin:
        admin.topics.delete(other)
    trigger_for(it, 0.3)
    send(broker.nameserver, q(topic, 0), 2)
    assert read_until(it, 2) == {q(topic, 0): (0, 2)}


def test_restart_commits_the_offsets_of_the_last_batch(broker: testing.LocalBroker, topic: str):
    group = f"g-{topic}"
    it = stream(broker, topic, commitGroup=group)
    send(broker.nameserver, q(topic, 1), 3)
    it.trigger()
    it.restart().trigger()
    assert committed_offsets(broker, group, topic) == {0: 0, 1: 3}


# --- progress


def test_progress_reports_the_ends_of_the_queues(broker: testing.LocalBroker, topic: str):
    send(broker.nameserver, q(topic, 0), 9)
    it = stream(broker, topic, maxOffsetsPerTrigger="4")
    assert it.reader.reportLatestOffset() is None
    it.trigger()
    assert it.reader.reportLatestOffset() == {topic: {"broker-a:0": 9, "broker-a:1": 0}}


# --- filters


def test_filter_that_brokers_refuse_is_an_error_before_the_first_read(broker: testing.LocalBroker, topic: str):
    with pytest.raises(OptionError, match="'sql'"):
        stream(broker, topic, sql="price >").trigger()
