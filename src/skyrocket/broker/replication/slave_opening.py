"""Our slave's part of the opening with our master, over a connection to the HA port. See `ha_opening` for what is said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from skyrocket.broker.errors import ReplicationError
from skyrocket.broker.replication.ha_opening import (
    MESSAGE_BYTES_MAX,
    OPENING,
    SIZE,
    Begin,
    Compare,
    Compared,
    Hello,
    MasterIdentity,
    Proof,
    Welcome,
    check_proof,
    encode_message,
    make_proof,
)
from skyrocket.protocol.crc import crc32

ANSWER_S: Final = 30.0  # the master may have to read many records from its disk

T = TypeVar("T", bound=msgspec.Struct)


def write_to_master(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write, or raise ReplicationError when the connection is over: uvloop would raise an error of its own."""
    if writer.is_closing():
        raise ReplicationError("The master has closed the connection; its log says why.")
    writer.write(data)


class SlaveOpening:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: MasterIdentity) -> None:
        self._reader = reader
        self._writer = writer
        self._identity = identity

    async def greet(self, broker_id: int, nonce: str) -> Welcome:
        """Say who this slave is, and return what the master says. Raise ReplicationError when they do not know each other."""
        ours = self._identity
        hello = Hello(ours.cluster, ours.broker, broker_id, ours.segment_bytes, nonce)
        write_to_master(self._writer, OPENING + encode_message(hello))
        welcome = await self._read(Welcome)
        try:
            check_proof(welcome.proof, ours.secret, "master", nonce, welcome.nonce)
        except ReplicationError as error:
            raise ReplicationError(f"The master is not trusted: {error}.") from error
        write_to_master(self._writer, encode_message(Proof(make_proof(ours.secret, "slave", nonce, welcome.nonce))))
        return welcome

    async def has_records(self, records: Sequence[tuple[int, bytes]]) -> list[bool]:
        """Return for each offset and record whether the master's log has the same bytes there."""
        compare = Compare([(offset, len(record), crc32(record)) for offset, record in records])
        write_to_master(self._writer, encode_message(compare))
        compared = await self._read(Compared)
        if len(compared.are_equal) != len(records):
            raise ReplicationError(f"The master compared {len(compared.are_equal)} records instead of {len(records)}.")
        return compared.are_equal

    def begin(self, offset: int) -> None:
        """Let the master begin to send the log."""
        write_to_master(self._writer, encode_message(Begin(offset)))

    async def _read(self, kind: type[T]) -> T:
        try:
            async with asyncio.timeout(ANSWER_S):
                (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
                if not 0 < size <= MESSAGE_BYTES_MAX:
                    raise ReplicationError(f"The master sent a message of {size} bytes.")
                return msgspec.json.decode(await self._reader.readexactly(size), type=kind)
        except asyncio.IncompleteReadError as error:
            raise ReplicationError("The master has closed the connection; its log says why.") from error
        except TimeoutError as error:
            raise ReplicationError(f"The master has not answered in {ANSWER_S:g} s.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ReplicationError(f"The master sent a message that cannot be read: {error}") from error
