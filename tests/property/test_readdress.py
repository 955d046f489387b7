"""Readdressed records: the fast path and the general path store the same bytes in every file."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2, Record, encode_record
from skyrocket.store.log.readdress import Address, ReaddressRequest, readdress_record, readdress_records
from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import ROOT, SMALL, START_MS

KEYS = [b"7F000001A1B218B4AAC2000000000012", b"7F000001A1B218B4AAC2000000000013"]
hosts = st.sampled_from([pack_host("10.0.0.7", 1), pack_host("fd00::7", 2)])

records = st.builds(
    Record,
    topic=st.sampled_from(["RMQ_SYS_TRANS_HALF_TOPIC", "t", "ä" * 60]),
    body=st.binary(max_size=200),
    properties=st.sampled_from([b"", b"UNIQ_KEY\x01k\x02", b"TAGS\x01red", b"x" * 300]),
    queue_offset=st.integers(0, 2**40),
    physical_offset=st.integers(0, 2**40),
    flag=st.integers(-(2**31), 2**31 - 1),
    sys_flag=st.sampled_from([0, 0, 0, 1, 8, 4, 12, -16]),
    born_timestamp=st.integers(0, 2**60),
    born_host=hosts,
    store_timestamp=st.integers(0, 2**60),
    store_host=hosts,
    reconsume_times=st.integers(0, 16),
    prepared_transaction_offset=st.integers(0, 2**40),
    magic=st.sampled_from([MAGIC, MAGIC_V2]),
)
addresses = st.builds(
    Address.of,
    st.sampled_from(["orders", "%RETRY%billing", "t" * 200]),
    st.integers(0, 2),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([("\0", "k1"), ("\0",)]),
    st.sampled_from([None, None, b"", b"UNIQ_KEY\x01\0\x02TAGS\x01red\x02__transactionId__\x01\0\x02"]),
    st.booleans(),
)
moves = st.tuples(
    records.map(encode_record).map(memoryview),
    addresses,
    st.sampled_from([None, *KEYS]),
    st.sampled_from([b"", b"\x02a\x01b\x02"]),
)


def a_store(disk: SimulatedDisk) -> MessageStore:
    store = MessageStore(ROOT, SMALL, files=disk)
    store.open()
    return store


def stored_quickly(store: MessageStore, turn: list[ReaddressRequest]) -> bool:
    opening = store.append_position(START_MS)
    run = readdress_records(turn, opening, store.queues.next_offset)
    if run is not None and turn:
        store.append_encoded(opening, *run)
    return run is not None


@given(st.lists(st.lists(moves, max_size=5), max_size=4))
def test_fast_path_and_general_path_store_the_same(turns: list[list[ReaddressRequest]]):
    quick_disk, general_disk = SimulatedDisk(), SimulatedDisk()
    quick, general = a_store(quick_disk), a_store(general_disk)
    for turn in turns:
        is_quick = stored_quickly(quick, turn)
        event("the short way" if is_quick else "the general way")
        if not is_quick:
            quick.append([readdress_record(move) for move in turn], START_MS)
        general.append([readdress_record(move) for move in turn], START_MS)
    assert quick.queues.entry_count == general.queues.entry_count
    quick.close()
    general.close()
    assert quick_disk.contents() == general_disk.contents()
