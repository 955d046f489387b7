"""A store directory swaps with Apache RocketMQ's: each serves what the other wrote, message for message, also after kill -9.

Apache's side is the real broker on the directory with the real Java client; ours is MessageStore.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from skyrocket.protocol import sysflag
from skyrocket.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.batch import BatchEntry, batch_records
from skyrocket.protocol.message.compression import compress, plain_body
from skyrocket.protocol.message.message_id import UniqueIdFactory, decode_offset_id
from skyrocket.protocol.message.properties import (
    DELAY_LEVEL,
    KEYS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    UNIQUE_KEY,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.system_names import SCHEDULE_TOPIC
from skyrocket.store.config import StoreConfig
from skyrocket.store.config_files import TOPICS, ConfigFiles
from skyrocket.store.errors import StoreLockedError
from skyrocket.store.files import Disk
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queue import ENTRY_BYTES
from skyrocket.store.recovery.offline_repair import OfflineRepair
from tests.support.apache.cluster import ApacheCluster, JavaProcess, NotStartedError
from tests.support.stores import kill9_writer

pytestmark = pytest.mark.interop

ROOT = Path(__file__).resolve().parents[2]
CONFIG = StoreConfig(segment_bytes=64 * 1024, queue_entries_per_file=300, index_slots=100, index_entries=400)
QUEUES = {"Orders": 4, "Bills": 2, "Sent": 4, "Batches": 1, "Paid": 1, "Late": 1}  # topic -> how many
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
BROKER_HOST = pack_host("127.0.0.1", 10911)
HOSTS = (BROKER_HOST, pack_host("10.1.2.3", 65_535), pack_host("2001:db8::7", 40_001), pack_host("::1", 1))
COMPRESSIONS = (sysflag.COMPRESSION_LZ4, sysflag.COMPRESSION_ZSTD, sysflag.COMPRESSION_ZLIB)
FAR_FUTURE_MS = 2**62


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path_factory.mktemp("apache")) as cluster:
        yield cluster


# What either side shows of a message -------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A message, as a reader sees it."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    properties: dict[str, str]

    @property
    def keys(self) -> list[str]:
        return self.properties.get(KEYS, "").split()

    @property
    def every_key(self) -> list[str]:
        return [self.properties[UNIQUE_KEY], *self.keys]

    @property
    def place(self) -> tuple[str, int, int]:
        return (self.topic, self.queue_id, self.queue_offset)


def hexed(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return data.hex() or "-"


def unhexed(digits: str) -> bytes:
    return b"" if digits == "-" else bytes.fromhex(digits)


def seen_by_java(line: list[str]) -> Seen:
    topic, *numbers, body, properties = line
    numbers[7] = numbers[9] = "0"
    fields = [unhexed(line[8]) if n == 7 else unhexed(line[10]) if n == 9 else int(number) for n, number in enumerate(numbers)]
    return Seen(unhexed(topic).decode(), *fields, unhexed(body), decode_properties(unhexed(properties)))  # type: ignore[arg-type]


def seen_by_us(data: memoryview) -> Seen:
    record = decode_record(data)
    return Seen(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.physical_offset,
        len(data),
        record.flag,
        record.sys_flag & ~sysflag.COMPRESSED,  # Java's client clears it when it unpacks a body
        record.born_timestamp,
        record.born_host,
        record.store_timestamp,
        record.store_host,
        record.reconsume_times,
        record.prepared_transaction_offset,
        plain_body(record),
        decode_properties(record.properties),
    )


def consumed_by_java(apache: ApacheCluster, topics: Iterable[str]) -> list[Seen]:
    return [seen_by_java(line) for line in apache.client.ask("consume", *map(hexed, topics))]


def consumed_by_us(store: MessageStore, topics: Iterable[str]) -> list[Seen]:
    found = []
    for topic in topics:
        for queue_id in sorted(key.queue_id for key, _ in store.queues if key.topic == topic):
            offset = 0
            while (read := store.reading.messages(topic, queue_id, offset, 64)).records:
                found += map(seen_by_us, read.records)
                offset = read.next_offset
    return found


def assert_same(found: list[Seen], expected: list[Seen]) -> None:
    """Compare message for message, in queue order."""
    for one, other in zip(
        sorted(found, key=lambda seen: seen.place), sorted(expected, key=lambda seen: seen.place), strict=False
    ):
        assert one == other
    assert len(found) == len(expected)
    queue_orders: dict[tuple[str, int], list[int]] = {}
    for seen in found:
        queue_orders.setdefault(seen.place[:2], []).append(seen.queue_offset)
    for queue, offsets in queue_orders.items():
        assert offsets == list(range(len(offsets))), f"{queue} is out of order"


def assert_found_by_key(apache: ApacheCluster, expected: list[Seen], chance: random.Random) -> None:
    """Query the broker's index by a message's own key, by a shared key, and by the unique key."""
    for seen in chance.sample([seen for seen in expected if seen.keys], 12):
        for key in seen.keys:
            same_key = [other for other in expected if other.topic == seen.topic and key in other.keys]
            assert 1 <= len(same_key) <= 64, "more than a broker gives at once"
            found = apache.client.ask("query", hexed(seen.topic), hexed(key), 0, FAR_FUTURE_MS)
            assert_same_set(map(seen_by_java, found), same_key)
        found = apache.client.ask("unique", hexed(seen.topic), seen.properties[UNIQUE_KEY].encode().hex())
        assert_same_set(map(seen_by_java, found), [seen])


def assert_found_by_our_key(store: MessageStore, expected: list[Seen]) -> None:
    for seen in expected[::10]:
        for key in (*seen.keys, seen.properties[UNIQUE_KEY]):
            same_key = [other for other in expected if other.topic == seen.topic and key in other.every_key]
            found = store.reading.query(seen.topic, key, 0, FAR_FUTURE_MS, 1000)
            assert_same_set(map(seen_by_us, found), same_key)


def assert_same_set(found: Iterable[Seen], expected: list[Seen]) -> None:
    assert sorted(found, key=lambda seen: seen.place) == sorted(expected, key=lambda seen: seen.place)


# What ours writes ---------------------------------------------------------------------------------------------------


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Writing:
    """Makes messages of every kind from a seed, and what a reader must see of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._ids = UniqueIdFactory(bytes((10, 0, seed & 255, 1)), 4711, seed, utc_offset_ms=_utc_offset_ms())
        self._count = 0

    def _properties(self) -> bytes:
        self._count += 1
        properties = {
            UNIQUE_KEY: self._ids.next(now_ms()),
            "colour": self.chance.choice(("grün", "青", "🚀")),
            "n": str(self._count),
        }
        if self.chance.random() < 0.7:
            properties[TAGS] = self.chance.choice(("red", "blå", "黄"))
        if self.chance.random() < 0.6:
            properties[KEYS] = f"own-{self._count} shared-{self._count // 40} ключ{self._count % 50}"
        return encode_properties(properties)

    def _record(self, topic: str, queue_id: int) -> Record:
        body = self.chance.randbytes(self.chance.choice((0, 1, 300, 900, 3000)))
        kind = self.chance.choice((0, 0, 0, *COMPRESSIONS))
        if kind:
            body = compress((body + "ωα".encode()) * 5, kind)
            kind |= sysflag.COMPRESSED
        return Record(
            topic=topic,
            body=body,
            properties=self._properties(),
            queue_id=queue_id,
            flag=self.chance.randint(-(2**31), 2**31 - 1),
            sys_flag=kind | (sysflag.MULTI_TAGS if self.chance.random() < 0.2 else 0),
            born_timestamp=now_ms() - self.chance.randint(0, 5000),
            born_host=self.chance.choice(HOSTS),
            store_host=self.chance.choice(HOSTS),
            reconsume_times=self.chance.choice((0, 0, 3)),
        )

    def group(self, topics: tuple[str, ...]) -> list[Record]:
        """Return messages as one read event may bring them: single ones and a batch."""
        records = []
        for _ in range(self.chance.randint(1, 12)):
            topic = self.chance.choice(topics)
            records.append(self._record(topic, self.chance.randrange(QUEUES[topic])))
        if self.chance.random() < 0.3:
            entries = [BatchEntry(self.chance.randbytes(50), self._properties(), n) for n in range(self.chance.randint(2, 9))]
            like = self._record(records[0].topic, records[0].queue_id)
            like.sys_flag = 0
            records += batch_records(entries, like)
        return records


