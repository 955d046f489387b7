"""Errors of the protocol. The message of each is one sentence that says what is wrong, and where."""

from __future__ import annotations


class ProtocolError(Exception):
    """The base class of the protocol's errors: bytes or values that do not follow RocketMQ's protocol."""


class FrameError(ProtocolError):
    """A frame or its header is malformed. The rest of the connection cannot be read."""


class HeaderError(ProtocolError):
    """The command is well-formed, but a field of its typed header is missing or has a wrong value."""

    def __init__(self, header: str, field: str, problem: str) -> None:
        super().__init__(f"{header}: field '{field}' {problem}")
        self.header = header
        self.field = field
        self.problem = problem


class BodyError(ProtocolError):
    """A command's body does not have the format that its code requires."""


class RecordError(ProtocolError):
    """Bytes are not a valid message record or batch."""


class CompressionError(ProtocolError):
    """A compressed body is damaged, too large when decompressed, or of an unknown kind."""


class IdError(ProtocolError):
    """A text is not a valid message id."""


class SubscriptionError(ProtocolError):
    """A subscription expression is neither a list of tags nor `*`."""
