"""Client sessions that all calls of one process share, one for each cluster. Used only in the client's background event loop.

A session stays open for `KEPT_S` after its last use, because planning processes and workers serve many queries in turn. Then it
is closed: an open session keeps polling its nameservers, even those of a cluster that no longer exists.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final, NamedTuple

from skyrocket.client.options import ClientOptions
from skyrocket.client.session.session import Session
from skyrocket.client.sync import run
from skyrocket.spark.options.cluster_options import ClusterOptions

SESSIONS_MAX: Final = 16  # kept open; the least recently used is closed first
KEPT_S: Final = 60.0  # after the last use


class _KeptSession(NamedTuple):
    session: Session
    timer: asyncio.TimerHandle  # closes the session


_kept: dict[ClusterOptions, _KeptSession] = {}
_closing: set[asyncio.Task[None]] = set()


@lru_cache(maxsize=SESSIONS_MAX)
def _client_options(options: ClusterOptions) -> ClientOptions:
    """Return one object, with one TLS context, for equal options: the client shares a session between equal objects only."""
    return options.client_options()


@asynccontextmanager
async def shared_session(options: ClusterOptions) -> AsyncIterator[Session]:
    """Hold the process's session with a cluster for the duration of one call."""
    session = await Session.acquire(_client_options(options))
    try:
        yield session
    finally:
        await _keep(options, session)


async def _keep(options: ClusterOptions, session: Session) -> None:
    """Keep the caller's reference to the session for `KEPT_S`, in place of the previous caller's."""
    before = _kept.pop(options, None)
    timer = asyncio.get_running_loop().call_later(KEPT_S, _expire, options)
    _kept[options] = _KeptSession(session, timer)
    surplus = [] if before is None else [before]
    while len(_kept) > SESSIONS_MAX:
        surplus.append(_kept.pop(next(iter(_kept))))
    for each in surplus:
        each.timer.cancel()
        await each.session.release()


def _expire(options: ClusterOptions) -> None:
    kept = _kept.pop(options, None)
    if kept is not None:
        task = asyncio.get_running_loop().create_task(kept.session.release())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


async def _release_all() -> None:
    while _kept:
        kept = _kept.popitem()[1]
        kept.timer.cancel()
        await kept.session.release()


def _forget_after_fork() -> None:
    """Drop the parent's sessions in a child process: the parent's event loop does not run here."""
    _kept.clear()
    _closing.clear()


def _release_at_exit() -> None:
    if _kept:
        run(_release_all())


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_release_at_exit)
