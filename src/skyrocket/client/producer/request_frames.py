"""Send requests: what is sent for a message or a batch, and the frame that carries it.

A frame's header is JSON. All requests of one group to one queue share nearly all of it, so `FrameTemplate` encodes that part
once. Each request then fills in the rest: the numbers, and the properties as one JSON string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from skyrocket.client.errors import InvalidMessageError
from skyrocket.client.message import Message, plain_properties, properties_without_id
from skyrocket.client.producer.sequence import SequenceStamps
from skyrocket.client.queues import Queue
from skyrocket.protocol import versions
from skyrocket.protocol.command import ONEWAY_FLAG, Command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.frame import PREFIX, Serialization, frame_start
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.language import Language
from skyrocket.protocol.message.batch import pack_batch
from skyrocket.protocol.message.message_id import ID_SEPARATOR
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC

_JSON: Final = int(Serialization.JSON)  # a plain number: arithmetic with enumerations is slow
SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_json_text = msgspec.json.Encoder().encode
JOINED_BYTES_MAX: Final = 64 * 1024  # above it, a body is not copied behind its header
_TEMPLATES_MAX = 65_536  # one for each queue that a process sends to


class _BatchBody(NamedTuple):
    """The messages of a batch, from which its body is encoded."""

    messages: list[Message]
    properties: list[str]  # of each message, without its id
    ids: list[str]

    def encode(self) -> list[bytes]:
        try:
            return pack_batch(*self)
        except RecordError as error:
            raise InvalidMessageError(str(error)) from error


class SendRequest:
    """One message or one batch to send. It goes to one queue, is acknowledged as a whole, and may be attempted several times."""

    __slots__ = (
        *("_batch", "_pieces", "_stamp", "_stamped_batch"),
        *("code", "flag", "message_id", "properties", "size_bytes", "sys_flag", "topic"),
    )

    def __init__(
        self,
        topic: str,
        code: int,
        message_id: str,
        properties: str,
        body: bytes | _BatchBody,
        *,
        sys_flag: int = 0,
        flag: int = 0,
    ) -> None:
        self.topic = topic  # with namespace
        self.code = code
        self.message_id = message_id
        self.properties = properties
        self._batch = self._stamped_batch = body if isinstance(body, _BatchBody) else None
        self._pieces = body.encode() if isinstance(body, _BatchBody) else [body]
        self.sys_flag = sys_flag
        self.flag = flag
        self.size_bytes = sum(map(len, self._pieces))
        self._stamp: tuple[Queue, str] | None = None

    @property
    def body(self) -> bytes:
        pieces = self.pieces()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pieces(self) -> list[bytes]:
        """Return the body in pieces, so that a frame copies large parts once.

        A batch is encoded again for each further attempt. It keeps its messages, and its body does not stay in memory beside them
        while it waits for the response.
        """
        if self._stamped_batch is None:
            return self._pieces
        pieces, self._pieces = self._pieces or self._stamped_batch.encode(), []
        return pieces

    def stamp_for(self, queue: Queue, stamps: SequenceStamps) -> str:
        """Return the properties with a sequence stamp for this queue; a batch gets the stamps in its body.

        A second attempt at the same queue keeps the stamp of the first.
        """
        if self._stamp is None or self._stamp[0] != queue:
            if self._batch is None:
                self._stamp = queue, _encode(stamps.next(queue))
            else:
                properties = [own + _encode(stamps.next(queue)) for own in self._batch.properties]
                self._stamp, self._stamped_batch, self._pieces = (queue, ""), self._batch._replace(properties=properties), []
        return self.properties + self._stamp[1]


def _encode(properties: Mapping[str, str]) -> str:
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def build_batch(topic: str, messages: Sequence[tuple[Message, str]], batch_id: str) -> SendRequest:
    """Build the request for (message, id) pairs. The caller ensures that all have one topic and none is delayed."""
    properties, ids = [properties_without_id(message) for message, _ in messages], [own_id for _, own_id in messages]
    request = build_batch_of_parts(topic, [message for message, _ in messages], properties, ids, batch_id)
    request.message_id = ID_SEPARATOR.join(ids)  # the receipt names all messages
    return request


def build_batch_of_parts(
    topic: str, messages: list[Message], properties: list[str], ids: list[str], batch_id: str
) -> SendRequest:
    """Build the request for messages whose properties (without ids) are encoded already. The lists are parallel."""
    of_batch = f"UNIQ_KEY\x01{batch_id}\x02{plain_properties('', messages[0].wait_until_stored)}"
    return SendRequest(topic, _BATCH_CODE, batch_id, of_batch, _BatchBody(messages, properties, ids))


def properties_json(message: Message) -> bytes:
    """Encode a message's properties without its id, as the inside of a JSON string."""
    if message.is_plain:
        return _plain_json(message.tag, message.wait_until_stored)
    return _json_text(properties_without_id(message))[1:-1]


@lru_cache(maxsize=1024)
def _plain_json(tag: str, wait_until_stored: bool) -> bytes:
    return _json_text(plain_properties(tag, wait_until_stored))[1:-1]


class FrameTemplate:
    """The part of the frame header that all requests of one code from one group to one queue share."""

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

    def build_frame(
        self, opaque: int, properties: str, body: list[bytes], *, sys_flag: int, born_ms: int, flag: int, oneway: bool = False
    ) -> bytes | list[bytes]:
        """Build the frame of any request. The pieces of a body are joined; a large body in one piece is sent after the header
        without a copy."""
        header = self._before + _VARYING % (sys_flag, born_ms, flag, _json_text(properties), ONEWAY_FLAG if oneway else 0, opaque)
        start = frame_start(_JSON, header, sum(map(len, body)))
        return [start, *body] if len(body) == 1 and len(body[0]) > JOINED_BYTES_MAX else b"".join((start, *body))

    def build_plain_frame(self, opaque: int, message_id: str, properties: bytes, body: bytes, born_ms: int, flag: int) -> bytes:
        """Build the frame of a request that is not compressed, wants a response and has a small body. `properties` come from
        `properties_json`."""
        header = self._plain % (born_ms, flag, message_id.encode(), properties, opaque)
        header_bytes = len(header)
        return b"".join((PREFIX.pack(4 + header_bytes + len(body), header_bytes), header, body))

    def build_command(self, properties: str, body: bytes, *, sys_flag: int, born_ms: int, flag: int) -> Command:
        """Build the request as a command, whose fields can be signed."""
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

frame_template = lru_cache(maxsize=_TEMPLATES_MAX)(FrameTemplate)
"""(code, group, queue, default_queues) -> FrameTemplate, cached"""
