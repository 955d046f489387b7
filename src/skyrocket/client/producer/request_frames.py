"""What is sent for a message, or for a batch of them, and the frame that carries it.

A frame's header is JSON. Nearly all of it is the same for every message to one queue, so that part is written once (`Envelope`)
and the rest put into it: the numbers, and the properties as one JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from skyrocket.client.errors import InvalidMessageError
from skyrocket.client.message import Message, plain_properties, properties_but_id
from skyrocket.client.producer.sequence import Sequences
from skyrocket.client.queues import Queue
from skyrocket.net.connection import JOINED_BYTES_MAX
from skyrocket.protocol import versions
from skyrocket.protocol.command import ONEWAY_FLAG, Command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.frame import PREFIX, Serialization, frame_start
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.language import Language
from skyrocket.protocol.message.batch import batch_of_messages
from skyrocket.protocol.message.message_id import ID_SEPARATOR
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC

_JSON: Final = int(Serialization.JSON)  # a plain number: enumerations are slow to count with
SEND_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_BATCH_CODE: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_json_text = msgspec.json.Encoder().encode
_ENVELOPES_MAX = 65_536  # one for each queue that a process sends to


class _Several(NamedTuple):
    """The messages of a batch."""

    messages: list[Message]
    properties: list[str]  # but for the ids
    ids: list[str]

    def packed(self) -> list[bytes]:
        try:
            return batch_of_messages(*self)
        except RecordError as error:
            raise InvalidMessageError(str(error)) from error


class Outgoing:
    """One request's worth: it goes to one queue, and is acknowledged or not as a whole. It may be tried several times."""

    __slots__ = (
        *("_pieces", "_several", "_stamp", "_stamped"),
        *("code", "flag", "message_id", "properties", "size_bytes", "sys_flag", "topic"),
    )

    def __init__(
        self,
        topic: str,
        code: int,
        message_id: str,
        properties: str,
        body: bytes | _Several,
        *,
        sys_flag: int = 0,
        flag: int = 0,
    ) -> None:
        self.topic = topic  # on the wire
        self.code = code
        self.message_id = message_id
        self.properties = properties
        self._several = self._stamped = body if isinstance(body, _Several) else None
        self._pieces = body.packed() if isinstance(body, _Several) else [body]
        self.sys_flag = sys_flag
        self.flag = flag
        self.size_bytes = sum(map(len, self._pieces))
        self._stamp: tuple[Queue, str] | None = None

    @property
    def body(self) -> bytes:
        pieces = self.pieces()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pieces(self) -> list[bytes]:
        """The body, as a frame puts it together: what is large is copied once. A batch is packed anew for every further attempt:
        its messages are kept, and need not be in memory twice while it waits for its answer."""
        if self._stamped is None:
            return self._pieces
        pieces, self._pieces = self._pieces or self._stamped.packed(), []
        return pieces

    def for_queue(self, queue: Queue, sequences: Sequences) -> str:
        """Its properties with this queue's stamp; a batch has the stamps in its body. A second attempt at the same queue has the
        same as the first."""
        if self._stamp is None or self._stamp[0] != queue:
            if self._several is None:
                self._stamp = queue, _text(sequences.next(queue))
            else:
                properties = [about + _text(sequences.next(queue)) for about in self._several.properties]
                self._stamp, self._stamped, self._pieces = (queue, ""), self._several._replace(properties=properties), []
        return self.properties + self._stamp[1]


def _text(properties: Mapping[str, str]) -> str:
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def batch_of(topic: str, messages: Sequence[tuple[Message, str]], batch_id: str) -> Outgoing:
    """`messages` with their ids, all of one topic, none delayed: who calls has seen to it."""
    properties, ids = [properties_but_id(message) for message, _ in messages], [own_id for _, own_id in messages]
    outgoing = batch_of_parts(topic, [message for message, _ in messages], properties, ids, batch_id)
    outgoing.message_id = ID_SEPARATOR.join(ids)  # its receipt names them all
    return outgoing


def batch_of_parts(topic: str, messages: list[Message], properties: list[str], ids: list[str], batch_id: str) -> Outgoing:
    """The same of messages, their properties but for the ids, and their ids."""
    of_all = f"UNIQ_KEY\x01{batch_id}\x02{plain_properties('', messages[0].wait_until_stored)}"
    return Outgoing(topic, _BATCH_CODE, batch_id, of_all, _Several(messages, properties, ids))


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

    def frame_of(
        self, opaque: int, properties: str, body: list[bytes], *, sys_flag: int, born_ms: int, flag: int, oneway: bool = False
    ) -> bytes | list[bytes]:
        """A body in pieces is copied together. A large one that is in one piece is not, but is sent behind its header."""
        header = self._before + _VARYING % (sys_flag, born_ms, flag, _json_text(properties), ONEWAY_FLAG if oneway else 0, opaque)
        start = frame_start(_JSON, header, sum(map(len, body)))
        return [start, *body] if len(body) == 1 and len(body[0]) > JOINED_BYTES_MAX else b"".join((start, *body))

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
