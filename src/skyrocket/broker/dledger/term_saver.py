"""Writes the node's term and vote in a thread. A newer one replaces an older one that still waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from skyrocket.raft.ports import HardState, Persist
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.ledger.node_files import TermVote


class TermSaver:
    def __init__(self, store: LedgerStore, on_saved: Callable[[int], None], on_failed: Callable[[str], None]) -> None:
        """`on_saved` is called with the token of what is on disk, `on_failed` with a sentence."""
        self._store = store
        self._on_saved = on_saved
        self._on_failed = on_failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-term")
        self._waiting: Persist | None = None
        self._running: asyncio.Future[None] | None = None
        self._is_closed = self._is_failed = False

    @property
    def is_saving(self) -> bool:
        """Also after a failure: what is on disk is in doubt until the next start."""
        return self._running is not None or self._waiting is not None or self._is_failed

    def save(self, effect: Persist) -> None:
        self._waiting = effect
        if self._running is None:
            self._begin()

    def _begin(self) -> None:
        effect, self._waiting = self._waiting, None
        if effect is None or self._is_closed:
            return
        job = self._store.begin_save_term(_file_of(effect.state))
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, job)
        self._running.add_done_callback(lambda done: self._finish(effect.token, done))

    def _finish(self, token: int, done: asyncio.Future[None]) -> None:
        self._running = None
        if self._is_closed or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._is_failed = True
            self._on_failed(f"term and vote could not be written ({error})")
            return
        self._begin()
        self._on_saved(token)

    async def close(self) -> None:
        self._is_closed = True
        if self._running is not None:
            await asyncio.wait([self._running])
        self._thread.shutdown()


def _file_of(state: HardState) -> TermVote:
    return TermVote(state.term, state.vote, state.learner)
