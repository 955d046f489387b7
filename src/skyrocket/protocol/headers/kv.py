"""The nameserver's key-value table."""

from __future__ import annotations

from skyrocket.protocol.header import Header


class PutKVConfigRequestHeader(Header, kw_only=True):
    """100: set a value."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(Header, kw_only=True):
    """101: get a value."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header, kw_only=True):
    """101: the response."""

    value: str | None = None


class DeleteKVConfigRequestHeader(Header, kw_only=True):
    """102: delete a value."""

    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(Header, kw_only=True):
    """219: get all values of a namespace."""

    namespace: str
