"""Stop signals: SIGTERM and SIGINT (Ctrl-C) end `Consumer.run` in order, instead of in the middle of a handler.

The first signal stops all consumers that run. A second one, half a second later or more, ends the program at once, as it would
without consumers. Repeats before that are ignored, because some process managers signal a process and then its whole group.

A signal for which the program has its own handler keeps that handler.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_REPEAT_S: Final = 0.5


class _StopSignals:
    """The consumers that run in this process, and the handlers that the signals had before."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], object]] = []
        self._previous: dict[int, Any] = {}
        self._received_s: float | None = None  # when the first signal came

    def add(self, stop: Callable[[], object]) -> None:
        if not self._stops:
            self._received_s = None
            for number in _SIGNALS:
                previous = signal.getsignal(number)
                if _is_default(previous):
                    self._previous[number] = previous
                    signal.signal(number, self._handle)
        self._stops.append(stop)

    def remove(self, stop: Callable[[], object]) -> None:
        self._stops.remove(stop)
        if not self._stops:
            self._restore()

    def _restore(self) -> None:
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._handle:  # the program may have set another handler meanwhile
                signal.signal(number, previous)
        self._previous.clear()

    def _handle(self, number: int, _frame: object) -> None:
        now_s = time.monotonic()
        if self._received_s is None:
            self._received_s = now_s
            for stop in self._stops:
                stop()
        elif now_s - self._received_s >= _REPEAT_S:
            self._restore()
            signal.raise_signal(number)


_stop_signals = _StopSignals()


def _is_default(handler: object) -> bool:
    """Whether a handler is Python's or asyncio's default, which no program chose."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    return isinstance(handler, functools.partial) and isinstance(getattr(handler.func, "__self__", None), asyncio.Runner)


@contextmanager
def handle_stop_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first stop signal while the block runs. Does nothing outside the main thread, which gets the signals.

    `stop` runs between any two steps of the main thread: it may only do what is safe there, such as `call_soon_threadsafe`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _stop_signals.add(stop)
    try:
        yield
    finally:
        _stop_signals.remove(stop)
