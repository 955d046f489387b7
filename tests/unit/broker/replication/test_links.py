"""What master and slave decide about each other's bytes, without sockets; and Apache's own bytes as golden examples."""

from __future__ import annotations

import json
import random
import struct
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from skyrocket.broker.errors import ReplicationError
from skyrocket.broker.replication.common_point import BoundarySearch
from skyrocket.broker.replication.ha_frames import REPORT, TRANSFER_BYTES_MAX, TRANSFER_HEADER, TransferSplitter, encode_transfer
from skyrocket.broker.replication.ha_opening import (
    OPENING,
    Begin,
    Compare,
    ComparedRecords,
    Hello,
    MasterIdentity,
    MasterOpening,
    Proof,
    Welcome,
    encode_message,
    make_proof,
)
from skyrocket.broker.replication.master_link import LogBounds, MasterLink
from skyrocket.broker.replication.roles import BrokerRole, confirmed_by_slaves, copies_needed
from skyrocket.broker.replication.slave_link import SlaveLink, StartAt
from skyrocket.store.errors import ReplicaDataError
from skyrocket.store.replica.log_reader import LogSpan
from tests.support.stores.replicas import log_bytes
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import SMALL, START_MS, a_message, an_open_store

GOLDEN = [json.loads(line) for line in (Path(__file__).parents[3] / "golden" / "ha.jsonl").read_text().splitlines()]
LOG = LogBounds(1000, 5000, 4096)


def report(*offsets: int) -> bytes:
    return b"".join(map(REPORT.pack, offsets))


# --- Apache's bytes


def test_apache_s_reports_and_transfers_are_read_and_written_alike():
    assert {row["kind"] for row in GOLDEN} == {"report", "transfer", "heartbeat"}
    for row in GOLDEN:
        raw = bytes.fromhex(row["raw"])
        if row["kind"] == "report":
            assert REPORT.unpack(raw) == (row["header"]["slaveMaxOffset"],)
        else:
            offset, size = row["header"]["physicalOffset"], row["header"]["size"]
            assert TRANSFER_HEADER.unpack(raw) == (offset, size)
            body = bytes.fromhex(row["body"]) if "body" in row else b""
            if len(body) == size:
                assert encode_transfer(offset, body) == raw + body
                assert TransferSplitter().feed(raw + body) == [(offset, body)]


def test_a_slave_appends_what_apache_s_master_sends():
    sent = [row for row in GOLDEN if row["kind"] == "transfer" and row["header"]["size"] * 2 == len(row.get("body", ""))]
    first = [row for row in sent if row["header"]["physicalOffset"] == 0][:1]
    link = SlaveLink(0, 2**30, 0, StartAt.ANYWHERE)
    for row in first:
        (run,) = link.receive(bytes.fromhex(row["raw"] + row["body"]), 0)
        assert (run.start, len(run.data), len(run.offsets)) == (0, row["header"]["size"], 1)
    assert first


# --- the master


def test_a_master_begins_where_the_slave_ends():
    link = MasterLink(0)
    link.receive(report(2000), LOG, 0)
    assert link.next_range(LOG, 10_000) == (2000, 2096), "never over the end of a segment"
    assert link.send(2000, bytes(2096), 0)[:12] == struct.pack(">qi", 2000, 2096)
    assert link.next_range(LOG, 100) == (4096, 100)


def test_a_master_begins_at_its_first_file_for_an_empty_slave():
    link = MasterLink(0)
    link.receive(report(0), LOG, 0)
    assert link.next_range(LOG, 50) == (1000, 50)
    assert link.acknowledged == 0


def test_reports_that_came_together_or_in_pieces_are_read_one_by_one():
    link = MasterLink(0)
    data = report(1000, 1000)
    link.receive(data[:3], LOG, 0)
    assert not link.is_streaming
    link.receive(data[3:], LOG, 0)
    link.send(1000, bytes(500), 0)
    link.receive(report(1100, 1200, 1500), LOG, 0)
    assert link.acknowledged == 1500


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ((-1,), "no position"),
        ((5001,), "only up to 5000"),
        ((999,), "deleted everything before 1000"),
        ((1000, 1001), "only 1000 was sent"),
        ((2000, 1500), "after 2000"),
    ],
)
def test_a_slave_that_lies_is_closed(reports, why):
    link = MasterLink(0)
    with pytest.raises(ReplicationError, match=why):
        link.receive(report(*reports), LOG, 0)


