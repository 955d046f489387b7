"""Sessions with clusters, shared by all questions of one process. Used in the client's background loop only.

A session stays for a while after the last question: planning processes and workers serve many queries, one after the other. Then
it is closed, since a session looks for its brokers again and again, also for those of a cluster that is long gone.
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

SESSIONS_MAX: Final = 16  # that are kept; the one not used for longest goes first
KEPT_S: Final = 60.0  # after the last question


class _Kept(NamedTuple):
    session: Session
    until: asyncio.TimerHandle


_kept: dict[ClusterOptions, _Kept] = {}
_farewells: set[asyncio.Task[None]] = set()


@lru_cache(maxsize=SESSIONS_MAX)
def _client_options(options: ClusterOptions) -> ClientOptions:
    """The same object each time, with the same TLS context: equal options share a session."""
    return options.client_options()


@asynccontextmanager
async def session_with(options: ClusterOptions) -> AsyncIterator[Session]:
    """For the time of one question."""
    session = await Session.acquire(_client_options(options))
    try:
        yield session
    finally:
        await _keep(options, session)


async def _keep(options: ClusterOptions, session: Session) -> None:
    """Whoever asked last leaves his share of the session here, for a while."""
    before = _kept.pop(options, None)
    until = asyncio.get_running_loop().call_later(KEPT_S, _let_go, options)
    _kept[options] = _Kept(session, until)
    surplus = [] if before is None else [before]
    while len(_kept) > SESSIONS_MAX:
        surplus.append(_kept.pop(next(iter(_kept))))
    for each in surplus:
        each.until.cancel()
        await each.session.release()


def _let_go(options: ClusterOptions) -> None:
    kept = _kept.pop(options, None)
    if kept is not None:
        farewell = asyncio.get_running_loop().create_task(kept.session.release())
        _farewells.add(farewell)
        farewell.add_done_callback(_farewells.discard)


async def _let_all_go() -> None:
    while _kept:
        kept = _kept.popitem()[1]
        kept.until.cancel()
        await kept.session.release()


def _forked() -> None:
    """In the child: they are the parent's, whose loop does not run here."""
    _kept.clear()
    _farewells.clear()


def _end() -> None:
    if _kept:
        run(_let_all_go())


os.register_at_fork(after_in_child=_forked)
atexit.register(_end)
