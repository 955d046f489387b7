"""Writes the messages that the broker itself stores: due messages, retries, copies of half messages, op messages, replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyrocket.broker.errors import SlaveWriteError
from skyrocket.broker.load.counters import Counters
from skyrocket.protocol.message.record import Record
from skyrocket.store.log.readdress import ReaddressRequest, readdress_record, readdress_records
from skyrocket.store.message import AppendRequest, AppendResult, append_request_of
from skyrocket.store.message_store import MessageStore


class InternalWriter:
    def __init__(
        self,
        store: MessageStore,
        wall_ms: Callable[[], int],
        on_appended: Callable[[], None],
        counters: Counters,
        is_slave: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_appended` is called after each append. While `is_slave` holds, nothing is written."""
        self._store = store
        self._wall_ms = wall_ms
        self._on_appended = on_appended
        self._counters = counters
        self._is_slave = is_slave

    def write(self, records: Sequence[Record]) -> list[AppendResult]:
        """Append all records at once, or none and raise StoreError. Like all messages they are visible once confirmed."""
        return self.write_encoded([append_request_of(record) for record in records])

    def write_encoded(self, messages: Sequence[AppendRequest]) -> list[AppendResult]:
        """Like `write`, for records that are encoded already."""
        self._check_role()
        places = self._store.append(messages, self._wall_ms())
        self._counters.count_put(messages)
        self._on_appended()
        return places

    def readdress(self, requests: Sequence[ReaddressRequest]) -> None:
        """Like `write`, for records of the log that are copied to another queue."""
        self._check_role()
        position = self._store.append_position(self._wall_ms())
        run = readdress_records(requests, position, self._store.queues.next_offset)
        if run is None:
            self.write_encoded([readdress_record(request) for request in requests])
        elif requests:
            self._store.append_encoded(position, *run)
            self._counters.count_dispatched(run[1])
            self._on_appended()

    def _check_role(self) -> None:
        if self._is_slave():
            raise SlaveWriteError("This broker is a slave: it stores nothing but its master's log.")
