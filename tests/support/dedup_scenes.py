"""Handlers that ask whether they are the first, whatever keeps the claims."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from skyrocket.client.helpers.deduplication import Deduplicator, InProgressError


def first(dedup: Deduplicator, key: str = "k") -> bool:
    with dedup.once(key) as answer:
        return answer


def fail(dedup: Deduplicator) -> None:
    """Work on "k" that is the first, and fails."""
    with pytest.raises(RuntimeError, match="the database is away"), dedup.once("k") as answer:
        raise RuntimeError("the database is away" if answer else "not the first")


def race(claim: Callable[[], bool]) -> list[object]:
    """Many threads at once; what each was told."""
    told: list[object] = []
    ready = threading.Barrier(8)

    def handler() -> None:
        ready.wait()
        try:
            told.append(claim())
        except InProgressError as error:
            told.append(type(error))

    threads = [threading.Thread(target=handler) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told
