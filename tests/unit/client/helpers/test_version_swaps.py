"""Compare and set of versions: in memory, in SQLite, and in a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skyrocket.client.helpers import MemoryVersions, RedisVersions, SqliteVersions, VersionCheck, Versions
from tests.support.processes.redis_server import PlainClient, redis_server


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture(params=["memory", "sqlite", "redis"])
def versions(request: pytest.FixtureRequest, tmp_path: Path) -> Versions:
    if request.param == "memory":
        return MemoryVersions()
    if request.param == "sqlite":
        return SqliteVersions(tmp_path / "versions.db")
    return RedisVersions(PlainClient(request.getfixturevalue("port")), prefix=f"{request.node.name}:")


def test_version_is_set_only_where_the_expected_one_is(versions: Versions):
    check = VersionCheck(versions)
    assert not check.swap("k", version=2, expected=1)
    assert check.swap("k", version=1, expected=None)
    assert not check.swap("k", version=1, expected=None)
    assert check.swap("k", version=2, expected=1)
    assert not check.swap("k", version=3, expected=1)
    assert versions.newest("k") == 2


async def test_swap_does_not_need_a_thread_of_ones_own(versions: Versions):
    check = VersionCheck(versions)
    assert await check.swap_async("k", version=1, expected=None)
    assert not await check.swap_async("k", version=1, expected=None)


def test_one_of_many_callers_with_the_same_expectation_succeeds(versions: Versions):
    check = VersionCheck(versions)
    with ThreadPoolExecutor(8) as pool:
        for expected in (None, 0, 1, 2):
            version = 0 if expected is None else expected + 1
            won = list(pool.map(lambda _, v=version, e=expected: check.swap("k", version=v, expected=e), range(16)))
            assert won.count(True) == 1


def test_only_newer_versions_are_recorded_whatever_their_size(versions: Versions):
    order = [-(2**62), -10, -9, 0, 5, 10, 2**53, 2**53 + 1, 2**62]
    for version in order:
        versions.record("k", version)
        versions.record("k", version - 1)
        assert versions.newest("k") == version
    for version in order:
        versions.record("k", version)
    assert versions.newest("k") == order[-1]


def test_newer_works_on_every_store(versions: Versions):
    check = VersionCheck(versions)
    seen = []
    for version in (1, 3, 2, 3):
        with check.newer("k", version) as newer:
            if newer:
                seen.append(version)
    assert seen == [1, 3]