def _utc_offset_ms() -> int:
    return time.localtime().tm_gmtoff * 1000


def append(store: MessageStore, records: list[Record]) -> list[Seen]:
    placed = store.append([append_request_of(record) for record in records], now_ms())
    return [seen_by_us(view) for place in placed if (view := store.reading.view_at(place.physical_offset)) is not None]


def put_topics(directory: Path, queues: dict[str, int] = QUEUES) -> None:
    table = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count) for topic, count in queues.items()
    }
    ConfigFiles(Disk(), str(directory / "config")).save(TOPICS, TopicConfigSerializeWrapper(topic_config_table=table))


def broker_over(apache: ApacheCluster, directory: Path, config: StoreConfig = CONFIG, **settings: object) -> JavaProcess:
    sizes = {
        "mappedFileSizeCommitLog": config.segment_bytes,
        "mappedFileSizeConsumeQueue": config.queue_entries_per_file * ENTRY_BYTES,
        "maxHashSlotNum": config.index_slots,
        "maxIndexNum": config.index_entries,
    }
    return apache.broker(directory, {**sizes, **settings})


# The tests ----------------------------------------------------------------------------------------------------------


def test_store_written_by_us_is_served_by_apache(apache: ApacheCluster, tmp_path: Path):
    topics = ["Orders", "Bills"]
    writing = Writing(1)
    store = MessageStore(tmp_path, CONFIG)
    store.open()
    expected: list[Seen] = []
    while len(expected) < 700:
        expected += append(store, writing.group(tuple(topics)))
    append(store, [delayed(b"in a second", "Late")])
    times = [expected[0].store_timestamp - 1, *(seen.store_timestamp + n for seen in expected[::70] for n in (0, 1))]
    found_by_time = [store.reading.offset_by_time("Orders", 1, moment) for moment in times]
    store.close()
    put_topics(tmp_path)
    assert len(list((tmp_path / "commitlog").iterdir())) > 5, "there must be borders to cross"
    assert len(list((tmp_path / "index").iterdir())) > 3

    broker = broker_over(apache, tmp_path)
    assert_same(consumed_by_java(apache, topics), expected)
    assert_found_by_key(apache, expected, writing.chance)
    tagged = apache.client.ask("tagged", hexed("Orders"), hexed("blå || 黄"))
    wanted = [seen for seen in expected if seen.topic == "Orders" and seen.properties.get(TAGS) in ("blå", "黄")]
    assert_same_set(map(seen_by_java, tagged), wanted)
    assert [int(offset) for (offset,) in apache.client.ask("search", hexed("Orders"), 1, *times)] == found_by_time
    (late,) = consumed_until(apache, ["Late"], bool)
    assert late.body == b"in a second"
    with pytest.raises(StoreLockedError):
        MessageStore(tmp_path, CONFIG).open()
    broker.stop()

    assert store.open().sentences() == []
    assert_same(consumed_by_us(store, topics), expected)
    assert_found_by_our_key(store, expected)
    store.close()


