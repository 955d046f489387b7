"""The fast path of sends: one append for all sends of a read event, and which sends leave it for the general path."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import pytest

from skyrocket.broker.send.batch import SendBatch
from skyrocket.net.connection import Connection
from skyrocket.protocol.command import ONEWAY_FLAG, Command, decode_command, encode_command
from skyrocket.protocol.frame import FrameSplitter, Serialization
from skyrocket.protocol.headers import EndTransactionRequestHeader, SendMessageResponseHeader
from skyrocket.protocol.message.batch import encode_batch
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import OP_TOPIC
from skyrocket.store.errors import StoreIOError
from skyrocket.store.ledger.entry import HEADER_BYTES, unpack_header
from skyrocket.store.ledger.ledger_store import LedgerStore
from tests.support.brokers.running_broker import send_header
from tests.support.brokers.send_parts import SendParts
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import bodies, read_queue
from tests.support.twins import KINDS, using


@pytest.fixture(params=KINDS, autouse=True)
def _kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with the Python loop and with its compiled twin."""
    with using(request.param):
        yield


def a_frame(number: int, body: bytes = b"hello", *, unique: str | None = None, flag: int = 0, **given: Any) -> bytes:
    properties = {"UNIQ_KEY": unique or f"7F000001A1B218B4AAC2{number:012X}", "TAGS": "red"} | given.pop("properties", {})
    if unique == "":
        del properties["UNIQ_KEY"]
    code, serialization = given.pop("code", RequestCode.SEND_MESSAGE_V2), given.pop("serialization", Serialization.JSON)
    header = send_header(given.pop("topic", "orders"), given.pop("queue_id", 0), properties, **given)
    fields = header.to_v1().to_fields() if code == RequestCode.SEND_MESSAGE else header.to_fields()
    return encode_command(Command(code, fields=fields, body=body, opaque=number, flag=flag, serialization=serialization))


def a_batch(number: int, texts: list[bytes], **given: Any) -> bytes:
    entries = [(text, b"UNIQ_KEY\x01%032X\x02TAGS\x01blue\x02KEYS\x01k%d k\x02" % (at, at), at) for at, text in enumerate(texts)]
    return a_frame(number, encode_batch(entries), **{"code": RequestCode.SEND_BATCH_MESSAGE, "batch": True} | given)


def answers(parts: SendParts) -> list[Command]:
    return [decode_command(frame) for frame in FrameSplitter().feed(parts.transport.written)]


