"""A scan into Arrow gives the same messages as reading one by one, whatever lies in the log."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from skyrocket.columnar.scan import ALL_COLUMNS, FAST_COLUMNS, LogSplit, scan, schema
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import host_text
from skyrocket.protocol.message.record import Record
from skyrocket.store.log.scan import DamagedRange, FoundRecord
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_store import OfflineStore, message_id, properties_of
from tests.support.stores.ledgers import golden_ledger
from tests.support.stores.sample_stores import (
    NOW_MS,
    SMALL,
    V4,
    V6,
    flip,
    golden_store,
    overwrite,
    sample_store,
    write_store,
)

COUNT = 200


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_store(tmp_path_factory.mktemp("store"), COUNT)


@pytest.fixture
def copy(untouched: Path, tmp_path: Path) -> Path:
    return shutil.copytree(untouched, tmp_path / "copy")


def row(found: FoundRecord) -> dict[str, Any]:
    """Convert a message to a row, field by field."""
    record = found.record
    properties = properties_of(record)
    return {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "physicalOffset": found.offset,
        "storeTimestamp": record.store_timestamp,
        "bornTimestamp": record.born_timestamp,
        "bornHost": host(record.born_host),
        "reconsumeTimes": record.reconsume_times,
        "sysFlag": record.sys_flag,
        "body": record.body,
        "msgId": message_id(record, properties),
        "tags": properties.get("TAGS"),
        "keys": [key for key in properties.get("KEYS", "").split(" ") if key],
        "properties": list(properties.items()),
    }


def host(packed: bytes) -> str | None:
    try:
        return host_text(packed)
    except RecordError:
        return None  # a port that is none


def rows(store: OfflineStore, **options: Any) -> list[dict[str, Any]]:
    options = {"columns": ALL_COLUMNS, **options}
    batches = list(scan(store, **options))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == schema(options["columns"])
    return [each for batch in batches for each in batch.to_pylist()]


def compare_readers(directory: Path, **options: Any) -> list[DamagedRange]:
    """Check that both readers return the same messages and damage. Return the damage."""
    with OfflineStore(directory) as store:
        check = options.get("check", True)
        damage: list[DamagedRange] = []
        damage_in_columns: list[DamagedRange] = []
        expected = [row(found) for found in store.records(on_damage=damage.append, check=check)]
        assert rows(store, on_damage=damage_in_columns.append, **options) == expected
        assert damage_in_columns == damage
        return damage


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("batch_rows", [1, 7, 64, 4096])
def test_every_column_of_every_message_equals_the_plain_reader(untouched: Path, batch_rows: int, check: bool):
    assert compare_readers(untouched, batch_rows=batch_rows, check=check) == []


def test_scan_of_apaches_store_equals_the_plain_reader(tmp_path: Path):
    assert compare_readers(golden_store(tmp_path)) == []


def test_scan_of_a_dledger_nodes_store_equals_the_plain_reader(tmp_path: Path):
    root = golden_ledger(tmp_path)
    for batch_rows in (7, 4096):
        assert compare_readers(root, batch_rows=batch_rows) == []
    flip(root / "dledger-n2/data/00000000000000000000", 5000)
    flip(root / "dledger-n2/data/00000000000000065536", 31)
    damage = compare_readers(root, batch_rows=50)
    assert len(damage) == 2


def test_splits_of_a_dledger_log_together_cover_it(tmp_path: Path):
    with OfflineStore(golden_ledger(tmp_path)) as store:
        every = rows(store)
        assert len(every) == 209
        places = [each["physicalOffset"] for each in every]
        for cut in (places[1], places[60], places[60] - 48, places[60] + 1, 65536, places[-1]):
            first = rows(store, split=LogSplit(0, cut))
            rest = rows(store, split=LogSplit(cut, 2**62))
            assert first + rest == every


def test_scan_returns_only_the_requested_columns(untouched: Path):
    with OfflineStore(untouched) as store:
        expected = [row(found) for found in store.records()]
        for name in ALL_COLUMNS:
            assert rows(store, columns=(name,)) == [{name: each[name]} for each in expected]
        (batch,) = scan(store)
        assert tuple(batch.schema.names) == FAST_COLUMNS
        with pytest.raises(ValueError, match="no column called colour"):
            scan(store, columns=("colour",))


def test_batches_have_a_useful_size(untouched: Path):
    with OfflineStore(untouched) as store:
        sizes = [batch.num_rows for batch in scan(store, batch_rows=50, topic="topic-1")]
        assert sum(sizes) == sum(1 for found in store.records() if found.record.topic == "topic-1")
        assert all(size == 50 for size in sizes[:-1])


def test_scan_filters_by_topic(untouched: Path):
    with OfflineStore(untouched) as store:
        for topic in ("topic-0", "topic-2", "topic", "topic-22", "", "größe"):
            assert rows(store, topic=topic) == [row(found) for found in store.records() if found.record.topic == topic]


def test_scan_filters_by_time(untouched: Path):
    with OfflineStore(untouched) as store:
        found = list(store.records())
        for begin, end in ((0, NOW_MS), (NOW_MS, NOW_MS + 1), (NOW_MS + 4_000, NOW_MS + 20_000), (NOW_MS + 30_000, 2**63 - 1)):
            expected = [row(each) for each in found if begin <= each.record.store_timestamp < end]
            assert rows(store, begin_ms=begin, end_ms=end) == expected


def test_splits_together_cover_the_log(untouched: Path):
    with OfflineStore(untouched) as store:
        starts = store.log.starts
        assert len(starts) > 3
        parts = [LogSplit(start, stop) for start, stop in zip(starts, [*starts[1:], 2**63 - 1], strict=True)]
        assert [each for part in parts for each in rows(store, split=part)] == rows(store)


def test_split_may_begin_anywhere(untouched: Path):
    with OfflineStore(untouched) as store:
        found = list(store.records())
        border = found[77].offset + 5
        assert rows(store, split=LogSplit(0, border)) + rows(store, split=LogSplit(border, 2**63 - 1)) == rows(store)


def test_properties_are_read_like_a_dict(tmp_path: Path):
    """Pieces without name or value, equal names, a missing or single separator, bytes that are not UTF-8, no properties."""
    odd = [
        b"",
        b"a\x01b",
        b"a\x01b\x02",
        b"\x02\x02",
        b"\x01b\x02a\x01\x02c\x01d\x02",
        b"a\x011\x02b\x012\x02a\x013\x02c\x014\x02b\x015",
        b"KEYS\x01 k1  k2 \x02TAGS\x01t\x02KEYS\x01k3\x02",
        b"KEYS\x01   \x02",
        b"nothing",
        b"a\x01b\x01c\x02",
        b"\xff\x01\xfe\x02UNIQ_KEY\x01\xc3\x28\x02",
        "größe\x01中文 😀\x02KEYS\x01ä ö\x02".encode(),
    ]
    records = [Record("t", b"", properties, store_host=V6 if n % 2 else V4) for n, properties in enumerate(odd * 3)]
    write_store(tmp_path, (record for record in records if is_text(record.properties)))
    compare_readers(tmp_path)
    for size in range(1, 8):
        compare_readers(tmp_path, batch_rows=size)


def is_text(properties: bytes) -> bool:
    try:
        properties.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_properties_that_are_not_text_are_replaced(copy: Path):
    (copy / "checkpoint").unlink()  # their bytes are changed here; only checksums of ours would tell
    with OfflineStore(copy) as store:
        victim = list(store.records())[50]
    path, at = segment(copy, victim.offset)
    overwrite(path, at + victim.size - 6, b"\xff\xfe")
    assert compare_readers(copy) == []


def segment(directory: Path, offset: int) -> tuple[Path, int]:
    start = offset - offset % SMALL.segment_bytes
    return directory / "commitlog" / f"{start:020d}", offset - start


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("check", [True, False])
def test_flipped_bit_anywhere_gives_the_same_result_in_both_readers(copy: Path, trusted: bool, check: bool):
    """240 positions: sizes, lengths, hosts, strings and bodies."""
    if not trusted:
        (copy / "checkpoint").unlink()
    with OfflineStore(copy) as store:
        *found, end = store.items()
        starts = [each.offset for each in found]
        random = Random(7)
        for _ in range(60):
            offset = random.randrange(end.offset)
            path, at = segment(copy, offset)
            bit = random.randrange(8)
            flip(path, at, bit)
            damage: list[DamagedRange] = []
            damage_in_columns: list[DamagedRange] = []
            begin = max(start for start in starts if start <= offset)
            before = max((start for start in starts if start < begin), default=0)
            expected = [row(each) for each in store.records(before, on_damage=damage.append, check=check)]
            assert rows(store, split=LogSplit(before, 2**63 - 1), on_damage=damage_in_columns.append, check=check) == expected
            assert damage_in_columns == damage
            flip(path, at, bit)


def test_damaged_ranges_fillers_and_missing_segments_are_reported_alike(copy: Path):
    with OfflineStore(copy) as store:
        found = list(store.records())
        starts = store.log.starts
    for number in (30, 31, 32, 70):
        path, at = segment(copy, found[number].offset)
        overwrite(path, at, b"?" * found[number].size)
    assert len(compare_readers(copy)) == 2
    (copy / "abort").touch()
    (copy / "checkpoint").unlink()
    recovering = MessageStore(copy, SMALL)
    recovering.open()
    recovering.close()
    assert len(compare_readers(copy)) == 2, "now they are fillers"
    (copy / "commitlog" / f"{starts[2]:020d}").unlink()
    assert DamagedRange(starts[2], SMALL.segment_bytes) in compare_readers(copy)


@pytest.mark.parametrize("kept", [1, 8, 50, 95])
def test_record_being_written_is_not_returned(copy: Path, kept: int):
    with OfflineStore(copy) as store:
        *_, last, end = store.items()
        data = bytes(store.log.view(last.offset, last.size) or b"")
    path, at = segment(copy, end.offset)
    overwrite(path, at, data[:kept])
    assert compare_readers(copy) == []


def test_empty_log_has_no_batches(tmp_path: Path):
    (tmp_path / "commitlog").mkdir()
    with OfflineStore(tmp_path) as store:
        assert list(scan(store)) == []
        assert store.log.starts == []


def test_batches_outlive_the_store(copy: Path):
    with OfflineStore(copy) as store:
        table = pa.Table.from_batches(scan(store))
        expected = [found.record.body for found in store.records()]
    shutil.rmtree(copy)
    assert table.column("body").to_pylist() == expected