def test_a_master_beats_when_it_has_nothing_to_send_and_closes_a_silent_slave():
    link = MasterLink(0)
    assert link.check_time(5_000, 5_000, 20_000) == b"", "silent before the first report"
    link.receive(report(5000), LOG, 6_000)
    assert link.check_time(6_100, 5_000, 20_000) == struct.pack(">qi", 5000, 0)
    assert link.check_time(6_200, 5_000, 20_000) == b""
    with pytest.raises(ReplicationError, match="silent for 20001 ms"):
        link.check_time(26_001, 5_000, 20_000)


def test_what_a_slow_slave_needs_may_be_deleted_meanwhile():
    link = MasterLink(0)
    link.receive(report(1000), LOG, 0)
    with pytest.raises(ReplicationError, match="deleted meanwhile"):
        link.next_range(LogBounds(4096, 9000, 4096), 100)


# --- the slave


def a_log() -> bytes:
    store = an_open_store(SimulatedDisk())
    store.append([a_message(body=bytes(100)) for _ in range(5)], START_MS)
    return log_bytes(store)


def test_a_slave_reports_what_it_has_and_asks_for_the_rest():
    log = a_log()
    link = SlaveLink(0, SMALL.segment_bytes, 0)
    assert link.first_report() == report(0)
    half = len(log) // 2
    runs = link.receive(encode_transfer(0, log[:half]), 10)
    assert link.report(runs[-1].end, 10) == report(runs[-1].end)
    assert link.report(runs[-1].end, 11) == b"", "once"
    runs = link.receive(encode_transfer(half, log[half:]) + encode_transfer(len(log)), 20)
    assert runs[-1].end == len(log)


@pytest.mark.parametrize("offset", [1, 100])
def test_a_slave_takes_nothing_but_what_follows(offset):
    link = SlaveLink(0, SMALL.segment_bytes, 0)
    with pytest.raises(ReplicationError, match="needs it from 0 on"):
        link.receive(encode_transfer(offset), 0)


def test_an_empty_slave_starts_with_the_first_segment_that_comes():
    link = SlaveLink(0, SMALL.segment_bytes, 0, StartAt.ANYWHERE)
    link.receive(encode_transfer(3 * SMALL.segment_bytes), 0)
    with pytest.raises(ReplicationError, match="not the start of a file"):
        link.receive(encode_transfer(3 * SMALL.segment_bytes + 5, b"x"), 0)


def test_an_empty_slave_of_apache_s_master_asks_for_the_second_byte():
    log = a_log()
    link = SlaveLink(0, SMALL.segment_bytes, 0, StartAt.SECOND_BYTE)
    assert link.first_report() == report(1)
    runs = link.receive(encode_transfer(1, log[1:]), 0)
    assert b"".join(run.data for run in runs) == log


def test_a_slave_reports_again_after_a_while_and_leaves_a_silent_master():
    link = SlaveLink(700, SMALL.segment_bytes, 0)
    assert link.check_time(4_999, 5_000, 20_000) == b""
    assert link.check_time(5_000, 5_000, 20_000) == report(700)
    with pytest.raises(ReplicationError, match="silent for 20001 ms"):
        link.check_time(20_001, 5_000, 20_000)


@pytest.mark.parametrize("header", [(-1, 0), (0, -1), (0, TRANSFER_BYTES_MAX + 1)])
def test_a_stranger_that_is_no_master_is_left(header):
    with pytest.raises(ReplicationError, match="not the HA protocol"):
        TransferSplitter().feed(TRANSFER_HEADER.pack(*header))


# --- how many copies


def test_a_sync_master_waits_for_one_slave_unless_told_otherwise():
    assert copies_needed(BrokerRole.ASYNC_MASTER, 0) == copies_needed(BrokerRole.SYNC_MASTER, 1) == 1
    assert copies_needed(BrokerRole.SYNC_MASTER, 0) == 2
    assert copies_needed(BrokerRole.SYNC_MASTER, 3) == 3


def test_a_position_is_confirmed_when_enough_slaves_have_it():
    assert confirmed_by_slaves([500, 900, 700], 1) == 900
    assert confirmed_by_slaves([500, 900, 700], 2) == 700
    assert confirmed_by_slaves([500], 2) == 0


# --- the common point


