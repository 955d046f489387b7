"""Once, in a world where messages come at least once: a handler asks by a key of its own whether the work was done before.

    dedup = Deduplicator(SqliteClaims("seen.db"), window_ms=24 * 3_600_000)

    async with dedup.once(f"coupon-{order}") as first:      # a plain function says `with`
        if first:
            grant_coupon(order)

What happens to a key

    nobody has it            `first` is true, and the key is claimed for `claim_ms`
      the body ends well     it is done: for `window_ms` from now on `first` is false
      the body raises        the claim is given up at once, and the error goes on to the consumer, which retries the message
      the process dies       the claim runs out after `claim_ms`, and the message, which nobody acknowledged, comes again
    another has claimed it   InProgressError. Neither answer would be right: the other may still fail, and then the work is this
                             message's to do. The error has the message retried later
    it is done               `first` is false: skip the work, and let the message be acknowledged

So work is never skipped because of work that did not end well. It may be done twice in two cases: a body that takes longer than
`claim_ms`, and a process that dies between the work and the note that it is done. Who cannot have that puts key and work
into one transaction of his own database.
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
    """Another handler is at work on this key; whether it will end well is unknown. Retry later."""


class WrongStoreError(ClientError):
    """`with` was asked of a store that can only be awaited."""


class Standing(Enum):
    """What a claim found."""

    FIRST = "first"
    IN_PROGRESS = "in progress"
    DONE = "done"


class Claims(Protocol):
    """Where keys are kept. A token is whose claim it is: one that ran out and went to another is not touched by the first.

    `complete` and `release` answer whether the claim was still theirs (or nobody's).
    """

    blocks: bool  # whether a call may take a disk's or a network's time, so that a loop calls it in a thread

    def claim(self, key: str, token: str, claim_ms: int) -> Standing: ...

    def complete(self, key: str, token: str, window_ms: int) -> bool: ...

    def release(self, key: str, token: str) -> bool: ...


@runtime_checkable
class AsyncClaims(Protocol):
    """The same, to be awaited."""

    async def claim_async(self, key: str, token: str, claim_ms: int) -> Standing: ...

    async def complete_async(self, key: str, token: str, window_ms: int) -> bool: ...

    async def release_async(self, key: str, token: str) -> bool: ...


class Deduplicator:
    """Safe to share between tasks and threads, as far as its store is; those here are."""

    def __init__(
        self, claims: Claims | AsyncClaims, *, scope: str = "", window_ms: int = WINDOW_MS, claim_ms: int = CLAIM_MS
    ) -> None:
        """`scope` comes before every key, so that several groups can share one store; as a rule it is the group's name.

        `window_ms` must be longer than a message can be late: retries (hours), an offset set back, a consumer that was away.
        """
        self._claims = claims
        self._prefix = f"{scope}:" if scope else ""
        self.window_ms = window_ms
        self.claim_ms = claim_ms

    def once(self, key: str) -> Once:
        """For `async with` or `with`, which gives whether this is the first time. InProgressError while another is at it."""
        return Once(self._claims, self._prefix + key, self.window_ms, self.claim_ms)


class Once:
    """One claim on one key: `async with` or `with`, and used once."""

    __slots__ = ("_claim_ms", "_claims", "_first", "_key", "_token", "_window_ms")

    def __init__(self, claims: Claims | AsyncClaims, key: str, window_ms: int, claim_ms: int) -> None:
        self._claims = claims
        self._key = key
        self._window_ms = window_ms
        self._claim_ms = claim_ms
        self._token = secrets.token_hex(8)
        self._first = False

    def __enter__(self) -> bool:
        return self._entered(self._plain().claim(self._key, self._token, self._claim_ms))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._first:
            claims = self._plain()
            if kind is None:
                self._left(claims.complete(self._key, self._token, self._window_ms))
            else:
                claims.release(self._key, self._token)

    async def __aenter__(self) -> bool:
        claims = self._claims
        if isinstance(claims, AsyncClaims):
            return self._entered(await claims.claim_async(self._key, self._token, self._claim_ms))
        if claims.blocks:
            return self._entered(await asyncio.to_thread(claims.claim, self._key, self._token, self._claim_ms))
        return self._entered(claims.claim(self._key, self._token, self._claim_ms))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._first:
            return
        claims = self._claims
        done = kind is None
        if isinstance(claims, AsyncClaims):
            if done:
                self._left(await claims.complete_async(self._key, self._token, self._window_ms))
            else:
                await claims.release_async(self._key, self._token)
        elif claims.blocks:
            await asyncio.to_thread(self.__exit__, kind, error, trace)
        else:
            self.__exit__(kind, error, trace)

    def _plain(self) -> Claims:
        if isinstance(self._claims, AsyncClaims):
            raise WrongStoreError("These claims are kept by an asynchronous client: say `async with`, or give it a plain one.")
        return self._claims

    def _entered(self, standing: Standing) -> bool:
        if standing is Standing.IN_PROGRESS:
            raise InProgressError(f"Another handler is at work on key '{self._key}'; this message is to come again later.")
        self._first = standing is Standing.FIRST
        return self._first

    def _left(self, was_ours: bool) -> None:
        if not was_ours:
            log.warning(
                "The work for key '%s' took longer than its claim of %d ms, and another began it too: give it a longer claim.",
                self._key,
                self._claim_ms,
            )