def delayed(body: bytes, topic: str) -> Record:
    """A record as a broker stores it for queue 0 of `topic` at the first delay level."""
    properties = {UNIQUE_KEY: "0" * 32, DELAY_LEVEL: "1", REAL_TOPIC: topic, REAL_QUEUE_ID: "0"}
    return Record(topic=SCHEDULE_TOPIC, queue_id=0, body=body, properties=encode_properties(properties), store_host=BROKER_HOST)


class Sent(NamedTuple):
    """What a producer sent, and the result that it got."""

    topic: str
    body: bytes
    properties: dict[str, str]
    unique_key: str
    queue_id: int
    queue_offset: int
    physical_offset: int  # -1: a transaction's producer is not told


def place_of(offset_id: str) -> int:
    return -1 if offset_id == "null" else decode_offset_id(offset_id).physical_offset


def send(apache: ApacheCluster, kind: str, topic: str, queue_id: int, messages: list[tuple[bytes, dict[str, str]]]) -> list[Sent]:
    given = [argument for body, own in messages for argument in (hexed(topic), hexed(body), hexed(encode_properties(own)))]
    results = apache.client.ask("send", kind, queue_id, *given)
    assert {result[0] for result in results} == {"SEND_OK"}
    if kind == "batch":
        ((_, ids, offset_ids, queue, first),) = results
        rows = [(i, o, queue, int(first) + n) for n, (i, o) in enumerate(zip(ids.split(","), offset_ids.split(","), strict=True))]
    else:
        rows = [(i, o, queue, int(offset)) for _, i, o, queue, offset in results]
    return [
        Sent(topic, body, own, unique, int(queue), offset, place_of(offset_id))
        for (body, own), (unique, offset_id, queue, offset) in zip(messages, rows, strict=True)
    ]