@pytest.mark.parametrize("probes", [1, 2, 64])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 63, 64, 65, 1000])
def test_the_common_point_is_found_wherever_it_is(count, probes):
    spans = [LogSpan(start, stop - start) for start, stop in pairwise(range(0, 100 * (count + 1), 100))]
    for equal in {0, 1, count // 2, count - 1, count} & set(range(count + 1)):
        search, rounds = BoundarySearch(spans, probes), 0
        while asked := search.next_probes():
            assert len(asked) <= probes
            search.take_answers([span.offset < 100 * equal for span in asked])
            rounds += 1
        assert search.last_equal == (spans[equal - 1] if equal else None)
        assert rounds <= 12


# --- the opening between ours

IDENTITY = MasterIdentity("DefaultCluster", "broker-a", 4096, b"secret")
HELLO = Hello("DefaultCluster", "broker-a", 1, 4096, "slave nonce")


def proof(secret: bytes = b"secret") -> bytes:
    return encode_message(Proof(make_proof(secret, "slave", "slave nonce", "nonce")))


def test_the_opening_is_no_position_in_a_log():
    assert REPORT.unpack(OPENING)[0] < 0


def test_the_opening_ends_with_where_to_begin():
    opening = MasterOpening(IDENTITY, "nonce")
    data = encode_message(HELLO) + proof() + encode_message(Compare([(1000, 50, 7)])) + encode_message(Begin(2000)) + report(2000)
    answers = [answer for at in range(len(data)) for answer in opening.receive(data[at : at + 1], LOG)]
    welcome = Welcome(1000, 5000, "nonce", make_proof(b"secret", "master", "slave nonce", "nonce"))
    assert answers == [encode_message(welcome), ComparedRecords([LogSpan(1000, 50)], [7])]
    assert (opening.begin, opening.rest, opening.slave) == (2000, report(2000), "broker-a:1")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (encode_message(HELLO) + proof(b"guess"), "does not know the secret"),
        (encode_message(HELLO) + encode_message(Begin(0)), "before it has shown who it is"),
        (proof(), "before it has shown who it is"),
        (encode_message(Hello("Other", "broker-a", 1, 4096, "n")), "slave of broker-a in Other"),
        (encode_message(Hello("DefaultCluster", "broker-a", 1, 8192, "n")), "have to be the same"),
        (struct.pack(">i", 1 << 30), "a message of 1073741824 bytes"),
        (struct.pack(">i", 2) + b"{}", "cannot be read"),
        (encode_message(HELLO) + proof() + encode_message(Compare([(0, 1 << 40, 0)])), "too much at once"),
        (encode_message(HELLO) + proof() + encode_message(Compare([(0, -1, 0)])), "compare nothing"),
    ],
)
def test_an_opening_that_is_wrong_closes_the_connection(data, why):
    with pytest.raises(ReplicationError, match=why):
        MasterOpening(IDENTITY, "nonce").receive(data, LOG)


# --- any bytes


def mutations(data: bytes, seed: int) -> list[bytes]:
    """The bytes with a few of them changed, removed or added, in pieces of any size."""
    rng = random.Random(seed)
    mutated = bytearray(data)
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(mutated))
        match rng.randrange(3):
            case 0:
                mutated[at] ^= 1 << rng.randrange(8)
            case 1:
                del mutated[at : at + rng.randint(1, 20)]
            case _:
                mutated[at:at] = rng.randbytes(rng.randint(1, 20))
        mutated = mutated or bytearray(8)
    cuts = sorted(rng.sample(range(len(mutated) + 1), min(3, len(mutated))))
    return [bytes(mutated[a:b]) for a, b in pairwise([0, *cuts, len(mutated)])]


@pytest.mark.parametrize("seed", range(300))
def test_any_bytes_lead_to_a_typed_error_or_to_sound_records(seed):
    log = a_log()
    half = len(log) // 2
    slave = SlaveLink(0, SMALL.segment_bytes, 0, StartAt.ANYWHERE)
    with suppress(ReplicationError, ReplicaDataError):
        for piece in mutations(encode_transfer(0, log[:half]) + encode_transfer(half) + encode_transfer(half, log[half:]), seed):
            for run in slave.receive(piece, 0):
                assert run.offsets[:1] in ([], [run.start])
    link = MasterLink(0)
    with suppress(ReplicationError):
        for piece in mutations(report(1000, 1000, 1000), seed):
            link.receive(piece, LOG, 0)
            assert link.acknowledged <= (link.next_offset or 0) <= LOG.end
    opening = MasterOpening(IDENTITY, "nonce")
    with suppress(ReplicationError):
        for piece in mutations(encode_message(HELLO) + proof() + encode_message(Begin(2000)), seed):
            opening.receive(piece, LOG)
    assert opening.begin is None or opening.slave
