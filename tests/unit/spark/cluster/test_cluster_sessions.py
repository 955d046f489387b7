"""Sessions with clusters: shared while they are used, and closed a while after."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from skyrocket.client.session.session import Session
from skyrocket.client.sync import run
from skyrocket.spark.cluster import cluster_sessions
from skyrocket.spark.options.cluster_options import ClusterOptions


def cluster(number: int = 1) -> ClusterOptions:
    return ClusterOptions(nameservers=(f"127.0.0.1:{number}",))


def in_sync_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test in the loop of the synchronous client, where Spark's sessions live."""

    @functools.wraps(test)
    def run_test(*arguments: Any, **keywords: Any) -> None:
        run(test(*arguments, **keywords))

    return run_test


@pytest.fixture(autouse=True)
def none_kept():
    run(cluster_sessions._let_all_go())
    yield
    run(cluster_sessions._let_all_go())


async def asked(options: ClusterOptions) -> Session:
    async with cluster_sessions.session_with(options) as session:
        await asyncio.sleep(0)
        return session


@in_sync_loop
async def test_questions_share_a_session_one_after_another_and_at_once():
    first = await asked(cluster())
    assert await asyncio.gather(asked(cluster()), asked(cluster())) == [first, first]
    assert await asked(cluster(2)) is not first
    assert first._users == 1, "the one that is kept"


@in_sync_loop
async def test_a_session_is_closed_when_nobody_has_asked_for_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster_sessions, "KEPT_S", 0.01)
    session = await asked(cluster())
    async with asyncio.timeout(10):
        while not session._closed:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert not cluster_sessions._kept
    assert await asked(cluster()) is not session


@in_sync_loop
async def test_a_session_in_use_is_not_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster_sessions, "KEPT_S", 0.0)
    async with cluster_sessions.session_with(cluster()) as session:
        assert await asked(cluster()) is session
        await asyncio.sleep(0.05)
        assert not session._closed


@in_sync_loop
async def test_few_are_kept():
    made = [await asked(cluster(number)) for number in range(1, cluster_sessions.SESSIONS_MAX + 4)]
    assert len(cluster_sessions._kept) == cluster_sessions.SESSIONS_MAX
    assert [session._closed for session in made] == [True] * 3 + [False] * cluster_sessions.SESSIONS_MAX


@in_sync_loop
async def test_a_child_process_begins_with_none():
    session = await asked(cluster())
    kept = dict(cluster_sessions._kept)
    cluster_sessions._forked()
    assert not cluster_sessions._kept
    cluster_sessions._kept.update(kept)
    assert not session._closed
