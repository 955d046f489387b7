"""Only newer versions are handled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client.helpers.versions import MemoryVersions, VersionCheck, Versions
from skyrocket.client.helpers.versions_sqlite import SqliteVersions


@pytest.fixture(params=["memory", "sqlite"])
def versions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Versions]:
    if request.param == "memory":
        yield MemoryVersions()
    else:
        file = SqliteVersions(tmp_path / "versions.db")
        yield file
        file.close()


def handled(check: VersionCheck, key: str, version: int) -> bool:
    with check.newer(key, version) as newer:
        return newer


def test_only_a_newer_version_is_handled(versions: Versions):
    check = VersionCheck(versions)
    assert [handled(check, "a", version) for version in (1, 1, 3, 2, 3, 4)] == [True, False, True, False, False, True]
    assert handled(check, "b", 1), "keys are apart"


def test_a_version_whose_handler_failed_is_handled_again(versions: Versions):
    check = VersionCheck(versions)
    with pytest.raises(RuntimeError, match="not now"), check.newer("a", 1):
        raise RuntimeError("not now")
    assert handled(check, "a", 1)


def test_an_older_handler_that_ends_later_does_not_turn_it_back(versions: Versions):
    check = VersionCheck(versions)
    with check.newer("a", 1) as slow:
        assert slow
        assert handled(check, "a", 2)
    assert not handled(check, "a", 2)


async def test_it_can_be_awaited(versions: Versions):
    check = VersionCheck(versions)
    seen = []
    for version in (1, 1, 2):
        async with check.newer("a", version) as newer:
            seen.append(newer)
    assert seen == [True, False, True]


def test_memory_is_bounded():
    versions = MemoryVersions(keys_max=2)
    check = VersionCheck(versions)
    for key in ("a", "b", "a", "c"):
        handled(check, key, 1)
    assert versions.forgotten == 1
    assert not handled(check, "a", 1)
    assert handled(check, "b", 1), "it was asked about longest ago"


def test_a_file_remembers_across_restarts(tmp_path: Path):
    for expected in (True, False):
        versions = SqliteVersions(tmp_path / "versions.db")
        assert handled(VersionCheck(versions), "a", 1) is expected
        versions.close()
