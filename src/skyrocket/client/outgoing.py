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
from skyrocket.client.message import Message, plain_properties, properties_but_id
from skyrocket.client.names import DEFAULT_TOPIC
from skyrocket.client.queues import Queue
from skyrocket.client.sequence import Sequences
from skyrocket.protocol import versions
from skyrocket.protocol.batch import batch_of_messages
from skyrocket.protocol.command import ONEWAY_FLAG, Command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.frame import PREFIX, Serialization, join_frame_of
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.language import Language
from skyrocket.protocol.message_id import ID_SEPARATOR
from skyrocket.protocol.requests import RequestCode

_JSON: Final = int(Serialization.JSON)  # a plain number: enumerations are slow to count with
SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_json_text = msgspec.json.Encoder().encode
_ENVELOPES_MAX = 65_536  # one for each queue that a process sends to


Parts = tuple[Message, str, object]
"""A message, its properties but for the id, and whatever its sender keeps with it."""


class Outgoing:
    """One request's worth: it goes to one queue, and is acknowledged or not as a whole. It may be tried several times."""

    __slots__ = ("_stamp", "code", "flag", "message_id", "messages", "pieces", "properties", "size_bytes", "sys_flag", "topic")

    def __init__(
        self,
        topic: str,
        code: int,
        message_id: str,
        properties: str,
        body: bytes | list[bytes],
        *,
        sys_flag: int = 0,
        flag: int = 0,
    ) -> None:
        """`body` may be in pieces, which a frame puts together: what is large is copied once."""
        self.topic = topic  # on the wire
        self.code = code
        self.message_id = message_id
        self.properties = properties
        self.pieces = [body] if isinstance(body, bytes) else body
        self.sys_flag = sys_flag
        self.flag = flag
        self.size_bytes = len(body) if isinstance(body, bytes) else sum(map(len, body))
        self.messages: Sequence[Parts] = ()  # of a batch
        self._stamp: tuple[Queue, str] | None = None

    @property
    def body(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    def for_queue(self, queue: Queue, sequences: Sequences) -> tuple[str, bytes]:
        """Properties and body with this queue's stamp. A second attempt at the same queue has the same as the first."""
        if self._stamp is None or self._stamp[0] != queue:
            if self.messages:
                stamped = [(message, about + _text(sequences.next(queue)), None) for message, about, _ in self.messages]
                self.pieces = _batch_pieces(stamped, self.message_id.split(ID_SEPARATOR))
                self._stamp = queue, ""
            else:
                self._stamp = queue, _text(sequences.next(queue))
        return self.properties + self._stamp[1], self.body


def _text(properties: Mapping[str, str]) -> str:
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def batch_of(topic: str, messages: Sequence[tuple[Message, str]], batch_id: str) -> Outgoing:
    """`messages` with their ids, all of one topic, none delayed: who calls has seen to it."""
    parts = [(message, properties_but_id(message), None) for message, _ in messages]
    return batch_of_parts(topic, parts, [message_id for _, message_id in messages], batch_id)


def batch_of_parts(topic: str, parts: Sequence[Parts], ids: list[str], batch_id: str) -> Outgoing:
    """The same of messages with their properties, and their ids."""
    properties = f"UNIQ_KEY\x01{batch_id}\x02{plain_properties('', parts[0][0].wait_until_stored)}"
    outgoing = Outgoing(topic, _BATCH_CODE, ID_SEPARATOR.join(ids), properties, _batch_pieces(parts, ids))
    outgoing.messages = parts
    return outgoing


def _batch_pieces(messages: Sequence[Parts], ids: list[str]) -> list[bytes]:
    try:
        return batch_of_messages(messages, ids)
    except RecordError as error:
        raise InvalidMessageError(str(error)) from error


def properties_json(message: Message) -> bytes:
    """All but its id, as they stand in a JSON text."""
    if message.is_plain:
        return _plain_json(message.tag, message.wait_until_stored)
    return _json_text(properties_but_id(message))[1:-1]


@lru_cache(maxsize=1024)
def _plain_json(tag: str, wait_until_stored: bool) -> bytes:
    return _json_text(plain_properties(tag, wait_until_stored))[1:-1]


class Envelope:
    """The header of all requests of one kind from one group to one queue."""

    __slots__ = ("_before", "_code", "_default_queues", "_group", "_plain", "_queue")

    def __init__(self, code: int, group: str, queue: Queue, default_queues: int) -> None:
        self._code = code
        self._group = group
        self._queue = queue
        self._default_queues = default_queues
        fields = self._header(sys_flag=0, born_ms=0, flag=0, properties=None).to_fields()
        for varying in ("f", "g", "h", "i"):
            fields.pop(varying, None)
        self._before = b'{"code":%d,"extFields":%b' % (code, msgspec.json.encode(fields)[:-1])
        self._plain = self._before.replace(b"%", b"%%") + _PLAIN

    def frame(
        self, opaque: int, properties: str, body: bytes, *, sys_flag: int, born_ms: int, flag: int, oneway: bool = False
    ) -> bytes:
        return self.frame_of(opaque, properties, [body], sys_flag=sys_flag, born_ms=born_ms, flag=flag, oneway=oneway)

    def frame_of(
        self, opaque: int, properties: str, body: list[bytes], *, sys_flag: int, born_ms: int, flag: int, oneway: bool = False
    ) -> bytes:
        """The same of a body in pieces."""
        header = self._before + _VARYING % (sys_flag, born_ms, flag, _json_text(properties), ONEWAY_FLAG if oneway else 0, opaque)
        return join_frame_of(_JSON, header, body)

    def plain_frame(self, opaque: int, message_id: str, properties: bytes, body: bytes, born_ms: int, flag: int) -> bytes:
        """The same where nothing is compressed, an answer is wanted, and a frame is large enough. `properties` as
        `properties_json` gives them."""
        header = self._plain % (born_ms, flag, message_id.encode(), properties, opaque)
        header_bytes = len(header)
        return b"".join((PREFIX.pack(4 + header_bytes + len(body), header_bytes), header, body))

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
            batch=self._code == _BATCH_CODE,
            broker_name=self._queue.broker_name,
        )


_VARYING: Final = (
    b',"f":"%%d","g":"%%d","h":"%%d","i":%%b},"flag":%%d,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)

_PLAIN: Final = (
    b',"f":"0","g":"%%d","h":"%%d","i":"UNIQ_KEY\\u0001%%b\\u0002%%b"},"flag":0,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % (Language.PYTHON.name.encode(), versions.CURRENT)
)

envelope = lru_cache(maxsize=_ENVELOPES_MAX)(Envelope)
"""(code, group, queue, default_queues) -> Envelope"""
