"""What the nameserver cannot work with. Each error is one sentence."""

from __future__ import annotations


class NameserverError(Exception):
    """The root of them."""


class BadNameError(NameserverError):
    """A name or an address that is not one."""


class FullError(NameserverError):
    """A bound of `limits` is reached."""


class NotRegisteredError(NameserverError):
    """The broker must register with all its topics first."""


class KvFileError(NameserverError):
    """The file of keys and values cannot be read."""
