"""How a scene is played."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def play(scene: Coroutine[Any, Any, None]) -> None:
    """In a loop of its own; no task is left behind, and nothing went wrong where nobody looked."""
    unseen: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
        before = asyncio.all_tasks()
        await scene
        left = asyncio.all_tasks() - before
        assert not left, f"tasks are left: {left}"

    asyncio.run(main())
    assert not unseen, f"went wrong where nobody looked: {unseen}"
