"""Retries a request while the cluster does not answer, for as long as option `retryTimeout` allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from skyrocket.client.errors import (
    BrokerError,
    ClientError,
    DisconnectedError,
    NoNameserverError,
    NoRouteError,
    OverloadedError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.client.session.session import Session
from skyrocket.protocol.responses import ResponseCode
from skyrocket.spark.errors import RequestRefusedError, UnreachableClusterError
from skyrocket.spark.options.cluster_options import ClusterOptions

T = TypeVar("T")
PAUSE_FIRST_MS: Final = 100  # after the first failure; doubled after each further one
PAUSE_MS_MAX: Final = 2_000
NO_ROUTE_MS_MAX: Final = 10_000  # a restarted nameserver has no routes at first; later, a missing route stays missing
_NO_ANSWER: Final = (NoNameserverError, UnreachableError, DisconnectedError, TimedOutError, OverloadedError, NoRouteError)
_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL})


async def retry_until_answered(session: Session, options: ClusterOptions, what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Retry an idempotent request. `what` begins the error message: "The ledger could not be read"."""
    began_ms, pause_ms = session.now_ms(), PAUSE_FIRST_MS
    while True:
        try:
            return await ask()
        except BrokerError as error:
            if error.code not in _BUSY:
                raise RequestRefusedError(f"{what}: {error}") from error
            reason: ClientError = error
        except _NO_ANSWER as error:
            reason = error
        except ClientError as error:
            raise UnreachableClusterError(f"{what}: {error}") from error
        most_ms = min(options.retry_ms, NO_ROUTE_MS_MAX) if isinstance(reason, NoRouteError) else options.retry_ms
        if session.now_ms() + pause_ms > began_ms + most_ms:
            raise UnreachableClusterError(f"{what} within {most_ms / 1000:g} s (option 'retryTimeout'): {reason}") from reason
        await asyncio.sleep(pause_ms / 1000)
        pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
