"""Verify what only a node of a DLedger group has: the headers of its entries, their index, the term and the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skyrocket.store.errors import StoreError, StoreFormatError
from skyrocket.store.files import Disk, OpenFiles
from skyrocket.store.ledger.entry import HEADER_BYTES, EntryHeader, unpack_header
from skyrocket.store.ledger.entry_index import EntryIndex, find_index_bytes
from skyrocket.store.ledger.node_files import LedgerCheckpointFile, TermFile, TermVote
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.offline.offline_store import OfflineStore
from skyrocket.store.offline.verify_index import Finding

_INDEX_FILES_MAX = 8


def verify_ledger(store: OfflineStore, log_end: int, is_damaged: Callable[[int], bool]) -> Iterator[Finding]:
    """Yield the findings of a node's ledger; none for a store without one. The log was read up to `log_end`."""
    if store.paths.ledger_id is None:
        return
    files = Disk()
    directory = store.paths.ledger_index
    file_bytes = find_index_bytes(files, directory)
    opened = OpenFiles(files, _INDEX_FILES_MAX, writable=False)
    check = _LedgerCheck(store, files, EntryIndex(files, opened, directory, file_bytes=file_bytes), log_end, is_damaged)
    try:
        yield from check.findings()
    finally:
        opened.close()


class _LedgerCheck:
    def __init__(
        self, store: OfflineStore, files: Disk, index: EntryIndex, log_end: int, is_damaged: Callable[[int], bool]
    ) -> None:
        self._store = store
        self._files = files
        self._index = index
        self._log_end = log_end
        self._is_damaged = is_damaged
        self._last: EntryHeader | None = None

    def findings(self) -> Iterator[Finding]:
        try:
            self._index.load()
        except StoreError as error:
            yield Finding(self._relative(self._store.paths.ledger_index), 0, str(error))
            return
        for item in self._store.log.walk(self._store.log.start, check=False):
            if not isinstance(item, FoundRecord):
                continue
            view = self._store.log.view(item.offset - HEADER_BYTES, HEADER_BYTES)
            header = None if view is None else unpack_header(view)
            if header is not None:
                yield from self._check_order(header)
                yield from self._check_index(header)
                self._last = header
        yield from self._check_node_files()

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self._store.paths.root}/")

    def _at(self, header: EntryHeader, problem: str) -> Finding:
        start = self._store.log.start_of(header.pos) or 0
        return Finding(self._relative(self._store.log.path(start)), header.pos - start, problem)

    def _check_order(self, header: EntryHeader) -> Iterator[Finding]:
        last = self._last
        if last is None:
            return
        expected = last.index + 1
        if header.index != expected and not self._is_damaged(last.end):
            yield self._at(header, f"The entry has index {header.index}; the one before it has {last.index}.")
        if header.term < last.term:
            yield self._at(header, f"The entry {header.index} has term {header.term}, behind one with term {last.term}.")

    def _check_index(self, header: EntryHeader) -> Iterator[Finding]:
        found = self._index.get(header.index)
        if found is None:
            if not self._store.is_open:
                yield self._index_finding(header.index, f"The index has no entry {header.index}; the log has it at {header.pos}.")
        elif found[:4] != header[:4]:
            said = f"{found.size} bytes at {found.pos} with term {found.term}"
            yield self._index_finding(
                header.index,
                f"The index has {said} for entry {header.index}; "
                f"the log has {header.size} bytes at {header.pos} with term {header.term}.",
            )

    def _index_finding(self, index: int, problem: str) -> Finding:
        path, at = self._index.place_of(index)
        return Finding(self._relative(path), at, problem)

    def _check_node_files(self) -> Iterator[Finding]:
        end = -1 if self._last is None else self._last.index
        paths = self._store.paths
        behind = None if self._store.is_open else self._index.get(end + 1)
        if behind is not None and not self._is_damaged(behind.pos):
            yield self._index_finding(end + 1, f"The index has an entry {end + 1} at {behind.pos}; the log ends before it.")
        checkpoint = LedgerCheckpointFile(self._files, paths.ledger_checkpoint).read()
        if checkpoint.committed_index > end and not self._store.is_open:
            yield Finding(
                self._relative(paths.ledger_checkpoint),
                0,
                f"It calls entry {checkpoint.committed_index} confirmed; the last one in the log is {end}.",
            )
        try:
            state = TermFile(self._files, paths.term_file).read()
        except StoreFormatError as error:
            yield Finding(self._relative(paths.term_file), 0, str(error).replace(f"{paths.root}/", ""))
            state = TermVote(2**63)
        if self._last is not None and state.term < self._last.term:
            yield Finding(
                self._relative(paths.term_file),
                0,
                f"It says term {state.term}; the last entry of the log is of term {self._last.term}.",
            )
