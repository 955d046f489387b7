"""Which settings of servers are secrets. Our servers show no value of theirs; Apache's show every value in clear. Pure.

A key is one of SECRET_KEYS, or ends as one of SECRET_ENDINGS, whatever its case: Apache's servers take both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SECRET_KEYS: Final = frozenset(
    {
        "initauthenticationuser",  # the first Super user, with its password
        "innerclientauthenticationcredentials",  # what brokers sign with
        "metricsgrpcexporterheader",  # often a token
    }
)
SECRET_ENDINGS: Final = ("password", "secret", "secretkey")
HIDDEN_VALUE: Final = "(hidden)"


def is_secret_setting(name: str) -> bool:
    key = name.strip().lower()
    return key in SECRET_KEYS or key.endswith(SECRET_ENDINGS)


def hide_secret(name: str, value: str) -> str:
    """Return the value of a setting as a person may see it. An empty one stays empty: it tells that nothing is set."""
    return HIDDEN_VALUE if value and is_secret_setting(name) else value


def hide_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as a person may see them."""
    return {name: hide_secret(name, value) for name, value in settings.items()}
