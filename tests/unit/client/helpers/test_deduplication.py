"""Deduplication by key: the state of a key when its work succeeds, fails, is cancelled or never ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client.errors import OverloadedError
from skyrocket.client.helpers import (
    AsyncClaims,
    AsyncRedisClaims,
    Claims,
    Deduplicator,
    InProgressError,
    MemoryClaims,
    SqliteClaims,
)
from skyrocket.client.helpers.deduplication import WrongStoreError
from skyrocket.client.helpers.deduplication_sqlite import DELETED_PER_CLAIM
from skyrocket.client.helpers.sqlite_file import SqliteFileError
from tests.support.dedup_scenes import fail, first, race
from tests.support.processes.redis_server import AwaitedClient

WINDOW_MS, CLAIM_MS = 10_000, 1_000


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def claims(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Claims]:
    if request.param == "memory":
        yield MemoryClaims(now_ms=clock)
    else:
        file = SqliteClaims(tmp_path / "claims.db", now_ms=clock)
        yield file
        file.close()


@pytest.fixture
def dedup(claims: Claims) -> Deduplicator:
    return Deduplicator(claims, window_ms=WINDOW_MS, claim_ms=CLAIM_MS)


def test_only_the_first_handler_of_a_key_gets_first(dedup: Deduplicator):
    assert [first(dedup), first(dedup), first(dedup)] == [True, False, False]
    assert first(dedup, "another")


def test_key_is_new_again_after_its_window(dedup: Deduplicator, clock: Clock):
    first(dedup)
    clock.now_ms += WINDOW_MS - 1
    assert not first(dedup)
    clock.now_ms += 1
    assert first(dedup)


def test_failed_work_is_left_to_the_next_handler(dedup: Deduplicator):
    fail(dedup)
    assert first(dedup)


def test_key_in_progress_raises_in_progress_error(dedup: Deduplicator):
    with dedup.once("k"), pytest.raises(InProgressError, match="Another handler works on key 'k'"):
        first(dedup)
    assert not first(dedup)


def test_refused_handler_does_not_release_the_claim(dedup: Deduplicator):
    with dedup.once("k"):
        for _ in range(2):
            with pytest.raises(InProgressError):
                first(dedup)


def test_claim_of_a_dead_handler_expires(dedup: Deduplicator, clock: Clock):
    dedup.once("k").__enter__()
    clock.now_ms += CLAIM_MS - 1
    with pytest.raises(InProgressError):
        first(dedup)
    clock.now_ms += 1
    assert first(dedup)


def test_handler_slower_than_its_claim_does_not_take_the_key_from_the_next(
    dedup: Deduplicator, clock: Clock, caplog: pytest.LogCaptureFixture
):
    slow, next_one = dedup.once("k"), dedup.once("k")
    assert slow.__enter__()
    clock.now_ms += CLAIM_MS
    assert next_one.__enter__()
    with caplog.at_level(logging.WARNING):
        slow.__exit__(None, None, None)
    assert "took longer than its claim of 1000 ms" in caplog.text
    with pytest.raises(InProgressError):
        first(dedup)
    slow.__exit__(RuntimeError, RuntimeError(), None)
    with pytest.raises(InProgressError):
        first(dedup)
    next_one.__exit__(None, None, None)
    assert not first(dedup)


def test_handler_slower_than_its_claim_completes_the_key_when_alone(dedup: Deduplicator, clock: Clock):
    with dedup.once("k"):
        clock.now_ms += 5 * CLAIM_MS
    assert not first(dedup)


def test_scopes_separate_groups(claims: Claims):
    assert first(Deduplicator(claims, scope="coupons"))
    assert first(Deduplicator(claims, scope="mails"))
    assert not first(Deduplicator(claims, scope="coupons"))


async def test_async_with(dedup: Deduplicator):
    seen = []
    for _ in range(2):
        async with dedup.once("k") as answer:
            seen.append(answer)
    with pytest.raises(ZeroDivisionError):
        async with dedup.once("failing"):
            _ = 1 / 0
    async with dedup.once("failing") as answer:
        seen.append(answer)
    assert seen == [True, False, True]


async def test_cancelled_handler_releases_its_claim(dedup: Deduplicator):
    entered = asyncio.Event()

    async def handler() -> None:
        async with dedup.once("k"):
            entered.set()
            await asyncio.sleep(3_600)

    task = asyncio.create_task(handler())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with dedup.once("k") as answer:
        assert answer


def test_one_of_many_threads_is_first(dedup: Deduplicator):
    for key in map(str, range(20)):
        results = race(lambda key=key: first(dedup, key))
        assert results.count(True) == 1
        assert len(results) == 8


class TestMemory:
    def test_full_store_drops_the_keys_done_longest_ago(self, clock: Clock):
        claims = MemoryClaims(keys_max=3, now_ms=clock)
        dedup = Deduplicator(claims, window_ms=WINDOW_MS)
        for key in "abcd":
            first(dedup, key)
        assert (len(claims), claims.forgotten) == (3, 1)
        assert [first(dedup, key) for key in "bcd"] == [False] * 3
        assert first(dedup, "a")

    def test_expired_keys_are_dropped_and_not_counted_as_forgotten(self, clock: Clock):
        claims = MemoryClaims(keys_max=100, now_ms=clock)
        dedup = Deduplicator(claims, window_ms=WINDOW_MS)
        for key in "abcd":
            first(dedup, key)
        clock.now_ms += WINDOW_MS
        first(dedup, "e")
        assert (len(claims), claims.forgotten) == (1, 0)

    def test_current_claims_are_never_dropped(self, clock: Clock):
        dedup = Deduplicator(MemoryClaims(keys_max=2, now_ms=clock), claim_ms=CLAIM_MS)
        for key in "ab":
            dedup.once(key).__enter__()
        with pytest.raises(OverloadedError, match="2 keys are claimed at the same time"):
            first(dedup, "c")
        clock.now_ms += CLAIM_MS
        assert first(dedup, "c"), "the other claims have expired"


class TestSqlite:
    def test_completed_key_survives_a_restart(self, tmp_path: Path):
        for expected in (True, False):
            claims = SqliteClaims(tmp_path / "claims.db")
            assert first(Deduplicator(claims)) is expected
            claims.close()

    def test_completed_key_of_a_killed_process_stays_and_its_claim_expires(self, tmp_path: Path, clock: Clock):
        path = tmp_path / "claims.db"
        script = (
            "import os, signal\n"
            "from skyrocket.client.helpers import Deduplicator, SqliteClaims\n"
            f"dedup = Deduplicator(SqliteClaims({str(path)!r}, now_ms=lambda: {clock.now_ms}), claim_ms={CLAIM_MS})\n"
            "with dedup.once('finished'): pass\n"
            "with dedup.once('begun'): os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        killed = subprocess.run([sys.executable, "-c", script], check=False)
        assert killed.returncode == -signal.SIGKILL
        claims = SqliteClaims(path, now_ms=clock)
        dedup = Deduplicator(claims)
        assert not first(dedup, "finished")
        with pytest.raises(InProgressError):
            first(dedup, "begun")
        clock.now_ms += CLAIM_MS
        assert first(dedup, "begun")
        claims.close()

    def test_two_connections_share_the_file(self, tmp_path: Path, clock: Clock):
        one, two = (SqliteClaims(tmp_path / "claims.db", now_ms=clock) for _ in range(2))
        with Deduplicator(one).once("k"), pytest.raises(InProgressError):
            first(Deduplicator(two))
        assert not first(Deduplicator(two))
        one.close()
        two.close()

    def test_expired_keys_leave_the_file(self, tmp_path: Path, clock: Clock):
        claims = SqliteClaims(tmp_path / "claims.db", now_ms=clock)
        dedup = Deduplicator(claims, window_ms=WINDOW_MS)
        for number in range(50):
            first(dedup, str(number))
        clock.now_ms += WINDOW_MS
        for number in range(50 // DELETED_PER_CLAIM):
            first(dedup, f"new {number}")
        assert len(claims) == 50 // DELETED_PER_CLAIM
        claims.close()

    def test_file_that_is_not_a_database_is_refused(self, tmp_path: Path):
        (tmp_path / "claims.db").write_text("this is a letter to a friend, and not a database at all " * 100)
        with pytest.raises(SqliteFileError, match="file is not a database"):
            SqliteClaims(tmp_path / "claims.db")


def test_with_on_an_asynchronous_store_is_refused():
    claims = AsyncRedisClaims(AwaitedClient(port=1))
    assert isinstance(claims, AsyncClaims)
    with pytest.raises(WrongStoreError, match="Use `async with`"):
        first(Deduplicator(claims))
