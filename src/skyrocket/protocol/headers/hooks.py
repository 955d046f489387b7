"""Fields that hooks in Apache's clients add to every request: signature, kind of consumer, zone."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.header import Header, Int32


class HookHeader(Header, kw_only=True):
    """The fields that any request may have beside those of its header."""

    request_type: Int32 | None = field(name="ReqT", default=None)  # 0: from a lite pull consumer
    access_key: str | None = field(name="AccessKey", default=None)
    signature: str | None = field(name="Signature", default=None)
    security_token: str | None = field(name="SecurityToken", default=None)
    zone_name: str | None = field(name="__ZONE_NAME", default=None)
    zone_mode: str | None = field(name="__ZONE_MODE", default=None)  # true: routes of this zone first
