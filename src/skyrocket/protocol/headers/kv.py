"""The name server's small table of keys and values."""

from __future__ import annotations

from skyrocket.protocol.header import Header


class PutKVConfigRequestHeader(Header, kw_only=True):
    """100: set a value."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(Header, kw_only=True):
    """101: read one."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header, kw_only=True):
    """101: the answer."""

    value: str | None = None


class DeleteKVConfigRequestHeader(Header, kw_only=True):
    """102: remove one."""

    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(Header, kw_only=True):
    """219: a whole namespace."""

    namespace: str
