"""A send while it lasts, from the call until its acknowledgement. This one leaves no trace; `tracing` has one that does."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from skyrocket.client.message import Message
from skyrocket.client.receipt import Receipt


class Sending:
    """`messages` are those to send: as the user gave them, or with a trace's context among their properties."""

    __slots__ = ("messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages

    @property
    def message(self) -> Message:
        return self.messages[0]

    def acknowledged(self, receipt: Receipt) -> Receipt:
        return receipt

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None
