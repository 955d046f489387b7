"""Apache's Java client asking for messages and replies, in a machine of its own (interop/java/QueryScenes.java)."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import NamedTuple

from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfigAndQueueMapping
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import CreateTopicRequestHeader, PutKVConfigRequestHeader, ResetOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.archive import program
from tests.support.apache.cluster import Client, JavaProcess, send_request
from tests.support.apache.java_scenes import Cluster
from tests.support.waiting import WAIT_S_MAX, wait_until

JAVA = Path(__file__).resolve().parents[2] / "interop" / "java" / "QueryScenes.java"


class Sent(NamedTuple):
    unique_id: str
    offset_id: str
    queue: int
    offset: int


class Found(NamedTuple):
    """A message that a query found, or a consumer got."""

    unique_id: str
    position: int
    queue: int
    offset: int
    body: bytes


class Failed(NamedTuple):
    kind: str
    code: int


class QueryScenes(Client):
    def __init__(self, home: Path, label: str, cluster: Cluster, options: list[str], client_version: str) -> None:
        """`label` comes into all names, so that several can use one broker."""
        arguments = ["-Xmx256m", *options, *program(JAVA, client_version), cluster.nameserver]
        JavaProcess.__init__(self, f"the Java client {client_version}", home, arguments, pipes=True)
        self._heard = b""
        self._numbers = count()
        self.label = label
        self.cluster = cluster

    def named(self, what: str) -> str:
        return f"{self.label}-{what}-{next(self._numbers)}"

    # --- the server, without the client

    def ask_broker(self, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
        return _answer(self.cluster.broker, Command(code, opaque=1, fields=fields, body=body))

    def ask_nameserver(self, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
        return _answer(self.cluster.nameserver, Command(code, opaque=1, fields=fields, body=body))

    def topic(self, what: str, queues: int = 4, *, order: bool = False) -> str:
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
            order=order,
        )
        assert self.ask_broker(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields()).code == ResponseCode.SUCCESS
        route = {"topic": topic}
        wait_until(
            lambda: self.ask_nameserver(RequestCode.GET_ROUTEINFO_BY_TOPIC, route).code == ResponseCode.SUCCESS,
            f"topic {topic} is registered",
        )
        return topic

    def is_ordered(self, topic: str) -> bool:
        answer = self.ask_broker(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
        return decode(answer.body, TopicConfigAndQueueMapping).order

    def order(self, topic: str, queues: str) -> None:
        """As `mqadmin updateOrderConf` says it; whether routes carry it is a setting of nameservers."""
        told = self.ask_nameserver(RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"orderMessageEnable=true\n")
        assert told.code == ResponseCode.SUCCESS, told.remark
        header = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key=topic, value=queues)
        assert self.ask_nameserver(RequestCode.PUT_KV_CONFIG, header.to_fields()).code == ResponseCode.SUCCESS

    def allow(self, group: str, *, consuming: bool) -> None:
        """As `mqadmin updateSubGroup -s` says it."""
        body = encode(SubscriptionGroupConfig(group_name=group, consume_enable=consuming))
        assert self.ask_broker(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body).code == ResponseCode.SUCCESS

    def reset(self, group: str, topic: str, timestamp: int) -> None:
        """As `mqadmin resetOffsetByTime` says it."""
        header = ResetOffsetRequestHeader(topic=topic, group=group, timestamp=timestamp, is_force=True, queue_id=-1)
        answer = self.ask_broker(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_fields())
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    # --- clients

    def producer(self, **options: object) -> str:
        name = self.named("producer")
        self.ask("producer", name, *_options(options))
        return name

    def send(self, by: str, topic: str, *bodies: bytes, queue: int | str = "-", tags: str = "-", keys: str = "-") -> list[Sent]:
        lines = self.ask("send", by, topic, queue, tags, keys, *[body.hex() for body in bodies])
        return [Sent(unique, place, int(number), int(offset)) for unique, place, number, offset in lines]

    def query(
        self, by: str, topic: str, key: str, most: int = 32, begin_ms: int = 0, end_ms: int = 2**62
    ) -> list[Found] | Failed:
        return _found(self.ask("query", by, topic, key, most, begin_ms, end_ms))

    def view(self, by: str, topic: str, message_id: str) -> list[Found] | Failed:
        return _found(self.ask("view", by, topic, message_id))

    def request(self, by: str, topic: str, body: bytes, how: str = "sync", timeout_ms: int = 20_000) -> bytes | Failed:
        ((kind, *rest),) = self.ask("request", by, topic, how, timeout_ms, body.hex())
        return bytes.fromhex(rest[0]) if kind == "REPLY" else Failed(rest[0], int(rest[1]))

    def replier(self, topic: str, by: str) -> str:
        name = self.named("replier")
        self.ask("replier", name, f"{name}-group", topic, by)
        return name

    def replied(self, name: str, replies: int) -> list[list[str]]:
        wait_until(lambda: len(self.ask("replied", name)) >= replies, f"there are {replies} replies")
        return self.ask("replied", name)

    def consume(self, group: str, topic: str, **options: object) -> str:
        name = self.named("consumer")
        self.ask("consume", name, group, topic, *_options(options))
        return name

    def heard(self, consumer: str, messages: int, wait_s: float = WAIT_S_MAX) -> list[Found]:
        found = _found(self.ask("heard", consumer, messages, int(wait_s * 1000)))
        assert isinstance(found, list)
        return found


def _answer(address: str, command: Command) -> Command:
    host, port = address.split(":")
    answer = send_request((host, int(port)), command)
    assert answer is not None, f"{address} does not answer"
    return answer


def _options(options: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


def _found(lines: list[list[str]]) -> list[Found] | Failed:
    if lines and lines[0][0] == "FAILED":
        return Failed(lines[0][1], int(lines[0][2]))
    return [
        Found(unique, int(position), int(queue), int(offset), b"" if body == "-" else bytes.fromhex(body))
        for unique, position, queue, offset, body in lines
    ]
