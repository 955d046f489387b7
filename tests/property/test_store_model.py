"""The store against a simple model: a list of messages, and how many of them are on disk.

Hypothesis appends, flushes, cuts the power, kills, recovers, expires and reads in random order.
"""

from __future__ import annotations

from itertools import count
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from skyrocket.protocol.message.record import decode_record
from skyrocket.store.config import StoreConfig
from skyrocket.store.message import AppendRequest, AppendResult
from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import FOREVER_MS, ROOT, START_MS, a_message, expire_oldest, queue_views, unique_key

QUEUES = [("orders", 0), ("orders", 1), ("t", 0)]


class Known:
    """A message of the model."""

    def __init__(self, unique: str, message: AppendRequest, placed: AppendResult, stored_ms: int) -> None:
        self.unique = unique
        self.message = message
        self.placed = placed
        self.stored_ms = stored_ms

    @property
    def queue(self) -> tuple[str, int]:
        return self.message.topic, self.message.queue_id

    @property
    def end(self) -> int:
        return self.placed.physical_offset + self.placed.size


class StoreAndModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.serial = count()
        self.known: list[Known] = []  # in order of arrival
        self.flushed = 0  # messages before this position survive a power cut
        self.survives = 0  # and before this one, what happened to the store
        self.now_ms = START_MS
        self.store: MessageStore | None = None

    @initialize(
        sync_flush=st.booleans(),
        entries=st.sampled_from([2, 7, 100]),
        index_entries=st.sampled_from([5, 30]),
        undispatched_max=st.sampled_from([1, 5, 1000]),
    )
    def open(self, sync_flush: bool, entries: int, index_entries: int, undispatched_max: int) -> None:
        self.config = StoreConfig(
            segment_bytes=4096,
            queue_entries_per_file=entries,
            index_slots=4,
            index_entries=index_entries,
            sync_flush=sync_flush,
            undispatched_max=undispatched_max,
        )
        self.recover()

    @precondition(lambda self: self.store is None)
    @rule()
    def recover(self) -> None:
        self.store = MessageStore(ROOT, self.config, files=self.disk)
        self.store.open()
        found = {
            unique_key(decode_record(view)): decode_record(view) for queue in QUEUES for view in queue_views(self.store, *queue)
        }
        for known in self.known:
            assert known.unique in found or known.end > self.survives, f"{known.unique} was safe, and is lost"
        self.known = [known for known in self.known if known.unique in found]
        assert set(found) == {known.unique for known in self.known}, "something came back that was never there"
        for known in self.known:
            assert found[known.unique].queue_offset == known.placed.queue_offset
        self.flushed = self.store.log.end

    # --- what is done to it

    @precondition(lambda self: self.store is not None)
    @rule(
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=12),
        body_bytes=st.sampled_from([0, 1, 100, 600, 2000]),
        keys=st.sampled_from(["", "a", "a b", "Aa BB"]),  # Java gives the last two the same hash
        later_ms=st.sampled_from([0, 1, 999, 5000, -50]),
    )
    def append(self, queues: list[tuple[str, int]], body_bytes: int, keys: str, later_ms: int) -> None:
        self._append(queues, body_bytes, keys, later_ms)

    @precondition(lambda self: self.store is not None)
    @rule(queue=st.sampled_from(QUEUES), messages=st.integers(1, 20), body_bytes=st.sampled_from([0, 50, 300]))
    def append_a_batch(self, queue: tuple[str, int], messages: int, body_bytes: int) -> None:
        placed = self._append([queue] * messages, body_bytes, "", 1)
        offsets = [place.queue_offset for place in placed]
        assert offsets == list(range(offsets[0], offsets[0] + messages)), "a batch has consecutive queue offsets"

    def _append(self, queues: list[tuple[str, int]], body_bytes: int, keys: str, later_ms: int) -> list[AppendResult]:
        assert self.store is not None
        uniques = [f"U{next(self.serial):06d}" for _ in queues]
        messages = [
            a_message(topic, queue_id, unique.encode().ljust(body_bytes, b"."), keys=keys, tags="red", unique=unique)
            for (topic, queue_id), unique in zip(queues, uniques, strict=True)
        ]
        self.now_ms += later_ms
        placed = self.store.append(messages, self.now_ms)
        stored_ms = max([self.now_ms, *(known.stored_ms for known in self.known[-1:])])
        for unique, message, place in zip(uniques, messages, placed, strict=True):
            next_offset = max((k.placed.queue_offset + 1 for k in self.known if k.queue == message[:2]), default=0)
            assert place.queue_offset >= next_offset, "queue offsets go up"
            self.known.append(Known(unique, message, place, stored_ms))
        return placed

    @precondition(lambda self: self.store is not None)
    @rule()
    def flush(self) -> None:
        assert self.store is not None
        self.store.flush()
        self.flushed = self.store.log.end

    @precondition(lambda self: self.store is not None)
    @rule()
    def checkpoint(self) -> None:
        assert self.store is not None
        self.store.checkpoint()

    @rule(seed=st.integers(0, 2**16))
    def write_back(self, seed: int) -> None:
        self.disk.writeback(Random(seed))

    @precondition(lambda self: self.store is not None)
    @rule()
    def expire_oldest(self) -> None:
        assert self.store is not None
        start = expire_oldest(self.store)  # what is not flushed is flushed before its segment goes
        self.flushed = max(self.flushed, self.store.horizon.flushed)
        self.known = [known for known in self.known if known.placed.physical_offset >= start]

    @precondition(lambda self: self.store is not None)
    @rule()
    def close(self) -> None:
        assert self.store is not None
        self.flushed = self.survives = self.store.log.end
        self.store.close()
        self.store = None

    @precondition(lambda self: self.store is not None)
    @rule()
    def kill(self) -> None:
        assert self.store is not None
        self.survives = self.store.log.end  # the page cache survives the process
        self.disk = self.disk.kill()
        self.store = None

    @rule(seed=st.integers(0, 2**16))
    def cut_power(self, seed: int) -> None:
        self.disk = self.disk.crash(Random(seed))
        self.survives = self.flushed
        self.store = None

    # --- what it must answer

    def _visible(self) -> list[Known]:
        assert self.store is not None
        confirmed = self.flushed if self.config.sync_flush else self.store.log.end
        return [known for known in self.known if known.end <= confirmed]

    @invariant()
    def every_queue_has_what_is_confirmed_in_order(self) -> None:
        if self.store is None:
            return
        visible = self._visible()
        for queue in QUEUES:
            views = queue_views(self.store, *queue)
            assert [unique_key(decode_record(view)) for view in views] == [k.unique for k in visible if k.queue == queue]
            for view, known in zip(views, [k for k in visible if k.queue == queue], strict=True):
                record = decode_record(view)
                assert record.body == decode_record(known.message.record).body
                assert (record.queue_offset, record.physical_offset) == known.placed[:2]

    @precondition(lambda self: self.store is not None)
    @rule(topic=st.sampled_from(["orders", "t"]), key=st.sampled_from(["a", "b", "Aa", "BB", "none"]))
    def query_by_key(self, topic: str, key: str) -> None:
        assert self.store is not None
        found = [unique_key(decode_record(view)) for view in self.store.reading.query(topic, key, 0, FOREVER_MS, 10_000)]
        assert found == [k.unique for k in reversed(self._visible()) if k.message.topic == topic and key in k.message.keys]

    @precondition(lambda self: self.store is not None)
    @rule(data=st.data())
    def query_by_key_and_time(self, data: st.DataObject) -> None:
        assert self.store is not None
        times = sorted({known.stored_ms for known in self.known} | {START_MS})
        begin, end = sorted(data.draw(st.tuples(st.sampled_from(times), st.sampled_from(times))))
        found = [unique_key(decode_record(view)) for view in self.store.reading.query("orders", "a", begin, end, 10_000)]
        assert found == [
            k.unique
            for k in reversed(self._visible())
            if k.message.topic == "orders" and "a" in k.message.keys and begin <= k.stored_ms <= end
        ]

    @precondition(lambda self: self.store is not None)
    @rule(queue=st.sampled_from(QUEUES), data=st.data(), off_ms=st.sampled_from([-1, 0, 1]))
    def look_up_by_time(self, queue: tuple[str, int], data: st.DataObject, off_ms: int) -> None:
        assert self.store is not None
        here = [known for known in self._visible() if known.queue == queue]
        if not here:
            return
        time_ms = data.draw(st.sampled_from([known.stored_ms for known in here])) + off_ms
        lower = self.store.reading.offset_by_time(*queue, time_ms)
        upper = self.store.reading.offset_by_time(*queue, time_ms, upper=True)
        at_or_after = [known.placed.queue_offset for known in here if known.stored_ms >= time_ms]
        at_or_before = [known.placed.queue_offset for known in here if known.stored_ms <= time_ms]
        if at_or_after:  # between damage and the next message, an offset of a lost message is as good as that one's
            assert self._next_known(here, lower) == at_or_after[0]
        if at_or_before:
            assert self._last_known(here, upper) == at_or_before[-1]

    @staticmethod
    def _next_known(here: list[Known], offset: int) -> int:
        return min(known.placed.queue_offset for known in here if known.placed.queue_offset >= offset)

    @staticmethod
    def _last_known(here: list[Known], offset: int) -> int:
        return max(known.placed.queue_offset for known in here if known.placed.queue_offset <= offset)

    def teardown(self) -> None:
        if self.store is None:
            self.recover()
            self.every_queue_has_what_is_confirmed_in_order()


StoreAndModel.TestCase.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTheStoreAgainstAModel = StoreAndModel.TestCase
