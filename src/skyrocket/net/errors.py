"""Errors of a request that gets no response."""

from __future__ import annotations


class NetError(Exception):
    """The base of all errors of this package."""


class ConnectError(NetError):
    """The connection could not be opened."""


class ConnectionLostError(NetError):
    """The connection ended before the response arrived. The peer may or may not have handled the request."""


class RequestTimeoutError(NetError):
    """No response arrived in time. The peer may or may not have handled the request."""


class TooManyRequestsError(NetError):
    """The request was not sent, because a bound in `limits` is reached."""
