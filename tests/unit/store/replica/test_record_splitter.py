"""The bytes of a master's log, split into whole records: cut anywhere, they come out whole, and nothing else comes out."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from msgspec.structs import replace

from skyrocket.protocol.message.record import Record, decode_record, encode_record
from skyrocket.protocol.system_names import SCHEDULE_TOPIC
from skyrocket.store.errors import ReplicaDataError
from skyrocket.store.log.scan import FoundRecord, walk_segment
from skyrocket.store.message import dispatch_request_of
from skyrocket.store.replica.record_splitter import RECORD_BYTES_MAX, RecordSplitter
from tests.support.stores.replicas import log_bytes
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import SMALL, START_MS, a_message, an_open_store, random_messages

SEGMENT = SMALL.segment_bytes


def a_log(seed: int = 1, appends: int = 20) -> bytes:
    store, rng, serial = an_open_store(SimulatedDisk()), Random(seed), count()
    for _ in range(appends):
        store.append(random_messages(rng, serial, rng.randint(1, 5)), START_MS)
    return log_bytes(store)


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_is_cut_anywhere_comes_out_whole(seed):
    log, rng = a_log(seed), Random(seed)
    splitter, runs, at = RecordSplitter(SEGMENT, 0), [], 0
    while at < len(log):
        size = rng.choice((1, 7, 8, 100, 2_000, 10_000))
        runs += splitter.feed(log[at : at + size])
        at += size
    assert b"".join(run.data for run in runs) == log
    assert splitter.position == len(log) == runs[-1].end
    assert all(run.start // SEGMENT == (run.end - 1) // SEGMENT for run in runs)
    offsets = [offset for run in runs for offset in run.offsets]
    assert offsets == sorted(set(offsets))
    assert [encode_record(decode_record(log, offset)) for offset in offsets] == [
        log[offset : offset + int.from_bytes(log[offset : offset + 4])] for offset in offsets
    ]


def test_queues_and_index_get_the_same_of_a_record_however_the_log_is_cut():
    log = a_log(appends=30)
    wanted = [
        dispatch_request_of(found.record, found.size, ())
        for start in range(0, len(log), SEGMENT)
        for found in walk_segment(memoryview(log)[start : start + SEGMENT], start)
        if isinstance(found, FoundRecord)
    ]
    for step in (1_000, 5_000, len(log)):
        splitter = RecordSplitter(SEGMENT, 0)
        runs = [run for at in range(0, len(log), step) for run in splitter.feed(log[at : at + step])]
        messages = [message for run in runs for message in run.messages]
        assert messages == wanted, f"{step} bytes at once"


def test_a_record_that_is_not_ordinary_comes_out_as_it_is():
    log = b""
    ordinary, delayed = Record("orders", b"hello", b"TAGS\x01red\x02"), Record(SCHEDULE_TOPIC, b"later", b"DELAY\x013\x02")
    for record in (ordinary, delayed, ordinary):
        log += encode_record(replace(record, physical_offset=len(log)))
    (run,) = RecordSplitter(SEGMENT, 0).feed(log)
    assert [isinstance(message, FoundRecord) for message in run.messages] == [False, True, False]
    assert run.offsets == [message[0] if isinstance(message, FoundRecord) else message[3] for message in run.messages]


def test_a_record_that_is_not_whole_is_kept_back():
    log = a_log()
    splitter = RecordSplitter(SEGMENT, 0)
    size = int.from_bytes(log[:4])
    assert splitter.feed(log[: size - 1]) == []
    assert splitter.position == size - 1
    assert [run.data for run in splitter.feed(log[size - 1 : size + 20])] == [log[:size]]
    assert splitter.position == size + 20


def test_the_blank_at_the_end_of_a_segment_comes_out_when_it_is_whole():
    store = an_open_store(SimulatedDisk())
    store.append([a_message(body=bytes(7_000)), a_message(body=bytes(3_000))], START_MS)
    log = log_bytes(store)
    splitter = RecordSplitter(SEGMENT, 0)
    (first,) = splitter.feed(log[: SEGMENT - 1])
    assert (len(first.offsets), first.end) == (1, first.records_end)
    (blank, second) = splitter.feed(log[SEGMENT - 1 :])
    assert (blank.offsets, blank.messages, blank.end) == ([], [], SEGMENT)
    assert (second.start, len(second.offsets)) == (SEGMENT, 1)


@pytest.mark.parametrize(
    ("at", "wrong"),
    [
        (0, b"\x7f"),  # larger than anything that fits
        (4, b"\0"),  # no magic
        (28, b"\x01"),  # the physical offset of another place
        (95, b"!"),  # the body
        (0, (8).to_bytes(4)),  # smaller than any record
    ],
)
def test_bytes_that_are_no_record_for_that_place_are_refused(at, wrong):
    store = an_open_store(SimulatedDisk())
    store.append([a_message(body=b"a long body")], START_MS)
    log = bytearray(log_bytes(store))
    log[at : at + len(wrong)] = wrong
    with pytest.raises(ReplicaDataError, match=r"for the log at 0 that (is|are) no"):
        RecordSplitter(SEGMENT, 0).feed(log)


def test_a_record_of_another_place_is_refused():
    log = a_log()
    with pytest.raises(ReplicaDataError, match="at 8192 that are no sound record"):
        RecordSplitter(SEGMENT, SEGMENT).feed(log)


def test_a_log_with_other_segments_is_refused():
    log = a_log()
    with pytest.raises(ReplicaDataError, match="mappedFileSizeCommitLog"):
        RecordSplitter(2 * SEGMENT, 0).feed(log)


def test_a_record_larger_than_the_bound_is_refused():
    huge = (RECORD_BYTES_MAX + 1).to_bytes(4) + bytes.fromhex("daa320a7")
    with pytest.raises(ReplicaDataError, match=str(RECORD_BYTES_MAX + 1)):
        RecordSplitter(4 * RECORD_BYTES_MAX, 0).feed(huge)
