"""The fast path of pulls: the pulls of one read event are checked, read and answered together.

It takes pulls (11 and 361, not oneway) with headers in JSON and in binary. Those that have JSON headers, find messages in memory
and select them by tags or not at all are read and framed, several of one queue in one pass. Any other pull is answered or parked
by the general path (`PullHandler`), without its header being decoded. The first pull that finds an offset that was reset, or must
be read from the disk, goes to the general path undecoded, with all pulls behind it.

A consumer's pulls of one queue have headers of the same shape (`protocol/fast_path/pull_requests`), so few headers are parsed,
and what was learned of them serves the next ones (`learned_pull`). What cannot change while the pulls of a read event are handled
is looked up once for all of them (`_Answers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TableError
from skyrocket.broker.pull.checks import PullChecks
from skyrocket.broker.pull.cold_pulls import ColdPulls
from skyrocket.broker.pull.frames import FramedRuns, frame_runs
from skyrocket.broker.pull.handler import PullHandler, response_limits
from skyrocket.broker.pull.learned_pull import LearnedPull, LearnedTerms
from skyrocket.broker.pull.read_split import ReadSplit
from skyrocket.broker.pull.responses import found_header
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command, decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fast_path.pull_requests import CODES, PullNumbers, find_similar_pulls, header_starts
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.store.cold_reads import NotInMemoryError
from skyrocket.store.errors import StoreError
from skyrocket.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue
from skyrocket.store.read.queue_run import RECORDS_PER_READ_MAX, RunQuery, RunSources, run_length

SHAPES_MAX: Final = 4096  # in the cache; a consumer has one for each of its queues
PULLS_MAX: Final = 64  # answered with one write
BYTES_MAX: Final = 192 * 1024  # a further pull starts below this: data is copied twice, and should stay in the processor's cache
SENT_BYTES: Final = 128 * 1024  # gathered responses leave when they have so many bytes


class _Answers:
    """The answers to pulls of one read event, what they count, and what cannot change before they are sent."""

    __slots__ = ("appended", "basis", "basis_key", "began_ms", "key", "messages", "pieces", "pulls", "size_bytes", "sources")

    def __init__(self, began_ms: int, appended: int, sources: RunSources) -> None:
        self.appended = appended
        self.sources = sources
        self.basis_key = ""  # of the group and topic of `basis`
        self.basis: tuple[object, ...] = ()
        self.key = ""  # of the counter
        self.began_ms = began_ms
        self.pieces: list[bytes | memoryview] = []
        self.pulls = self.messages = self.size_bytes = 0


class PullFastPath:
    def __init__(
        self, context: BrokerContext, checks: PullChecks, cold_pulls: ColdPulls, general: PullHandler, read_split: ReadSplit
    ) -> None:
        self._read_split = read_split
        self._store = context.store
        self._checks = checks
        self._offsets = context.offsets
        self._counters = context.counters
        self._slow_consumers = context.slow_consumers
        self._settings = context.settings
        self._now_ms = context.now_ms
        self._router = context.router
        self._cold_pulls = cold_pulls
        self._general = general
        self._learned: dict[bytes, LearnedPull] = {}  # by shape; a shape leaves four numbers open

    def register(self, router: Router) -> None:
        for code in CODES:
            for start in header_starts(code):
                router.add_fast_path(start, self.handle, code)

    def handle(self, frames: list[Frame], connection: Connection) -> int:
        """Answer the first frames that the fast path can serve; return how many."""
        taken = 0
        answers: _Answers | None = None
        while taken < len(frames):
            if (answers is None or not answers.pulls) and (connection.must_stop if taken else connection.is_full):
                break
            shape, pulls = find_similar_pulls(frames, taken, PULLS_MAX)
            learned = (self._learned.get(shape) or self._learn(shape, frames[taken], pulls[0])) if pulls else None
            if learned is None:
                break
            served = 0
            if learned.serialization is Serialization.JSON:
                if answers is None:
                    answers = _Answers(self._now_ms(), self._store.horizon.appended, self._store.reading.turn_sources())
                served = self._serve(learned, pulls, answers, connection)
            if not served:
                if answers is not None and answers.pulls:
                    self._send(answers, connection)
                served = self._handle_one(learned, pulls[0], connection)
                if not served:
                    break
                answers = None  # the general path may have changed anything
            taken += served
        if answers is not None and answers.pulls:
            self._send(answers, connection)
        return taken

    def _learn(self, shape: bytes, frame: Frame, numbers: PullNumbers) -> LearnedPull | None:
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
        learned = self._learned[shape] = LearnedPull(command.code, command.serialization, header)
        return learned

    def _handle_one(self, learned: LearnedPull, numbers: PullNumbers, connection: Connection) -> int:
        """Answer or park one pull; return 0 when the general path must decode and handle it."""
        opaque, queue_offset, max_msg_nums, commit_offset = numbers
        if self._offsets.has_reset_at(learned.key, learned.queue_id):
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

    def _serve(self, learned: LearnedPull, pulls: Sequence[PullNumbers], answers: _Answers, connection: Connection) -> int:
        """Answer pulls of one queue; return how many. The four numbers of each pull replace those of the header."""
        key, queue_id = learned.key, learned.queue_id
        queue = self._store.queues.get(learned.topic, queue_id)
        if queue is None or not queue.min_offset <= pulls[0][1] < queue.max_offset:
            return 0
        try:
            terms = self._terms(learned, answers)
            if terms.terms.message_filter.sql is not None or self._offsets.has_reset_at(key, queue_id):
                return 0
            read = partial(self._read, learned, queue, pulls, terms, answers.sources)
            pieces, count, messages, size_bytes, last_place = self._cold_pulls.read_now(read)
            if learned.commits:
                for _, _, _, commit_offset in pulls[:count]:
                    self._offsets.commit_at(key, queue_id, commit_offset)
        except (RefusedError, TableError, StoreError):
            return 0  # the general path finds the same error and answers with it
        if not count:
            return 0
        self._offsets.set_pull_offset_at(key, queue_id, pulls[count - 1][1])
        self._slow_consumers.record_lag_of(learned.reader, answers.appended - last_place)
        if answers.key != key:
            if answers.pulls:
                self._send(answers, connection)
            answers.key = key
        answers.pieces += pieces
        answers.messages += messages
        answers.size_bytes += size_bytes
        answers.pulls += count
        if answers.size_bytes >= SENT_BYTES or answers.pulls >= PULLS_MAX:
            self._send(answers, connection)
        return count

    def _send(self, answers: _Answers, connection: Connection) -> None:
        """Count and send what was gathered. All of it is of one group and topic."""
        now_ms = self._now_ms()
        took_ms, answers.began_ms = now_ms - answers.began_ms, now_ms
        self._counters.count_get_of(answers.key, answers.messages, answers.size_bytes, took_ms, answers.pulls)
        if self._router.responses is not None:
            self._router.responses.record_answered(RequestCode.PULL_MESSAGE, answers.pulls, took_ms)
        connection.send(answers.pieces)
        answers.pieces = []
        answers.pulls = answers.messages = answers.size_bytes = 0

    def _terms(self, learned: LearnedPull, answers: _Answers) -> LearnedTerms:
        """Return the terms of pulls; raise RefusedError or TableError when they may not be served."""
        if answers.basis_key != learned.key:
            answers.basis_key, answers.basis = learned.key, self._checks.basis(learned.group, learned.topic)
        terms = learned.learned_terms
        if terms is None or terms.basis != answers.basis:
            checked = self._checks.check(learned.header)
            limits = response_limits(learned.header, self._settings())
            suggested = None if self._read_split.is_on else self._read_split.suggest(checked.group, None)
            terms = learned.learned_terms = LearnedTerms(answers.basis, checked, *limits, suggested)
        return terms

    def _read(
        self, learned: LearnedPull, queue: ConsumeQueue, pulls: Sequence[PullNumbers], terms: LearnedTerms, sources: RunSources
    ) -> FramedRuns:
        first, max_offset = pulls[0][1], queue.max_offset
        suggested = self._suggest(queue, pulls, terms) if terms.suggested is None else terms.suggested
        if suggested is None:
            return [], 0, 0, 0, 0
        # The last pull is the furthest if offsets ascend. Otherwise too few entries may be read, and the general path takes over.
        _, last, count, _ = pulls[-1]
        per_record = 1 if terms.codes is None else 2
        entries = max(0, last - first) + per_record * max(1, min(count, terms.messages_max))
        packed = learned.window.read(queue, first, min(entries, RECORDS_PER_READ_MAX))
        messages_max = terms.messages_max
        if terms.codes is None and packed:
            asked = packed[: max(1, min(pulls[0][2], messages_max)) * ENTRY_BYTES]
            length = run_length(asked, sources.hot_from)
            if length * ENTRY_BYTES < len(asked):  # the first pull gets less than it asked for, and is answered alone
                packed, messages_max = packed[: length * ENTRY_BYTES], length
            elif len(packed) > len(asked):
                packed = packed[: max(len(asked), run_length(packed, sources.hot_from) * ENTRY_BYTES)]
        wanted = RunQuery(learned.topic, learned.queue_id, first, messages_max, terms.bytes_max, terms.codes)
        words = found_header(queue.min_offset, max_offset, terms.terms.topic_sys_flag, suggested)
        return frame_runs(*sources, packed, wanted, pulls, words, max_offset, BYTES_MAX)

    def _suggest(self, queue: ConsumeQueue, pulls: Sequence[PullNumbers], terms: LearnedTerms) -> int | None:
        """Return the broker id that all of these responses suggest; None when it may differ, and the general path decides.

        Messages lie in the log in the order of their queue. So it is the same for all when it is for the first and the last
        message that may be read.
        """
        group, most = terms.terms.group, terms.messages_max
        first, last = pulls[0][1], max(offset + max(1, min(count, most)) for _, offset, count, _ in pulls)
        if terms.codes is not None:
            last += RECORDS_PER_READ_MAX  # messages that the filter rejects lie in between
        ends = [self._general.behind_bytes(queue, offset) for offset in (first, min(last, queue.max_offset) - 1)]
        suggested = {self._read_split.suggest(group, behind) for behind in ends}
        return suggested.pop() if len(suggested) == 1 else None
