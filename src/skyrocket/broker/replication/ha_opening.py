"""What our slave and our master say to each other before the HA protocol begins. Pure.

Apache's protocol has no words for who the slave is, where the logs start, and whether they are equal. Our slave finds out over
the master's ordinary port whether the master is ours (`master_probe`), and only then opens with eight bytes that are no position
in a log. Each message is JSON behind its size:

     0            8        12
     +------------+--------+----- - - -+--------+----- - - -+
     | OPENING    | size   | Hello     | size   | …         |
     +------------+--------+----- - - -+--------+----- - - -+
      int64        int32                int32

    slave                                                master
    Hello    who I am, my segments, a nonce         ─►
                                                    ◄─   Welcome   where my log starts and ends, a nonce, my proof
    Proof    my proof                               ─►
    Compare  places, sizes and CRCs of records      ─►
                                                    ◄─   Compared  which of them are the same here
    Begin    where to begin                         ─►
                                                    ◄─   transfers: from here on it is Apache's protocol

A proof shows that one knows the secret of `haSecretPath` without telling it: an HMAC over both nonces. Without a secret it is
made with an empty one.
"""

from __future__ import annotations

import hmac
import struct
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from skyrocket.broker.errors import ReplicationError, UnknownSlaveError
from skyrocket.broker.replication.master_link import LogBounds
from skyrocket.store.replica.log_reader import LogSpan

OPENING: Final = struct.pack(">q", -0x736B79_726F636B)  # no position in a log
SIZE: Final = struct.Struct(">i")
MESSAGE_BYTES_MAX: Final = 64 * 1024
COMPARED_BYTES_MAX: Final = 256 * 1024 * 1024  # that the records of one message have at most


class Hello(msgspec.Struct, tag=True):
    cluster: str
    broker: str  # the name that master and slaves share
    broker_id: int
    segment_bytes: int
    nonce: str


class Welcome(msgspec.Struct, tag=True):
    log_start: int
    log_end: int
    nonce: str
    proof: str


class Proof(msgspec.Struct, tag=True):
    proof: str


class Compare(msgspec.Struct, tag=True):
    records: list[tuple[int, int, int]]  # offset, size, CRC-32


class Compared(msgspec.Struct, tag=True):
    are_equal: list[bool]


class Begin(msgspec.Struct, tag=True):
    offset: int


SlaveMessage = Hello | Proof | Compare | Begin
_SLAVE_MESSAGES: Final[msgspec.json.Decoder[SlaveMessage]] = msgspec.json.Decoder(SlaveMessage)


def encode_message(message: msgspec.Struct) -> bytes:
    encoded = msgspec.json.encode(message)
    return SIZE.pack(len(encoded)) + encoded


def make_proof(secret: bytes, who: str, slave_nonce: str, master_nonce: str) -> str:
    """Return what shows that `who` ("slave" or "master") knows the secret."""
    return hmac.new(secret, f"{who} {slave_nonce} {master_nonce}".encode(), sha256).hexdigest()


def check_proof(given: str, secret: bytes, who: str, slave_nonce: str, master_nonce: str) -> None:
    if not hmac.compare_digest(given.encode(), make_proof(secret, who, slave_nonce, master_nonce).encode()):
        raise ReplicationError(f"the {who} does not know the secret: the file of haSecretPath has to be the same on both sides")


class MasterIdentity(NamedTuple):
    """What a slave has to know of its master, or to have in common with it."""

    cluster: str
    broker: str
    segment_bytes: int
    secret: bytes


class ComparedRecords(NamedTuple):
    """A question about records, which is answered once the disk has returned them."""

    spans: list[LogSpan]
    checksums: list[int]


class MasterOpening:
    """The master's part. Bytes in; answers, questions about records, and finally where to begin, out."""

    def __init__(self, identity: MasterIdentity, nonce: str) -> None:
        self._identity = identity
        self._nonce = nonce
        self._slave_nonce: str | None = None
        self._is_proven = False
        self._kept = b""
        self.slave = ""  # which one it is
        self.begin: int | None = None  # where the slave wants to begin
        self.rest = b""  # what came behind that: reports

    def receive(self, data: bytes, log: LogBounds) -> list[bytes | ComparedRecords]:
        """Return what to answer, and what to compare. Raise ReplicationError when the connection has to be closed."""
        self._kept += data
        answers: list[bytes | ComparedRecords] = []
        while self.begin is None and len(self._kept) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._kept)
            if not 0 < size <= MESSAGE_BYTES_MAX:
                raise ReplicationError(f"it sent a message of {size} bytes")
            if len(self._kept) < SIZE.size + size:
                break
            message = _decode(self._kept[SIZE.size : SIZE.size + size])
            self._kept = self._kept[SIZE.size + size :]
            answers += self._take(message, log)
        if self.begin is not None:
            self.rest, self._kept = self.rest + self._kept, b""
        return answers

    def _take(self, message: SlaveMessage, log: LogBounds) -> list[bytes | ComparedRecords]:
        if isinstance(message, Hello):
            return [self._welcome(message, log)]
        if isinstance(message, Proof) and self._slave_nonce is not None:
            try:
                check_proof(message.proof, self._identity.secret, "slave", self._slave_nonce, self._nonce)
            except ReplicationError as error:
                raise UnknownSlaveError(str(error)) from error
            self._is_proven = True
            return []
        if not self._is_proven:
            raise UnknownSlaveError("it asked for the log before it has shown who it is")
        if isinstance(message, Compare):
            spans = [LogSpan(offset, size) for offset, size, _ in message.records]
            if any(span.size <= 0 for span in spans) or sum(span.size for span in spans) > COMPARED_BYTES_MAX:
                raise ReplicationError("it wants to compare nothing, or too much at once")
            return [ComparedRecords(spans, [checksum for _, _, checksum in message.records])]
        assert isinstance(message, Begin)
        self.begin = message.offset
        return []

    def _welcome(self, hello: Hello, log: LogBounds) -> bytes:
        ours = self._identity
        if (hello.cluster, hello.broker) != (ours.cluster, ours.broker):
            raise ReplicationError(
                f"it is a slave of {hello.broker} in {hello.cluster}, but this is {ours.broker} in {ours.cluster}"
            )
        if hello.segment_bytes != ours.segment_bytes:
            raise ReplicationError(
                f"its mappedFileSizeCommitLog is {hello.segment_bytes}, but this master's is {ours.segment_bytes}: they have to "
                f"be the same"
            )
        self.slave, self._slave_nonce = f"{hello.broker}:{hello.broker_id}", hello.nonce
        proof = make_proof(ours.secret, "master", hello.nonce, self._nonce)
        return encode_message(Welcome(log.start, log.end, self._nonce, proof))


def _decode(encoded: bytes) -> SlaveMessage:
    try:
        return _SLAVE_MESSAGES.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReplicationError(f"it sent a message that cannot be read: {error}") from error
