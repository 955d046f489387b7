"""Users and their permissions."""

from __future__ import annotations

from skyrocket.protocol.bodies.body import Body


class UserInfo(Body):
    username: str = ""
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class PolicyEntryInfo(Body):
    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body):
    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(Body):
    subject: str | None = None
    policies: list[PolicyInfo] | None = None
