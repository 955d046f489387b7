"""Fillers are recognised exactly: no message that a client can send is taken for one. Files in `damaged/` name their ranges."""

from __future__ import annotations

import pytest

from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.record import FIXED_BYTES_MIN, Record, decode_record, encode_record
from skyrocket.protocol.sysflag import TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import FILLER_TOPIC
from skyrocket.store.log.damage import FILLER_BYTES_MAX, is_filler, make_fillers, set_aside_offsets
from tests.support.stores.simulated_disk import SimulatedDisk

STORED_MS = 1_700_000_000_000


@pytest.mark.parametrize("extra", [1, 2, 14, 15, 16, 500, FILLER_BYTES_MAX, 2 * FILLER_BYTES_MAX])
def test_every_filler_is_recognised(extra: int):
    data = make_fillers(4096, FIXED_BYTES_MIN + extra, STORED_MS)
    at = 0
    while at < len(data):
        assert is_filler(decode_record(data, at))
        at += int.from_bytes(data[at : at + 4])
    assert at == FIXED_BYTES_MIN + extra


def test_no_message_with_a_store_host_is_a_filler():
    host = pack_host("127.0.0.1", 10911)
    for topic in (FILLER_TOPIC[:1], FILLER_TOPIC[:9], FILLER_TOPIC):
        for body in (b"", bytes(10), b"x"):
            sent = Record(topic, body, sys_flag=TRANSACTION_ROLLBACK, store_host=host, store_timestamp=STORED_MS)
            assert not is_filler(decode_record(encode_record(sent))), (topic, body)


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "rmq_sys"},
        {"topic": "orders"},
        {"body": b"\0\0\1"},
        {"properties": b"KEYS\x01k\x02"},
        {"sys_flag": TRANSACTION_ROLLBACK | 1},
        {"sys_flag": 0},
        {"queue_id": 1},
        {"queue_offset": 1},
        {"born_timestamp": 1},
        {"reconsume_times": 1},
        {"prepared_transaction_offset": 1},
    ],
)
def test_a_record_that_differs_in_one_field_is_no_filler(changed: dict[str, object]):
    fields: dict[str, object] = {
        "topic": FILLER_TOPIC,
        "body": bytes(3),
        "sys_flag": TRANSACTION_ROLLBACK,
        "born_timestamp": STORED_MS,
        "store_timestamp": STORED_MS,
    }
    assert is_filler(decode_record(encode_record(Record(**fields))))
    assert not is_filler(decode_record(encode_record(Record(**fields | changed))))


def test_the_ranges_that_were_set_aside_are_known_by_their_files():
    disk = SimulatedDisk()
    assert set_aside_offsets(disk, "store/damaged") == []
    for name in (f"{5_000:020d}-91", f"{300:020d}-1200", f"repaired-{700:020d}-91", f"{800:020d}-91.tmp", "notes"):
        disk.write_file(f"store/damaged/{name}", b"")
    assert set_aside_offsets(disk, "store/damaged") == [300, 5_000]
