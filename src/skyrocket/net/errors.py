"""What a caller of the network sees when a request brings no answer."""

from __future__ import annotations


class NetError(Exception):
    """The root of the network's errors."""


class ConnectError(NetError):
    """No connection could be made."""


class DisconnectedError(NetError):
    """The connection ended before the response came. Whether the request was handled is unknown."""


class RequestTimeoutError(NetError):
    """No response came in time. Whether the request was handled is unknown."""


class OverloadedError(NetError):
    """A bound of `limits` is reached; the request was not sent."""
