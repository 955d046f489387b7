"""After a failed sync, the page cache shows what the disk does not have. The next start writes that again."""

from __future__ import annotations

from random import Random

import pytest

from skyrocket.store.errors import StoreIOError, WritesStoppedError
from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import SimulatedDisk, SimulatedFile
from tests.support.stores.store_messages import ROOT, SMALL, START_MS, an_open_store, bodies, numbered

MARK = f"{ROOT}/sync_failed"


def a_disk_whose_sync_failed(number: int = 1) -> SimulatedDisk:
    """Messages are stored and flushed, then more are stored, and the next sync fails: of a flush, or of a checkpoint."""
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append(numbered(5), START_MS)
    store.checkpoint()
    store.flush()
    store.append(numbered(60, first=5), START_MS)
    if number > 1:
        store.flush()
    disk.fail("sync")
    with pytest.raises(WritesStoppedError):
        (store.flush if number == 1 else store.checkpoint)()
    store.close()
    disk.heal()
    return disk.kill()


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_what_the_next_start_shows_survives_a_power_failure(number: int, seed: int):
    disk = a_disk_whose_sync_failed(number)
    assert disk.exists(MARK)
    store = MessageStore(ROOT, SMALL, files=disk)
    found = store.open()
    shown = bodies(store)
    assert len(shown) == 65
    assert store.horizon.flushed == store.log.end
    assert found.rewritten_bytes
    assert any("written again and read back" in sentence for sentence in found.sentences())
    assert not disk.exists(MARK)
    assert bodies(an_open_store(disk.crash(Random(seed)))) == shown


def test_store_is_not_opened_on_a_disk_that_does_not_keep_what_is_synced(monkeypatch: pytest.MonkeyPatch):
    disk = a_disk_whose_sync_failed()
    with monkeypatch.context() as patched:
        patched.setattr(SimulatedFile, "read_from_disk", lambda _file, _at, size: bytes(size))
        with pytest.raises(StoreIOError, match="not on disk as it was written"):
            an_open_store(disk)
    assert disk.exists(MARK), "the next start looks again"
    store = an_open_store(disk)
    assert len(bodies(store)) == 65
    store.append(numbered(1, first=65), START_MS)
    store.close()
    assert not disk.exists(MARK)


def test_start_without_a_failed_sync_writes_nothing_again():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append(numbered(5), START_MS)
    again = MessageStore(ROOT, SMALL, files=disk.kill())
    assert again.open().rewritten_bytes == 0
