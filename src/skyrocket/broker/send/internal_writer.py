"""Messages that the broker itself writes: those whose time has come, retries, halves and ends of transactions, replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyrocket.broker.load.counters import Counters
from skyrocket.protocol.message.record import Record
from skyrocket.store.log.readdress import ReaddressRequest, readdress_record, readdress_records
from skyrocket.store.message import AppendRequest, AppendResult, append_request_of
from skyrocket.store.message_store import MessageStore


class OwnMessages:
    def __init__(
        self, store: MessageStore, wall_ms: Callable[[], int], on_appended: Callable[[], None], counters: Counters
    ) -> None:
        self._store = store
        self._wall_ms = wall_ms
        self._on_appended = on_appended
        self._counters = counters

    def put(self, records: Sequence[Record]) -> list[AppendResult]:
        """Store them, all or none, with one append; StoreError when that fails. They are visible once confirmed, as all are."""
        return self.put_encoded([append_request_of(record) for record in records])

    def put_encoded(self, messages: Sequence[AppendRequest]) -> list[AppendResult]:
        """The same, for records that are bytes already."""
        places = self._store.append(messages, self._wall_ms())
        self._counters.count_put(messages)
        self._on_appended()
        return places

    def move(self, moves: Sequence[ReaddressRequest]) -> None:
        """The same, for records that are in the log and come to another queue."""
        opening = self._store.append_position(self._wall_ms())
        run = readdress_records(moves, opening, self._store.queues.next_offset)
        if run is None:
            self.put_encoded([readdress_record(move) for move in moves])
        elif moves:
            self._store.append_encoded(opening, *run)
            self._counters.count_dispatched(run[1])
            self._on_appended()
