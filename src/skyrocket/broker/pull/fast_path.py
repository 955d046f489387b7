"""The ordinary pull on its short way: those of a read event for one queue are checked, read and answered together.

An ordinary pull is one (11, JSON, not oneway) that finds messages where it asks for them, chosen by tags or not at all. The first
that is anything else goes the general way (`pull`) with all behind it, where the same pulls are answered with the same bytes, and
others are told what is wrong, or wait.

A consumer's pulls of a queue have headers that are alike (`protocol/fast_path/pull_requests`), so few headers have to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TableError
from skyrocket.broker.pull.checks import PullChecks, PullTerms
from skyrocket.broker.pull.frames import FramedRuns, read_frames
from skyrocket.broker.pull.handler import PullHandler, response_bytes_max
from skyrocket.broker.pull.responses import found_words
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fast_path.pull_requests import START, Numbers, alike_pulls
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET
from skyrocket.store.errors import StoreError
from skyrocket.store.read.queue_run import RunQuery

SHAPES_MAX: Final = 4096  # remembered at once: a consumer has one for each of its queues
PULLS_MAX: Final = 64  # answered together
BYTES_MAX: Final = 192 * 1024  # with which no further pull is begun: it is copied twice, and should stay in the processor's cache


class PullFastPath:
    def __init__(self, context: BrokerContext, checks: PullChecks, general: PullHandler) -> None:
        """`general` counts the messages that are read."""
        self._store = context.store
        self._checks = checks
        self._offsets = context.offsets
        self._settings = context.settings
        self._now_ms = context.now_ms
        self._general = general
        self._headers: dict[bytes, PullMessageRequestHeader] = {}  # by their shapes, which leave four numbers open

    def register(self, router: Router) -> None:
        router.add_express(START, self.handle, RequestCode.PULL_MESSAGE)

    def handle(self, frames: list[Frame], connection: Connection) -> int:
        """How many of the first frames were ordinary pulls, which are answered."""
        taken = 0
        while taken < len(frames) and not connection.is_full:
            shape, pulls = alike_pulls(frames, taken, PULLS_MAX)
            header = (self._headers.get(shape) or self._learn(shape, frames[taken], pulls[0])) if pulls else None
            served = 0 if header is None else self._serve(header, pulls, connection)
            if not served:
                break
            taken += served
        return taken

    def _learn(self, shape: bytes, frame: Frame, numbers: Numbers) -> PullMessageRequestHeader | None:
        """What a shape means, from the first header that has it; None when that is none of an ordinary pull."""
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

    def _serve(self, header: PullMessageRequestHeader, pulls: Sequence[Numbers], connection: Connection) -> int:
        """How many of them were answered. Of the header the numbers of each do not count."""
        began_ms = self._now_ms()
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        try:
            terms = self._checks.check(header)
            if terms.message_filter.sql is not None or self._offsets.has_reset(group, topic, queue_id):
                return 0
            found = self._read(header, pulls, terms)
            if found is None or not found.pulls:
                return 0
            if header.sys_flag & PULL_COMMIT_OFFSET:
                for _, _, _, commit_offset in pulls[: found.pulls]:
                    self._offsets.commit(group, topic, queue_id, commit_offset)
        except (RefusedError, TableError, StoreError):
            return 0  # the general way will find the same, and say so
        self._offsets.set_pull_offset(group, topic, queue_id, pulls[found.pulls - 1][1])
        took_ms = self._now_ms() - began_ms
        self._general.count_read(header, found.messages, found.size_bytes, found.last_place, took_ms, found.pulls)
        connection.send(found.pieces)
        return found.pulls

    def _read(self, header: PullMessageRequestHeader, pulls: Sequence[Numbers], terms: PullTerms) -> FramedRuns | None:
        queue = self._store.queues.get(header.topic, header.queue_id)
        first = pulls[0][1]
        if queue is None or not queue.min_offset <= first < queue.max_offset:
            return None
        settings = self._settings()
        bytes_max = response_bytes_max(header, settings)
        wanted = RunQuery(header.topic, header.queue_id, first, settings.pull_messages_max, bytes_max, terms.message_filter.codes)
        words = found_words(queue.min_offset, queue.max_offset, terms.topic_sys_flag)
        return read_frames(self._store.reading, queue, wanted, pulls, words, BYTES_MAX)