def sent_by_java(apache: ApacheCluster, chance: random.Random) -> list[Sent]:
    """Send single messages to every queue, a compressed one, and batches, enough for several segments."""

    def message(n: int, size: int) -> tuple[bytes, dict[str, str]]:
        return chance.randbytes(size), {TAGS: "röt", KEYS: f"key-{n} shared", "who": "Żółw 🐢"}

    sent = []
    for queue_id in range(QUEUES["Sent"]):
        sent += send(apache, "one", "Sent", queue_id, [message(n, size) for n, size in enumerate((10, 1, 700, 9000, 30_000))])
        sent += send(apache, "one", "Sent", queue_id, [(b"again and again " * 1000, {})])
    for count in (2, 40):
        sent += send(apache, "batch", "Batches", 0, [message(n, 200) for n in range(count)])
    return sent


def assert_ours_has(store: MessageStore, sent: Iterable[Sent]) -> None:
    """Check each message at its acknowledged offset: body, properties and unique key; and find it by key."""
    for told in sent:
        (data,) = store.reading.messages(told.topic, told.queue_id, told.queue_offset, 1).records
        seen = seen_by_us(data)
        assert seen.body == told.body
        assert seen.physical_offset == told.physical_offset
        assert seen.properties.items() >= {UNIQUE_KEY: told.unique_key, **told.properties}.items()
        for key in [told.unique_key, *told.properties.get(KEYS, "").split()]:
            found = [seen_by_us(view) for view in store.reading.query(told.topic, key, 0, FAR_FUTURE_MS, 1000)]
            assert seen in found, f"the index does not find {key}"
            assert all(key in other.every_key for other in found)


