"""Records become columns in the types that Spark accepts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from skyrocket.columnar.rows import ChecksumScope, RecordRows, find_record_starts
from skyrocket.protocol.errors import CompressionError
from skyrocket.protocol.hosts import host_text
from skyrocket.protocol.message.compression import compress, decompress
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import MAGIC_V2, Record, encode_record
from skyrocket.protocol.sysflag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD
from skyrocket.spark.columns import COLUMNS, arrow_schema
from skyrocket.spark.fetch.record_batches import BatchMaker, has_sound_body

V4, V6 = b"\x7f\0\0\1\0\0\x1f\x90", bytes(15) + b"\1\0\0\x1f\x90"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(records: list[Record], between: bytes = b"an answer's header") -> RecordRows:
    """Lay records out as in a receive buffer: with other bytes between them, and unrelated physical offsets."""
    data, starts = bytearray(), []
    for record in records:
        data += between
        starts.append(len(data))
        data += encode_record(record)
    return RecordRows(np.frombuffer(data + bytes(200), np.uint8), None, np.array(starts, np.int64), ChecksumScope.BODY)


def message(number: int, **given: object) -> Record:
    properties = encode_properties({"TAGS": f"t{number}", "KEYS": f"a{number} b", "UNIQ_KEY": f"{number:032X}", "colour": "blå"})
    every = {
        "topic": "space%orders",
        "body": f"body {number}".encode(),
        "properties": properties,
        "queue_id": 3,
        "queue_offset": 100 + number,
        "physical_offset": 7_000 - number * 300,
        "born_timestamp": 1_700_000_000_123 + number,
        "store_timestamp": 1_700_000_000_456 + number,
        "born_host": V4,
        "store_host": V4,
        "reconsume_times": number,
        "sys_flag": 0,
        **given,
    }
    return Record(**every)  # type: ignore[arg-type]


def at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def test_every_column_has_the_value_of_the_record():
    records = [message(number) for number in range(3)]
    maker = BatchMaker(list(COLUMNS), topic="orders", broker="broker-a")
    batch = maker.batch(rows_of(records))
    assert batch.schema == arrow_schema(list(COLUMNS))
    batch.validate(full=True)
    for number, (row, record) in enumerate(zip(batch.to_pylist(), records, strict=True)):
        properties = dict(row.pop("properties"))
        assert properties == {"TAGS": f"t{number}", "KEYS": f"a{number} b", "UNIQ_KEY": f"{number:032X}", "colour": "blå"}
        assert row == {
            "topic": "orders",
            "broker": "broker-a",
            "queueId": 3,
            "queueOffset": record.queue_offset,
            "physicalOffset": record.physical_offset,
            "storeTimestamp": at(record.store_timestamp),
            "bornTimestamp": at(record.born_timestamp),
            "bornHost": host_text(V4),
            "msgId": f"{number:032X}",
            "tags": f"t{number}",
            "keys": [f"a{number}", "b"],
            "body": record.body,
            "reconsumeTimes": number,
            "sysFlag": record.sys_flag,
        }


@pytest.mark.parametrize("count", [0, 1, 5])
def test_each_column_can_be_requested_alone(count: int):
    rows = rows_of([message(number) for number in range(count)]) if count else rows_of([message(0)])
    if not count:
        rows.cut(0)
    for name in COLUMNS:
        batch = BatchMaker([name], topic="orders", broker="b").batch(rows)
        assert (batch.num_rows, batch.schema) == (count, arrow_schema([name]))


def test_without_constants_a_row_has_its_own_topic_and_no_broker():
    (row,) = BatchMaker(["topic", "broker"]).batch(rows_of([message(1)])).to_pylist()
    assert row == {"topic": "space%orders", "broker": None}


def test_records_of_different_layouts_are_decoded_together():
    records = [
        message(0),
        message(1, properties=b""),
        message(2, magic=MAGIC_V2),
        message(3, born_host=V6, store_host=V6),
        message(4),
    ]
    batch = BatchMaker(["tags", "keys", "bornHost", "queueOffset", "properties"]).batch(rows_of(records))
    assert batch["tags"].to_pylist() == ["t0", None, "t2", "t3", "t4"]
    assert batch["keys"].to_pylist() == [["a0", "b"], [], ["a2", "b"], ["a3", "b"], ["a4", "b"]]
    assert batch["bornHost"].to_pylist() == [host_text(each.born_host) for each in records]
    assert batch["properties"].to_pylist()[1] == []


def test_compressed_bodies_are_decompressed_and_others_unchanged():
    kinds = [COMPRESSION_LZ4, COMPRESSION_ZSTD, COMPRESSION_ZLIB]
    text = b"abc" * 1_000
    packed = [message(0, body=compress(text, kind), sys_flag=COMPRESSED | kind) for kind in kinds]
    empty = message(1, body=b"", sys_flag=COMPRESSED)
    batch = BatchMaker(["body"]).batch(rows_of([message(2), *packed, empty]))
    assert batch["body"].to_pylist() == [b"body 2", text, text, text, b""]
    assert decompress(packed[0].body, packed[0].sys_flag) == text


def test_body_that_cannot_be_decompressed_is_an_error():
    with pytest.raises(CompressionError):
        BatchMaker(["body"]).batch(rows_of([message(0, sys_flag=COMPRESSED)]))


def test_huge_timestamps_do_not_overflow():
    batch = BatchMaker(["bornTimestamp"]).batch(rows_of([message(0, born_timestamp=2**62), message(1, born_timestamp=-(2**62))]))
    first, second = batch["bornTimestamp"].cast(pa.int64()).to_pylist()
    assert first > 0 > second


def test_changed_body_is_detected():
    rows = rows_of([message(number) for number in range(4)])
    assert has_sound_body(rows).all()
    rows.data.flags.writeable = True
    rows.data[rows.body[2]] ^= 1
    assert has_sound_body(RecordRows(rows.data, None, rows.start, ChecksumScope.BODY)).tolist() == [True, True, False, True]


def test_rows_end_before_a_record_with_wrong_lengths():
    data = bytearray(encode_record(message(0)) + encode_record(message(1)))
    packed, _ = find_record_starts(memoryview(data), 0, len(data), 10)
    starts = np.frombuffer(packed, np.int64)
    body_length_at = starts[1] + 48 + 8 + 8 + 8 + 4 + 8
    data[body_length_at : body_length_at + 4] = (10_000).to_bytes(4)
    assert len(RecordRows(np.frombuffer(data, np.uint8), None, starts)) == 1
