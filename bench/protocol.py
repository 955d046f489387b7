"""Cost of the protocol per message: bytes to values and back, with the headers that Apache's producer sends."""

from __future__ import annotations

from functools import partial

from bench import Benchmark
from skyrocket.protocol import sysflag
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.language import Language
from skyrocket.protocol.message.batch import BatchEntry, batch_records, decode_batch, encode_batch, encode_batch_records
from skyrocket.protocol.message.compression import compress, decompress
from skyrocket.protocol.message.message_id import UniqueIdFactory, encode_offset_id
from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.message.record import Record, body_crc32, decode_record, encode_record, iterate_records
from skyrocket.protocol.message.tags import java_hash, tags_code

BATCH = 32
BODY = bytes(range(256)) * 4
NOW_MS = 1_794_725_517_342
HOST = pack_host("127.0.0.1", 10_911)
PROPERTIES = {
    "KEYS": "key-0",
    "UNIQ_KEY": "FD0000000000000000000000000000020A2E1DBD16A64992301D0000",
    "WAIT": "true",
    "TAGS": "TagA",
    "n": "0",
}
ENCODED_PROPERTIES = encode_properties(PROPERTIES)


def send_frame(serialization: Serialization) -> bytes:
    header = SendMessageRequestHeaderV2(
        producer_group="GoldenProducers",
        topic="GoldenTopic",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=0,
        born_timestamp=NOW_MS,
        flag=0,
        properties=ENCODED_PROPERTIES.decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name="broker-a",
    )
    command = Command(310, opaque=11, fields=header.to_fields(), body=BODY, language=Language.JAVA, serialization=serialization)
    return encode_command(command)


JSON_SENDS = send_frame(Serialization.JSON) * BATCH
BINARY_SENDS = send_frame(Serialization.ROCKETMQ) * BATCH
(REQUEST,) = CommandDecoder().feed(send_frame(Serialization.JSON))
(BINARY_REQUEST,) = CommandDecoder().feed(send_frame(Serialization.ROCKETMQ))

RECORD = Record(
    topic="GoldenTopic",
    body=BODY,
    properties=ENCODED_PROPERTIES,
    queue_id=1,
    born_timestamp=NOW_MS,
    born_host=HOST,
    store_timestamp=NOW_MS,
    store_host=HOST,
)
ENCODED_RECORD = encode_record(RECORD)
PULLED = ENCODED_RECORD * BATCH
ENTRIES = [BatchEntry(BODY, ENCODED_PROPERTIES)] * BATCH
BATCH_BODY = encode_batch(ENTRIES)
IDS = UniqueIdFactory(bytes((127, 0, 0, 1)), 4321, 0xCAFEBABE)
BODY_4K = (b"a message that is worth compressing, " * 128)[:4096]


def decode_frames(data: bytes) -> None:
    CommandDecoder().feed(data)


def decode_frames_typed(data: bytes) -> None:
    for command in CommandDecoder().feed(data):
        command.header(SendMessageRequestHeaderV2)


def send_response(request: Command) -> bytes:
    header = SendMessageResponseHeader(
        msg_id=encode_offset_id(HOST, 123_456_789),
        queue_id=1,
        queue_offset=1000,
        transaction_id=PROPERTIES["UNIQ_KEY"],
        region_id="DefaultRegion",
        trace_on=True,
    )
    return encode_command(request.response(0, header))


TYPED = "1.2–1.6 (typed header alone)"
OBJECTS = "1.2–3.4 (decode to objects)"
KINDS = {"LZ4": sysflag.COMPRESSION_LZ4, "zstd": sysflag.COMPRESSION_ZSTD, "zlib": sysflag.COMPRESSION_ZLIB}

BENCHMARKS = [
    Benchmark("decode send frame, JSON, command only", partial(decode_frames, JSON_SENDS), BATCH),
    Benchmark("decode send frame, JSON, typed header", partial(decode_frames_typed, JSON_SENDS), BATCH),
    Benchmark("decode send frame, binary, command only", partial(decode_frames, BINARY_SENDS), BATCH),
    Benchmark("decode send frame, binary, typed header", partial(decode_frames_typed, BINARY_SENDS), BATCH),
    Benchmark("typed send header alone, JSON", partial(REQUEST.header, SendMessageRequestHeaderV2), 1, TYPED),
    Benchmark("encode send response, JSON", partial(send_response, REQUEST)),
    Benchmark("encode send response, binary", partial(send_response, BINARY_REQUEST)),
    Benchmark("encode record, 1 KiB", partial(encode_record, RECORD)),
    Benchmark("decode record, 1 KiB", partial(decode_record, ENCODED_RECORD), 1, OBJECTS),
    Benchmark("decode record, 1 KiB, CRC unchecked", partial(decode_record, ENCODED_RECORD, check_crc=False), 1, OBJECTS),
    Benchmark("decode a pull of 32 × 1 KiB", lambda: list(iterate_records(PULLED)), BATCH, OBJECTS),
    Benchmark("decode a batch of 32 × 1 KiB", partial(decode_batch, BATCH_BODY), BATCH),
    Benchmark("batch of 32 × 1 KiB to record objects", lambda: batch_records(decode_batch(BATCH_BODY), RECORD), BATCH),
    Benchmark("batch of 32 × 1 KiB to record bytes", lambda: encode_batch_records(decode_batch(BATCH_BODY), RECORD), BATCH),
    Benchmark("encode a batch of 32 × 1 KiB", partial(encode_batch, ENTRIES), BATCH),
    Benchmark("decode properties (5)", partial(decode_properties, ENCODED_PROPERTIES)),
    Benchmark("encode properties (5)", partial(encode_properties, PROPERTIES)),
    Benchmark("CRC-32, 1 KiB", partial(body_crc32, BODY), 1, "0.8"),
    Benchmark("tag hash, seen before", partial(tags_code, "TagA")),
    Benchmark("tag hash, new, 4 characters", partial(java_hash, "TagA")),
    Benchmark("unique id", partial(IDS.next, NOW_MS)),
    Benchmark("offset id", partial(encode_offset_id, HOST, 123_456_789)),
    *(Benchmark(f"compress 4 KiB, {name}", partial(compress, BODY_4K, kind)) for name, kind in KINDS.items()),
    *(Benchmark(f"decompress 4 KiB, {name}", partial(decompress, compress(BODY_4K, kind), kind)) for name, kind in KINDS.items()),
]
