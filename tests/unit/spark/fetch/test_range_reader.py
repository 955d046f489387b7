"""Reads a range of a queue from brokers that misbehave: no message comes twice, and none is missing without an error."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from skyrocket.client.queues import Queue
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import COMPRESSED, INNER_BATCH
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.errors import DataLossError, RequestRefusedError, UnreachableClusterError
from skyrocket.spark.fetch.connections import ConnectionPool, connections
from skyrocket.spark.fetch.range_reader import BATCH_ROWS_MAX, RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition
from tests.support.brokers.scripted_broker import TOPIC, Pull, Reply, Script, ScriptedBroker, ordinary, record, records

QUEUE = Queue(TOPIC, "broker-a", 0)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the addresses of the queue's brokers, by their ids."""
    addresses: dict[int, str] = {}

    def set_addresses(brokers: dict[int, ScriptedBroker]) -> None:
        addresses.update({broker_id: broker.address for broker_id, broker in brokers.items()})

    monkeypatch.setattr(ClusterClient, "address", lambda _self, _queue, broker_id=0, **_: addresses.get(broker_id, addresses[0]))
    yield set_addresses
    connections.clear_after_fork()  # the next test starts without connections


def batches(start: int, stop: int, **options: str) -> list[Any]:
    given = {"nameserver": "127.0.0.1:1", "subscribe": TOPIC, "retryTimeout": "20s", **options}
    return list(
        RangeReader(source_options(given, "batch"), QueuePartition(QUEUE, start, stop), ["queueOffset", "body"]).batches()
    )


def offsets(start: int, stop: int, **options: str) -> list[int]:
    return [offset for batch in batches(start, stop, **options) for offset in batch["queueOffset"].to_pylist()]


def reply_first(script: Script, *replies: Reply | None) -> Script:
    """Answer the first pulls with these replies, and the others by the script."""
    return lambda pull: replies[pull.number] if pull.number < len(replies) else script(pull)


def test_range_is_read_to_its_end_and_no_further(at):
    with ScriptedBroker(ordinary) as broker:
        at({0: broker})
        assert offsets(5, 1_000) == list(range(5, 1_000))
        assert offsets(7, 8) == [7]
        assert offsets(7, 7) == []


def test_batches_have_a_useful_size(at):
    with ScriptedBroker(lambda pull: ordinary(pull, 1_000)) as broker:
        at({0: broker})
        sizes = [batch.num_rows for batch in batches(0, 30_000)]
    assert sum(sizes) == 30_000
    assert all(1_024 <= size <= BATCH_ROWS_MAX for size in sizes[:-1])


@pytest.mark.parametrize("seed", range(5))
def test_responses_may_arrive_in_any_order(at, seed: int):
    dice = random.Random(seed)
    with ScriptedBroker(ordinary, reorder=lambda answers: dice.sample(answers, len(answers))) as broker:
        at({0: broker})
        assert offsets(0, 9_000) == list(range(9_000))


@pytest.mark.parametrize("seed", range(5))
def test_broker_may_return_any_number_of_messages(at, seed: int):
    dice = random.Random(seed)
    with ScriptedBroker(lambda pull: ordinary(pull, dice.randint(1, 60))) as broker:
        at({0: broker})
        assert offsets(0, 3_000) == list(range(3_000))


@pytest.mark.parametrize("seed", range(5))
def test_connection_may_close_in_the_middle_of_a_response(at, seed: int):
    dice = random.Random(seed)
    with ScriptedBroker(
        lambda pull: ordinary(pull)._replace(cut=dice.randint(0, 900) if dice.random() < 0.1 else None)
    ) as broker:
        at({0: broker})
        assert offsets(0, 2_000) == list(range(2_000))
        assert broker.connections > 1


def test_next_task_reuses_the_connection(at):
    with ScriptedBroker(ordinary) as broker:
        at({0: broker})
        for _ in range(3):
            offsets(0, 100)
        assert broker.connections == 1


def test_task_that_ends_early_closes_a_connection_with_pulls_in_flight(at):
    given = {"nameserver": "127.0.0.1:1", "subscribe": TOPIC}
    with ScriptedBroker(ordinary) as broker:
        at({0: broker})
        reading = RangeReader(source_options(given), QueuePartition(QUEUE, 0, 100_000)).batches()
        assert next(reading).num_rows
        reading.close()
        assert offsets(0, 100) == list(range(100))
        assert broker.connections == 2


def test_pool_limits_idle_connections_and_a_child_process_has_none():
    options = source_options({"nameserver": "127.0.0.1:1", "subscribe": TOPIC}).cluster
    pool = ConnectionPool()
    with ScriptedBroker(ordinary) as broker:
        taken = [pool.take(options, broker.address, 1_000) for _ in range(20)]
        for connection in taken:
            pool.give_back(connection)
        assert len(pool._idle) == 16
        again = pool.take(options, broker.address, 1_000)
        assert again is taken[-1]
        again.close()
        pool.clear_after_fork()
        assert not pool._idle


