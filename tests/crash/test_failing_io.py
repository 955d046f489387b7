"""The n-th file operation of a kind fails, for n = 1, 2, … until a run has no failure.

Each failure raises a typed error, and the store never claims a message that was not stored. Reads go on. Writes go on when there
is space again, and stop after a failed sync. Afterwards, on a good disk, every acknowledged message is there.

`SKYROCKET_FAILING_IO_STEP=1` lets every n fail (`make crash`); otherwise every seventh, beginning at another one for each case.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random

import pytest

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import DiskFullError, StoreError, StoreIOError, StoreLockedError, WritesStoppedError
from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import Fault, SimulatedDisk
from tests.support.stores.store_messages import (
    ROOT,
    SMALL,
    START_MS,
    Ledger,
    a_message,
    an_open_store,
    bodies,
    expire_oldest,
    numbered,
    random_messages,
)

CONFIG = replace(SMALL, queue_entries_per_file=5, index_entries=25, undispatched_max=40)
FEW_FILES = replace(CONFIG, open_files_max=2)
RUNS_MAX = 2_000
STEP = int(os.environ.get("SKYROCKET_FAILING_IO_STEP", "7"))


class Life:
    """A fixed sequence of operations on a store: open, append, flush, checkpoint, expire, close. Errors are recorded."""

    def __init__(self, disk: SimulatedDisk, config: StoreConfig) -> None:
        self.disk = disk
        self.config = config
        self.ledger = Ledger()
        self.errors: list[StoreError] = []
        self.store: MessageStore | None = None
        self.rng = Random(5)
        self.serial = count()

    @contextmanager
    def noting(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:  # anything else is a failure of the test
            self.errors.append(error)

    def run(self, close: bool = True) -> None:
        store = MessageStore(ROOT, self.config, files=self.disk)
        with self.noting():
            store.open()
            self.store = store
        if self.store is None:
            return
        for turn in range(8):
            self.append(9)
            if turn % 2:
                self.act(store.flush)
            if turn % 3 == 2:
                self.act(store.checkpoint)
            if turn == 5:
                self.act(partial(expire_oldest, store))
            self.read()
        if close:
            self.act(store.close)

    def append(self, messages: int) -> None:
        assert self.store is not None
        with self.noting():
            self.ledger.append(self.store, random_messages(self.rng, self.serial, messages), START_MS + next(self.serial))
        self.ledger.note_promise(self.store)

    def act(self, operation: Callable[[], object]) -> None:
        assert self.store is not None
        with self.noting():
            operation()
        self.ledger.note_promise(self.store)

    def read(self) -> None:
        """Check that queues can be read and hold what was sent, whatever failed before."""
        assert self.store is not None
        with self.noting():  # a read may be the operation that fails
            for (topic, queue_id), _ in list(self.store.queues):
                for record in self.store.reading.messages(topic, queue_id, 0, 100).records:
                    assert any(record == sent.data for sent in self.ledger.sent.values() if sent.placed is not None)


def check_afterwards(life: Life, disk: SimulatedDisk, failed_may_appear: bool) -> None:
    """Check the invariants of a crash on a good disk, and that the store can go on."""
    store = an_open_store(disk, life.config)
    life.ledger.reopened(store, failed_may_appear=failed_may_appear)
    life.ledger.append(store, random_messages(life.rng, life.serial, 10), START_MS * 2)
    store.flush()
    life.ledger.note_promise(store)
    life.ledger.check(store, failed_may_appear=failed_may_appear)
    store.close()


def each_failure(
    set_fault: Callable[[SimulatedDisk, int], Fault], config: StoreConfig, close: bool = True, case: str = ""
) -> Iterator[Life]:
    """Yield one life for each n of this case, with its n-th operation failing, until none fails."""
    for nth in range(1 + zlib.crc32(case.encode()) % STEP, RUNS_MAX, STEP):
        disk = SimulatedDisk(nth)
        fault = set_fault(disk, nth)
        life = Life(disk, config)
        try:
            life.run(close)
        except Exception as error:
            raise AssertionError(f"operation {nth} of kind {fault.kind}: {type(error).__name__}: {error}") from error
        if not fault.hits:
            assert not life.errors, f"without a failing operation: {life.errors}"
            return
        yield life
    pytest.fail(f"{RUNS_MAX} operations were not enough")


ONCE = [
    ("write", errno.ENOSPC, False),
    ("write", errno.EIO, False),
    ("write", errno.ENOSPC, True),
    ("write", errno.EIO, True),
    ("open", errno.EIO, False),
    ("open", errno.EMFILE, False),
    ("read", errno.EIO, False),
    ("create", errno.ENOSPC, False),
    ("create", errno.EIO, False),
    ("remove", errno.EIO, False),
    ("replace", errno.ENOSPC, False),
    ("replace", errno.EIO, False),
    ("lock", errno.EIO, False),
]


@pytest.mark.parametrize("config", [CONFIG, FEW_FILES, replace(CONFIG, sync_flush=True)], ids=["usual", "few files", "sync"])
@pytest.mark.parametrize(("kind", "number", "short"), ONCE)
def test_failed_operation_raises_a_store_error_and_loses_nothing(kind: str, number: int, short: bool, config: StoreConfig):
    case = f"{kind} {number} {short} {config.open_files_max} {config.sync_flush}"
    for life in each_failure(lambda disk, nth: disk.fail(kind, nth, number, short=short), config, case=case):
        assert all(str(error).endswith(".") for error in life.errors)
        assert not any(isinstance(error, WritesStoppedError) for error in life.errors), life.errors
        life.disk.heal()
        check_afterwards(life, life.disk.copy(), failed_may_appear=False)


@pytest.mark.parametrize("sync_flush", [False, True])
def test_first_failed_sync_stops_writes_and_loses_no_acknowledged_message(sync_flush: bool):
    config = replace(CONFIG, sync_flush=sync_flush)
    for life in each_failure(lambda disk, nth: disk.fail("sync", nth), config, close=False):
        if life.store is None:
            continue
        assert isinstance(life.errors[0], WritesStoppedError), life.errors[0]
        for _ in range(2):
            with pytest.raises(WritesStoppedError):
                life.store.append([a_message()], START_MS)
        with pytest.raises(WritesStoppedError):
            life.store.flush()
        life.read()
        for seed in range(3):
            check_afterwards(copy_of(life), life.disk.copy().crash(Random(seed)), failed_may_appear=True)


def copy_of(life: Life) -> Life:
    other = Life(life.disk, life.config)
    other.ledger = Ledger(dict(life.ledger.sent), life.ledger.promised)
    other.serial = count(1_000_000)
    return other


@pytest.mark.parametrize("kind", ["write", "create", "replace"])
def test_full_disk_refuses_writes_until_there_is_space_again(kind: str):
    for nth in (1, 2, 3, 5, 8, 13, 21):
        disk = SimulatedDisk(nth)
        store = an_open_store(disk)
        ledger = Ledger()
        rng, serial = Random(nth), count()
        disk.fail(kind, nth, errno.ENOSPC, lasting=True)
        full = False
        for turn in range(30):
            try:
                ledger.append(store, random_messages(rng, serial, 10), START_MS + turn)
                store.checkpoint()
            except DiskFullError:
                full = True
            for (topic, queue_id), _ in list(store.queues):
                store.reading.messages(topic, queue_id, 0, 100)
        assert full
        disk.heal()
        for turn in range(5):
            ledger.append(store, random_messages(rng, serial, 10), START_MS * 2 + turn)
        store.flush()
        ledger.note_promise(store)
        found = ledger.check(store, failed_may_appear=False)
        assert all(s.unique in found for s in ledger.sent.values() if s.placed is not None and s.is_queued)
        store.close()
        again = an_open_store(disk)
        assert ledger.check(again, failed_may_appear=False) == found
        again.close()


def test_failed_append_leaves_nothing_even_without_a_later_append():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append(numbered(3), START_MS)
    disk.fail("write", 1, errno.EIO, short=False)
    disk.fail("write", 2, errno.EIO, lasting=False)
    with pytest.raises(StoreIOError):
        store.append(numbered(60, first=3, body_bytes=200), START_MS)  # over two segments
    disk.heal()
    store.close()
    again = an_open_store(disk)
    assert len(bodies(again)) == 3


def test_a_store_that_is_open_cannot_be_opened_again():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    with pytest.raises(StoreLockedError):
        MessageStore(ROOT, SMALL, files=disk).open()
    store.append([a_message()], START_MS)
    store.close()
    an_open_store(disk).close()


def test_a_good_disk_has_no_errors():
    life = Life(SimulatedDisk(), CONFIG)
    life.run()
    assert life.errors == []
    assert life.store is not None
