"""A background task that cannot end unseen, and calls that cannot stop their neighbours.

    SupervisedTask("registration", run)                  a failure is logged, and `run` starts again after a pause
    SupervisedTask("flusher", run, on_failure=stop)      a failure is logged, and `stop(error)` decides what happens
    failure_of(step, now_ms)                             the exception that step(now_ms) raised, or None

`run` is a coroutine function. It ends by itself when its work is done, or works until `close` cancels it. The pause doubles with
each failure in a row, so that a lasting failure fills no log, and is short again after the task has worked for a while.

Only this module catches every exception. Whoever calls `failure_of` reports what it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

log = logging.getLogger(__name__)

PAUSE_S: Final = 1.0  # between a failure and the next start
PAUSE_S_MAX: Final = 60.0


def failure_of(call: Callable[..., object], *given: Any) -> Exception | None:
    """Call a function. Return the exception that it raised, so that the caller can report it and go on with others."""
    try:
        call(*given)
    except Exception as error:
        return error
    return None


class SupervisedTask:
    """Starts at once, in the running event loop."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Coroutine[Any, Any, None]],
        on_failure: Callable[[Exception], None] | None = None,
        *,
        pause_s: float = PAUSE_S,
    ) -> None:
        """With `on_failure` the task is not started again: use it where the state after a failure is unknown."""
        self._name = name
        self._run = run
        self._on_failure = on_failure
        self._pause_s = pause_s
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name=name)

    @property
    def is_over(self) -> bool:
        return self._task.done()

    async def wait(self) -> None:
        """Wait until the task has ended by itself."""
        await self._task

    async def close(self) -> None:
        """Cancel the task, and wait until it has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._pause_s
        while True:
            began_s = loop.time()
            try:
                await self._run()
            except Exception as error:
                if self._on_failure is not None:
                    log.critical("The task '%s' failed and is not started again.", self._name, exc_info=error)
                    self._on_failure(error)
                    return
                if loop.time() - began_s > 2 * pause_s:  # it worked since the last failure
                    pause_s = self._pause_s
                log.error("The task '%s' failed and starts again in %g s.", self._name, pause_s, exc_info=error)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
