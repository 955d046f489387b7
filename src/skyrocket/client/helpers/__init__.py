"""Helpers for applications: deduplication, version checks, loss detection, tracing.

    from skyrocket.client.helpers import Deduplicator, SqliteClaims, Tracing

Each name is imported on first use, so only the helpers in use need SQLite, Redis or OpenTelemetry.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyrocket.client.helpers.deduplication import AsyncClaims, Claims, ClaimState, Deduplicator, InProgressError
    from skyrocket.client.helpers.deduplication_memory import MemoryClaims
    from skyrocket.client.helpers.deduplication_redis import AsyncRedisClaims, RedisClaims
    from skyrocket.client.helpers.deduplication_sqlite import SqliteClaims
    from skyrocket.client.helpers.loss_detection import LossDetector, LossReport, StreamReport
    from skyrocket.client.helpers.tracing import Tracing
    from skyrocket.client.helpers.versions import MemoryVersions, VersionCheck, Versions
    from skyrocket.client.helpers.versions_sqlite import SqliteVersions

__all__ = [
    "AsyncClaims",
    "AsyncRedisClaims",
    "ClaimState",
    "Claims",
    "Deduplicator",
    "InProgressError",
    "LossDetector",
    "LossReport",
    "MemoryClaims",
    "MemoryVersions",
    "RedisClaims",
    "SqliteClaims",
    "SqliteVersions",
    "StreamReport",
    "Tracing",
    "VersionCheck",
    "Versions",
]

_MODULES = {
    "deduplication": ("AsyncClaims", "ClaimState", "Claims", "Deduplicator", "InProgressError"),
    "deduplication_memory": ("MemoryClaims",),
    "deduplication_redis": ("AsyncRedisClaims", "RedisClaims"),
    "deduplication_sqlite": ("SqliteClaims",),
    "loss_detection": ("LossDetector", "LossReport", "StreamReport"),
    "tracing": ("Tracing",),
    "versions": ("MemoryVersions", "VersionCheck", "Versions"),
    "versions_sqlite": ("SqliteVersions",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = found  # the next access does not come here
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
