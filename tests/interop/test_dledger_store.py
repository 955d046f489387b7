"""One directory of a DLedger node, Apache's broker and our store by turns: each reads what the other has written.

The same after kill -9 of either. Apache's broker runs as a group of one, so that it leads and confirms by itself.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skyrocket.cli.files.store import app as store_commands
from skyrocket.protocol.command import Command
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.config import StoreConfig
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.ledger.node_files import TermVote
from skyrocket.store.offline.verify import verify
from tests.support.apache.cluster import ApacheCluster, JavaProcess, send_request
from tests.support.brokers.running_broker import pull_header, records, send_header
from tests.support.ports import free_port
from tests.support.stores.ledgers import LedgerFiles, all_entries
from tests.support.stores.sample_stores import flip
from tests.support.stores.store_messages import a_message
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

TOPIC = "TD"
CONFIG = StoreConfig(segment_bytes=65536, queue_entries_per_file=300, index_slots=1000, index_entries=4000)
SMALL_FILES = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "timerWheelEnable": "false",
}


class LedgerHouse:
    """A node's directory, and Apache's broker in it."""

    def __init__(self, home: Path, cluster: ApacheCluster) -> None:
        self.root = home / "store"
        self._cluster = cluster
        self._port = free_port(-2, 1)
        self.settings = {
            **SMALL_FILES,
            "enableDLegerCommitLog": "true",
            "dLegerGroup": "house",
            "dLegerPeers": f"n0-127.0.0.1:{free_port()}",
            "dLegerSelfId": "n0",
            "brokerName": "house",
            "listenPort": self._port,
            "autoCreateTopicEnable": "true",
        }

    def apache(self) -> JavaProcess:
        broker = self._cluster.broker(self.root, self.settings)
        wait_until(lambda: self._send(3, b"probe") == ResponseCode.SUCCESS, broker.log_tail)
        return broker

    def _ask(self, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> Command | None:
        return send_request(("127.0.0.1", self._port), Command(code, opaque=1, fields=fields, body=body))

    def _send(self, queue_id: int, body: bytes) -> int:
        answer = self._ask(RequestCode.SEND_MESSAGE_V2, send_header(TOPIC, queue_id).to_fields(), body)
        return -1 if answer is None else answer.code

    def send(self, queue_id: int, body: bytes) -> None:
        assert self._send(queue_id, body) == ResponseCode.SUCCESS

    def pull(self, queue_id: int) -> list[Record]:
        found: list[Record] = []
        while True:
            header = pull_header(TOPIC, len(found), queue_id=queue_id)
            answer = self._ask(RequestCode.PULL_MESSAGE, header.to_fields())
            assert answer is not None
            page = records(answer)
            if not page:
                return found
            found += page

    def ours(self) -> LedgerStore:
        store = LedgerStore(self.root, CONFIG, node_id="n0")
        store.open()
        store.commit(store.end_index)  # the group is this node alone
        return store


@pytest.fixture
def house(tmp_path: Path) -> Iterator[LedgerHouse]:
    with ApacheCluster(tmp_path / "apache") as cluster:
        yield LedgerHouse(tmp_path, cluster)


def bodies(found: list[Record]) -> list[bytes]:
    return [record.body for record in found]


def read(store: LedgerStore, queue_id: int) -> list[Record]:
    found: list[Record] = []
    while views := store.reading.messages(TOPIC, queue_id, len(found), 32).records:
        found += [decode_record(view) for view in views]
    return found


def write(store: LedgerStore, count: int) -> None:
    """Append as the only node of its group, in the next term."""
    term = store.term_vote.term + 1
    store.begin_save_term(TermVote(term, "n0"))()
    store.set_term(term)
    now_ms = int(time.time() * 1000)
    for number in range(count):
        store.append([a_message(TOPIC, number % 2, b"ours %d" % number * 20, keys=f"k{number}", tags="red")], now_ms)
    store.flush()
    store.commit(store.end_index)


@pytest.mark.parametrize("is_killed", [False, True])
def test_apache_and_ours_take_turns_on_a_nodes_directory(house: LedgerHouse, is_killed: bool) -> None:
    apache = house.apache()
    for number in range(150):
        house.send(number % 2, b"apache %d" % number * 20)
    before = [house.pull(queue_id) for queue_id in range(2)]
    assert [len(each) for each in before] == [75, 75]
    apache.kill() if is_killed else apache.stop()

    store = house.ours()
    assert [read(store, queue_id) for queue_id in range(2)] == before
    end = store.end_index
    write(store, 300)
    entries = all_entries(store)
    assert store.end_index == end + 300
    mine = [read(store, queue_id) for queue_id in range(2)]
    assert [len(each) for each in mine] == [225, 225]
    if is_killed:
        store._abandon()  # as a process that ends: nothing more is written
    else:
        store.close()
        assert list(verify(house.root)) == []
    data = [path.read_bytes() for path in LedgerFiles(house.root).data[:-1]]

    apache = house.apache()
    assert [house.pull(queue_id) for queue_id in range(2)] == mine
    house.send(0, b"last")
    assert bodies(house.pull(0)) == [*bodies(mine[0]), b"last"]
    apache.kill() if is_killed else apache.stop()
    assert [path.read_bytes() for path in LedgerFiles(house.root).data[: len(data)]] == data

    store = house.ours()
    assert all_entries(store)[: len(entries)] == entries
    assert bodies(read(store, 0)) == [*bodies(mine[0]), b"last"]
    assert bodies(read(store, 1)) == bodies(mine[1])
    store.close()
    assert list(verify(house.root)) == []


def test_apaches_node_starts_from_a_repaired_directory(house: LedgerHouse) -> None:
    apache = house.apache()
    for number in range(150):
        house.send(number % 2, b"apache %d" % number * 20)
    # Apache's broker acknowledges a message before it is in its queue.
    wait_until(lambda: [len(house.pull(queue_id)) for queue_id in range(2)] == [75, 75], apache.log_tail)
    before = [house.pull(queue_id) for queue_id in range(2)]
    apache.kill()
    files = LedgerFiles(house.root)
    shutil.rmtree(house.root / "consumequeue" / TOPIC / "0")
    flip(files.data[0], 2)  # in the header of the first entry: the index tells what it was
    last = files.data[-1]
    torn = last.read_bytes().rstrip(b"\0")
    last.write_bytes((torn + files.data[0].read_bytes()[:100]).ljust(last.stat().st_size, b"\0"))
    done = CliRunner().invoke(store_commands, ["repair", str(house.root), "--yes"])
    assert (done.exit_code, "Do not start Apache's node here" in done.output) == (0, False), done.output
    assert list(verify(house.root)) == []

    apache = house.apache()

    def is_served() -> bool:
        return [house.pull(queue_id) for queue_id in range(2)] == before

    # Its group of one confirms again what the killed node had not noted.
    wait_until(is_served, lambda: f"{[len(house.pull(queue_id)) for queue_id in range(2)]} of 75 each")
    house.send(0, b"last")
    wait_until(lambda: bodies(house.pull(0)) == [*bodies(before[0]), b"last"], apache.log_tail)
    apache.stop()
    assert list(verify(house.root)) == []
