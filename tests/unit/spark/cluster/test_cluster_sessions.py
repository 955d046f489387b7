"""Sessions with clusters are shared while in use, and closed some time later."""

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
def close_kept_sessions():
    run(cluster_sessions._release_all())
    yield
    run(cluster_sessions._release_all())


async def use_session(options: ClusterOptions) -> Session:
    async with cluster_sessions.shared_session(options) as session:
        await asyncio.sleep(0)
        return session


@in_sync_loop
async def test_sequential_and_concurrent_calls_share_a_session():
    first = await use_session(cluster())
    assert await asyncio.gather(use_session(cluster()), use_session(cluster())) == [first, first]
    assert await use_session(cluster(2)) is not first
    assert first._users == 1, "the kept reference"


@in_sync_loop
async def test_idle_session_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster_sessions, "KEPT_S", 0.01)
    session = await use_session(cluster())
    async with asyncio.timeout(60):
        while not session._closed:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert not cluster_sessions._kept
    assert await use_session(cluster()) is not session


@in_sync_loop
async def test_session_in_use_stays_open(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster_sessions, "KEPT_S", 0.0)
    async with cluster_sessions.shared_session(cluster()) as session:
        assert await use_session(cluster()) is session
        await asyncio.sleep(0.05)
        assert not session._closed


@in_sync_loop
async def test_least_recently_used_sessions_are_closed_beyond_the_limit():
    opened = [await use_session(cluster(number)) for number in range(1, cluster_sessions.SESSIONS_MAX + 4)]
    assert len(cluster_sessions._kept) == cluster_sessions.SESSIONS_MAX
    assert [session._closed for session in opened] == [True] * 3 + [False] * cluster_sessions.SESSIONS_MAX


@in_sync_loop
async def test_child_process_starts_without_sessions():
    session = await use_session(cluster())
    kept = dict(cluster_sessions._kept)
    cluster_sessions._forget_after_fork()
    assert not cluster_sessions._kept
    cluster_sessions._kept.update(kept)
    assert not session._closed
