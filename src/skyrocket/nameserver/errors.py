"""Errors of the nameserver. Each is one sentence."""

from __future__ import annotations


class NameserverError(Exception):
    """The base of all errors of this package."""


class BadNameError(NameserverError):
    """A name or an address is invalid."""


class FullError(NameserverError):
    """A table is full: a bound in `limits` is reached."""


class NotRegisteredError(NameserverError):
    """The broker is not registered, or must register with all its topics first."""


class KvFileError(NameserverError):
    """The file of keys and values cannot be used."""
