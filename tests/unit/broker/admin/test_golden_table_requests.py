"""Replay requests that Apache's client and mqadmin sent to Apache's broker; our handlers give the recorded responses."""

from __future__ import annotations

import tarfile
from functools import cache
from typing import Any, NamedTuple

import pytest

from skyrocket.protocol.bodies import ConsumerOffsetManager, SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.fastjson.reader import parse
from skyrocket.protocol.requests import REQUESTS, Raw
from skyrocket.store.config_files import CONSUMER_OFFSETS, SUBSCRIPTION_GROUPS, TOPICS
from tests.support.golden import GOLDEN, golden_frames
from tests.unit.broker.parts import Parts, Peer

OURS = {14, 15, 17, 29, 30, 31, 34, 35, 38, 41, 42, 200, 202, 203, 208, 215, 222, 317, 351}
SAME_BODY = {38, 41, 222, 351}  # responses without times or other traffic
STORED_MS = 1_794_725_510_000  # earlier than every recorded message


class Exchange(NamedTuple):
    request: Command
    response: Command | None  # None: oneway

    @property
    def name(self) -> str:
        return f"{self.request.code}-{self.request.opaque}-{self.request.serialization.name}"


@cache
def exchanges() -> list[Exchange]:
    found: list[Exchange] = []
    frames = [frame for frame in golden_frames() if frame.server == "broker" and frame.request_code in OURS]
    for number, frame in enumerate(frames):
        (command,) = CommandDecoder().feed(frame.frame)
        if frame.direction != "to-server":
            continue
        if frame.kind == "oneway":
            found.append(Exchange(command, None))
            continue
        for later in frames[number + 1 :]:
            (answer,) = CommandDecoder().feed(later.frame)
            if later.kind == "response" and (later.request_code, answer.opaque) == (command.code, command.opaque):
                found.append(Exchange(command, answer))
                break
    return found


@cache
def golden_tables() -> tuple[TopicConfigSerializeWrapper, SubscriptionGroupWrapper, ConsumerOffsetManager]:
    with tarfile.open(GOLDEN / "store.tar.xz") as archive:
        files: dict[str, bytes] = {}
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".json") else None
            if file is not None:
                files[member.name.rsplit("/", 1)[-1]] = file.read()
    return (
        TOPICS.decode(files[TOPICS.name]),
        SUBSCRIPTION_GROUPS.decode(files[SUBSCRIPTION_GROUPS.name]),
        CONSUMER_OFFSETS.decode(files[CONSUMER_OFFSETS.name]),
    )


def the_broker_as_it_was(exchange: Exchange) -> Parts:
    """Build parts with the topics, groups, message counts and consumers of the golden store."""
    parts = Parts(default_topic_queues=4)
    topics, groups, offsets = golden_tables()
    parts.topics.load(topics)
    parts.groups.load(groups)
    if exchange.request.code != 14:  # recorded before the first commit
        parts.offsets.load(offsets)
    for topic, counts in {"GoldenTopicJ": (5, 7), "GoldenTopicR": (7, 5), "GoldenOrderJ": (3, 3), "GoldenOrderR": (3, 3)}.items():
        for queue_id, count in enumerate(counts):
            parts.messages(count, topic, queue_id, first_ms=STORED_MS)
    if exchange.response is not None and exchange.response.code != 206:
        for kind in "JR":
            parts.joins(f"GoldenGroup{kind}", f"192.0.2.2@cons{kind}", Peer(1), topics=(f"GoldenTopic{kind}",))
            parts.joins(f"OGoldenGroup{kind}", f"192.0.2.2@ord{kind}", Peer(2), topics=(f"GoldenOrder{kind}",))
            parts.joins(f"LGoldenGroup{kind}", f"192.0.2.2@lp{kind}@STREAM", Peer(3), topics=(f"GoldenTopic{kind}",))
    return parts


def shape(value: Any) -> Any:
    """Return the structure of a body: the field names of its objects, outermost first."""
    return sorted(value) if isinstance(value, dict) else type(value).__name__


def test_there_is_something_to_replay():
    assert {exchange.request.code for exchange in exchanges()} == OURS


@pytest.mark.parametrize("exchange", exchanges(), ids=lambda exchange: exchange.name)
def test_recorded_request_is_answered_like_apaches_broker(exchange: Exchange):
    parts = the_broker_as_it_was(exchange)
    request, recorded = exchange
    if recorded is None:
        parts.router.handle(parts.peer.connection, [request])
        assert parts.peer.sent == [], "a oneway request gets no response"
        return
    answer = parts.handle(request)
    assert (answer.code, answer.opaque) == (recorded.code, recorded.opaque), answer.remark
    assert answer.fields == recorded.fields
    assert answer.serialization == request.serialization
    assert bool(answer.body) == bool(recorded.body)
    if not answer.body:
        return
    assert shape(parse(answer.body.decode())) == shape(parse(recorded.body.decode()))
    kind = REQUESTS[request.code].response_body
    assert not isinstance(kind, Raw)
    ours, theirs = decode(answer.body, kind), decode(recorded.body, kind)
    if request.code in SAME_BODY:
        assert ours == theirs
