"""The table of users and rules of a running broker: what a copy of the master's undoes."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.auth.access_table import AccessTable
from skyrocket.auth.users import User, UserType
from skyrocket.broker.auth import access_store
from skyrocket.broker.auth.access_store import AccessStore
from skyrocket.protocol.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo


def user(name: str, password: str = "secret") -> User:
    return User(name, password, UserType.NORMAL)


def table(*users: User) -> AccessTable:
    return AccessTable({each.name: each for each in users})


async def create(store: AccessStore, name: str) -> None:
    await store.change(lambda known: known.create_user(name, UserInfo(password="secret"), None))


async def test_a_copy_names_the_users_whose_changes_here_it_does_not_have(tmp_path: Path):
    (tmp_path / "config").mkdir()
    store = AccessStore(tmp_path / "config")
    assert await store.copy(table(user("old"), user("gone"), user("ruled"), user("other"))) == []
    for name in ("made-here", "made-at-both"):
        await create(store, name)
    await store.change(lambda known: known.update_user("old", UserInfo(password="changed"), None))
    await store.change(lambda known: known.delete_user("gone", None))
    rules = AclInfo(policies=[PolicyInfo(entries=[PolicyEntryInfo(resource="Topic:t", actions=["Pub"], decision="Allow")])])
    await store.change(lambda known: known.merge_acl("User:ruled", rules))
    masters = table(user("old"), user("gone"), user("ruled"), user("made-at-both"), user("new"))
    assert await store.copy(masters) == ["gone", "made-here", "old", "ruled"]
    assert store.table == masters
    assert await store.copy(table(user("new"))) == [], "each change is told of once"


async def test_changes_that_a_copy_would_tell_of_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access_store, "CHANGED_HERE_MAX", 2)
    store = AccessStore(tmp_path)
    for name in ("a", "b", "c"):
        await create(store, name)
    assert await store.copy(AccessTable()) == ["b", "c"]