# --- brokers that return nothing for now


def test_busy_broker_is_asked_again(at):
    busy = Reply(ResponseCode.SYSTEM_BUSY, remark="too many")
    with ScriptedBroker(reply_first(ordinary, busy, busy)) as broker:
        at({0: broker})
        assert offsets(0, 100) == list(range(100))


def test_broker_without_the_message_yet_is_asked_again(at):
    nothing = Reply(ResponseCode.PULL_NOT_FOUND, next_offset=0)
    with ScriptedBroker(reply_first(ordinary, nothing, nothing)) as broker:
        at({0: broker})
        assert offsets(0, 100) == list(range(100))


def test_pull_without_a_response_is_repeated_after_fetch_timeout(at):
    with ScriptedBroker(reply_first(ordinary, None)) as broker:
        at({0: broker})
        assert offsets(0, 100, fetchTimeout="300ms") == list(range(100))
        assert broker.connections >= 2


def test_broker_that_never_answers_is_an_error_after_retry_timeout(at):
    with ScriptedBroker(lambda _: None) as broker:
        at({0: broker})
        with pytest.raises(UnreachableClusterError, match=r"'nameserver' \(127.0.0.1:1\) did not answer within 0.7 s.*broker-a"):
            offsets(0, 100, retryTimeout="700ms", fetchTimeout="100ms")


def test_messages_read_before_a_failure_are_returned_before_the_error(at):
    with ScriptedBroker(lambda pull: ordinary(pull) if pull.offset < 64 else None) as broker:
        at({0: broker})
        given = {"nameserver": "127.0.0.1:1", "subscribe": TOPIC, "retryTimeout": "500ms", "fetchTimeout": "100ms"}
        reading = RangeReader(source_options(given), QueuePartition(QUEUE, 0, 1_000)).batches()
        assert next(reading)["queueOffset"].to_pylist() == list(range(64))
        with pytest.raises(UnreachableClusterError):
            next(reading)


# --- slaves


def test_slave_is_read_when_the_master_suggests_it(at):
    with (
        ScriptedBroker(lambda pull: ordinary(pull)._replace(suggested=1)) as master,
        ScriptedBroker(lambda pull: ordinary(pull)._replace(suggested=1)) as slave,
    ):
        at({0: master, 1: slave})
        assert offsets(0, 1_000) == list(range(1_000))
        assert master.pulls[0].offset == 0
        assert slave.pulls
        assert len(master.pulls) == 1


def test_slave_that_is_behind_or_gone_is_not_asked_again(at):
    behind = Reply(ResponseCode.PULL_NOT_FOUND, suggested=1)
    with ScriptedBroker(lambda pull: ordinary(pull)._replace(suggested=1)) as master, ScriptedBroker(lambda _: behind) as slave:
        at({0: master, 1: slave})
        assert offsets(0, 1_000) == list(range(1_000))
        assert slave.connections == 1
    with ScriptedBroker(lambda pull: ordinary(pull)._replace(suggested=1)) as master, ScriptedBroker(ordinary) as slave:
        at({0: master, 1: slave})
        slave.__exit__()
        assert offsets(0, 1_000) == list(range(1_000))


# --- messages that are gone


def without_offsets_before(first: int) -> Script:
    def script(pull: Pull) -> Reply:
        return ordinary(pull) if pull.offset >= first else Reply(ResponseCode.PULL_OFFSET_MOVED, next_offset=first)

    return script


def test_deleted_messages_are_an_error_or_skipped(at, caplog):
    with ScriptedBroker(without_offsets_before(40)) as broker:
        at({0: broker})
        with pytest.raises(DataLossError, match="queue 0 of orders at broker-a are lost: the queue now starts at offset 40"):
            offsets(0, 100)
        with caplog.at_level(logging.WARNING):
            assert offsets(0, 100, failOnDataLoss="false") == list(range(40, 100))
        assert "the queue now starts at offset 40" in caplog.text
        assert offsets(0, 30, failOnDataLoss="false") == [], "all of the range is gone"


