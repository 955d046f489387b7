"""Errors about settings. Each is one sentence."""

from __future__ import annotations


class SettingsError(Exception):
    """A setting is unknown, its value is invalid, or its file cannot be used."""


class FixedSettingError(SettingsError):
    """The setting cannot be changed by a request."""
