"""What the proxy keeps of a client's heartbeats."""

from __future__ import annotations

from dataclasses import replace

from skyrocket.protocol.bodies import HeartbeatData
from skyrocket.protocol.command import RESPONSE_FLAG, Command, encode_command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.frame import FrameSplitter, Serialization
from skyrocket.protocol.requests import RequestCode
from skyrocket.proxy.heartbeats import KeptHeartbeats, LastHeartbeat
from skyrocket.proxy.limits import ProxyLimits

LIMITS = ProxyLimits(heartbeat_bytes_max=1000, same_heartbeat_ms=100)


def beat(client_id: str = "one", *, without_sub: bool = False, **given: object) -> Command:
    body = encode(HeartbeatData(client_id=client_id, without_sub=without_sub))
    return Command(RequestCode.HEART_BEAT, body=body, opaque=5, **given)  # type: ignore[arg-type]


(ANSWER,) = FrameSplitter().feed(encode_command(Command(0, flag=RESPONSE_FLAG, opaque=5, fields={"a": "b"})))


def test_the_last_heartbeat_with_subscriptions_is_repeated_one_way_and_as_it_was_signed():
    last = LastHeartbeat(LIMITS, KeptHeartbeats())
    assert last.repeat(1) is None
    sent = beat(fields={"Signature": "s"}, serialization=Serialization.ROCKETMQ)
    last.note(sent)
    last.note(beat("two", without_sub=True))
    last.note(Command(RequestCode.PULL_MESSAGE))
    last.note(Command(RequestCode.HEART_BEAT, body=b"broken"))
    last.note(beat("x" * 2000))
    repeated = last.repeat(9)
    assert repeated is not None
    assert (repeated.is_oneway, repeated.opaque, repeated.body, repeated.fields) == (True, 9, sent.body, {"Signature": "s"})
    assert repeated.serialization is Serialization.ROCKETMQ


def test_after_a_farewell_no_heartbeat_is_repeated():
    """A broker would take the client for a member of a group that it has left, and give it queues."""
    last = LastHeartbeat(LIMITS, KeptHeartbeats())
    last.note(beat())
    last.record_answer(beat(), beat().body, ANSWER, 0)
    last.note(Command(RequestCode.UNREGISTER_CLIENT))
    assert last.repeat(1) is None
    assert last.answer(beat(), 0) is None
    last.record_answer(beat(), beat().body, ANSWER, 0)  # the brokers answered late
    assert last.answer(beat(), 0) is None, "a client that joins again at once is known to no broker yet"


def test_a_heartbeat_that_every_broker_had_a_moment_ago_is_answered_at_once():
    last = LastHeartbeat(LIMITS, KeptHeartbeats())
    first = beat(fields={"Signature": "s"})
    last.note(first)
    assert last.answer(first, 0) is None
    last.record_answer(first, first.body, ANSWER, 1000)
    again = beat(fields={"Signature": "s"})
    again.opaque = 77
    answer = last.answer(again, 1050)
    assert answer is not None
    assert (answer.opaque, answer.is_response, answer.fields) == (77, True, {"a": "b"})
    assert last.answer(beat("two", fields={"Signature": "s"}), 1050) is None, "another body"
    assert last.answer(beat(fields={"Signature": "forged"}), 1050) is None, "another signature"
    assert last.answer(Command(RequestCode.PULL_MESSAGE), 1050) is None
    assert last.answer(again, 1100) is None, "too late"


def test_the_heartbeats_of_all_clients_are_bounded_together():
    kept = KeptHeartbeats()
    limits = replace(LIMITS, heartbeats_all_max_bytes=2_600, heartbeat_overhead_bytes=500)
    one, two, three = (LastHeartbeat(limits, kept) for _ in range(3))
    first = beat(fields={"Signature": "s" * 600})
    for last in (one, two, three):
        last.note(first)
    assert [last.repeat(1) is not None for last in (one, two, three)] == [True, True, False]
    assert 2_200 < kept.size_bytes <= 2_600
    one.record_answer(first, first.body, ANSWER, 0)
    assert one.answer(first, 0) is None, "there is no room for the answer"
    before = kept.size_bytes
    two.note(beat("two", fields={"Signature": "s" * 600}))
    assert kept.size_bytes == before, "the next heartbeat takes the place of the last"
    two.note(Command(RequestCode.UNREGISTER_CLIENT))
    one.record_answer(first, first.body, ANSWER, 0)
    assert one.answer(first, 0) is not None
    assert kept.size_bytes > before - 1_000
    assert one.answer(first, 100) is None, "too late"
    three.note(first)
    assert three.repeat(1) is not None, "there is room again"
    one.forget()
    three.forget()
    assert kept.size_bytes == 0


def test_a_heartbeat_with_a_long_header_is_not_kept():
    last = LastHeartbeat(LIMITS, KeptHeartbeats())
    long = beat(fields={"Signature": "s" * 1_000})
    last.note(long)
    assert last.repeat(1) is None
    last.note(beat())
    last.record_answer(long, long.body, ANSWER, 0)
    assert last.answer(long, 0) is None
