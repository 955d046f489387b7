"""Claims in Redis: for processes on several machines. A claim is SET with NX and a time to live; Redis's clock counts.

Pass a client of the package `redis`: `redis.Redis` to RedisClaims, `redis.asyncio.Redis` to AsyncRedisClaims, with any pool, TLS
and login. Nothing else needs that package. Each operation is one atomic script on the server, so two machines never both get
`first`. Whether a key survives a crash or fail-over of Redis depends on Redis's persistence and replication.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol

from skyrocket.client.helpers.deduplication import ClaimState

PREFIX: Final = "skyrocket:once:"

# 1: first. 0: in progress. -1: done.
_CLAIM: Final = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == 'done' then return -1 end
return 0
"""
_COMPLETE: Final = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
return 1
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
_STANDINGS: Final = {1: ClaimState.FIRST, 0: ClaimState.IN_PROGRESS, -1: ClaimState.DONE}


class SyncRedis(Protocol):
    """The method of `redis.Redis` that the claims use."""

    def eval(self, script: str, numkeys: int, /, *keys_and_args: Any) -> Any: ...


class AsyncRedis(Protocol):
    """The method of `redis.asyncio.Redis` that the claims use."""

    def eval(self, script: str, numkeys: int, /, *keys_and_args: Any) -> Awaitable[Any]: ...


class RedisClaims:
    """A store of claims in Redis, with a synchronous client."""

    blocks = True

    def __init__(self, client: SyncRedis, prefix: str = PREFIX) -> None:
        self._client = client
        self._prefix = prefix

    def claim(self, key: str, token: str, claim_ms: int) -> ClaimState:
        return _STANDINGS[int(self._client.eval(_CLAIM, 1, self._prefix + key, token, claim_ms))]

    def complete(self, key: str, token: str, window_ms: int) -> bool:
        return int(self._client.eval(_COMPLETE, 1, self._prefix + key, token, window_ms)) == 1

    def release(self, key: str, token: str) -> bool:
        return int(self._client.eval(_RELEASE, 1, self._prefix + key, token)) == 1


class AsyncRedisClaims:
    """A store of claims in Redis, with an asynchronous client."""

    def __init__(self, client: AsyncRedis, prefix: str = PREFIX) -> None:
        self._client = client
        self._prefix = prefix

    async def claim_async(self, key: str, token: str, claim_ms: int) -> ClaimState:
        return _STANDINGS[int(await self._client.eval(_CLAIM, 1, self._prefix + key, token, claim_ms))]

    async def complete_async(self, key: str, token: str, window_ms: int) -> bool:
        return int(await self._client.eval(_COMPLETE, 1, self._prefix + key, token, window_ms)) == 1

    async def release_async(self, key: str, token: str) -> bool:
        return int(await self._client.eval(_RELEASE, 1, self._prefix + key, token)) == 1
