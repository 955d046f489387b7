"""Reads entries of the log for pushes and comparisons. A thread reads what is not in memory; the event loop does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.bodies.dledger import DLedgerEntry
from skyrocket.protocol.ledger_push import encode_entry
from skyrocket.store.cold_reads import ATTEMPTS_MAX, NotInMemoryError, ReadAttempt
from skyrocket.store.errors import StoreError
from skyrocket.store.ledger.entry import HEADER_BYTES
from skyrocket.store.ledger.ledger_store import DamagedEntryError, LedgerStore

Entries = list[memoryview]
REPAIR_WAIT_S: Final = 0.2
REPAIR_WAITS_MAX: Final = 12  # then the leader asks again anyhow
_CRCS_AT: Final = 36  # of a header; nobody fills them in, and nobody compares them
_CRCS_END: Final = 44


class EntryReader:
    def __init__(self, store: LedgerStore, outside: OutsideLog) -> None:
        self._store = store
        self._outside = outside
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-entries")

    def read(self, first: int, count: int, bytes_max: int, done: Callable[[Entries], None]) -> None:
        """Call `done` with entries from `first` on: at once, or when a thread has read them. With none if they are not there."""
        self._try(first, count, bytes_max, done, ReadAttempt(), 0)

    def _try(
        self, first: int, count: int, bytes_max: int, done: Callable[[Entries], None], attempt: ReadAttempt, tried: int
    ) -> None:
        try:
            if tried >= ATTEMPTS_MAX:
                found = self._store.entries(first, count, bytes_max)
            else:
                found = self._store.reads.read_now(lambda: self._store.entries(first, count, bytes_max), attempt)
        except NotInMemoryError as missing:
            fetched = asyncio.get_running_loop().run_in_executor(self._thread, missing.fetch)
            fetched.add_done_callback(lambda _: self._try(first, count, bytes_max, done, attempt, tried + 1))
            return
        except DamagedEntryError:
            self._store.repair.note_entry(first)
            found = []
        except (StoreError, OSError) as error:
            self._outside.warning("Entry %s cannot be read: %s", first, error)
            found = []
        done(found)

    def compare(self, entries: Sequence[DLedgerEntry], done: Callable[[bool], None]) -> None:
        """Call `done` with whether the log has the same entries. A leader compares one, or those of one push.

        A confirmed entry that is damaged here is not another one: the comparison waits for its repair, for a while.
        """
        self._compare(entries, done, 0)

    def _compare(self, entries: Sequence[DLedgerEntry], done: Callable[[bool], None], waited: int) -> None:
        given = [encode_entry(entry) for entry in entries]
        index = entries[0].index

        def compare_found(found: Entries) -> None:
            is_repaired_soon = index in self._store.repair.damaged and index <= self._store.committed_index
            if not found and is_repaired_soon and waited < REPAIR_WAITS_MAX and not self._is_closed:
                again = partial(self._compare, entries, done, waited + 1)
                asyncio.get_running_loop().call_later(REPAIR_WAIT_S, again)
                return
            is_equal = bool(found) and all(map(_are_equal, found, given))
            if is_equal and len(found) < len(given):  # the rest lies in the next file
                self._compare(entries[len(found) :], done, 0)
            else:
                done(is_equal)

        self.read(index, len(given), sum(map(len, given)), compare_found)

    def close(self) -> None:
        self._is_closed = True
        self._thread.shutdown()


def _are_equal(one: memoryview, other: bytes) -> bool:
    return (
        one[:_CRCS_AT] == other[:_CRCS_AT]
        and one[_CRCS_END:HEADER_BYTES] == other[_CRCS_END:HEADER_BYTES]
        and (one[HEADER_BYTES:] == other[HEADER_BYTES:])
    )
