"""What is sent for a message, or for a batch of them, and the frame that carries it.

A frame's header is JSON. Nearly all of it is the same for every message to one queue, so that part is written once (`Envelope`)
and the rest put into it: the numbers, and the properties as one JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from skyrocket.client.errors import InvalidMessageError
from skyrocket.client.message import Message, properties_text
from skyrocket.client.names import DEFAULT_TOPIC
from skyrocket.client.queues import Queue
from skyrocket.client.sequence import Sequences
from skyrocket.protocol import versions
from skyrocket.protocol.batch import encode_batch
from skyrocket.protocol.command import ONEWAY_FLAG, Command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.frame import Serialization, join_frame
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.language import Language
from skyrocket.protocol.requests import RequestCode

_JSON: Final = int(Serialization.JSON)  # a plain number: enumerations are slow to count with
_json_text = msgspec.json.Encoder().encode
_ENVELOPES_MAX = 65_536  # one for each queue that a process sends to


class Outgoing:
    """One request's worth: it goes to one queue, and is acknowledged or not as a whole. It may be tried several times."""

    __slots__ = ("_stamp", "body", "code", "flag", "message_id", "messages", "properties", "size_bytes", "sys_flag", "topic")

    def __init__(
        self, topic: str, code: int, message_id: str, properties: str, body: bytes, *, sys_flag: int = 0, flag: int = 0
    ) -> None:
        self.topic = topic  # on the wire
        self.code = code
        self.message_id = message_id
        self.properties = properties
        self.body = body
        self.sys_flag = sys_flag
        self.flag = flag
        self.size_bytes = len(body)
        self.messages: Sequence[tuple[Message, str]] = ()  # of a batch, each with its id
        self._stamp: tuple[Queue, str] | None = None

    def for_queue(self, queue: Queue, sequences: Sequences) -> tuple[str, bytes]:
        """Properties and body with this queue's stamp. A second attempt at the same queue has the same as the first."""
        if self._stamp is None or self._stamp[0] != queue:
            if self.messages:
                self.body = batch_body(self.messages, [sequences.next(queue) for _ in self.messages])
                self._stamp = queue, ""
            else:
                self._stamp = queue, "".join([f"{name}\x01{value}\x02" for name, value in sequences.next(queue).items()])
        return self.properties + self._stamp[1], self.body


def batch_of(topic: str, messages: Sequence[tuple[Message, str]], batch_id: str) -> Outgoing:
    """`messages` with their ids, all of one topic, none delayed: who calls has seen to it."""
    first = messages[0][0]
    properties = f"UNIQ_KEY\x01{batch_id}\x02WAIT\x01{'true' if first.wait_until_stored else 'false'}\x02"
    ids = ",".join([message_id for _, message_id in messages])
    outgoing = Outgoing(topic, RequestCode.SEND_BATCH_MESSAGE, ids, properties, batch_body(messages))
    outgoing.messages = messages
    return outgoing


def batch_body(messages: Sequence[tuple[Message, str]], stamps: Sequence[Mapping[str, str]] | None = None) -> bytes:
    try:
        return encode_batch(
            [
                (
                    message.body,
                    properties_text(message, message_id, None if stamps is None else stamps[number]).encode(),
                    message.flag,
                )
                for number, (message, message_id) in enumerate(messages)
            ]
        )
    except RecordError as error:
        raise InvalidMessageError(str(error)) from error


class Envelope:
    """The header of all requests of one kind from one group to one queue."""

    __slots__ = ("_before", "_code", "_default_queues", "_group", "_queue")

    def __init__(self, code: int, group: str, queue: Queue, default_queues: int) -> None:
        self._code = code
        self._group = group
        self._queue = queue
        self._default_queues = default_queues
        fields = self._header(sys_flag=0, born_ms=0, flag=0, properties=None).to_fields()
        for varying in ("f", "g", "h", "i"):
            fields.pop(varying, None)
        self._before = b'{"code":%d,"extFields":%b' % (code, msgspec.json.encode(fields)[:-1])

    def frame(
        self, opaque: int, properties: str, body: bytes, *, sys_flag: int, born_ms: int, flag: int, oneway: bool = False
    ) -> bytes:
        header = self._before + _VARYING % (sys_flag, born_ms, flag, _json_text(properties), ONEWAY_FLAG if oneway else 0, opaque)
        return join_frame(_JSON, header, body)

    def command(self, properties: str, body: bytes, *, sys_flag: int, born_ms: int, flag: int) -> Command:
        """The same as a command, for who has to sign its fields."""
        header = self._header(sys_flag=sys_flag, born_ms=born_ms, flag=flag, properties=properties)
        return Command(self._code, fields=header.to_fields(), body=body)

    def _header(self, *, sys_flag: int, born_ms: int, flag: int, properties: str | None) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=self._queue.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=self._default_queues,
            queue_id=self._queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=born_ms,
            flag=flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=self._code == RequestCode.SEND_BATCH_MESSAGE,
            broker_name=self._queue.broker_name,
        )


_VARYING: Final = (
    b',"f":"%%d","g":"%%d","h":"%%d","i":%%b},"flag":%%d,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)

envelope = lru_cache(maxsize=_ENVELOPES_MAX)(Envelope)
"""(code, group, queue, default_queues) -> Envelope"""
