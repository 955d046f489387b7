"""The event loop of a simulated node: its callbacks, timers and threads are events of the world's clock.

A node's parts are those of the broker, and expect asyncio. This loop gives them what they use: `call_soon`, `call_later`, tasks,
futures, and `run_in_executor`, whose "thread" does its work some simulated milliseconds later. Nothing here waits, and nothing
runs beside anything else, so that a seed repeats exactly.

    the world's clock ──▶ turn(callback) ──▶ asyncio sees this loop as the running one
                                        ──▶ the node looks at what has changed

A loop lives as long as its process. When that is killed, whatever is still scheduled does not happen.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.support.stores.simulated_disk import PowerCut

if TYPE_CHECKING:
    from tests.sim.world import World


class Scheduled:
    """A callback that has its turn later, unless it is cancelled."""

    def __init__(self, callback: Callable[..., object], given: tuple[Any, ...], context: contextvars.Context | None) -> None:
        self._callback = callback
        self._given = given
        self._context = context
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True

    def cancelled(self) -> bool:
        return self._is_cancelled

    def __call__(self) -> None:
        if self._is_cancelled:
            return
        if self._context is None:
            self._callback(*self._given)
        else:
            self._context.run(self._callback, *self._given)


class NodeLoop(asyncio.AbstractEventLoop):
    def __init__(self, world: World, job_ms: Callable[[], float], after_turn: Callable[[], None]) -> None:
        """`job_ms` says how long a thread takes for its next job. `after_turn` is called after each callback."""
        self._world = world
        self._job_ms = job_ms
        self._after_turn = after_turn
        self._frozen_until = 0.0
        self.is_over = False
        self.failures: list[BaseException] = []

    def end(self) -> None:
        """The process is killed: nothing happens any more."""
        self.is_over = True

    def freeze(self, until_ms: float) -> None:
        """The process is held up. What should have happened meanwhile happens then, in its order."""
        self._frozen_until = max(self._frozen_until, until_ms)

    @property
    def is_frozen(self) -> bool:
        return self._world.now < self._frozen_until

    def thaw(self) -> None:
        self._frozen_until = 0.0

    def turn(self, callback: Callable[..., object], *given: Any) -> None:
        """Call a function as the loop does, now or when the process runs again."""
        if self.is_over:
            return
        if self.is_frozen:
            self._world.at(self._frozen_until, lambda: self.turn(callback, *given))
            return
        asyncio._set_running_loop(self)
        try:
            callback(*given)
        except PowerCut:
            pass  # `after_turn` looks at the disk
        finally:
            asyncio._set_running_loop(None)
        if not self.is_over:
            self._after_turn()

    # --- asyncio

    def time(self) -> float:
        return self._world.now / 1000

    def call_soon(self, callback: Callable[..., object], *given: Any, context: contextvars.Context | None = None) -> Any:
        return self._schedule(0.0, Scheduled(callback, given, context))

    def call_later(
        self, delay: float, callback: Callable[..., object], *given: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self._schedule(delay * 1000, Scheduled(callback, given, context))

    def call_at(
        self, when: float, callback: Callable[..., object], *given: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self._schedule(when * 1000 - self._world.now, Scheduled(callback, given, context))

    def _schedule(self, delay_ms: float, scheduled: Scheduled) -> Scheduled:
        if not self.is_over:
            self._world.at(self._world.now + max(0.0, delay_ms), lambda: self.turn(scheduled))
        return scheduled

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Do a job as a thread does: at some moment of its time. The loop hears of it at the end of that time.

        What is written to a file meanwhile may or may not be part of a sync.
        """
        done = self.create_future()
        takes_ms = self._job_ms()
        results: list[tuple[Any, Exception | None]] = []

        def work() -> None:
            try:
                results.append((func(*args), None))
            except Exception as error:
                results.append((None, error))

        def report() -> None:
            if done.done() or not results:
                return
            result, error = results[0]
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        share = self._world.rng.choice((0.0, 1.0, self._world.rng.random()))
        self.call_later(takes_ms * share / 1000, work)
        self.call_later(takes_ms / 1000, report)
        return done

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_over

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody else catches. A process that was killed leaves tasks that never end."""
        if not self.is_over and "exception" in context:
            self.failures.append(context["exception"])
