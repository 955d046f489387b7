"""Handlers that check whether they are the first, for tests of every claim store."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from skyrocket.client.helpers import Deduplicator, InProgressError


def first(dedup: Deduplicator, key: str = "k") -> bool:
    with dedup.once(key) as answer:
        return answer


def fail(dedup: Deduplicator) -> None:
    """Claim "k" as the first handler, and fail."""
    with pytest.raises(RuntimeError, match="the database is away"), dedup.once("k") as answer:
        raise RuntimeError("the database is away" if answer else "not the first")


def race(claim: Callable[[], bool]) -> list[object]:
    """Call `claim` in eight threads at once, and return the result or the type of error of each."""
    results: list[object] = []
    ready = threading.Barrier(8)

    def handler() -> None:
        ready.wait()
        try:
            results.append(claim())
        except InProgressError as error:
            results.append(type(error))

    threads = [threading.Thread(target=handler) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
