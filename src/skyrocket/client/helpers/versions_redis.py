"""Versions in Redis: for processes on several machines. Each operation is one atomic script on the server.

Pass a `redis.Redis` client. Versions are compared as texts of digits, so that 64-bit numbers stay exact: Lua's numbers are not.
"""

from __future__ import annotations

from typing import Final

from skyrocket.client.helpers.deduplication_redis import SyncRedis

PREFIX: Final = "skyrocket:version:"

_NEWEST: Final = "return redis.call('GET', KEYS[1])"
_RECORD: Final = """
local function newer(a, b)
  local a_negative, b_negative = a:sub(1, 1) == '-', b:sub(1, 1) == '-'
  if a_negative ~= b_negative then return b_negative end
  if a_negative then a, b = b:sub(2), a:sub(2) end
  if #a ~= #b then return #a > #b end
  return a > b
end
local known = redis.call('GET', KEYS[1])
if known and not newer(ARGV[1], known) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""
_SWAP: Final = """
local known = redis.call('GET', KEYS[1])
if (known or '') ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class RedisVersions:
    """A store of versions in Redis. Keys are never deleted."""

    blocks = True

    def __init__(self, client: SyncRedis, prefix: str = PREFIX) -> None:
        self._client = client
        self._prefix = prefix

    def newest(self, key: str) -> int | None:
        found = self._client.eval(_NEWEST, 1, self._prefix + key)
        return None if found is None else int(found)

    def record(self, key: str, version: int) -> None:
        self._client.eval(_RECORD, 1, self._prefix + key, str(version))

    def swap(self, key: str, version: int, expected: int | None) -> bool:
        return int(self._client.eval(_SWAP, 1, self._prefix + key, str(version), "" if expected is None else str(expected))) == 1
