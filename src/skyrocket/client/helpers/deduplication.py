"""Deduplication: delivery is at least once, and a handler checks by a key of its own whether the work has been done before.

    dedup = Deduplicator(SqliteClaims("seen.db"), window_ms=24 * 3_600_000)

    async with dedup.once(f"coupon-{order}") as first:      # in a plain function: `with`
        if first:
            grant_coupon(order)

The states of a key

    new                        `first` is true, and the key is claimed for `claim_ms`
      the body returns         the key is done: for the next `window_ms`, `first` is false
      the body raises          the claim is released at once, and the error reaches the consumer, which retries the message
      the process dies         the claim expires after `claim_ms`; the message was not acknowledged and is delivered again
    claimed by another         InProgressError, and the consumer retries the message later. The other handler may still fail, and
                               then this message must do the work, so neither true nor false would be right
    done                       `first` is false: skip the work and let the message be acknowledged

Work is never skipped because of work that failed. It may be done twice in two cases: the body takes longer than `claim_ms`, or
the process dies after the work and before the key is marked as done. To exclude both, write the key and the work in one
transaction of your own database.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from enum import Enum
from types import TracebackType
from typing import Protocol, runtime_checkable

from skyrocket.client.errors import ClientError

log = logging.getLogger(__name__)

WINDOW_MS = 24 * 3_600_000
CLAIM_MS = 60_000


class InProgressError(ClientError):
    """Another handler works on this key, and may still fail. Retry the message later."""


class WrongStoreError(ClientError):
    """`with` was used with a claim store that is asynchronous."""


class ClaimState(Enum):
    """The state of a key when a handler claims it."""

    FIRST = "first"
    IN_PROGRESS = "in progress"
    DONE = "done"


class Claims(Protocol):
    """A store of claimed and completed keys.

    A token identifies the owner of a claim. A handler whose claim expired and went to another cannot change the other's claim.
    `complete` and `release` return False in that case, and True otherwise.
    """

    blocks: bool  # whether a call waits for a disk or a network, so that an event loop must call it in a thread

    def claim(self, key: str, token: str, claim_ms: int) -> ClaimState: ...

    def complete(self, key: str, token: str, window_ms: int) -> bool: ...

    def release(self, key: str, token: str) -> bool: ...


@runtime_checkable
class AsyncClaims(Protocol):
    """An asynchronous store of claimed and completed keys; the methods are those of `Claims`."""

    async def claim_async(self, key: str, token: str, claim_ms: int) -> ClaimState: ...

    async def complete_async(self, key: str, token: str, window_ms: int) -> bool: ...

    async def release_async(self, key: str, token: str) -> bool: ...


class Deduplicator:
    """Tells whether a key has been handled before. Tasks and threads can share it when they can share its store; all stores of
    this package can be shared."""

    def __init__(
        self, claims: Claims | AsyncClaims, *, scope: str = "", window_ms: int = WINDOW_MS, claim_ms: int = CLAIM_MS
    ) -> None:
        """`scope` is a prefix of every key, usually the group's name, so that several groups can share one store.

        `window_ms` must exceed the longest delay of a message: retries (hours), an offset reset, a consumer that was down.
        """
        self._claims = claims
        self._prefix = f"{scope}:" if scope else ""
        self.window_ms = window_ms
        self.claim_ms = claim_ms

    def once(self, key: str) -> Once:
        """Return a context for `async with` or `with`, whose value is whether this is the first time. Entering it raises
        InProgressError while another handler works on the key."""
        return Once(self._claims, self._prefix + key, self.window_ms, self.claim_ms)


class Once:
    """One claim on one key, for a single `async with` or `with`."""

    __slots__ = ("_claim_ms", "_claims", "_first", "_key", "_token", "_window_ms")

    def __init__(self, claims: Claims | AsyncClaims, key: str, window_ms: int, claim_ms: int) -> None:
        self._claims = claims
        self._key = key
        self._window_ms = window_ms
        self._claim_ms = claim_ms
        self._token = secrets.token_hex(8)
        self._first = False

    def __enter__(self) -> bool:
        return self._enter(self._sync_claims().claim(self._key, self._token, self._claim_ms))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._first:
            claims = self._sync_claims()
            if kind is None:
                self._check_ownership(claims.complete(self._key, self._token, self._window_ms))
            else:
                claims.release(self._key, self._token)

    async def __aenter__(self) -> bool:
        claims = self._claims
        if isinstance(claims, AsyncClaims):
            return self._enter(await claims.claim_async(self._key, self._token, self._claim_ms))
        if claims.blocks:
            return self._enter(await asyncio.to_thread(claims.claim, self._key, self._token, self._claim_ms))
        return self._enter(claims.claim(self._key, self._token, self._claim_ms))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._first:
            return
        claims = self._claims
        done = kind is None
        if isinstance(claims, AsyncClaims):
            if done:
                self._check_ownership(await claims.complete_async(self._key, self._token, self._window_ms))
            else:
                await claims.release_async(self._key, self._token)
        elif claims.blocks:
            await asyncio.to_thread(self.__exit__, kind, error, trace)
        else:
            self.__exit__(kind, error, trace)

    def _sync_claims(self) -> Claims:
        if isinstance(self._claims, AsyncClaims):
            raise WrongStoreError(
                "The claim store is asynchronous. Use `async with`, or pass a synchronous store such as RedisClaims."
            )
        return self._claims

    def _enter(self, standing: ClaimState) -> bool:
        if standing is ClaimState.IN_PROGRESS:
            raise InProgressError(f"Another handler works on key '{self._key}'. The message must be retried later.")
        self._first = standing is ClaimState.FIRST
        return self._first

    def _check_ownership(self, was_ours: bool) -> None:
        if not was_ours:
            log.warning(
                "The work for key '%s' took longer than its claim of %d ms, and another handler began it too. Raise claim_ms.",
                self._key,
                self._claim_ms,
            )
