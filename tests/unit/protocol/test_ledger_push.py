"""The binary form of PUSH: what is written is read again, and damage is a typed error."""

from __future__ import annotations

import pytest

from skyrocket.protocol.bodies.dledger import DLedgerEntry, PushEntryRequest, PushEntryResponse, PushType
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.ledger_push import (
    decode_push,
    decode_push_response,
    encode_entry,
    encode_push,
    encode_push_of,
    encode_push_response,
    is_binary,
)

ENTRIES = [DLedgerEntry(size=48 + 3 * n, index=n, term=2, pos=n * 100, body=b"abc" * n) for n in range(4)]


def push(entries: list[DLedgerEntry], kind: PushType = PushType.APPEND) -> PushEntryRequest:
    request = PushEntryRequest(group="g", leader_id="n1", local_id="n1", remote_id="n2", term=7, commit_index=5, type=kind)
    request.carry(entries, batch=len(entries) > 1)
    return request


@pytest.mark.parametrize("kind", PushType)
@pytest.mark.parametrize("count", [0, 1, 4])
def test_push_is_read_as_it_was_written(kind: PushType, count: int):
    request = push(ENTRIES[:count], kind)
    assert decode_push(encode_push(request)) == request
    assert decode_push(encode(request)) == request


def test_entries_travel_as_they_lie_in_a_data_file():
    raw = b"".join(encode_entry(entry) for entry in ENTRIES)
    assert encode_push_of(push([]), len(ENTRIES), raw) == encode_push(push(ENTRIES))
    assert encode_push(push(ENTRIES)).endswith(raw)


def test_layout_is_stable():
    data = encode_push(push(ENTRIES[:1], PushType.COMPARE))
    assert data[:24].hex() == "5350" + "01" + "02" + f"{7:016x}" + f"{5:016x}" + f"{1:08x}"
    assert data[28:38] == b"\x01g\x02n1\x02n1\x02n"


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("index", [None, 3])
def test_response_has_the_form_of_its_request(binary: bool, index: int | None):
    response = PushEntryResponse(code=406, term=7, index=index, count=2, begin_index=0, end_index=9)
    data = encode_push_response(response, binary=binary)
    assert is_binary(data) is binary
    assert decode_push_response(data) == response


def test_damage_at_every_byte_is_an_error_or_no_binary_push():
    data = encode_push(push(ENTRIES))
    for place in range(28, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        with pytest.raises(BodyError):
            decode_push(bytes(damaged))
    for end in range(1, len(data)):
        with pytest.raises(BodyError):
            decode_push(data[:end])


def test_later_version_is_refused():
    data = bytearray(encode_push(push([])))
    data[2] = 9
    with pytest.raises(BodyError, match="version 9"):
        decode_push(bytes(data))
    response = bytearray(encode_push_response(PushEntryResponse(), binary=True))
    response[2] = 9
    with pytest.raises(BodyError, match="version 9"):
        decode_push_response(bytes(response))


def test_name_that_is_too_long_is_refused():
    request = push([])
    request.group = "g" * 256
    with pytest.raises(BodyError, match="room for 255"):
        encode_push(request)
