"""Once by key: what a handler is told, and what becomes of a key when its work ends well, fails, is cancelled or never ends."""

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
from skyrocket.client.helpers.deduplication import AsyncClaims, Claims, Deduplicator, InProgressError, WrongStoreError
from skyrocket.client.helpers.deduplication_memory import MemoryClaims
from skyrocket.client.helpers.deduplication_redis import AsyncRedisClaims
from skyrocket.client.helpers.deduplication_sqlite import SWEPT_AT_ONCE, SqliteClaims
from skyrocket.client.helpers.sqlite_file import SqliteFileError
from tests.support.dedup_scenes import fail, first, race
from tests.support.redis_server import AwaitedClient

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


def test_the_first_is_told_so_and_later_ones_are_not(dedup: Deduplicator):
    assert [first(dedup), first(dedup), first(dedup)] == [True, False, False]
    assert first(dedup, "another")


def test_after_the_window_a_key_is_new_again(dedup: Deduplicator, clock: Clock):
    first(dedup)
    clock.now_ms += WINDOW_MS - 1
    assert not first(dedup)
    clock.now_ms += 1
    assert first(dedup)


def test_work_that_failed_is_done_by_the_next(dedup: Deduplicator):
    fail(dedup)
    assert first(dedup)


def test_while_one_is_at_work_another_is_neither_first_nor_told_to_skip(dedup: Deduplicator):
    with dedup.once("k"), pytest.raises(InProgressError, match="Another handler is at work on key 'k'"):
        first(dedup)
    assert not first(dedup)


def test_a_refusal_leaves_the_claim_with_whom_it_is(dedup: Deduplicator):
    with dedup.once("k"):
        for _ in range(2):
            with pytest.raises(InProgressError):
                first(dedup)


def test_the_claim_of_one_who_died_runs_out(dedup: Deduplicator, clock: Clock):
    dedup.once("k").__enter__()
    clock.now_ms += CLAIM_MS - 1
    with pytest.raises(InProgressError):
        first(dedup)
    clock.now_ms += 1
    assert first(dedup)


def test_one_who_is_slower_than_his_claim_does_not_take_the_key_from_the_next(
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


def test_one_who_is_slower_than_his_claim_and_alone_is_still_done(dedup: Deduplicator, clock: Clock):
    with dedup.once("k"):
        clock.now_ms += 5 * CLAIM_MS
    assert not first(dedup)


def test_scopes_keep_groups_apart(claims: Claims):
    assert first(Deduplicator(claims, scope="coupons"))
    assert first(Deduplicator(claims, scope="mails"))
    assert not first(Deduplicator(claims, scope="coupons"))


async def test_it_can_be_awaited(dedup: Deduplicator):
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


async def test_a_cancelled_handler_gives_its_claim_up(dedup: Deduplicator):
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


def test_of_many_threads_one_is_first(dedup: Deduplicator):
    for key in map(str, range(20)):
        told = race(lambda key=key: first(dedup, key))
        assert told.count(True) == 1
        assert len(told) == 8


class TestMemory:
    def test_it_is_bounded_and_forgets_what_was_done_longest_ago(self, clock: Clock):
        claims = MemoryClaims(keys_max=3, now_ms=clock)
        dedup = Deduplicator(claims, window_ms=WINDOW_MS)
        for key in "abcd":
            first(dedup, key)
        assert (len(claims), claims.forgotten) == (3, 1)
        assert [first(dedup, key) for key in "bcd"] == [False] * 3
        assert first(dedup, "a")

    def test_keys_whose_window_is_over_go_without_being_missed(self, clock: Clock):
        claims = MemoryClaims(keys_max=100, now_ms=clock)
        dedup = Deduplicator(claims, window_ms=WINDOW_MS)
        for key in "abcd":
            first(dedup, key)
        clock.now_ms += WINDOW_MS
        first(dedup, "e")
        assert (len(claims), claims.forgotten) == (1, 0)

    def test_claims_under_way_are_never_forgotten(self, clock: Clock):
        dedup = Deduplicator(MemoryClaims(keys_max=2, now_ms=clock), claim_ms=CLAIM_MS)
        for key in "ab":
            dedup.once(key).__enter__()
        with pytest.raises(OverloadedError, match="2 keys are claimed at the same time"):
            first(dedup, "c")
        clock.now_ms += CLAIM_MS
        assert first(dedup, "c"), "those have run out"


class TestSqlite:
    def test_what_is_done_is_known_after_a_restart(self, tmp_path: Path):
        for expected in (True, False):
            claims = SqliteClaims(tmp_path / "claims.db")
            assert first(Deduplicator(claims)) is expected
            claims.close()

    def test_what_a_killed_process_did_stays_done_and_what_it_had_claimed_runs_out(self, tmp_path: Path, clock: Clock):
        path = tmp_path / "claims.db"
        script = (
            "import os, signal\n"
            "from skyrocket.client.helpers.deduplication import Deduplicator\n"
            "from skyrocket.client.helpers.deduplication_sqlite import SqliteClaims\n"
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

    def test_two_processes_share_it(self, tmp_path: Path, clock: Clock):
        one, two = (SqliteClaims(tmp_path / "claims.db", now_ms=clock) for _ in range(2))
        with Deduplicator(one).once("k"), pytest.raises(InProgressError):
            first(Deduplicator(two))
        assert not first(Deduplicator(two))
        one.close()
        two.close()

    def test_keys_whose_time_is_over_leave_the_file(self, tmp_path: Path, clock: Clock):
        claims = SqliteClaims(tmp_path / "claims.db", now_ms=clock)
        dedup = Deduplicator(claims, window_ms=WINDOW_MS)
        for number in range(50):
            first(dedup, str(number))
        clock.now_ms += WINDOW_MS
        for number in range(50 // SWEPT_AT_ONCE):
            first(dedup, f"new {number}")
        assert len(claims) == 50 // SWEPT_AT_ONCE
        claims.close()

    def test_a_file_that_is_none_is_one_clear_error(self, tmp_path: Path):
        (tmp_path / "claims.db").write_text("this is a letter to a friend, and not a database at all " * 100)
        with pytest.raises(SqliteFileError, match="file is not a database"):
            SqliteClaims(tmp_path / "claims.db")


def test_an_asynchronous_store_says_that_it_must_be_awaited():
    claims = AsyncRedisClaims(AwaitedClient(port=1))
    assert isinstance(claims, AsyncClaims)
    with pytest.raises(WrongStoreError, match="say `async with`"):
        first(Deduplicator(claims))