def test_store_passes_between_apache_and_us_and_survives_the_kill_of_either(apache: ApacheCluster, tmp_path: Path):
    chance = random.Random(2)
    topics = ["Sent", "Batches", "Paid"]
    put_topics(tmp_path)
    broker = broker_over(apache, tmp_path)
    sent = sent_by_java(apache, chance)
    (late,) = send(apache, "one", "Sent", 0, [(b"in two hours", {DELAY_LEVEL: "18", KEYS: "late"})])
    halves = [
        half
        for kind in ("commit", "rollback", "unknown")
        for half in send(apache, kind, "Paid", -1, [(f"{kind} me".encode(), {KEYS: kind})])
    ]
    seen_while_apache_ran = consumed_until(apache, topics, lambda seen: any(message.topic == "Paid" for message in seen))
    broker.stop()

    store = MessageStore(tmp_path, CONFIG)
    assert store.open().sentences() == []
    assert_same(consumed_by_us(store, topics), seen_while_apache_ran)
    assert_ours_has(store, sent)
    (waiting,) = [seen for seen in consumed_by_us(store, [SCHEDULE_TOPIC]) if seen.properties[UNIQUE_KEY] == late.unique_key]
    assert (waiting.body, waiting.physical_offset, waiting.queue_id) == (late.body, late.physical_offset, 17)
    by_half = {seen.properties[UNIQUE_KEY]: seen for seen in consumed_by_us(store, [HALF_TOPIC])}
    assert [by_half[half.unique_key].body for half in halves] == [b"commit me", b"rollback me", b"unknown me"]
    assert [seen.body for seen in consumed_by_us(store, ["Paid"])] == [b"commit me"]

    ours: list[Seen] = []
    writing = Writing(3)
    while len(ours) < 150:
        ours += append(store, writing.group(("Sent", "Batches")))
    store.close()

    broker = broker_over(apache, tmp_path)
    assert_same(consumed_by_java(apache, topics), seen_while_apache_ran + ours)
    assert_found_by_key(apache, ours, chance)
    more = sent_by_java(apache, chance)
    broker.kill()

    assert (tmp_path / "abort").exists()
    recovered = store.open()
    assert recovered.after_crash
    assert not recovered.set_aside
    assert_ours_has(store, sent + more)
    found = {seen.place: seen for seen in consumed_by_us(store, topics)}
    for seen in seen_while_apache_ran + ours:
        assert found[seen.place] == seen
    store.close()


def consumed_until(apache: ApacheCluster, topics: list[str], is_enough: Callable[[list[Seen]], bool]) -> list[Seen]:
    """Consume until enough. A committed message reaches its queue shortly after the producer gets its result."""
    deadline = time.monotonic() + 30
    while not is_enough(seen := consumed_by_java(apache, topics)):
        assert time.monotonic() < deadline, "the message that was waited for did not come"
        time.sleep(0.1)
    return seen


KILLED_TOPICS = {"orders": kill9_writer.QUEUES, "bills": kill9_writer.QUEUES}


@pytest.mark.parametrize("seed", [11, 12])
def test_messages_acknowledged_before_kill_9_are_served_by_apache(apache: ApacheCluster, tmp_path: Path, seed: int):
    put_topics(tmp_path, KILLED_TOPICS)
    began_ms = now_ms()
    acknowledged = acknowledged_before_kill(tmp_path, seed, began_ms)

    broker = broker_over(apache, tmp_path, kill9_writer.CONFIG)
    served = {seen.place: seen for seen in consumed_by_java(apache, KILLED_TOPICS)}
    attempted = {}
    for attempt in islice(kill9_writer.attempts(seed, began_ms, tuple(KILLED_TOPICS)), len(served)):
        for record in attempt.records:
            attempted[decode_properties(record.properties)[UNIQUE_KEY]] = record
    for seen in served.values():
        record = attempted[seen.properties[UNIQUE_KEY]]
        assert (seen.topic, seen.queue_id, seen.body, seen.flag) == (record.topic, record.queue_id, record.body, record.flag)
        assert seen.properties == decode_properties(record.properties)
    for number, place, physical_offset in acknowledged:
        assert place in served, f"message {number} was acknowledged and is gone"
        assert (served[place].physical_offset, served[place].flag) == (physical_offset, number)
    broker.kill()

    store = MessageStore(tmp_path, kill9_writer.CONFIG)
    store.open()
    assert_same(consumed_by_us(store, KILLED_TOPICS), list(served.values()))
    store.close()


