"""Apache's Java client in a machine of its own (interop/java/ClientScenes.java), with its producers and consumers by name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import (
    CreateTopicRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
)
from skyrocket.protocol.message.properties import NAME_END, VALUE_END, decode_properties
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.archive import program
from tests.support.apache.cluster import Client, JavaProcess, send_request
from tests.support.waiting import WAIT_S_MAX, wait_until

JAVA = Path(__file__).resolve().parents[2] / "interop" / "java" / "ClientScenes.java"


class Out(NamedTuple):
    """A message to send."""

    body: bytes
    tags: str = ""
    keys: str = ""
    flag: int = 0
    properties: Mapping[str, str] = {}


class Sent(NamedTuple):
    """What a producer was answered."""

    status: str
    queue: int
    offset: int
    message_id: str
    offset_id: str


class Refused(NamedTuple):
    """What a producer got instead: the kind of the exception, the code in it, and its sentence."""

    kind: str
    code: int
    sentence: str


class Got(NamedTuple):
    """A message that a consumer received."""

    topic: str
    queue: int
    offset: int
    message_id: str
    flag: int
    sys_flag: int
    store_size: int
    born_ms: int
    stored_ms: int
    reconsumed: int
    body: bytes
    properties: dict[str, str]


class Cluster(NamedTuple):
    """Whom the client is to talk to."""

    nameserver: str
    broker: str
    name: str
    tls: ssl.SSLContext | None = None  # for what the test itself asks the servers


class Scenes(Client):
    def __init__(self, home: Path, label: str, cluster: Cluster, options: list[str], client_version: str = "5.5.0") -> None:
        """`label` comes into all names of topics and groups, so that several can use one broker."""
        arguments = ["-Xmx256m", *options, *program(JAVA, client_version), cluster.nameserver]
        JavaProcess.__init__(self, f"the Java client {client_version}", home, arguments, pipes=True)
        self._heard = b""
        self._numbers = count()
        self._shared: str | None = None
        self.label = label
        self.cluster = cluster

    def named(self, what: str) -> str:
        """A name that nobody else has."""
        return f"{self.label}-{what}-{next(self._numbers)}"

    # --- topics and offsets, without the client

    def topic(self, what: str, queues: int = 4) -> str:
        """A new topic, of which the nameserver knows."""
        topic = self.named(what)
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        answer = _ask(self.cluster.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields(), self.cluster.tls)
        assert answer is not None, "the broker does not answer"
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        wait_until(lambda: self.is_routed(topic), f"topic {topic} is registered")
        return topic

    def is_routed(self, topic: str) -> bool:
        answer = _ask(self.cluster.nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, self.cluster.tls)
        return answer is not None and answer.code == ResponseCode.SUCCESS

    def is_subscribed(self, group: str, expression: bytes) -> bool:
        """Whether the broker has this expression of a group."""
        answer = _ask(self.cluster.broker, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}, self.cluster.tls)
        return answer is not None and expression in answer.body

    def committed_by(self, group: str, topic: str, queue: int) -> int | None:
        """The offset that the broker has for a group; None when it has none."""
        header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue, set_zero_if_not_found=False)
        answer = _ask(self.cluster.broker, RequestCode.QUERY_CONSUMER_OFFSET, header.to_fields(), self.cluster.tls)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return None
        return answer.header(QueryConsumerOffsetResponseHeader).offset

    # --- producers

    def producer(self, **options: object) -> str:
        name = self.named("producer")
        self.ask("producer", name, f"{name}-group", *_options(options))
        return name

    @property
    def shared(self) -> str:
        """A producer for whoever needs nothing special."""
        if self._shared is None:
            self._shared = self.producer()
        return self._shared

    def try_to_send(
        self, topic: str, *messages: Out, how: str = "sync", queue: int | str = "-", by: str = ""
    ) -> list[Sent | Refused]:
        words: list[str | int] = []
        for message in messages:
            texts = [hexed(text.encode()) for text in (topic, message.tags, message.keys)]
            words += [*texts, message.flag, hexed(message.body), hexed(_joined(message.properties))]
        return [_result(line) for line in self.ask("send", by or self.shared, how, queue, *words) if line != ["ONEWAY"]]

    def send(self, topic: str, *messages: Out, how: str = "sync", queue: int | str = "-", by: str = "") -> list[Sent]:
        sent = []
        for result in self.try_to_send(topic, *messages, how=how, queue=queue, by=by):
            assert isinstance(result, Sent), result
            assert result.status == "SEND_OK"
            sent.append(result)
        return sent

    # --- push consumers

    def push(self, group: str, topic: str, expression: str = "*", **options: object) -> str:
        name = self.named("push")
        self.ask("push", name, group, topic, hexed(expression.encode()), *_options(options))
        return name

    def heard(self, consumer: str, messages: int, wait_s: float = WAIT_S_MAX) -> list[Got]:
        """All that it was given so far, as soon as it is so many."""
        return [got(line) for line in self.ask("heard", consumer, messages, int(wait_s * 1000))]

    def share(self, consumer: str) -> set[int]:
        return {int(line[0]) for line in self.ask("share", consumer)}

    # --- lite pull consumers

    def lite(self, group: str, topic: str = "", expression: str = "*", **more: object) -> str:
        name = self.named("lite")
        options = {"topic": topic, "expression": hexed(expression.encode())} if topic else {}
        self.ask("lite", name, group, *_options({**options, **more}))
        return name

    def poll(self, consumer: str, messages: int, wait_s: float = WAIT_S_MAX) -> list[Got]:
        return [got(line) for line in self.ask("poll", consumer, messages, int(wait_s * 1000))]

    def numbers(self, verb: str, *arguments: str | int) -> list[int]:
        """The answer of a verb whose answer is numbers."""
        return [int(word) for line in self.ask(verb, *arguments) for word in line]


def _ask(address: str, code: int, fields: dict[str, str], tls: ssl.SSLContext | None) -> Command | None:
    host, port = address.split(":")
    return send_request((host, int(port)), Command(code, opaque=1, fields=fields), tls)


def _options(options: Mapping[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


def _joined(properties: Mapping[str, str]) -> bytes:
    """Not checked: what may not be sent is sent too."""
    return "".join(f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()).encode()


def hexed(data: bytes) -> str:
    return data.hex() or "-"


def _unhex(word: str) -> bytes:
    return b"" if word == "-" else bytes.fromhex(word)


def _result(line: list[str]) -> Sent | Refused:
    if line[0] == "FAILED":
        return Refused(line[1], int(line[2]), _unhex(line[3]).decode())
    return Sent(line[0], int(line[1]), int(line[2]), line[3], line[4])


def got(line: list[str]) -> Got:
    topic, queue, offset, message_id, flag, sys_flag, size, born_ms, stored_ms, reconsumed, body, properties = line
    return Got(
        topic=_unhex(topic).decode(),
        queue=int(queue),
        offset=int(offset),
        message_id=message_id,
        flag=int(flag),
        sys_flag=int(sys_flag),
        store_size=int(size),
        born_ms=int(born_ms),
        stored_ms=int(stored_ms),
        reconsumed=int(reconsumed),
        body=_unhex(body),
        properties=decode_properties(_unhex(properties)),
    )