def forbid_general_path(parts: SendParts, monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(*_: object) -> None:
        raise AssertionError("a send took the general path")

    monkeypatch.setattr(parts.validator, "accept", accept)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"properties": {"KEYS": "a b"}},
        {"properties": {"colour": "green", "WAIT": "true"}},
        {"sys_flag": 1},
        {"reconsume_times": 2, "unit_mode": True},
    ],
)
async def test_fast_sends_of_a_read_event_are_one_append(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    parts = SendParts(fast=True)
    forbid_general_path(parts, monkeypatch)
    await parts.read(b"".join(a_frame(n, b"%d" % n, queue_id=n % 2, **given) for n in range(20)))
    assert parts.appends == 1
    assert bodies(parts.store, queue_id=1) == [b"%d" % n for n in range(1, 20, 2)]
    headers = [answer.header(SendMessageResponseHeader) for answer in answers(parts)]
    assert [(answer.opaque, answer.code) for answer in answers(parts)] == [(n, 0) for n in range(20)]
    assert [(header.queue_id, header.queue_offset) for header in headers] == [(n % 2, n // 2) for n in range(20)]


async def test_the_answer_is_written_before_queues_and_index_get_their_entries(monkeypatch: pytest.MonkeyPatch):
    parts = SendParts(fast=True)
    put, written = parts.store.queues.put, list[int]()

    def notice(counted: Any) -> Any:
        written.append(len(answers(parts)))
        return put(counted)

    monkeypatch.setattr(parts.store.queues, "put", notice)
    await parts.read(a_frame(0) + a_frame(1))
    assert written == [2]
    not_a_send = encode_command(Command(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=3))
    await parts.read(a_frame(2) + not_a_send)
    assert written == [2, 2], "answers of one turn leave together"
    assert [answer.opaque for answer in answers(parts)][:3] == [0, 1, 2]


async def test_a_message_that_the_disk_refuses_once_is_stored_once_and_answered_once():
    parts = SendParts(fast=True)
    parts.disk.fail("write", 1, 28)
    await parts.read(a_frame(0))  # the general path tries again
    assert [(answer.opaque, answer.code) for answer in answers(parts)] == [(0, 0)]
    assert len(bodies(parts.store)) == 1


async def test_queue_entries_that_cannot_be_made_neither_repeat_a_message_nor_its_answer(monkeypatch: pytest.MonkeyPatch):
    parts = SendParts(fast=True)

    def refuse(_: Any) -> Any:
        raise StoreIOError("the disk of the queues fails")

    with monkeypatch.context() as failing:
        failing.setattr(parts.store.queues, "put", refuse)
        await parts.read(a_frame(0) + a_frame(1))
    await parts.read(a_frame(2))
    assert [(answer.opaque, answer.code) for answer in answers(parts)] == [(n, 0) for n in range(3)]
    assert [record.queue_offset for record in read_queue(parts.store)] == [0, 1, 2]


@pytest.mark.parametrize("serialization", list(Serialization))
@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
@pytest.mark.parametrize("unique", [None, ""])
async def test_every_way_to_write_a_send_takes_the_fast_path(
    code: int, serialization: Serialization, unique: str | None, monkeypatch: pytest.MonkeyPatch
):
    parts = SendParts(fast=True)
    forbid_general_path(parts, monkeypatch)
    given = {"code": code, "serialization": serialization, "unique": unique, "properties": {"KEYS": "k1 k2  k3"}}
    await parts.read(b"".join(a_frame(n, b"%d" % n, flag=ONEWAY_FLAG * (n == 2), **given) for n in range(4)))
    assert parts.appends == 1
    assert bodies(parts.store) == [b"0", b"1", b"2", b"3"]
    assert [(answer.opaque, answer.serialization, answer.code) for answer in answers(parts)] == [
        (n, serialization, 0) for n in (0, 1, 3)
    ]
    assert len(parts.store.reading.query("orders", "k3", 0, parts.now_ms, 10)) == 4


@pytest.mark.parametrize("serialization", list(Serialization))
async def test_a_batch_takes_the_fast_path_and_has_one_answer(serialization: Serialization, monkeypatch: pytest.MonkeyPatch):
    parts = SendParts(fast=True)
    forbid_general_path(parts, monkeypatch)
    sent = [a_batch(1, [b"a", b"", bytes(900)], serialization=serialization), a_frame(2, b"single")]
    await parts.read(
        b"".join([*sent, a_batch(3, [b"oneway"], serialization=serialization, flag=ONEWAY_FLAG), a_batch(4, [b"b"])])
    )
    assert parts.appends == 1
    stored = read_queue(parts.store)
    assert [record.body for record in stored] == [b"a", b"", bytes(900), b"single", b"oneway", b"b"]
    assert [record.flag for record in stored] == [0, 1, 2, 0, 0, 0]
    assert [answer.opaque for answer in answers(parts)] == [1, 2, 4]
    first = answers(parts)[0].header(SendMessageResponseHeader)
    assert [decode_offset_id(one).physical_offset for one in first.msg_id.split(",")] == [
        record.physical_offset for record in stored[:3]
    ]
    assert (first.queue_offset, first.transaction_id) == (0, f"7F000001A1B218B4AAC2{1:012X}")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no batch",
        encode_batch([(b"one", b"DELAY\x011\x02", 0)]),
        encode_batch([(b"one", b"TAGS\x01red\x02", 0), (b"two", b"TAGS\x01\xff\x02", 0)]),
        encode_batch([(b"one", b"", 0)]) + b"\0",
        encode_batch([(b"one", b"", 0), (b"two", b"TAGS\x01red", 0)])[:-1],
    ],
)
async def test_a_batch_that_is_not_for_the_fast_path_leaves_nothing_of_itself_behind(body: bytes):
    fast, general = SendParts(fast=True), SendParts(fast=False)
    for parts in (fast, general):
        frame = a_frame(2, body, code=RequestCode.SEND_BATCH_MESSAGE, batch=True)
        await parts.read(a_frame(1, b"before") + frame + a_frame(3, b"after"))
    assert fast.appends == 2
    assert fast.state() == general.state()


@pytest.mark.parametrize(
    "given",
    [
        {"properties": {"DELAY": "99"}},
        {"properties": {"DELAY": "3", "TIMER_DELAY_SEC": "9"}},
        {"properties": {"DELAY": "3", "REAL_TOPIC": "mine"}},
        {"properties": {"DELAY": "3"}, "sys_flag": 4},
        {"properties": {"TIMER_DELAY_MS": "0"}},
        {"properties": {"TRAN_MSG": "false"}},
        {"topic": "%RETRY%shop"},
        {"queue_id": -1},
        {"topic": "unknown"},
        {"unique": 'not "plain"'},
        {"flag": 4},
        {"properties": {"WAIT": "false"}},
    ],
)
async def test_the_first_other_send_and_all_behind_it_take_the_general_path(given: dict[str, Any]):
    parts = SendParts(fast=True)
    await parts.read(a_frame(1) + a_frame(2, **given) + a_frame(3))
    assert parts.appends == 2
    assert parts.counters.put.messages == 3
    assert bodies(parts.store)[0] == b"hello"


@pytest.mark.parametrize(
    ("properties", "sys_flag", "topic", "queue_id"),
    [
        ({"DELAY": "3"}, 0, "SCHEDULE_TOPIC_XXXX", 2),
        ({"TIMER_DELAY_MS": "5000"}, 0, "rmq_sys_wheel_timer", 0),
        ({"TIMER_DELIVER_MS": "1700000009500"}, 0, "rmq_sys_wheel_timer", 0),
        ({"TRAN_MSG": "true", "PGROUP": "shop"}, 4, "RMQ_SYS_TRANS_HALF_TOPIC", 0),
    ],
)
async def test_redirected_messages_take_the_fast_path(
    properties: dict[str, str], sys_flag: int, topic: str, queue_id: int, monkeypatch: pytest.MonkeyPatch
):
    parts = SendParts(fast=True)
    forbid_general_path(parts, monkeypatch)
    redirected = {"properties": properties, "sys_flag": sys_flag}
    await parts.read(a_frame(0) + b"".join(a_frame(n, b"%d" % n, queue_id=n, **redirected) for n in (1, 2)) + a_frame(3))
    assert parts.appends == 1
    assert bodies(parts.store) == [b"hello", b"hello"]
    assert bodies(parts.store, topic=topic, queue_id=queue_id) == [b"1", b"2"]


async def test_producers_cannot_send_to_a_topic_that_messages_are_redirected_to():
    parts = SendParts(fast=True)
    await parts.read(a_frame(1, properties={"DELAY": "1"}) + a_frame(2, topic="SCHEDULE_TOPIC_XXXX"))
    assert [answer.code for answer in answers(parts)] == [0, ResponseCode.NO_PERMISSION]


async def test_a_broker_that_rejects_transactions_rejects_them_on_the_fast_path_too():
    parts = SendParts(fast=True)
    await parts.read(a_frame(1, properties={"TRAN_MSG": "true"}))
    parts.settings = replace(parts.settings, reject_transactions=True)
    await parts.read(a_frame(2, properties={"TRAN_MSG": "true"}))
    assert [answer.code for answer in answers(parts)] == [0, ResponseCode.NO_PERMISSION]


# --- transactions


def a_half(number: int, body: bytes = b"half", **given: Any) -> bytes:
    return a_frame(number, body, properties={"TRAN_MSG": "true", "PGROUP": "shop"} | given.pop("properties", {}), **given)


def an_end(half: Command, *, outcome: int = TRANSACTION_COMMIT, flag: int = ONEWAY_FLAG, **given: Any) -> bytes:
    """Return a frame that ends the transaction of the half message that `half` answers."""
    sent = half.header(SendMessageResponseHeader)
    place = decode_offset_id(sent.msg_id).physical_offset
    known = {"producer_group": "shop", "tran_state_table_offset": sent.queue_offset, "commit_log_offset": place}
    header = EndTransactionRequestHeader(**known | {"commit_or_rollback": outcome, "msg_id": "id"} | given)
    return encode_command(Command(RequestCode.END_TRANSACTION, fields=header.to_fields(), flag=flag, opaque=half.opaque))


async def halves(parts: SendParts, count: int, padding: bytes = b"", **given: Any) -> list[Command]:
    """Send half messages like one that was committed before, and return the answers."""
    await parts.read(a_half(0, b"first", **given))
    await parts.read(an_end(answers(parts)[0]))
    await parts.read(b"".join([a_half(number, b"half %d" % number + padding, **given) for number in range(1, count + 1)]))
    return answers(parts)[1:]


async def test_ends_between_sends_go_into_the_same_append(monkeypatch: pytest.MonkeyPatch):
    parts = SendParts(fast=True)
    one, two, three = await halves(parts, 3)
    forbid_general_path(parts, monkeypatch)
    parts.appends = 0
    rollback = an_end(two, outcome=TRANSACTION_ROLLBACK)
    await parts.read(an_end(one) + a_frame(8, b"8") + rollback + a_frame(9, b"9") + an_end(three))
    assert parts.appends == 1
    assert bodies(parts.store) == [b"first", b"half 1", b"8", b"9", b"half 3"]
    assert parts.checks.ops.waiting() == [0, 1, 2, 3]


async def test_a_full_op_message_goes_into_the_same_append_behind_the_committed_messages():
    parts = SendParts(fast=True)
    several = await halves(parts, 3)
    parts.appends = 0
    parts.settings = replace(parts.settings, transaction_op_bytes_max=6)
    await parts.read(b"".join(map(an_end, several)) + a_frame(9, b"9"))
    assert parts.appends == 1
    assert parts.checks.ops.waiting() == []
    (op,) = read_queue(parts.store, OP_TOPIC)
    assert op.body == b"0,1,2,3,"
    assert op.physical_offset > read_queue(parts.store)[-1].physical_offset


@pytest.mark.parametrize(
    "given",
    [
        {"producer_group": "other"},
        {"tran_state_table_offset": 99},
        {"commit_log_offset": 1 << 40},
        {"commit_log_offset": -1},
        {"commit_log_offset": 5},
        {"outcome": 4},
    ],
)
async def test_an_end_that_does_not_match_its_half_message_ends_nothing(given: dict[str, Any], caplog: pytest.LogCaptureFixture):
    parts = SendParts(fast=True)
    (one,) = await halves(parts, 1)
    await parts.read(an_end(one, **given) + a_frame(9, b"9"))
    assert bodies(parts.store) == [b"first", b"9"]
    assert parts.checks.ops.waiting() == [0]
    assert "not accepted" in caplog.text


async def test_an_end_of_a_copied_half_message_takes_the_general_path():
    parts = SendParts(fast=True)
    one, two = await halves(parts, 2)
    parts.checks.copies.add(1, 2)  # as if the second were a copy of the first
    await parts.read(an_end(two))
    await parts.read(an_end(one))
    assert bodies(parts.store) == [b"first", b"half 2"], "one message, with one end"


async def test_a_read_event_of_one_end_stores_the_committed_message():
    parts = SendParts(fast=True)
    (one,) = await halves(parts, 1)
    await parts.read(an_end(one))
    assert bodies(parts.store) == [b"first", b"half 1"]


async def test_sends_and_committed_messages_of_one_queue_have_consecutive_offsets():
    parts = SendParts(fast=True)
    one, two = await halves(parts, 2, queue_id=3)
    sent = [a_frame(number, b"%d" % number, queue_id=3) for number in (7, 8)]
    await parts.read(an_end(one) + sent[0] + an_end(two) + sent[1])
    assert [(record.queue_offset, record.body) for record in read_queue(parts.store, queue_id=3)] == [
        (0, b"first"),
        (1, b"half 1"),
        (2, b"7"),
        (3, b"half 2"),
        (4, b"8"),
    ]


async def test_a_committed_message_that_does_not_fit_into_the_segment_goes_into_the_next():
    parts = SendParts(fast=True)
    (one,) = await halves(parts, 1, padding=bytes(3000))
    while parts.store.log.room_bytes() > 2000:
        await parts.read(a_frame(9, bytes(min(parts.store.log.room_bytes() - 1000, 3000))))
    segments = len(parts.store.log.segments.starts)
    await parts.read(an_end(one))
    assert len(parts.store.log.segments.starts) == segments + 1
    assert bodies(parts.store)[-1] == b"half 1" + bytes(3000)


async def test_a_full_disk_ends_no_transaction(caplog: pytest.LogCaptureFixture):
    disk = SimulatedDisk()
    parts = SendParts(fast=True, disk=disk)
    one, two = await halves(parts, 2)
    disk.fail("write", lasting=True)
    parts.connection.data_received(an_end(one) + an_end(two, outcome=TRANSACTION_ROLLBACK))
    disk.heal()
    assert "not accepted" in caplog.text
    assert bodies(parts.store) == [b"first"]
    await parts.read(an_end(one))
    assert bodies(parts.store) == [b"first", b"half 1"]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_append_with_ends_leaves_no_garbage_for_the_collector(is_stored: bool):
    disk = SimulatedDisk()
    parts = SendParts(fast=True, disk=disk)
    (one,) = await halves(parts, 1)
    gc.collect()
    gc.disable()
    try:
        if not is_stored:
            disk.fail("write", lasting=True)
        parts.connection.data_received(an_end(one) + a_frame(9))
        await asyncio.sleep(0)
        assert not [found for found in gc.get_objects() if isinstance(found, SendBatch)]
    finally:
        gc.enable()
        disk.heal()


async def test_an_end_that_is_not_oneway_takes_the_general_path():
    parts = SendParts(fast=True)
    one, two = await halves(parts, 2)
    before = len(answers(parts))
    await parts.read(a_frame(5) + an_end(one, flag=0) + an_end(two))
    assert [(answer.opaque, answer.code) for answer in answers(parts)[before:]] == [(5, 0), (one.opaque, 0)]
    assert bodies(parts.store) == [b"first", b"hello", b"half 1", b"half 2"]


# --- answers


async def test_with_sync_flush_all_answers_leave_after_the_flush():
    parts = SendParts(fast=True, sync_flush=True)
    parts.connection.data_received(a_frame(1) + a_frame(2))
    assert parts.transport.written == b""
    parts.store.flush()
    parts.answers.release()
    await asyncio.sleep(0)
    assert [(answer.opaque, answer.code) for answer in answers(parts)] == [(1, 0), (2, 0)]


async def test_a_late_flush_is_answered_with_flush_disk_timeout_for_each_send():
    parts = SendParts(fast=True, sync_flush=True)
    parts.connection.data_received(a_frame(1) + a_frame(2))
    parts.answers.check_time(parts.now_ms + 60_000)
    await asyncio.sleep(0)
    late = ResponseCode.FLUSH_DISK_TIMEOUT
    assert [(answer.opaque, answer.code) for answer in answers(parts)] == [(1, late), (2, late)]


@pytest.mark.parametrize("fast", [True, False])
async def test_while_too_many_answers_wait_sends_are_refused_and_not_stored(fast: bool):
    parts = SendParts(fast=fast, sync_flush=True)
    parts.answers._parked._answers_max = 1 if fast else 2  # the general path parks each answer of a read event
    parts.connection.data_received(a_frame(1) + a_frame(2))
    stored = parts.store.log.end
    parts.connection.data_received(a_frame(3) + a_frame(4))
    await asyncio.sleep(0)
    assert parts.store.log.end == stored
    assert [(answer.opaque, answer.code) for answer in answers(parts)] == [
        (3, ResponseCode.SYSTEM_BUSY),
        (4, ResponseCode.SYSTEM_BUSY),
    ]
    await parts.read(b"")
    assert [(answer.opaque, answer.code) for answer in answers(parts)[2:]] == [(1, 0), (2, 0)]
    await parts.read(a_frame(5))
    assert answers(parts)[-1].code == 0


def reachable_bytes(given: object) -> list[bytes]:
    """Return the bytes objects that `given` keeps alive, except through connections, classes and modules."""
    found: dict[int, object] = {}
    left = [given]
    while left:
        one = left.pop()
        if id(one) in found or isinstance(one, Connection | type | ModuleType):
            continue
        found[id(one)] = one
        left += (one.__closure__ or ()) if isinstance(one, FunctionType) else gc.get_referents(one)
    return [one for one in found.values() if isinstance(one, bytes)]


@pytest.mark.parametrize("fast", [True, False])
async def test_a_parked_answer_keeps_nothing_of_its_messages_in_memory(fast: bool):
    parts = SendParts(fast=fast, sync_flush=True)
    parts.connection.data_received(a_frame(1, bytes(3_000)) + a_frame(2, bytes(3_000)))
    parked = list(parts.answers._parked._parked)
    assert parked
    assert sum(map(len, reachable_bytes(parked))) < 1_000


async def test_a_full_disk_is_answered_for_each_send_and_nothing_is_stored():
    disk = SimulatedDisk()
    parts = SendParts(fast=True, disk=disk)
    await parts.read(a_frame(0))
    disk.fail("write", lasting=True)
    parts.connection.data_received(a_frame(1) + a_frame(2))
    disk.heal()
    await parts.read(a_frame(3, b"after"))
    assert [answer.code == 0 for answer in answers(parts)] == [True, False, False, True]
    assert bodies(parts.store) == [b"hello", b"after"]


async def test_changed_settings_and_topics_take_effect_at_once():
    parts = SendParts(fast=True)
    await parts.read(a_frame(1))
    parts.topics.delete("orders")
    parts.settings = replace(parts.settings, auto_create_topic=False)
    await parts.read(a_frame(2))
    assert [answer.code for answer in answers(parts)] == [0, ResponseCode.TOPIC_NOT_EXIST]


async def test_the_cache_of_profiles_is_bounded():
    parts = SendParts(fast=True, segment_bytes=1024 * 1024)
    for n in range(2000):
        parts.connection.data_received(a_frame(n, b"", properties={"number": str(n)}))
    assert len(parts.fast_path._profiles) <= 1024


async def test_frames_that_arrive_in_pieces_are_stored_once_and_in_order():
    parts = SendParts(fast=True)
    stream = b"".join(a_frame(n, b"%d" % n) for n in range(30))
    for at in range(0, len(stream), 997):
        await parts.read(stream[at : at + 997])
    assert bodies(parts.store) == [b"%d" % n for n in range(30)]


# --- the leader of a DLedger group


@pytest.mark.parametrize("serialization", list(Serialization))
async def test_sends_to_the_leader_of_a_group_take_the_fast_path_and_become_entries(
    serialization: Serialization, monkeypatch: pytest.MonkeyPatch
):
    parts = SendParts(fast=True, leads=True)
    forbid_general_path(parts, monkeypatch)
    sent = [a_frame(1, b"one", serialization=serialization), a_batch(2, [b"two", b"three"], serialization=serialization)]
    await parts.read(b"".join(sent))
    assert parts.appends == 1
    assert isinstance(parts.store, LedgerStore)
    entries = [unpack_header(parts.store.entry(index) or b"") for index in range(3)]
    records = [decode_record((parts.store.entry(index) or b"")[HEADER_BYTES:]) for index in range(3)]
    assert [(entry.index, entry.term) for entry in entries if entry is not None] == [(0, 3), (1, 3), (2, 3)]
    places = [record.physical_offset for record in records]
    assert places == [entry.pos + HEADER_BYTES for entry in entries if entry is not None]
    assert [record.body for record in records] == [b"one", b"two", b"three"]
    ids = [answer.header(SendMessageResponseHeader).msg_id.split(",") for answer in answers(parts)]
    assert [[int(one[-16:], 16) for one in of_answer] for of_answer in ids] == [places[:1], places[1:]]
    assert bodies(parts.store) == [b"one", b"two", b"three"]


async def test_an_answer_of_a_group_waits_for_the_majority():
    parts = SendParts(fast=True, leads=True)
    parts.connection.data_received(a_frame(1))
    parts.store.flush()
    parts.answers.release()
    assert answers(parts) == []
    parts.confirm()
    assert [answer.code for answer in answers(parts)] == [0]


async def test_a_node_that_does_not_lead_refuses_sends_and_stores_nothing():
    parts = SendParts(fast=True, leads=True)
    assert isinstance(parts.store, LedgerStore)
    parts.store.refuse_appends("[PC_SYNCHRONIZED]broker busy: node n0 does not lead it.")
    await parts.read(a_frame(1))
    assert [(answer.code, answer.remark) for answer in answers(parts)] == [
        (ResponseCode.SYSTEM_BUSY, "[PC_SYNCHRONIZED]broker busy: node n0 does not lead it.")
    ]
    assert parts.store.end_index == -1
