"""The body of a broker's registration: JSON, or a packed form when the request's header has `compressed`.

The packed form is one zlib stream. Counts (T, M) and lengths (n) are 32-bit, big-endian:

    +---+--------------------+---+---------------------+---+----------------------+---+---------------------------+
    | n | data version, n B  | T | T x (n, topic, n B) | n | filter servers, n B  | M | M x (n, mapping, n B)     |
    +---+--------------------+---+---------------------+---+----------------------+---+---------------------------+
          JSON                     text, see below           JSON list of strings       JSON; since 5.0, absent before

A topic is `name readQueues writeQueues perm filterType {attributes}`; before 5.0 it ends with the filter type. Its `order` and
`topicSysFlag`, the mapping's own version and the mapping details are not part of the packed form.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping
from typing import Final

from skyrocket.protocol import limits
from skyrocket.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicFilterType,
    TopicQueueMappingInfo,
)
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, decode_request, encode

_COUNT = struct.Struct(">i")
_EMPTY_TABLE: Final = b'"topicConfigTable":{}'
_LEVEL: Final = 9  # as in Java; a broker registers rarely, and with every nameserver


def encode_registration(body: RegisterBrokerBody, *, compressed: bool) -> bytes:
    """Encode a registration, in the packed form if `compressed`."""
    if not compressed:
        return encode(body)
    wrapper = body.topic_config_serialize_wrapper
    pieces = [_piece(encode(wrapper.data_version)), _COUNT.pack(len(wrapper.topic_config_table))]
    pieces += [_piece(_topic_text(config).encode()) for config in wrapper.topic_config_table.values()]
    pieces.append(_piece(encode(body.filter_server_list)))
    pieces.append(_COUNT.pack(len(wrapper.topic_queue_mapping_info_map)))
    pieces += [_piece(encode(mapping)) for mapping in wrapper.topic_queue_mapping_info_map.values()]
    return zlib.compress(b"".join(pieces), _LEVEL)


class RegistrationEncoder:
    """Encodes one registration after another as JSON. Topics that did not change since the last one are not encoded again."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[TopicConfig, bytes]] = {}

    def encode(self, topics: Mapping[str, TopicConfig], version: DataVersion, mapping_version: DataVersion) -> bytes:
        """Encode the registration of these topics. A topic's settings are never changed in place, only replaced."""
        texts: dict[str, tuple[TopicConfig, bytes]] = {}
        for name, config in topics.items():
            known = self._texts.get(name)
            texts[name] = known if known is not None and known[0] is config else (config, encode({name: config})[1:-1])
        self._texts = texts
        wrapper = TopicConfigAndMappingSerializeWrapper(data_version=version, mapping_data_version=mapping_version)
        rest = encode(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
        before, table, after = rest.partition(_EMPTY_TABLE)
        assert table, "a registration has a table of topics"
        return b"".join((before, table[:-1], b",".join([text for _, text in texts.values()]), b"}", after))


def decode_registration(data: bytes, *, compressed: bool) -> RegisterBrokerBody:
    """Decode a registration. Raise BodyError if it is malformed or unpacks to more than `REGISTRATION_BYTES_MAX`."""
    if not compressed:
        return decode_request(data, RegisterBrokerBody)
    pieces = _PieceReader(_decompress(data))
    body = RegisterBrokerBody()
    wrapper = body.topic_config_serialize_wrapper
    wrapper.data_version = decode(pieces.next(), DataVersion)
    for _ in range(pieces.count()):
        config = _topic(pieces.next())
        wrapper.topic_config_table[config.topic_name] = config
    filter_servers = pieces.next()
    body.filter_server_list = [] if filter_servers == b"null" else decode(filter_servers, list[str])
    if pieces.has_more():
        for _ in range(pieces.count()):
            mapping = decode(pieces.next(), TopicQueueMappingInfo)
            wrapper.topic_queue_mapping_info_map[mapping.topic or ""] = mapping
    return body


def _piece(data: bytes) -> bytes:
    return _COUNT.pack(len(data)) + data


def _decompress(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(data, limits.REGISTRATION_BYTES_MAX)
    except zlib.error as error:
        raise BodyError(f"The registration is not a zlib stream: {error}.") from error
    if stream.unconsumed_tail:
        raise BodyError(f"The registration unpacks to more than {limits.REGISTRATION_BYTES_MAX} bytes.")
    if not stream.eof:
        raise BodyError("The registration's zlib stream ends too early.")
    return unpacked


class _PieceReader:
    """Reads the pieces of a packed registration in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def has_more(self) -> bool:
        return self._position < len(self._data)

    def count(self) -> int:
        """Read a count or a length. Raise BodyError if it is larger than the bytes that follow."""
        left = len(self._data) - self._position - _COUNT.size
        if left < 0:
            raise BodyError(f"The registration ends inside a number, at byte {self._position}.")
        (count,) = _COUNT.unpack_from(self._data, self._position)
        if not 0 <= count <= left:
            raise BodyError(f"The registration has the number {count} at byte {self._position}, but only {left} bytes follow.")
        self._position += _COUNT.size
        return int(count)

    def next(self) -> bytes:
        size_bytes = self.count()
        piece = self._data[self._position : self._position + size_bytes]
        self._position += size_bytes
        return piece


# One topic ----------------------------------------------------------------------------------------------------------

_TOPIC: Final = re.compile(r"([^ ]+) ([+-]?[0-9]{1,10}) ([+-]?[0-9]{1,10}) ([+-]?[0-9]{1,10}) ([A-Z_]+)(?: (.*))?", re.DOTALL)


def _topic_text(config: TopicConfig) -> str:
    if not config.topic_name or " " in config.topic_name:
        raise BodyError(f"Topic {config.topic_name!r} cannot be packed: its name is empty or has a space.")
    attributes = encode(config.attributes).decode()
    numbers = f"{config.read_queue_nums} {config.write_queue_nums} {config.perm}"
    return f"{config.topic_name} {numbers} {config.topic_filter_type} {attributes}"


def _topic(piece: bytes) -> TopicConfig:
    try:
        text = piece.decode()
    except UnicodeDecodeError as error:
        raise BodyError("The registration has a topic that is not UTF-8.") from error
    parts = _TOPIC.fullmatch(text)
    if parts is None:
        raise BodyError(f"The registration has a malformed topic: {text[:64]!r}.")
    name, read_queues, write_queues, perm, filter_type, attributes = parts.groups()
    numbers = [int(read_queues), int(write_queues), int(perm)]
    if filter_type not in TopicFilterType.__members__ or not all(-(2**31) <= number < 2**31 for number in numbers):
        raise BodyError(f"The registration has a malformed topic: {text[:64]!r}.")
    return TopicConfig(
        topic_name=name,
        read_queue_nums=numbers[0],
        write_queue_nums=numbers[1],
        perm=numbers[2],
        topic_filter_type=TopicFilterType[filter_type],
        attributes=decode(attributes.encode(), dict[str, str]) if attributes else {},
    )
