"""Stores of nodes of DLedger groups: those that Apache's nodes wrote, and ours."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skyrocket.store.config import StoreConfig
from skyrocket.store.files import Files
from skyrocket.store.ledger.entry import EntryHeader, unpack_header
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.message import AppendRequest
from tests.support.golden import GOLDEN
from tests.support.stores.store_messages import START_MS

GOLDEN_LEDGER_CONFIG = StoreConfig(segment_bytes=65536, queue_entries_per_file=300, index_slots=1000, index_entries=4000)
LEDGER_CONFIG = StoreConfig(segment_bytes=8192, queue_entries_per_file=10, index_slots=16, index_entries=40)
INDEX_FILE_BYTES = 32 * 64  # small, so that tests have several
NODE = "n0"


def golden_ledger(directory: Path, node: str = "n2") -> Path:
    """Unpack the store of a node that Apache's broker wrote. Return its root."""
    with tarfile.open(GOLDEN / "dledger-store.tar.xz") as archive:
        members = [member for member in archive if member.name.removeprefix("./").startswith(f"{node}/")]
        archive.extractall(directory, members, filter="data")
    return directory / node


def a_ledger(
    root: Path | str, config: StoreConfig = LEDGER_CONFIG, *, files: Files | None = None, node: str = NODE
) -> LedgerStore:
    """Open the store of a node."""
    store = LedgerStore(root, config, node_id=node, files=files, index_file_bytes=INDEX_FILE_BYTES)
    store.open()
    return store


def append_committed(store: LedgerStore, messages: Sequence[AppendRequest], now_ms: int = START_MS) -> None:
    """Append messages, sync them, and let the group confirm them."""
    store.append(messages, now_ms)
    store.flush()
    store.commit(store.end_index)


def all_entries(store: LedgerStore) -> list[bytes]:
    return [entry for index in range(max(store.begin_index, 0), store.end_index + 1) if (entry := store.entry(index)) is not None]


def restore_entry(store: LedgerStore, entry: bytes | memoryview) -> None:
    """Write an entry that is damaged here as another node has it. Raise EntryError when it is not the one."""
    job = store.repair.begin_restore([entry])
    job.run()
    store.repair.finish_restore(job)


def header_of(entry: bytes | memoryview) -> EntryHeader:
    header = unpack_header(entry)
    assert header is not None
    return header


@dataclass(frozen=True)
class LedgerFiles:
    """The files of a node, to change their bytes."""

    root: Path
    node: str = NODE

    @property
    def data(self) -> list[Path]:
        return sorted((self.root / f"dledger-{self.node}" / "data").iterdir())

    @property
    def index(self) -> list[Path]:
        return sorted((self.root / f"dledger-{self.node}" / "index").iterdir())

    @property
    def checkpoint(self) -> Path:
        return self.root / f"dledger-{self.node}" / "checkpoint"
