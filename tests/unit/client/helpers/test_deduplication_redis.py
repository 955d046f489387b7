"""Claims in a real Redis. Its clock decides, so the tests use short times and wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from skyrocket.client.helpers import AsyncRedisClaims, Deduplicator, InProgressError, RedisClaims
from tests.support.dedup_scenes import fail, first, race
from tests.support.processes.redis_server import AwaitedClient, PlainClient, redis_server


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


def test_key_goes_through_all_its_states(port: int):
    dedup = Deduplicator(RedisClaims(PlainClient(port)), scope="way")
    fail(dedup)
    with dedup.once("k") as answer:
        assert answer
        with pytest.raises(InProgressError):
            first(dedup)
    assert not first(dedup)


async def test_asynchronous_and_synchronous_clients_share_keys(port: int):
    awaited = Deduplicator(AsyncRedisClaims(AwaitedClient(port)), scope="awaited")
    plain = Deduplicator(RedisClaims(PlainClient(port)), scope="awaited")
    with pytest.raises(ZeroDivisionError):
        async with awaited.once("k"):
            _ = 1 / 0
    async with awaited.once("k") as answer:
        assert answer
        with pytest.raises(InProgressError):
            async with plain.once("k"):
                pass
    async with plain.once("k") as answer:
        assert not answer


def test_claims_and_windows_expire(port: int):
    dedup = Deduplicator(RedisClaims(PlainClient(port)), scope="time", window_ms=300, claim_ms=150)
    dedup.once("died").__enter__()
    assert first(dedup, "done")
    deadline = time.monotonic() + 20
    for key in ("died", "done"):
        while not is_first(dedup, key):
            assert time.monotonic() < deadline, f"{key} never expires"
            time.sleep(0.05)


def is_first(dedup: Deduplicator, key: str) -> bool:
    try:
        return first(dedup, key)
    except InProgressError:
        return False


def test_handler_slower_than_its_claim_does_not_take_the_key_from_the_next(port: int):
    slow_claims, claims = (Deduplicator(RedisClaims(PlainClient(port)), scope="slow", claim_ms=ms) for ms in (1, 60_000))
    slow, next_one = slow_claims.once("k"), claims.once("k")
    assert slow.__enter__()
    time.sleep(0.05)
    assert next_one.__enter__()
    slow.__exit__(None, None, None)
    slow.__exit__(RuntimeError, RuntimeError(), None)
    with pytest.raises(InProgressError):
        first(claims)


def test_one_of_many_threads_is_first(port: int):
    dedup = Deduplicator(RedisClaims(PlainClient(port)), scope="race")
    for key in map(str, range(10)):
        results = race(lambda key=key: first(dedup, key))
        assert results.count(True) == 1
        assert len(results) == 8
