"""Claims in memory: for one process, until it ends. Bounded: a full store drops the keys that were done longest ago."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from skyrocket.client.errors import OverloadedError
from skyrocket.client.helpers.deduplication import ClaimState

KEYS_MAX = 100_000


class MemoryClaims:
    """A store of claims in this process's memory."""

    blocks = False

    def __init__(self, keys_max: int = KEYS_MAX, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = now_ms or _monotonic_ms
        self._keys_max = keys_max
        self._lock = threading.Lock()  # plain-function handlers run in several threads
        self._claimed: dict[str, tuple[str, int]] = {}  # key -> (token, until)
        self._done: OrderedDict[str, int] = OrderedDict()  # key -> until; the oldest first
        self.forgotten = 0  # keys dropped before the end of their window: the effective window is shorter than configured

    def __len__(self) -> int:
        return len(self._claimed) + len(self._done)

    def claim(self, key: str, token: str, claim_ms: int) -> ClaimState:
        now_ms = self._now_ms()
        with self._lock:
            until_ms = self._done.get(key)
            if until_ms is not None and now_ms < until_ms:
                return ClaimState.DONE
            claimed = self._claimed.get(key)
            if claimed is not None and now_ms < claimed[1]:
                return ClaimState.IN_PROGRESS
            self._make_room(now_ms)
            self._claimed[key] = (token, now_ms + claim_ms)
            return ClaimState.FIRST

    def complete(self, key: str, token: str, window_ms: int) -> bool:
        now_ms = self._now_ms()
        with self._lock:
            if self._claimed.get(key, (token, 0))[0] != token:
                return False
            self._claimed.pop(key, None)
            self._done[key] = now_ms + window_ms
            self._done.move_to_end(key)
            return True

    def release(self, key: str, token: str) -> bool:
        with self._lock:
            if self._claimed.get(key, (token, 0))[0] != token:
                return False
            self._claimed.pop(key, None)
            return True

    def _make_room(self, now_ms: int) -> None:
        while self._done:
            key, until_ms = next(iter(self._done.items()))
            if now_ms < until_ms and len(self) < self._keys_max:
                return
            del self._done[key]
            self.forgotten += now_ms < until_ms
        if len(self._claimed) >= self._keys_max:
            self._claimed = {key: claimed for key, claimed in self._claimed.items() if now_ms < claimed[1]}
        if len(self._claimed) >= self._keys_max:
            raise OverloadedError(
                f"{self._keys_max} keys are claimed at the same time; this key was not claimed. Raise keys_max."
            )


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
