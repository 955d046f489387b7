"""Helpers for applications: deduplication, version checks, loss detection, tracing, metrics.

    from skyrocket.client.helpers import Deduplicator, SqliteClaims, Tracing

Each name is imported on first use, so only the helpers in use need SQLite, Redis or OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyrocket.client.lazy_names import lazy_names

if TYPE_CHECKING:
    from skyrocket.client.helpers.deduplication import AsyncClaims, Claims, ClaimState, Deduplicator, InProgressError
    from skyrocket.client.helpers.deduplication_memory import MemoryClaims
    from skyrocket.client.helpers.deduplication_redis import AsyncRedisClaims, RedisClaims
    from skyrocket.client.helpers.deduplication_sql import SqlClaims
    from skyrocket.client.helpers.deduplication_sqlite import SqliteClaims
    from skyrocket.client.helpers.loss_detection import LossDetector, LossReport, StreamReport
    from skyrocket.client.helpers.metrics import ClientMetrics
    from skyrocket.client.helpers.tracing import Tracing
    from skyrocket.client.helpers.versions import MemoryVersions, VersionCheck, Versions
    from skyrocket.client.helpers.versions_redis import RedisVersions
    from skyrocket.client.helpers.versions_sql import SqlVersions
    from skyrocket.client.helpers.versions_sqlite import SqliteVersions

__all__ = [
    "AsyncClaims",
    "AsyncRedisClaims",
    "ClaimState",
    "Claims",
    "ClientMetrics",
    "Deduplicator",
    "InProgressError",
    "LossDetector",
    "LossReport",
    "MemoryClaims",
    "MemoryVersions",
    "RedisClaims",
    "RedisVersions",
    "SqlClaims",
    "SqlVersions",
    "SqliteClaims",
    "SqliteVersions",
    "StreamReport",
    "Tracing",
    "VersionCheck",
    "Versions",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "deduplication": ("AsyncClaims", "ClaimState", "Claims", "Deduplicator", "InProgressError"),
            "deduplication_memory": ("MemoryClaims",),
            "deduplication_redis": ("AsyncRedisClaims", "RedisClaims"),
            "deduplication_sql": ("SqlClaims",),
            "deduplication_sqlite": ("SqliteClaims",),
            "loss_detection": ("LossDetector", "LossReport", "StreamReport"),
            "metrics": ("ClientMetrics",),
            "tracing": ("Tracing",),
            "versions": ("MemoryVersions", "VersionCheck", "Versions"),
            "versions_redis": ("RedisVersions",),
            "versions_sql": ("SqlVersions",),
            "versions_sqlite": ("SqliteVersions",),
        },
    )
