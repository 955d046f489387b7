"""What is wrong with settings. Each error is one sentence."""

from __future__ import annotations


class SettingsError(Exception):
    """A setting is unknown, its value is wrong, or its file cannot be used."""


class FixedSettingError(SettingsError):
    """The setting is known, and not to be changed from afar."""
