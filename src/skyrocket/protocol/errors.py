"""What can be wrong with bytes or values of the protocol. Each error is one sentence that says what, and where."""

from __future__ import annotations


class ProtocolError(Exception):
    """Bytes or values that are not RocketMQ's protocol. The root of every error this package raises on purpose."""


class FrameError(ProtocolError):
    """A frame, or the command in its header, is malformed: the rest of the connection cannot be read either."""


class HeaderError(ProtocolError):
    """The command is sound, but a field of its typed header is missing or has a wrong value."""

    def __init__(self, header: str, field: str, problem: str) -> None:
        super().__init__(f"{header}: field '{field}' {problem}")
        self.header = header
        self.field = field
        self.problem = problem


class BodyError(ProtocolError):
    """A command's body is not what its code says it is."""


class RecordError(ProtocolError):
    """Bytes that should be a message record or a batch are not."""


class CompressionError(ProtocolError):
    """A compressed body is damaged, too large when unpacked, or of an unknown kind."""


class IdError(ProtocolError):
    """Text that should be a message id is not."""


class SubscriptionError(ProtocolError):
    """A subscription's expression names no tag and not all of them either."""
