"""Runs `async def test_…`, each in a fresh event loop.

`tests/conftest.py` loads the hook. A test that runs synchronous code which may start a loop of its own cannot be a coroutine: it
calls `run_async` for its asynchronous part.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest


def run_async(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine in a fresh event loop.

    Fails if the coroutine leaves a task running, or if the loop reports an exception that no code retrieved.
    """
    __tracebackhide__ = True
    unhandled: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        before = asyncio.all_tasks()
        await coroutine
        left = asyncio.all_tasks() - before
        assert not left, f"The test left tasks running: {left}"

    asyncio.run(main())
    assert not unhandled, f"The loop reported exceptions that no code retrieved: {unhandled}"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function with the fixtures that it names. Leaves every other test to pytest."""
    __tracebackhide__ = True
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    run_async(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True
