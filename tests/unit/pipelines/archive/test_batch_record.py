"""What the record of a batch keeps of all batches before it: where queues begin, their last messages, what was lost."""

from __future__ import annotations

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.batch_record import (
    BatchRecord,
    LostMessages,
    StagedFile,
    append_record,
    compact_record,
    decode_record,
    encode_record,
    merge_gaps,
)
from skyrocket.pipelines.archive.last_messages import LastMessage

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)


def staged(queue: Queue, start: int, stop: int, last_id: str) -> StagedFile:
    return StagedFile(
        name=f"{start}-{stop}.parquet",
        topic=queue.topic,
        hour="2026-11-18-09",
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        start=start,
        stop=stop,
        rows=stop - start,
        size_bytes=1,
        first_ms=0,
        last_ms=0,
        last_id=last_id,
    )


def lost(queue: Queue, start: int, stop: int) -> LostMessages:
    return LostMessages(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, start=start, stop=stop)


def last(queue: Queue, offset: int, message_id: str) -> LastMessage:
    return LastMessage(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, offset=offset, id=message_id)


def written(record: BatchRecord) -> BatchRecord:
    return decode_record(encode_record(record), "a record")


def test_a_record_has_what_the_ones_before_it_knew():
    first = written(append_record("x", 1, {A: 9}, [staged(A, 7, 9, "a8"), staged(A, 5, 7, "a6")], starts={A: 5}))
    assert (first.first_offsets, first.last_messages, first.gaps) == ({A: 5}, [last(A, 8, "a8")], [])
    second = written(
        append_record("x", 2, {A: 20, B: 3}, [staged(B, 0, 3, "b2")], [lost(A, 9, 20)], starts={A: 20, B: 0}, before=first)
    )
    assert second.first_offsets == {A: 5, B: 0}
    assert second.last_messages == [last(A, 8, "a8"), last(B, 2, "b2")]
    third = written(compact_record("x", 3, {A: 20, B: 3}, [], [], second))
    assert (third.first_offsets, third.last_messages, third.gaps) == (
        {A: 5, B: 0},
        second.last_messages,
        [lost(A, 9, 20)],
    )


def test_where_a_queue_begins_that_an_older_program_archived_stays_unknown():
    old = BatchRecord(archive_id="x", batch=1, kind="append", offsets={"orders": {"broker-a:0": 9}})
    record = append_record("x", 2, {A: 12, B: 2}, [staged(A, 9, 12, "a11")], starts={A: 9, B: 0}, before=old)
    assert (record.first_offsets, record.last_messages) == ({B: 0}, [last(A, 11, "a11")])


def test_gaps_that_touch_become_one_and_of_too_many_the_first_go():
    gaps = merge_gaps([lost(B, 0, 4)], [lost(A, 5, 7), lost(A, 7, 9), lost(A, 20, 21)])
    assert gaps == [lost(A, 5, 9), lost(A, 20, 21), lost(B, 0, 4)]
    assert merge_gaps(gaps, [lost(B, 4, 6)], most=2) == [lost(A, 20, 21), lost(B, 0, 6)]
