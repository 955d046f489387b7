"""Reads one range of a queue as record batches: sends pulls, collects responses into batches, and survives failures.

    for batch in RangeReader(options, partition).batches(): ...

If a broker goes away, the reader looks up its route again and continues at the same offset, until `retryTimeout` has passed
without progress. Messages that no longer exist are an error, or are skipped: option `failOnDataLoss`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from skyrocket.client.errors import BrokerError
from skyrocket.client.session.routes import MASTER_ID
from skyrocket.columnar.columns import ColumnBuilder
from skyrocket.columnar.ranges import Ints
from skyrocket.columnar.rows import ChecksumScope, RecordRows, find_record_starts
from skyrocket.protocol.errors import CompressionError, FrameError, RecordError
from skyrocket.protocol.message.record import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT, decode_record
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import INNER_BATCH
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.errors import DataLossError, RequestRefusedError
from skyrocket.spark.fetch.connections import BrokerConnection, connections
from skyrocket.spark.fetch.pull_frames import PullFrames
from skyrocket.spark.fetch.pull_window import OffsetRange, PullWindow
from skyrocket.spark.fetch.receive_buffer import PullResponse, ReceiveBuffer
from skyrocket.spark.fetch.record_batches import BatchMaker, has_decompressible_body, has_sound_body
from skyrocket.spark.fetch.worker_memory import freeze_modules
from skyrocket.spark.options.source_options import SourceOptions
from skyrocket.spark.source.partitions import QueuePartition

log = logging.getLogger(__name__)

BATCH_ROWS: Final = 4_000  # rows of a batch; each batch has a fixed decoding cost, and larger batches make Spark no faster
BATCH_ROWS_MAX: Final = 4_096  # more rows make several batches
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024  # received bytes of a batch; the response that exceeds it still belongs to the batch
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_S_MAX: Final = 1.0

_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE})
_CONNECTION_ERRORS: Final = (OSError, FrameError)  # timeouts and TLS errors are OSErrors


class RangeReader:
    def __init__(self, options: SourceOptions, part: QueuePartition, columns: Sequence[str] | None = None) -> None:
        self._options = options
        self._part = part
        self._queue = part.queue
        self._cluster = ClusterClient(options.cluster)
        self._maker = BatchMaker(
            options.columns if columns is None else columns, topic=part.queue.topic, broker=part.queue.broker_name
        )
        subscription = options.subscription(part.queue.topic)
        self._tags = None if subscription.tags is None else pa.array(sorted(subscription.tags), pa.string())
        wire = self._cluster.wire
        self._frames = PullFrames(
            wire(options.group),
            part.queue._replace(topic=wire(part.queue.topic)),
            subscription,
            options.fetch_bytes,
            options.cluster.credentials(),
        )
        self._window = PullWindow(
            part.start, part.stop, options.fetch_messages, options.fetch_ahead, is_filtered=options.is_filtered
        )
        self._buffer = ReceiveBuffer()
        self._early: dict[int, PullResponse] = {}  # responses that arrived before it was their turn
        self._starts: list[Ints] = []  # of the records for the next batch
        self._row_count = 0
        self._connection: BrokerConnection | None = None
        self._broker_id = self._suggested = MASTER_ID
        self._excluded: set[int] = set()  # slaves that failed, or are behind: the reader ignores suggestions to pull from them
        self._failures = 0  # since the last progress
        self._progress_s = time.monotonic()

    def batches(self) -> Iterator[Any]:
        freeze_modules()
        try:
            while not self._window.is_done:
                try:
                    self._exchange()
                except _CONNECTION_ERRORS as error:
                    yield from self._flush()
                    self._reconnect(error)
                if self._row_count >= BATCH_ROWS or self._buffer.filled >= BATCH_BYTES_MAX:
                    yield from self._flush()
            yield from self._flush()
        finally:
            self._release_connection()
            self._buffer.close()

    # --- the connection

    def _exchange(self) -> None:
        """Send the pulls that the window allows, and receive once."""
        if self._suggested != self._broker_id and not self._window.in_flight:
            self._release_connection()
            self._broker_id = self._suggested
        connection = self._connection or self._connect()
        if self._suggested == self._broker_id:
            pulls = self._window.next_pulls()
            if pulls:
                connection.send(self._frames.encode(pulls))
        self._buffer.receive(connection.receive_into)
        if not self._early:
            self._take_expected()
        for response in self._buffer.responses():
            self._accept(response)

    def _connect(self) -> BrokerConnection:
        address = self._cluster.address(self._queue, self._broker_id, fresh=self._failures > 0)
        self._connection = connections.take(self._options.cluster, address, self._options.fetch_ms)
        return self._connection

    def _release_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._window.in_flight:
            connection.close()
        else:
            connections.give_back(connection)

    def _reconnect(self, error: Exception) -> None:
        """Drop the connection, and pause before the next attempt at the same offset; or give up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._early.clear()
        self._buffer.clear()
        self._window.restart()
        self._return_to_master()
        self._pause_or_fail(f"broker {self._queue.broker_name}, which has {self._queue}: {str(error) or type(error).__name__}")

    def _return_to_master(self) -> None:
        if self._broker_id != MASTER_ID:
            self._excluded.add(self._broker_id)
        self._broker_id = self._suggested = MASTER_ID

    def _pause_or_fail(self, reason: str) -> None:
        if not self._pause():
            raise self._cluster.unreachable_error(reason)

    def _pause(self) -> bool:
        """Sleep, twice as long after each failure. Return False if `retryTimeout` would pass without progress."""
        self._failures += 1
        pause_s = min(_PAUSE_FIRST_S * 2 ** min(self._failures - 1, 8), _PAUSE_S_MAX)
        if time.monotonic() + pause_s - self._progress_s > self._options.cluster.retry_ms / 1000:
            return False
        time.sleep(pause_s)
        return True

    # --- responses

    def _take_expected(self) -> None:
        """Take all expected responses at once, by the fast path."""
        taken, starts = self._buffer.take_expected(self._broker_id, self._window.expected)
        if taken:
            self._window.complete_expected(taken)
            self._suggested = self._broker_id
            self._collect(np.frombuffer(starts, np.int64))
            self._failures, self._progress_s = 0, time.monotonic()

    def _collect(self, starts: Ints) -> None:
        self._starts.append(starts)
        self._row_count += len(starts)

    def _accept(self, response: PullResponse) -> None:
        """Handle a response, and those that waited for it. Keep it if others must come first; drop it if it is useless."""
        number = response.number
        if not self._window.is_wanted(number):
            self._window.drop_stale()
            return
        self._early[number] = response
        while (head := self._window.head) is not None and head in self._early:
            self._handle(self._early.pop(head))

    def _handle(self, response: PullResponse) -> None:
        offset = self._window.position
        if response.code in _BUSY:
            self._window.skip_to(offset)
            self._pause_or_fail(f"{self._address} is busy: {response.remark}")
            return
        handle = _HANDLERS.get(response.code)
        if handle is None:
            error = BrokerError(response.code, response.remark, self._address)
            raise RequestRefusedError(f"{self._queue} cannot be read: {error}")
        next_offset = response.next_offset
        if next_offset is None:
            raise FrameError("the response to a pull has no nextBeginOffset")
        if response.suggested not in self._excluded:
            self._suggested = response.suggested
        handle(self, response, offset, next_offset)
        if self._window.position > offset:
            self._failures, self._progress_s = 0, time.monotonic()

    def _on_found(self, response: PullResponse, offset: int, next_offset: int) -> None:
        if next_offset <= offset:
            raise FrameError(f"the broker returns messages from offset {offset} and continues at {next_offset}")
        packed, end = find_record_starts(self._buffer.view, response.start, response.end, next_offset - offset)
        starts = np.frombuffer(packed, np.int64)
        part = self._window.complete_head(next_offset)
        if end > response.end:
            starts = starts[:-1]  # the last record would reach into the next response
        is_enough = len(starts) == next_offset - offset or (self._options.is_filtered and len(starts))
        if end != response.end or not is_enough:
            self._report_incomplete(starts, OffsetRange(offset, next_offset))
        if part.stop < next_offset:
            starts = starts[[self._offset_at(start) < part.stop for start in starts.tolist()]]
        self._collect(starts)

    def _offset_at(self, start: int) -> int:
        return int.from_bytes(self._buffer.view[start + QUEUE_OFFSET_AT : start + PHYSICAL_OFFSET_AT])

    def _report_incomplete(self, starts: Ints, part: OffsetRange) -> None:
        """Report a response that has other bytes than records or, without a filter, fewer records than offsets."""
        view, count = self._buffer.view, part.stop - part.start
        if any(view[start + SYS_FLAG_AT + 3] & INNER_BATCH for start in starts.tolist()):
            raise RequestRefusedError(
                f"{self._queue} stores each batch as one message (queue.type=BatchCQ). This source cannot read such a queue."
            )
        self._report_loss(f"of {count} from offset {part.start} on, {self._address} returned {len(starts)}")

    def _on_not_found(self, response: PullResponse, offset: int, _next_offset: int) -> None:
        """Handle a response without messages: a slave is behind, or the broker's log is shorter than it was."""
        self._window.skip_to(offset)
        if self._broker_id != MASTER_ID:
            self._excluded.add(self._broker_id)
            self._suggested = MASTER_ID
        elif not self._pause():
            self._report_loss(
                f"the queue now ends at offset {response.max_offset}, before the end of the read at {self._part.stop}"
            )
            self._window.skip_rest()

    def _on_no_match(self, response: PullResponse, offset: int, next_offset: int) -> None:
        if next_offset <= offset:
            self._on_not_found(response, offset, next_offset)
            return
        if not self._options.is_filtered:
            self._report_loss(f"offsets {offset} to {min(next_offset, self._part.stop)} are gone")
        self._window.skip_to(next_offset)

    def _on_offset_moved(self, response: PullResponse, offset: int, next_offset: int) -> None:
        if next_offset <= offset:
            self._on_not_found(response, offset, next_offset)
            return
        self._report_loss(f"the queue now starts at offset {next_offset}, after offset {offset} that was to be read")
        self._window.skip_to(next_offset)

    def _report_loss(self, reason: str) -> None:
        sentence = f"Messages of {self._queue} are lost: {reason}"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{sentence}. To skip them, set option 'failOnDataLoss' to false.")
        log.warning("%s. They are skipped, since option 'failOnDataLoss' is false.", sentence)

    @property
    def _address(self) -> str:
        return self._queue.broker_name if self._connection is None else self._connection.address

    # --- batches

    def _flush(self) -> Iterator[Any]:
        """Yield the collected records in batches of a useful size, and make room in the buffer."""
        starts = np.concatenate(self._starts) if self._starts else np.zeros(0, np.int64)
        self._starts, self._row_count = [], 0
        for piece in np.array_split(starts, -(-len(starts) // BATCH_ROWS_MAX) or 1):
            batch = self._make_batch(piece)
            if batch.num_rows:
                yield batch
        self._buffer.discard_parsed(self._early)

    def _make_batch(self, starts: Ints) -> Any:
        in_order = np.sort(starts)  # in buffer order; responses may have arrived in another order than their pulls were sent
        rows = RecordRows(self._buffer.data, None, in_order, ChecksumScope.BODY)
        while len(rows) < len(in_order):
            self._report_loss(f"one is damaged ({self._describe_damage(int(in_order[len(rows)]))})")
            in_order = np.delete(in_order, len(rows))
            rows = RecordRows(self._buffer.data, None, in_order, ChecksumScope.BODY)
        sound = has_sound_body(rows)
        if not sound.all():
            place = int(sound.argmin())
            self._report_loss(f"the one at offset {rows.queue_offset[place]} is damaged, its body does not match its CRC")
            rows.keep(sound)
        self._filter_tags(rows)
        try:
            batch = self._maker.batch(rows)
        except CompressionError as error:
            good = has_decompressible_body(rows)
            offset = rows.queue_offset[int(good.argmin())]
            self._report_loss(f"the one at offset {offset} cannot be decompressed ({str(error).rstrip('.')})")
            rows.keep(good)
            batch = self._maker.batch(rows)
        if len(rows) > 1 and (starts[1:] < starts[:-1]).any():
            batch = batch.take(pa.array(np.argsort(rows.queue_offset, kind="stable")))
        return batch

    def _filter_tags(self, rows: RecordRows) -> None:
        """Drop rows with other tags. Brokers compare hashes of tags, and two tags may share a hash."""
        if self._tags is not None and len(rows):
            rows.keep(pc.is_in(ColumnBuilder(rows).tags(), value_set=self._tags).to_numpy(zero_copy_only=False))

    def _describe_damage(self, start: int) -> str:
        try:
            decode_record(self._buffer.view[: self._buffer.filled], start)
        except RecordError as error:
            return str(error).rstrip(".")
        return "its lengths are inconsistent"


_HANDLERS: Final = {
    int(ResponseCode.SUCCESS): RangeReader._on_found,
    int(ResponseCode.PULL_NOT_FOUND): RangeReader._on_not_found,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): RangeReader._on_no_match,
    int(ResponseCode.PULL_OFFSET_MOVED): RangeReader._on_offset_moved,
}
