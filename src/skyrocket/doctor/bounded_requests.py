"""Asks about many things, a bounded number at a time: a look at a cluster must not be a load for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from skyrocket.client.errors import ClientError

REQUESTS_AT_ONCE: Final = 16

A = TypeVar("A")
T = TypeVar("T")


async def ask_each(items: Sequence[A], ask: Callable[[A], Awaitable[T]]) -> list[T]:
    """Ask about all items and return the answers in their order."""
    slots = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def one(item: A) -> T:
        async with slots:
            return await ask(item)

    return list(await asyncio.gather(*(one(item) for item in items)))


async def answer_or_error(answer: Awaitable[T], otherwise: T) -> tuple[T, str]:
    """Return an answer; or, when the cluster does not give it, `otherwise` and the reason."""
    try:
        return await answer, ""
    except ClientError as error:
        return otherwise, str(error)
