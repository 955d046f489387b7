"""The fast path of pulls: the pulls of one read event for one queue are checked, read and answered together.

It takes a pull (11, JSON, not oneway) that finds messages in memory at its offset and selects them by tags or not at all. The
first other pull goes to the general path (`PullHandler`), with all pulls behind it. The general path answers the same pulls with
the same bytes; it also refuses pulls, lets them wait, and reads from the disk.

A consumer's pulls of one queue have headers of the same shape (`protocol/fast_path/pull_requests`), so few headers are parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TableError
from skyrocket.broker.pull.checks import PullChecks, PullTerms
from skyrocket.broker.pull.cold_pulls import ColdPulls
from skyrocket.broker.pull.frames import FramedRuns, read_frames
from skyrocket.broker.pull.handler import PullHandler, response_limits
from skyrocket.broker.pull.responses import found_header
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fast_path.pull_requests import START, PullNumbers, find_similar_pulls
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET
from skyrocket.store.errors import StoreError
from skyrocket.store.read.queue_run import RunQuery

SHAPES_MAX: Final = 4096  # in the cache; a consumer has one for each of its queues
PULLS_MAX: Final = 64  # answered with one write
BYTES_MAX: Final = 192 * 1024  # a further pull starts below this: data is copied twice, and should stay in the processor's cache


class PullFastPath:
    def __init__(self, context: BrokerContext, checks: PullChecks, cold_pulls: ColdPulls, general: PullHandler) -> None:
        """`general` counts the messages that are read."""
        self._store = context.store
        self._checks = checks
        self._offsets = context.offsets
        self._settings = context.settings
        self._now_ms = context.now_ms
        self._cold_pulls = cold_pulls
        self._general = general
        self._headers: dict[bytes, PullMessageRequestHeader] = {}  # by shape; a shape leaves four numbers open

    def register(self, router: Router) -> None:
        router.add_fast_path(START, self.handle, RequestCode.PULL_MESSAGE)

    def handle(self, frames: list[Frame], connection: Connection) -> int:
        """Answer the first frames that the fast path can serve; return how many."""
        taken = 0
        while taken < len(frames) and not (connection.must_stop if taken else connection.is_full):
            shape, pulls = find_similar_pulls(frames, taken, PULLS_MAX)
            header = (self._headers.get(shape) or self._learn(shape, frames[taken], pulls[0])) if pulls else None
            served = 0 if header is None else self._serve(header, pulls, connection)
            if not served:
                break
            taken += served
        return taken

    def _learn(self, shape: bytes, frame: Frame, numbers: PullNumbers) -> PullMessageRequestHeader | None:
        """Parse the first header of a shape and remember it; return None when the fast path cannot serve it."""
        try:
            command = decode_command(frame)
            header = command.header(PullMessageRequestHeader)
        except ProtocolError:
            return None
        read = (command.opaque, header.queue_offset, header.max_msg_nums, header.commit_offset)
        if command.code != RequestCode.PULL_MESSAGE or command.flag or read != numbers:
            return None
        if len(self._headers) >= SHAPES_MAX:
            self._headers.clear()
        self._headers[shape] = header
        return header

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
            return 0  # the general path finds the same error and answers with it, or reads in a thread
        self._offsets.set_pull_offset(group, topic, queue_id, pulls[found.pulls - 1][1])
        took_ms = self._now_ms() - began_ms
        self._general.count_read(header, found.messages, found.size_bytes, found.last_place, took_ms, found.pulls)
        connection.send(found.pieces)
        return found.pulls

    def _read(self, header: PullMessageRequestHeader, pulls: Sequence[PullNumbers], terms: PullTerms) -> FramedRuns | None:
        queue = self._store.queues.get(header.topic, header.queue_id)
        first = pulls[0][1]
        if queue is None or not queue.min_offset <= first < queue.max_offset:
            return None
        messages_max, bytes_max = response_limits(header, self._settings())
        wanted = RunQuery(header.topic, header.queue_id, first, messages_max, bytes_max, terms.message_filter.codes)
        words = found_header(queue.min_offset, queue.max_offset, terms.topic_sys_flag)
        return read_frames(self._store.reading, queue, wanted, pulls, words, BYTES_MAX)
