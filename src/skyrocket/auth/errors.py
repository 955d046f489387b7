"""Errors of access control. Each has the response code that Apache's broker answers with."""

from __future__ import annotations

from skyrocket.protocol.responses import ResponseCode


class AccessError(Exception):
    """A request that changes or reads users and rules is refused, or a file of them is unusable."""

    def __init__(self, remark: str, code: ResponseCode = ResponseCode.NO_PERMISSION) -> None:
        super().__init__(remark)
        self.code = code


class SealError(AccessError):
    """A sealed password was changed, or belongs to another key."""