def acknowledged_before_kill(directory: Path, seed: int, began_ms: int) -> list[tuple[int, tuple[str, int, int], int]]:
    """Return (number, place, physical offset) of what a writer acknowledged before it was killed, after the 600th message."""
    arguments = [str(directory), str(seed), str(began_ms), *KILLED_TOPICS]
    command = [sys.executable, "-m", "tests.support.stores.kill9_writer", *arguments]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert writer.stdout is not None
    try:
        lines = list(islice(writer.stdout, 600))
        time.sleep(random.Random(seed).uniform(0, 0.2))
    finally:
        writer.kill()
        lines += writer.communicate()[0].splitlines(keepends=True)
    assert writer.returncode == -signal.SIGKILL
    acks = [line.decode().split() for line in lines if line.startswith(b"ack ") and line.endswith(b"\n")]
    assert len(acks) > 500
    return [(int(n), (topic, int(queue), int(offset)), int(at)) for _, n, topic, queue, offset, at, _crc in acks]


def test_apache_serves_messages_behind_damage_that_we_set_aside(apache: ApacheCluster, tmp_path: Path):
    writing = Writing(4)
    store = MessageStore(tmp_path, CONFIG)
    store.open()
    expected: list[Seen] = []
    while len(expected) < 60 or store.log.end % CONFIG.segment_bytes < 20_000:
        expected += append(store, writing.group(("Orders", "Bills")))
    store.close()
    put_topics(tmp_path)
    lost = next(seen for seen in expected if seen.physical_offset > store.log.end - 15_000 and len(seen.body) > 100)
    segment = lost.physical_offset - lost.physical_offset % CONFIG.segment_bytes
    with (tmp_path / "commitlog" / f"{segment:020d}").open("r+b") as log:
        log.seek(lost.physical_offset - segment + 150)
        log.write(b"\xff\x00\xff\x00")
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    recovered = store.open()
    assert [(damage.offset, damage.size) for damage in recovered.set_aside] == [(lost.physical_offset, lost.size)]
    expected += append(store, writing.group(("Orders", "Bills")))
    store.close()

    broker = broker_over(apache, tmp_path)
    served = {seen.place: seen for seen in consumed_by_java(apache, ["Orders", "Bills"])}
    broker.kill()
    assert served == {seen.place: seen for seen in expected if seen != lost}


def test_apache_serves_a_store_whose_queues_and_index_we_repaired_and_keeps_the_repair_out_while_it_runs(
    apache: ApacheCluster, tmp_path: Path
):
    topics = ["Orders", "Bills"]
    writing = Writing(5)
    store = MessageStore(tmp_path, CONFIG)
    store.open()
    expected: list[Seen] = []
    while len(expected) < 200:
        expected += append(store, writing.group(tuple(topics)))
    store.close()
    put_topics(tmp_path)
    for path in sorted((tmp_path / "consumequeue" / "Orders").rglob("*")):
        if path.is_file():
            path.write_bytes(bytes(path.stat().st_size))
    repair = OfflineRepair(tmp_path)
    repair.run("now")

    broker = broker_over(apache, tmp_path)
    assert_same(consumed_by_java(apache, topics), expected)
    assert_found_by_key(apache, expected, writing.chance)
    with pytest.raises(StoreLockedError, match="Stop it first"):
        repair.check_unused()
    broker.stop()
    repair.check_unused()


def test_apache_does_not_start_on_a_store_that_we_have_open(apache: ApacheCluster, tmp_path: Path):
    writing = Writing(5)
    store = MessageStore(tmp_path, CONFIG)
    store.open()
    expected = append(store, writing.group(("Orders",)))
    with pytest.raises(NotStartedError, match="Lock failed"):
        broker_over(apache, tmp_path)
    expected += append(store, writing.group(("Orders",)))
    store.close()
    assert store.open().sentences() == []
    assert_same(consumed_by_us(store, ["Orders"]), expected)
    store.close()
