from __future__ import annotations

import pytest

from skyrocket.broker.tables import queue_locks
from skyrocket.broker.tables.queue_locks import LOCK_MS, QueueLockTable
from skyrocket.protocol.bodies import MessageQueue

ZERO, ONE, TWO = (MessageQueue("orders", "broker-a", number) for number in range(3))


def test_a_queue_is_locked_for_one_client_of_a_group():
    locks = QueueLockTable()
    assert locks.lock("billing", "c1", [ZERO, ONE], 0) == [ZERO, ONE]
    assert locks.lock("billing", "c2", [ONE, TWO], 1) == [TWO]
    assert locks.lock("shipping", "c2", [ONE], 1) == [ONE], "groups lock independently"
    assert locks.lock("billing", "c1", [ONE, ONE], 2) == [ONE]


def test_lock_that_is_not_renewed_for_a_minute_can_be_taken():
    locks = QueueLockTable()
    locks.lock("billing", "c1", [ZERO], 0)
    locks.lock("billing", "c1", [ZERO], 10_000)
    assert locks.lock("billing", "c2", [ZERO], 10_000 + LOCK_MS) == []
    assert locks.lock("billing", "c2", [ZERO], 10_001 + LOCK_MS) == [ZERO]
    assert locks.lock("billing", "c1", [ZERO], 10_002 + LOCK_MS) == []


def test_only_the_owner_can_unlock_a_queue():
    locks = QueueLockTable()
    locks.lock("billing", "c1", [ZERO], 0)
    locks.unlock("billing", "c2", [ZERO])
    locks.unlock("nobody", "c1", [ZERO])
    assert locks.lock("billing", "c2", [ZERO], 1) == []
    locks.unlock("billing", "c1", [ZERO, ONE])
    assert locks.lock("billing", "c2", [ZERO], 2) == [ZERO]


def test_expired_locks_are_removed(monkeypatch: pytest.MonkeyPatch):
    locks = QueueLockTable()
    locks.lock("billing", "c1", [ZERO, ONE], 0)
    locks.lock("shipping", "c1", [], 0)
    assert locks.expire(LOCK_MS) == 0
    assert locks.expire(LOCK_MS + 1) == 2
    assert len(locks) == 0
    assert locks._locks == {}


def test_full_table_gives_no_lock_until_old_ones_expire(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 2)
    locks = QueueLockTable()
    locks.lock("billing", "c1", [ZERO, ONE], 0)
    assert locks.lock("shipping", "c2", [ZERO], 1) == []
    assert locks.lock("billing", "c1", [ONE], 2) == [ONE], "renewing a lock needs no room"
    assert locks.lock("shipping", "c2", [ZERO], LOCK_MS + 2) == [ZERO]
