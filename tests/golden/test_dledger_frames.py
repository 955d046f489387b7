"""Bodies that Apache's DLedger nodes sent to each other are decoded, and encoded again to the same bytes."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from skyrocket.protocol.bodies.dledger import (
    DLedgerEntry,
    LeadershipTransferRequest,
    PushEntryRequest,
    PushEntryResponse,
    PushType,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_push import decode_push, encode_push
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.payload import read_body
from skyrocket.protocol.requests import REQUESTS
from tests.support.golden import GOLDEN

CODES = {
    "METADATA": 50000,
    "APPEND": 50001,
    "GET": 50002,
    "VOTE": 51001,
    "HEART_BEAT": 51002,
    "PUSH": 51004,
    "LEADERSHIP_TRANSFER": 51005,
}


@cache
def frames() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "dledger_frames.jsonl").read_text().splitlines()]


def body_type(frame: dict[str, Any]) -> Any:
    row = REQUESTS[CODES[frame["kind"].partition(":")[0]]]
    return row.body if frame["request"] else row.response_body


each_frame = pytest.mark.parametrize(
    "frame", [pytest.param(frame, id=f"{frame['run']}-{frame['kind']}-{number}") for number, frame in enumerate(frames())]
)


def test_frames_contain_every_kind_of_message():
    kinds = {(frame["kind"], frame["request"]) for frame in frames()}
    pushes = {(f"PUSH:{kind}", request) for kind in PushType for request in (True, False)}
    assert kinds >= pushes | {(kind, request) for kind in ("METADATA", "VOTE", "HEART_BEAT") for request in (True, False)}


@each_frame
def test_a_body_is_written_as_apaches_node_wrote_it(frame: dict[str, Any]):
    body = decode(frame["body"].encode(), body_type(frame))
    if frame["from"] == "client":  # a program that writes the fields in an order of its own
        assert json.loads(encode(body)) == json.loads(frame["body"])
    else:
        assert encode(body).decode() == frame["body"]


@each_frame
def test_the_table_of_requests_reads_the_body(frame: dict[str, Any]):
    header = frame["header"]
    command = Command(header["code"], flag=header["flag"], body=frame["body"].encode())
    assert isinstance(read_body(command, REQUESTS[CODES[frame["kind"].partition(":")[0]]]), body_type(frame))


def pushes() -> list[PushEntryRequest]:
    return [
        decode(frame["body"].encode(), PushEntryRequest)
        for frame in frames()
        if frame["kind"].startswith("PUSH") and frame["request"]
    ]


def test_a_push_is_the_same_in_the_binary_form():
    for push in pushes():
        again = decode_push(encode_push(push))
        assert again.entries == push.entries
        assert (again.type, again.term, again.commit_index) == (push.type, push.term, push.commit_index)
        assert (again.group, again.leader_id, again.local_id, again.remote_id) == (
            push.group,
            push.leader_id,
            push.local_id,
            push.remote_id,
        )


def test_derived_fields_are_java_s():
    for push in pushes():
        derived = (push.batch, push.count, push.first_entry_index, push.last_entry_index, push.total_size)
        push.carry(push.entries, batch=push.batch)
        assert (push.batch, push.count, push.first_entry_index, push.last_entry_index, push.total_size) == derived


def test_an_entry_contains_one_record_that_knows_its_place():
    entries: list[DLedgerEntry] = [entry for push in pushes() for entry in push.entries]
    assert len(entries) > 30
    for entry in entries:
        assert entry.size == 48 + len(entry.body)
        assert decode_record(entry.body).physical_offset == entry.pos + 48


def test_values_are_read():
    vote = decode(b'{"leaderId":"n1","ledgerEndIndex":-1,"ledgerEndTerm":-1,"term":1}', VoteRequest)
    assert (vote.leader_id, vote.ledger_end_index, vote.code) == ("n1", -1, 200)
    assert decode(b'{"voteResult":"ACCEPT","term":1}', VoteResponse).vote_result is VoteResult.ACCEPT
    assert decode(b'{"code":406,"endIndex":4}', PushEntryResponse).index is None
    assert decode(b'{"transfereeId":"n2"}', LeadershipTransferRequest).transferee_id == "n2"
