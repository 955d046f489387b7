"""Claims in Redis: for processes on several machines. Set if not there, with a time to live; Redis's clock decides.

The client is that of the package `redis`, which is not needed otherwise: `redis.Redis` for RedisClaims, `redis.asyncio.Redis`
for AsyncRedisClaims, with whatever pool, TLS and login they were made with. One command is one step on the server, so two
machines never both come first. How long a note lives through a crash or fail-over of Redis is up to how Redis is run.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol

from skyrocket.client.helpers.deduplication import Standing

PREFIX: Final = "skyrocket:once:"

# 1: first. 0: another is at work. -1: done.
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
_STANDINGS: Final = {1: Standing.FIRST, 0: Standing.IN_PROGRESS, -1: Standing.DONE}


class PlainRedis(Protocol):
    def eval(self, script: str, numkeys: int, /, *keys_and_args: Any) -> Any: ...


class AwaitedRedis(Protocol):
    def eval(self, script: str, numkeys: int, /, *keys_and_args: Any) -> Awaitable[Any]: ...


class RedisClaims:
    blocks = True

    def __init__(self, client: PlainRedis, prefix: str = PREFIX) -> None:
        self._client = client
        self._prefix = prefix

    def claim(self, key: str, token: str, claim_ms: int) -> Standing:
        return _STANDINGS[int(self._client.eval(_CLAIM, 1, self._prefix + key, token, claim_ms))]

    def complete(self, key: str, token: str, window_ms: int) -> bool:
        return int(self._client.eval(_COMPLETE, 1, self._prefix + key, token, window_ms)) == 1

    def release(self, key: str, token: str) -> bool:
        return int(self._client.eval(_RELEASE, 1, self._prefix + key, token)) == 1


class AsyncRedisClaims:
    def __init__(self, client: AwaitedRedis, prefix: str = PREFIX) -> None:
        self._client = client
        self._prefix = prefix

    async def claim_async(self, key: str, token: str, claim_ms: int) -> Standing:
        return _STANDINGS[int(await self._client.eval(_CLAIM, 1, self._prefix + key, token, claim_ms))]

    async def complete_async(self, key: str, token: str, window_ms: int) -> bool:
        return int(await self._client.eval(_COMPLETE, 1, self._prefix + key, token, window_ms)) == 1

    async def release_async(self, key: str, token: str) -> bool:
        return int(await self._client.eval(_RELEASE, 1, self._prefix + key, token)) == 1
