"""The fast path of pulls: the pulls of one read event for one queue are checked, read and answered together.

It takes pulls (11 and 361, not oneway) with headers in JSON and in binary. Those of one queue that have JSON headers, find
messages in memory and select them by tags or not at all are read and framed in one pass. Any other pull is answered or parked by
the general path (`PullHandler`), without its header being decoded. The first pull that finds an offset that was reset, or must be
read from the disk, goes to the general path undecoded, with all pulls behind it.

A consumer's pulls of one queue have headers of the same shape (`protocol/fast_path/pull_requests`), so few headers are parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TableError
from skyrocket.broker.pull.checks import PullChecks, PullTerms
from skyrocket.broker.pull.cold_pulls import ColdPulls
from skyrocket.broker.pull.frames import FramedRuns, read_frames
from skyrocket.broker.pull.handler import PullHandler, response_limits
from skyrocket.broker.pull.read_split import ReadSplit
from skyrocket.broker.pull.responses import found_header
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command, decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fast_path.pull_requests import CODES, PullNumbers, find_similar_pulls, header_starts
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET
from skyrocket.store.cold_reads import NotInMemoryError
from skyrocket.store.errors import StoreError
from skyrocket.store.queues.consume_queue import ConsumeQueue
from skyrocket.store.read.queue_run import RECORDS_PER_READ_MAX, RunQuery

SHAPES_MAX: Final = 4096  # in the cache; a consumer has one for each of its queues
PULLS_MAX: Final = 64  # answered with one write
BYTES_MAX: Final = 192 * 1024  # a further pull starts below this: data is copied twice, and should stay in the processor's cache


class _Learned(NamedTuple):
    """What pulls of one shape have in common."""

    code: int
    serialization: Serialization
    header: PullMessageRequestHeader  # with the numbers of the first one


class PullFastPath:
    def __init__(
        self, context: BrokerContext, checks: PullChecks, cold_pulls: ColdPulls, general: PullHandler, read_split: ReadSplit
    ) -> None:
        """`general` counts the messages that are read."""
        self._read_split = read_split
        self._store = context.store
        self._checks = checks
        self._offsets = context.offsets
        self._settings = context.settings
        self._now_ms = context.now_ms
        self._router = context.router
        self._cold_pulls = cold_pulls
        self._general = general
        self._learned: dict[bytes, _Learned] = {}  # by shape; a shape leaves four numbers open

    def register(self, router: Router) -> None:
        for code in CODES:
            for start in header_starts(code):
                router.add_fast_path(start, self.handle, code)

    def handle(self, frames: list[Frame], connection: Connection) -> int:
        """Answer the first frames that the fast path can serve; return how many."""
        taken = 0
        while taken < len(frames) and not (connection.must_stop if taken else connection.is_full):
            shape, pulls = find_similar_pulls(frames, taken, PULLS_MAX)
            learned = (self._learned.get(shape) or self._learn(shape, frames[taken], pulls[0])) if pulls else None
            if learned is None:
                break
            served = 0
            if learned.serialization is Serialization.JSON and self._has_messages(learned.header, pulls[0]):
                served = self._serve(learned.header, pulls, connection)
            if not served:
                served = self._handle_one(learned, pulls[0], connection)
            if not served:
                break
            taken += served
        return taken

    def _learn(self, shape: bytes, frame: Frame, numbers: PullNumbers) -> _Learned | None:
        """Parse the first header of a shape and remember it; return None when the fast path cannot serve it."""
        try:
            command = decode_command(frame)
            header = command.header(PullMessageRequestHeader)
        except ProtocolError:
            return None
        read = (command.opaque, header.queue_offset, header.max_msg_nums, header.commit_offset)
        if command.code not in CODES or command.flag or read != numbers:
            return None
        if len(self._learned) >= SHAPES_MAX:
            self._learned.clear()
        learned = self._learned[shape] = _Learned(command.code, command.serialization, header)
        return learned

    def _has_messages(self, header: PullMessageRequestHeader, numbers: PullNumbers) -> bool:
        queue = self._store.queues.get(header.topic, header.queue_id)
        return queue is not None and queue.min_offset <= numbers[1] < queue.max_offset

    def _handle_one(self, learned: _Learned, numbers: PullNumbers, connection: Connection) -> int:
        """Answer or park one pull; return 0 when the general path must decode and handle it."""
        opaque, queue_offset, max_msg_nums, commit_offset = numbers
        if self._offsets.has_reset(learned.header.consumer_group, learned.header.topic, learned.header.queue_id):
            return 0
        command = Command(learned.code, opaque=opaque, serialization=learned.serialization)
        header = replace(learned.header, queue_offset=queue_offset, max_msg_nums=max_msg_nums, commit_offset=commit_offset)
        try:
            self._general.handle_decoded(command, header, connection)
        except NotInMemoryError:
            return 0  # a thread reads it
        except (RefusedError, TableError, StoreError) as error:
            self._router.refuse(connection, command, error)
        return 1

    def _serve(self, header: PullMessageRequestHeader, pulls: Sequence[PullNumbers], connection: Connection) -> int:
        """Answer pulls of one queue; return how many. The four numbers of each pull replace those of the header."""
        began_ms = self._now_ms()
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        try:
            terms = self._checks.check(header)
            if terms.message_filter.sql is not None or self._offsets.has_reset(group, topic, queue_id):
                return 0
            found = self._cold_pulls.read_now(partial(self._read, header, pulls, terms))
            if found is None or not found.pulls:
                return 0
            if header.sys_flag & PULL_COMMIT_OFFSET:
                for _, _, _, commit_offset in pulls[: found.pulls]:
                    self._offsets.commit(group, topic, queue_id, commit_offset)
        except (RefusedError, TableError, StoreError):
            return 0  # the general path finds the same error and answers with it
        self._offsets.set_pull_offset(group, topic, queue_id, pulls[found.pulls - 1][1])
        took_ms = self._now_ms() - began_ms
        self._general.count_read(header, found.messages, found.size_bytes, found.last_place, took_ms, found.pulls)
        connection.send(found.pieces)
        return found.pulls

    def _read(self, header: PullMessageRequestHeader, pulls: Sequence[PullNumbers], terms: PullTerms) -> FramedRuns | None:
        queue = self._store.queues.get(header.topic, header.queue_id)
        if queue is None:
            return None
        first = pulls[0][1]
        messages_max, bytes_max = response_limits(header, self._settings())
        wanted = RunQuery(header.topic, header.queue_id, first, messages_max, bytes_max, terms.message_filter.codes)
        suggested = self._suggest(queue, pulls, messages_max, terms)
        if suggested is None:
            return None
        words = found_header(queue.min_offset, queue.max_offset, terms.topic_sys_flag, suggested)
        return read_frames(self._store.reading, queue, wanted, pulls, words, BYTES_MAX)

    def _suggest(self, queue: ConsumeQueue, pulls: Sequence[PullNumbers], messages_max: int, terms: PullTerms) -> int | None:
        """Return the broker id that all of these responses suggest; None when it may differ, and the general path decides.

        Messages lie in the log in the order of their queue. So it is the same for all when it is for the first and the last
        message that may be read.
        """
        if not self._read_split.is_on:
            return self._read_split.suggest(terms.group, None)
        first, last = pulls[0][1], max(offset + max(1, min(count, messages_max)) for _, offset, count, _ in pulls)
        if terms.message_filter.codes is not None:
            last += RECORDS_PER_READ_MAX  # messages that the filter rejects lie in between
        ends = [self._general.behind_bytes(queue, offset) for offset in (first, min(last, queue.max_offset) - 1)]
        suggested = {self._read_split.suggest(terms.group, behind) for behind in ends}
        return suggested.pop() if len(suggested) == 1 else None
