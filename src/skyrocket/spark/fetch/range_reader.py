"""One range of a queue as record batches: pulls are sent, answers gathered until they make a batch, and failures survived.

    for batch in RangeReader(options, part).batches(): ...

A broker that is gone is tried again, by a fresh route, at the offset where it went, as long as `retryTimeout` allows without
progress. Messages that are gone are an error, or passed over: `failOnDataLoss`.
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
from skyrocket.spark.cluster.cluster import Cluster
from skyrocket.spark.errors import DataLossError, RefusedError
from skyrocket.spark.fetch.connections import BrokerConnection, connections
from skyrocket.spark.fetch.pull_frames import PullFrames
from skyrocket.spark.fetch.pull_window import Part, PullAhead
from skyrocket.spark.fetch.receive_buffer import Answer, Intake
from skyrocket.spark.fetch.record_batches import BatchMaker, with_sound_bodies, with_unpackable_bodies
from skyrocket.spark.fetch.worker_memory import set_modules_aside
from skyrocket.spark.options.source_options import SourceOptions
from skyrocket.spark.source.partitions import QueueRange

log = logging.getLogger(__name__)

BATCH_ROWS: Final = 4_000  # gathered; decoding has a cost for each batch, and Spark takes larger ones no quicker
BATCH_ROWS_MAX: Final = 4_096  # beyond it, answers make several
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024  # received; the answer that goes over it is still part of the batch
_AGAIN_FIRST_S: Final = 0.05
_AGAIN_MOST_S: Final = 1.0

_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE})
_BROKEN: Final = (OSError, FrameError)  # time-outs and TLS errors are OSErrors


class RangeReader:
    def __init__(self, options: SourceOptions, part: QueueRange, columns: Sequence[str] | None = None) -> None:
        self._options = options
        self._part = part
        self._queue = part.queue
        self._cluster = Cluster(options.cluster)
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
        self._ahead = PullAhead(
            part.start, part.stop, options.fetch_messages, options.fetch_ahead, is_filtered=options.is_filtered
        )
        self._intake = Intake()
        self._early: dict[int, Answer] = {}  # answers that came before their turn
        self._starts: list[Ints] = []  # of the records gathered
        self._gathered_rows = 0
        self._connection: BrokerConnection | None = None
        self._broker_id = self._suggested = MASTER_ID
        self._shunned: set[int] = set()  # slaves that failed, or are behind: suggestions to ask them are not followed
        self._failures = 0  # since the last progress
        self._progress_s = time.monotonic()

    def batches(self) -> Iterator[Any]:
        set_modules_aside()
        try:
            while not self._ahead.is_done:
                try:
                    self._step()
                except _BROKEN as error:
                    yield from self._gathered()
                    self._broken(error)
                if self._gathered_rows >= BATCH_ROWS or self._intake.filled >= BATCH_BYTES_MAX:
                    yield from self._gathered()
            yield from self._gathered()
        finally:
            self._let_go()
            self._intake.close()

    # --- the connection

    def _step(self) -> None:
        """Send what can be sent, and receive once."""
        if self._suggested != self._broker_id and not self._ahead.under_way:
            self._let_go()
            self._broker_id = self._suggested
        connection = self._connection or self._connect()
        if self._suggested == self._broker_id:
            asks = self._ahead.asks()
            if asks:
                connection.send(self._frames.frames(asks))
        self._intake.receive(connection.receive_into)
        if not self._early:
            self._take_ordinary()
        for answer in self._intake.answers():
            self._arrived(answer)

    def _connect(self) -> BrokerConnection:
        address = self._cluster.address(self._queue, self._broker_id, fresh=self._failures > 0)
        self._connection = connections.take(self._options.cluster, address, self._options.fetch_ms)
        return self._connection

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._ahead.under_way:
            connection.close()
        else:
            connections.give_back(connection)

    def _broken(self, error: Exception) -> None:
        """Wait, and begin anew where we are; or give up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._early.clear()
        self._intake.clear()
        self._ahead.restart()
        self._back_to_master()
        self._wait(f"broker {self._queue.broker_name}, which has {self._queue}: {str(error) or type(error).__name__}")

    def _back_to_master(self) -> None:
        if self._broker_id != MASTER_ID:
            self._shunned.add(self._broker_id)
        self._broker_id = self._suggested = MASTER_ID

    def _wait(self, reason: str) -> None:
        if not self._paused():
            raise self._cluster.unreachable(reason)

    def _paused(self) -> bool:
        """Wait a little, the longer the more often; False when the time without progress is over."""
        self._failures += 1
        pause_s = min(_AGAIN_FIRST_S * 2 ** min(self._failures - 1, 8), _AGAIN_MOST_S)
        if time.monotonic() + pause_s - self._progress_s > self._options.cluster.retry_ms / 1000:
            return False
        time.sleep(pause_s)
        return True

    # --- answers

    def _take_ordinary(self) -> None:
        """What is to be expected, and needs no look at single answers."""
        taken, starts = self._intake.ordinary(self._broker_id, self._ahead.expected)
        if taken:
            self._ahead.as_expected(taken)
            self._suggested = self._broker_id
            self._gather(np.frombuffer(starts, np.int64))
            self._failures, self._progress_s = 0, time.monotonic()

    def _gather(self, starts: Ints) -> None:
        self._starts.append(starts)
        self._gathered_rows += len(starts)

    def _arrived(self, answer: Answer) -> None:
        number = answer.number
        if not self._ahead.is_wanted(number):
            self._ahead.dropped()
            return
        self._early[number] = answer
        while (head := self._ahead.head) is not None and head in self._early:
            self._take(self._early.pop(head))

    def _take(self, answer: Answer) -> None:
        offset = self._ahead.position
        if answer.code in _BUSY:
            self._ahead.skip_to(offset)
            self._wait(f"{self._address} is busy: {answer.remark}")
            return
        handle = _HANDLERS.get(answer.code)
        if handle is None:
            raise RefusedError(f"{self._queue} cannot be read: {BrokerError(answer.code, answer.remark, self._address)}")
        next_offset = answer.next_offset
        if next_offset is None:
            raise FrameError("the answer to a pull does not say where to go on")
        if answer.suggested not in self._shunned:
            self._suggested = answer.suggested
        handle(self, answer, offset, next_offset)
        if self._ahead.position > offset:
            self._failures, self._progress_s = 0, time.monotonic()

    def _found(self, answer: Answer, offset: int, next_offset: int) -> None:
        if next_offset <= offset:
            raise FrameError(f"the broker goes on at {next_offset} after giving messages from {offset} on")
        packed, end = find_record_starts(self._intake.view, answer.start, answer.end, next_offset - offset)
        starts = np.frombuffer(packed, np.int64)
        part = self._ahead.answered(next_offset)
        if end > answer.end:
            starts = starts[:-1]  # it would reach into the next answer
        is_enough = len(starts) == next_offset - offset or (self._options.is_filtered and len(starts))
        if end != answer.end or not is_enough:
            self._not_whole(starts, Part(offset, next_offset))
        if part.stop < next_offset:
            starts = starts[[self._offset_at(start) < part.stop for start in starts.tolist()]]
        self._gather(starts)

    def _offset_at(self, start: int) -> int:
        return int.from_bytes(self._intake.view[start + QUEUE_OFFSET_AT : start + PHYSICAL_OFFSET_AT])

    def _not_whole(self, starts: Ints, part: Part) -> None:
        """There are to be nothing but records up to the answer's end and, without a filter, as many as offsets."""
        view, count = self._intake.view, part.stop - part.start
        if any(view[start + SYS_FLAG_AT + 3] & INNER_BATCH for start in starts.tolist()):
            raise RefusedError(f"{self._queue} keeps batches as one message (queue.type=BatchCQ), which cannot be read here.")
        self._lost(f"of {count} from offset {part.start} on, {self._address} gave {len(starts)}")

    def _nothing(self, answer: Answer, offset: int, _next_offset: int) -> None:
        """Nothing there: a slave that is behind, or a broker whose log ends earlier than it did."""
        self._ahead.skip_to(offset)
        if self._broker_id != MASTER_ID:
            self._shunned.add(self._broker_id)
            self._suggested = MASTER_ID
        elif not self._paused():
            self._lost(f"the queue ends at offset {answer.max_offset} now, and was to be read up to {self._part.stop}")
            self._ahead.skip_rest()

    def _nothing_matched(self, answer: Answer, offset: int, next_offset: int) -> None:
        if next_offset <= offset:
            self._nothing(answer, offset, next_offset)
            return
        if not self._options.is_filtered:
            self._lost(f"those from offset {offset} up to {min(next_offset, self._part.stop)} are gone")
        self._ahead.skip_to(next_offset)

    def _moved(self, answer: Answer, offset: int, next_offset: int) -> None:
        if next_offset <= offset:
            self._nothing(answer, offset, next_offset)
            return
        self._lost(f"the queue begins at offset {next_offset} now, and was to be read from {offset} on")
        self._ahead.skip_to(next_offset)

    def _lost(self, reason: str) -> None:
        sentence = f"Messages of {self._queue} are lost: {reason}"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{sentence} (option 'failOnDataLoss' is true).")
        log.warning("%s; they are passed over, since option 'failOnDataLoss' is false.", sentence)

    @property
    def _address(self) -> str:
        return self._queue.broker_name if self._connection is None else self._connection.address

    # --- batches

    def _gathered(self) -> Iterator[Any]:
        """What the answers so far make, in batches of a useful size."""
        starts = np.concatenate(self._starts) if self._starts else np.zeros(0, np.int64)
        self._starts, self._gathered_rows = [], 0
        for piece in np.array_split(starts, -(-len(starts) // BATCH_ROWS_MAX) or 1):
            batch = self._batch(piece)
            if batch.num_rows:
                yield batch
        self._intake.forget(self._early)

    def _batch(self, starts: Ints) -> Any:
        in_order = np.sort(starts)  # as they lie; answers may have come in another order than they were asked for
        rows = RecordRows(self._intake.data, None, in_order, ChecksumScope.BODY)
        while len(rows) < len(in_order):
            self._lost(f"one is damaged ({self._damage(int(in_order[len(rows)]))})")
            in_order = np.delete(in_order, len(rows))
            rows = RecordRows(self._intake.data, None, in_order, ChecksumScope.BODY)
        sound = with_sound_bodies(rows)
        if not sound.all():
            place = int(sound.argmin())
            self._lost(f"the one at offset {rows.queue_offset[place]} is damaged, its body does not fit its CRC")
            rows.keep(sound)
        self._choose(rows)
        try:
            batch = self._maker.batch(rows)
        except CompressionError as error:
            good = with_unpackable_bodies(rows)
            offset = rows.queue_offset[int(good.argmin())]
            self._lost(f"the one at offset {offset} cannot be unpacked ({str(error).rstrip('.')})")
            rows.keep(good)
            batch = self._maker.batch(rows)
        if len(rows) > 1 and (starts[1:] < starts[:-1]).any():
            batch = batch.take(pa.array(np.argsort(rows.queue_offset, kind="stable")))
        return batch

    def _choose(self, rows: RecordRows) -> None:
        """Brokers compare the hashes of tags, which different tags may share; here it is the words."""
        if self._tags is not None and len(rows):
            rows.keep(pc.is_in(ColumnBuilder(rows).tags(), value_set=self._tags).to_numpy(zero_copy_only=False))

    def _damage(self, start: int) -> str:
        try:
            decode_record(self._intake.view[: self._intake.filled], start)
        except RecordError as error:
            return str(error).rstrip(".")
        return "its lengths do not fit together"


_HANDLERS: Final = {
    int(ResponseCode.SUCCESS): RangeReader._found,
    int(ResponseCode.PULL_NOT_FOUND): RangeReader._nothing,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): RangeReader._nothing_matched,
    int(ResponseCode.PULL_OFFSET_MOVED): RangeReader._moved,
}