@pytest.mark.parametrize("code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED])
def test_queue_that_became_shorter_is_an_error_or_the_end(at, code: int):
    def script(pull: Pull) -> Reply:
        return ordinary(pull) if pull.offset < 64 else Reply(code, next_offset=64 if code == ResponseCode.PULL_NOT_FOUND else 60)

    with ScriptedBroker(script) as broker:
        at({0: broker})
        with pytest.raises(DataLossError, match="before the end of the read at 100"):
            offsets(0, 100, retryTimeout="300ms")
        assert offsets(0, 100, failOnDataLoss="false", retryTimeout="300ms") == list(range(64))


def test_gap_without_a_filter_is_a_loss(at):
    def script(pull: Pull) -> Reply:
        reply = ordinary(pull)
        if pull.offset == 32:
            body = b"".join(record(offset) for offset in range(32, reply.next_offset) if offset != 40)
            return reply._replace(body=body)
        return reply

    with ScriptedBroker(script) as broker:
        at({0: broker})
        with pytest.raises(DataLossError, match="of 32 from offset 32 on"):
            offsets(0, 100)
        assert offsets(0, 100, failOnDataLoss="false") == [offset for offset in range(100) if offset != 40]


def test_skipped_offsets_are_a_loss_only_without_a_filter(at):
    def script(pull: Pull) -> Reply:
        return ordinary(pull) if pull.offset >= 50 else Reply(ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=50)

    with ScriptedBroker(script) as broker:
        at({0: broker})
        with pytest.raises(DataLossError, match="offsets 0 to 50 are gone"):
            offsets(0, 100)
        assert offsets(0, 100, sql="x = 1") == list(range(50, 100))


def test_damaged_bodies_and_records_are_detected(at):
    whole = [record(offset) for offset in range(10)]
    body_changed = whole[3].replace(b"3", b"4") if whole[3].count(b"3") == 1 else whole[3][:-12] + b"x" + whole[3][-11:]
    lengths_lie = bytearray(whole[5])
    lengths_lie[84:88] = (70_000).to_bytes(4)
    for place, bad in ((3, body_changed), (5, bytes(lengths_lie))):
        damaged = b"".join([*whole[:place], bad, *whole[place + 1 :]])
        with ScriptedBroker(lambda _, body=damaged: Reply(next_offset=10, body=body)) as broker:
            at({0: broker})
            with pytest.raises(DataLossError, match="damaged"):
                offsets(0, 10)
            assert offsets(0, 10, failOnDataLoss="false") == [offset for offset in range(10) if offset != place]


def test_response_with_garbage_is_a_loss_with_a_filter_too(at):
    with ScriptedBroker(lambda _: Reply(next_offset=10, body=record(0) + b"noise" * 40)) as broker:
        at({0: broker})
        for options in ({}, {"sql": "x = 1"}):
            with pytest.raises(DataLossError, match="returned 1"):
                offsets(0, 10, **options)


def test_record_that_reaches_into_the_next_response_is_left_out(at):
    def script(pull: Pull) -> Reply:
        reply = ordinary(pull)
        if pull.offset != 32:
            return reply
        last = bytearray(record(reply.next_offset - 1))
        last[0:4] = (len(last) + 300).to_bytes(4)
        return reply._replace(body=reply.body[: -len(last)] + bytes(last))

    with ScriptedBroker(script) as broker:
        at({0: broker})
        with pytest.raises(DataLossError, match=r"of 32 from offset 32 on, 127.0.0.1:.* returned 31"):
            offsets(0, 200)
        assert offsets(0, 200, failOnDataLoss="false") == [offset for offset in range(200) if offset != 63]


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bits_never_produce_a_body_that_was_not_sent(at, seed: int):
    dice = random.Random(seed)

    def script(pull: Pull) -> Reply:
        reply = ordinary(pull)
        damaged = bytearray(reply.body)
        for _ in range(3):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        return reply._replace(body=bytes(damaged))

    with ScriptedBroker(script) as broker:
        at({0: broker})
        found = [body for batch in batches(0, 300, failOnDataLoss="false") for body in batch["body"].to_pylist()]
    assert set(found) <= {b"%d" % offset for offset in range(300)}
    assert len(found) > 150


# --- refusals


def test_refusal_names_the_queue_and_the_reason(at):
    with ScriptedBroker(lambda _: Reply(ResponseCode.NO_PERMISSION, remark="not for you")) as broker:
        at({0: broker})
        with pytest.raises(
            RequestRefusedError, match=r"queue 0 of orders at broker-a cannot be read: .*NO_PERMISSION.*not for you"
        ):
            offsets(0, 10)


def test_batch_consume_queue_is_refused(at):
    body = record(0, sys_flag=INNER_BATCH)
    with ScriptedBroker(lambda _: Reply(next_offset=10, body=body)) as broker:
        at({0: broker})
        with pytest.raises(RequestRefusedError, match="BatchCQ"):
            offsets(0, 10)


def test_body_that_cannot_be_decompressed_is_a_loss(at):
    body = record(0) + record(1, sys_flag=COMPRESSED) + record(2)
    with ScriptedBroker(lambda _: Reply(next_offset=3, body=body)) as broker:
        at({0: broker})
        with pytest.raises(DataLossError, match="the one at offset 1 cannot be decompressed"):
            offsets(0, 3)
        assert offsets(0, 3, failOnDataLoss="false") == [0, 2]


def test_pull_is_repeated_if_the_response_does_not_advance(at):
    backwards = records(0, 5)._replace(next_offset=0)
    with ScriptedBroker(reply_first(ordinary, backwards)) as broker:
        at({0: broker})
        assert offsets(0, 50) == list(range(50))
