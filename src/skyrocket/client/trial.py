"""Calling what a user wrote: whatever it raises is noted, and told where it belongs, instead of ending what called it."""

from __future__ import annotations

from types import TracebackType


class Trial:
    """Notes an exception instead of letting it through: what a handler raises is the message's fate, not ours."""

    __slots__ = ("error", "result")

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.result: object = None

    def __enter__(self) -> Trial:
        self.error = self.result = None
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False  # nothing, or the end of this task or process
        self.error = error
        return True
