"""Version checks: only newer versions are handled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client.helpers import MemoryVersions, SqliteVersions, VersionCheck, Versions


@pytest.fixture(params=["memory", "sqlite"])
def versions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Versions]:
    if request.param == "memory":
        yield MemoryVersions()
    else:
        file = SqliteVersions(tmp_path / "versions.db")
        yield file
        file.close()


def handle(check: VersionCheck, key: str, version: int) -> bool:
    with check.newer(key, version) as newer:
        return newer


def test_only_a_newer_version_is_handled(versions: Versions):
    check = VersionCheck(versions)
    assert [handle(check, "a", version) for version in (1, 1, 3, 2, 3, 4)] == [True, False, True, False, False, True]
    assert handle(check, "b", 1), "keys are independent"


def test_failed_version_is_handled_again(versions: Versions):
    check = VersionCheck(versions)
    with pytest.raises(RuntimeError, match="not now"), check.newer("a", 1):
        raise RuntimeError("not now")
    assert handle(check, "a", 1)


def test_older_handler_that_ends_later_does_not_lower_the_version(versions: Versions):
    check = VersionCheck(versions)
    with check.newer("a", 1) as slow:
        assert slow
        assert handle(check, "a", 2)
    assert not handle(check, "a", 2)


async def test_async_with(versions: Versions):
    check = VersionCheck(versions)
    seen = []
    for version in (1, 1, 2):
        async with check.newer("a", version) as newer:
            seen.append(newer)
    assert seen == [True, False, True]


def test_full_store_drops_the_least_recently_used_key():
    versions = MemoryVersions(keys_max=2)
    check = VersionCheck(versions)
    for key in ("a", "b", "a", "c"):
        handle(check, key, 1)
    assert versions.forgotten == 1
    assert not handle(check, "a", 1)
    assert handle(check, "b", 1), "b was used least recently"


def test_sqlite_versions_survive_a_restart(tmp_path: Path):
    for expected in (True, False):
        versions = SqliteVersions(tmp_path / "versions.db")
        assert handle(VersionCheck(versions), "a", 1) is expected
        versions.close()
