"""Which rows share a request, and which have their own."""

from __future__ import annotations

import pytest

from skyrocket.client.producer.compression import Compression
from skyrocket.client.producer.queue_selection import by_hash
from skyrocket.client.queues import Queue
from skyrocket.protocol.message.batch import BatchEntry, decode_batch
from skyrocket.protocol.message.compression import decompress
from skyrocket.protocol.requests import RequestCode
from skyrocket.spark.sink import packing as packing_module
from skyrocket.spark.sink.packing import Packing, SinkRequest
from skyrocket.spark.sink.rows import SinkRows

QUEUES = {topic: [Queue(topic, "a", number) for number in range(4)] for topic in ("t", "u", "%RETRY%g")}
BATCH, ALONE = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2


def rows(*bodies: bytes, topics: list[str] | None = None, sharding: list | None = None, delayed: list | None = None) -> SinkRows:
    texts = [b"N\x01%d\x02" % number for number in range(len(bodies))]
    return SinkRows(topics or ["t"] * len(bodies), list(bodies), texts, sharding, delayed)


def pack(
    *some: SinkRows, bytes_max: int = 10_000, messages_max: int = 100, compression: Compression | None = None
) -> list[SinkRequest]:
    packing = Packing(bytes_max, messages_max, compression or Compression(None))
    found = [request for each in some for request in packing.add(each, QUEUES.__getitem__)]
    return [*found, *packing.rest()]


def entries(request: SinkRequest) -> list[bytes]:
    assert request.outgoing.code == BATCH
    return [entry.body for entry in decode_batch(request.outgoing.body)]


def test_rows_of_one_topic_share_a_request():
    (request,) = pack(rows(b"a", b"b"), rows(b"c"))
    assert (request.outgoing.topic, request.queue, request.is_ordered) == ("t", None, False)
    assert decode_batch(request.outgoing.body) == [
        BatchEntry(b"a", b"N\x010\x02"),
        BatchEntry(b"b", b"N\x011\x02"),
        BatchEntry(b"c", b"N\x010\x02"),
    ]


def test_no_rows_make_no_request():
    assert pack(rows()) == []


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 20])
@pytest.mark.parametrize("pieces", [1, 3])
def test_requests_respect_both_limits_and_have_every_row_once(count: int, pieces: int):
    wanted = [b"%03d" % number * 9 for number in range(count * pieces)]
    some = [rows(*wanted[at : at + count]) for at in range(0, len(wanted), count)]
    for bytes_max, messages_max in ((200, 100), (10_000, 3), (120, 2)):
        found = pack(*some, bytes_max=bytes_max, messages_max=messages_max)
        assert [body for request in found for body in entries(request)] == wanted
        assert all(len(request.outgoing.body) <= bytes_max for request in found)
        assert all(len(entries(request)) <= messages_max for request in found)
        assert len(found) <= -(-len(wanted) // min(messages_max, bytes_max // 53)), "no request is half empty"


def test_each_topic_has_its_own_requests():
    found = pack(rows(b"a", b"b", b"c", topics=["t", "u", "t"]))
    assert {request.outgoing.topic: entries(request) for request in found} == {"t": [b"a", b"c"], "u": [b"b"]}


def test_sharding_key_selects_the_queue_that_javas_hash_selector_selects():
    found = pack(rows(b"a", b"b", b"c", b"d", sharding=["x", "y", "x", None]))
    by_queue = {request.queue: entries(request) for request in found}
    assert by_queue[by_hash(QUEUES["t"], "x")] == [b"a", b"c"]
    assert by_queue[by_hash(QUEUES["t"], "y")] == [b"b"]
    assert by_queue[None] == [b"d"]
    assert [request.is_ordered for request in found if request.queue is None] == [False]
    assert all(request.is_ordered for request in found if request.queue is not None)


def test_delayed_row_has_its_own_request():
    found = pack(rows(b"a", b"b", b"c", delayed=[False, True, False]))
    assert [request.outgoing.body for request in found if request.outgoing.code == ALONE] == [b"b"]
    assert [entries(request) for request in found if request.outgoing.code == BATCH] == [[b"a", b"c"]]


def test_large_row_has_its_own_request_and_keeps_its_place_among_rows_of_its_key():
    found = pack(rows(b"a", b"B" * 500, b"c", sharding=["k", "k", "k"]), bytes_max=200)
    assert [request.outgoing.body[-500:] if request.outgoing.code == ALONE else entries(request) for request in found] == [
        [b"a"],
        b"B" * 500,
        [b"c"],
    ]
    assert all(request.is_ordered for request in found)


def test_compressed_body_has_its_own_request():
    (request,) = pack(rows(b"z" * 1_000), compression=Compression("zlib", 100))
    assert len(request.outgoing.body) < 100
    assert decompress(request.outgoing.body, request.outgoing.sys_flag) == b"z" * 1_000
    assert request.outgoing.properties == "N\x010\x02"


def test_retry_topics_get_no_batches():
    (request,) = pack(rows(b"a", topics=["%RETRY%g"]))
    assert request.outgoing.code == ALONE


def test_total_size_of_open_batches_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(packing_module, "OPEN_BYTES_MAX", 150)
    packing = Packing(10_000, 100, Compression(None))
    found = list(packing.add(rows(b"a" * 100, b"b" * 90, topics=["t", "u"]), QUEUES.__getitem__))
    assert [entries(request) for request in found] == [[b"a" * 100], [b"b" * 90]]
