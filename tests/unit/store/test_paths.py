"""The commit log may lie on a disk of its own (storePathCommitLog). Everything else stays in the store's directory."""

from __future__ import annotations

from pathlib import Path

from skyrocket.store.files import Disk
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.verify import VerifyCounts, verify
from skyrocket.store.paths import StorePaths
from tests.support.brokers.running_broker import records, running
from tests.support.stores.store_messages import SMALL, START_MS, numbered, numbers, read_queue


def test_by_default_the_log_lies_in_the_store():
    assert StorePaths("/data/store").commit_log == "/data/store/commitlog"
    assert StorePaths("/data/store", "/fast/log").commit_log == "/fast/log"


class TwoDisks(Disk):
    def used_percent(self, path: str) -> float:
        return 95.0 if path.endswith("/log") else 20.0


def test_a_log_in_another_directory_is_written_read_recovered_expired_and_verified(tmp_path: Path):
    def opened() -> MessageStore:
        store = MessageStore(tmp_path / "store", SMALL, files=TwoDisks(), commit_log=tmp_path / "fast/log")
        store.open()
        return store

    store = opened()
    for first in range(0, 60, 6):
        store.append(numbered(6, first=first, body_bytes=300), START_MS)
    assert not (tmp_path / "store/commitlog").exists()
    store.close()
    verified = VerifyCounts()
    assert list(verify(tmp_path / "store", commit_log=tmp_path / "fast/log", verified=verified)) == []
    assert verified.messages == 60
    again = opened()
    assert numbers(read_queue(again)) == list(range(60))
    assert again.retention.run(START_MS, hour=12).remove > 0, "the disk of the log is too full"
    assert len(list((tmp_path / "fast/log").iterdir())) == len(again.log.segments.starts)
    again.close()


async def test_a_broker_keeps_its_log_where_the_setting_says(tmp_path: Path):
    log = tmp_path / "fast/log"
    for number in range(2):
        async with running(tmp_path, commit_log_path=str(log)) as served:
            await served.send("orders", b"%d" % number)
            assert [record.body for record in records(await served.pull("orders", 0))] == [b"0", b"1"][: number + 1]
    assert [path.name for path in log.iterdir()] == ["00000000000000000000"]
    assert not (tmp_path / "store/commitlog").exists()
    assert (tmp_path / "store/consumequeue/orders/0").is_dir()
